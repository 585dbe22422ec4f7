"""`windlass runs`: a page of runs, newest first."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import (
    StorePlace,
    before_now,
    json_option,
    moment_or_duration,
    place_options,
)
from windlass.domain.states import Status

if TYPE_CHECKING:
    from windlass.client import Run

TITLES = ("RUN", "JOB", "STATUS", ">ATTEMPT", ">CREATED", "NOTE")


@click.command
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status]),
    help="Only those in this status.",
)
@click.option("--job", metavar="NAME", help="Only runs of this job.")
@click.option("--queue", metavar="NAME", help="Only runs in this queue.")
@click.option("--tag", metavar="TEXT", help="Only runs with this tag.")
@click.option(
    "--since",
    metavar="1h|TIME",
    callback=moment_or_duration,
    help="Only those created since then: a duration, or ISO 8601.",
)
@click.option("--limit", metavar="N", type=int, default=50, show_default=True, help="At most 1000.")
@click.option("--before", metavar="RUN", help="The next page: only runs older than this one.")
@json_option
@place_options
def runs(place: StorePlace, since: datetime | float | None, as_json: bool, **filters: Any) -> None:
    """List runs, newest first.

    With --json it is one JSON array, of the same objects that `windlass show --json` prints.
    """
    from windlass.cli import output

    filters["created_from"] = before_now(since)
    given = {name: value for name, value in filters.items() if value is not None}
    app = place.store()
    found = app.list(**given)
    if as_json:
        click.echo(output.to_json([run.to_dict() for run in found], indent=2))
        return
    if not found:
        click.echo("There are no runs." if set(given) == {"limit"} else "No runs match.")
        return
    for line in run_table(found, app.sources.now()):
        click.echo(line)
    if len(found) == given["limit"]:
        click.echo(f"Older ones: --before {found[-1].id}", err=True)


def run_table(found: "Sequence[Run]", now: datetime) -> list[str]:
    """One row for each run."""
    from windlass.cli import output

    rows = [
        (
            run.id,
            output.one_line(run.job),
            output.status_text(run.status.value),
            str(run.attempt),
            output.ago(run.created_at, now),
            note(run, now),
        )
        for run in found
    ]
    return output.table(TITLES, rows)


def note(run: "Run", now: datetime) -> str:
    """What matters most about a run, in a few words."""
    from windlass.cli.output import ago, one_line

    match run.status:
        case Status.FAILED:
            return f"{run.failure or 'failed'}: {error_text(run)}".rstrip(": ")
        case Status.CANCELED:
            return one_line(run.reason or "")
        case Status.SCHEDULED:
            due = f"due {ago(run.due_at, now)}" if run.due_at is not None else ""
            return f"{due} {f'after {error_text(run)}' if run.error else ''}".strip()
        case Status.RUNNING:
            return running_text(run)
        case _:
            return ""


def running_text(run: "Run") -> str:
    """How far a run is."""
    from windlass.cli.output import one_line

    parts = ["asked to end"] if run.cancel_requested else []
    if run.progress is not None:
        parts.append(f"{run.progress:.0%}")
    if run.progress_message:
        parts.append(one_line(run.progress_message))
    return " ".join(parts)


def error_text(run: "Run") -> str:
    """The error in a line, without the modules of its type."""
    from windlass.cli.output import one_line

    error = run.error
    if error is None:
        return ""
    kind = error.type.rpartition(".")[2]
    return one_line(f"{kind}: {error.message}" if error.message else kind)
