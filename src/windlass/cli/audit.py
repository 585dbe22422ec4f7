"""`windlass audit`: what operators did."""

from typing import TYPE_CHECKING

import click

from windlass.cli.options import StorePlace, json_option, options_named, place_options, whole_id

if TYPE_CHECKING:
    from windlass.domain.audit import AuditEntry


@click.command
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--queue", metavar="NAME", help="Only what was done to a queue.")
@click.option("--job", metavar="NAME", help="Only what was done to a job as a whole.")
@click.option("--by", metavar="NAME", help="Only what they did.")
@click.option("--limit", metavar="N", type=int, default=50, show_default=True, help="How many.")
@json_option
@place_options
def audit(
    place: StorePlace,
    run_id: str | None,
    queue: str | None,
    job: str | None,
    by: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List what operators did, the latest first: who, when, what and why.

    \b
    windlass audit
    windlass audit 0197c0de-... --json
    windlass audit --queue mail --by ann
    """
    from windlass.cli import output

    app = place.store()
    run = None if run_id is None else whole_id(app, run_id)
    with options_named():
        entries = app.audit(run, queue=queue, job=job, by=by, limit=limit)
    if as_json:
        click.echo(output.to_json([entry.to_dict() for entry in entries], indent=2))
        return
    rows = [
        (
            output.clock_time(entry.at),
            output.one_line(entry.actor),
            entry.verb,
            _subject(entry),
            output.one_line(entry.reason or ""),
        )
        for entry in entries
    ]
    output.print_listing(("WHEN", "WHO", "VERB", "WHAT", "REASON"), rows, "Nobody did anything.")


def _subject(entry: "AuditEntry") -> str:
    from windlass.cli import output

    kind = "" if entry.kind == "run" else f"{entry.kind} "
    return output.one_line(f"{kind}{entry.subject}")
