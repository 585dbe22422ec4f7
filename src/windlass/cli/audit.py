"""`windlass audit`: what operators did."""

import click

from windlass.cli.options import StorePlace, json_option, place_options, whole_id


@click.command
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--by", metavar="NAME", help="Only what they did.")
@click.option("--limit", metavar="N", type=int, default=50, show_default=True, help="How many.")
@json_option
@place_options
def audit(place: StorePlace, run_id: str | None, by: str | None, limit: int, as_json: bool) -> None:
    """List what operators did, the latest first: who, when, what and why.

    \b
    windlass audit
    windlass audit 0197c0de-... --json
    windlass audit --by ann
    """
    from windlass.cli import output

    app = place.store()
    run = None if run_id is None else whole_id(app, run_id)
    entries = app.audit(run, by=by, limit=limit)
    if as_json:
        click.echo(output.to_json([entry.to_dict() for entry in entries], indent=2))
        return
    rows = [
        (
            output.clock_time(entry.at),
            output.one_line(entry.actor),
            entry.verb,
            output.one_line(entry.subject),
            output.one_line(entry.reason or ""),
        )
        for entry in entries
    ]
    output.print_listing(("WHEN", "WHO", "VERB", "RUN", "REASON"), rows, "Nobody did anything.")
