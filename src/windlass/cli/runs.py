"""`windlass runs`: a page of runs, newest first, and verbs for all runs that filters select."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.bulk import COMMANDS
from windlass.cli.options import StorePlace, json_option, place_options, whole_id
from windlass.cli.run_filters import run_filters
from windlass.domain.states import Status

if TYPE_CHECKING:
    from windlass.client import Run

_PLACE = ("app_name", "url")
TITLES = ("RUN", "JOB", "STATUS", ">ATTEMPT", ">CREATED", "NOTE")


@click.group(invoke_without_command=True, commands=COMMANDS)
@run_filters
@click.option("--limit", metavar="N", type=int, default=50, show_default=True, help="At most 1000.")
@click.option("--before", metavar="RUN", help="The next page: only runs older than this one.")
@json_option
@place_options
def runs(
    place: StorePlace, filters: dict[str, Any], limit: int, before: str | None, as_json: bool
) -> None:
    """List runs, newest first; or act on all that filters select.

    On a terminal it is a table; a pipe gets one line for each run, without titles. With --json it
    is one JSON array, of the same objects that `windlass show --json` prints.

    \b
    windlass runs --status failed,canceled --finished-since 1h
    windlass runs cancel --job send_welcome --dry-run
    """
    from windlass.cli import output

    if (verb := click.get_current_context().invoked_subcommand) is not None:
        _hand_on(place, verb)
        return
    app = place.store()
    if before is not None:
        filters["before"] = whole_id(app, before)
    found = app.list(limit=limit, **filters)
    if as_json:
        click.echo(output.to_json([run.to_dict() for run in found], indent=2))
        return
    print_runs(found, app.sources.now(), "No runs match." if filters else "There are no runs.")
    if len(found) == limit:
        click.echo(f"Older ones: --before {found[-1].id}", err=True)


def _hand_on(place: StorePlace, verb: str) -> None:
    """Let the verb have the place; refuse what would be dropped, and with it the wrong runs hit."""
    context = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in _PLACE and context.get_parameter_source(name) is typed:
            raise click.UsageError(
                f"Give {parameter.opts[0]} after the verb: `windlass runs {verb} "
                f"{parameter.opts[0]} …`."
            )
    context.obj = {"app": place.app, "url": place.url}


def print_runs(found: "Sequence[Run]", now: datetime, nothing: str) -> None:
    """Print one line for each run; `nothing` where there is none."""
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
    output.print_listing(TITLES, rows, nothing)


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
            if run.waits:  # it sleeps, or a step of it is tried again
                return f"{due} in step {steps_text(run)}".strip()
            return f"{due} {f'after {error_text(run)}' if run.error else ''}".strip()
        case Status.WAITING:
            return waiting_text(run, now)
        case Status.PAUSED:
            return f"in step {steps_text(run)}" if run.waits else ""
        case Status.RUNNING:
            return running_text(run)
        case _:
            return ""


def waiting_text(run: "Run", now: datetime) -> str:
    """What a run waits for, and for how long at most."""
    from windlass.cli.output import ago

    waits = f"for {steps_text(run)}"
    if run.due_at is None:
        return waits
    return f"{waits}, at most {ago(max(run.due_at, now), now).removeprefix('in ')}"


def steps_text(run: "Run") -> str:
    """The steps in which a run sleeps or waits."""
    from windlass.cli.output import one_line

    return ", ".join(map(one_line, run.waits))


def running_text(run: "Run") -> str:
    """How far a run is."""
    from windlass.cli.output import one_line

    parts = ["asked to end"] if run.cancel_requested else []
    if run.progress is not None:
        parts.append(f"{run.progress:.0%}")
    if run.phase is not None:
        parts.append(one_line(run.phase) + (":" if run.progress_message or run.units else ""))
    if run.progress_message:
        parts.append(one_line(run.progress_message))
    if run.units is not None:
        parts.append(f"({run.units})" if run.progress_message else str(run.units))
    return " ".join(parts)


def error_text(run: "Run") -> str:
    """The error in a line, without the modules of its type."""
    from windlass.cli.output import one_line

    error = run.error
    if error is None:
        return ""
    kind = error.type.rpartition(".")[2]
    return one_line(f"{kind}: {error.message}" if error.message else kind)
