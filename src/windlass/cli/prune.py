"""`windlass prune`: delete runs that ended long ago, now."""

from typing import TYPE_CHECKING, Any

import click

from windlass.cli.bulk import interactive
from windlass.cli.options import StorePlace, duration, json_option, place_options

if TYPE_CHECKING:
    from windlass.domain.retention import Pruned


@click.command
@click.option(
    "--older-than",
    metavar="TIME",
    callback=duration,
    help="How long ago they ended, such as 7d. Without it as the setting delete_after says.",
)
@click.option(
    "--status",
    type=click.Choice(["succeeded", "failed", "canceled"]),
    multiple=True,
    help="How they ended; may be given more than once.",
)
@click.option("--job", metavar="NAME", help="Of this job.")
@click.option("--dry-run", is_flag=True, help="Only count them; delete nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@place_options
def prune(
    place: StorePlace,
    older_than: float | None,
    status: tuple[str, ...],
    job: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete runs that ended long ago, with everything that hangs on them.

    Workers do this by themselves when the time of a run has come; this is for what is to go sooner.
    Runs that have not ended, and those that others need, are kept.
    """
    app = place.store()
    asked: dict[str, Any] = {"older_than": older_than, "status": status or None, "job": job}
    if dry_run or (not yes and interactive()):
        found = app.prune(**asked, dry_run=True)
        if dry_run or not found.deleted:
            _show(found, as_json, "would be deleted")
            return
        if not click.confirm(f"Delete {_runs(found.deleted)}?", err=True):
            click.echo("windlass: Nothing was done.", err=True)
            click.get_current_context().exit(1)
    _show(app.prune(**asked), as_json, "deleted")


def _show(pruned: "Pruned", as_json: bool, what: str) -> None:
    from windlass.cli.output import to_json

    if as_json:
        click.echo(to_json({"deleted": pruned.deleted, "kept": pruned.kept}, indent=2))
        return
    kept = f"; {pruned.kept:,} kept, which others need" if pruned.kept else ""
    click.echo(f"{_runs(pruned.deleted)} {what}{kept}")


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"
