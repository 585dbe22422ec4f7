"""What operators do to schedules: make, change, pause, resume, trigger, backfill, delete, prune."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from windlass.cli.arguments import job_arguments
from windlass.cli.options import StorePlace, json_option, place_options, schedule_moment

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from windlass.schedules import Schedule

F = TypeVar("F", bound=Callable[..., Any])

_TERMS = (
    click.option("--cron", metavar="EXPR", help="Five fields, or six with the seconds first."),
    click.option("--interval", metavar="DURATION", help="Every so often: 90s, 10m, 1d."),
    click.option("--once", metavar="TIME", help="Once, at this time: ISO 8601, see above."),
    click.option("--timezone", metavar="ZONE", help="IANA name, or local; default: UTC."),
    click.option("--start", metavar="TIME", help="No slot before then."),
    click.option("--end", metavar="TIME", help="No slot after then."),
    click.option("--max-runs", metavar="N", type=int, help="End it after so many runs."),
    click.option("--spread", metavar="DURATION", help="Delay each run by up to this time."),
    click.option("--catch-up", metavar="POLICY", help="skip, latest, all or all(max=24)."),
    click.option("--overlap", metavar="POLICY", help="allow, skip, queue or cancel_running."),
)


def term_options(command: F) -> F:
    """Add the terms of a schedule."""
    for option in reversed(_TERMS):
        command = option(command)
    return command


@click.command
@click.argument("job")
@job_arguments
@click.option("--key", metavar="TEXT", help="Your own name for it.")
@term_options
@json_option
@place_options
def put(
    place: StorePlace,
    job: str,
    input_: dict[str, Any] | None,
    key: str | None,
    as_json: bool,
    **terms: Any,
) -> None:
    """Make a schedule for JOB, or change the one that has this key.

    A TIME without an offset is in the schedule's zone: that of --timezone, and UTC for --cron
    without one. A schedule without a zone takes local time.

    \b
    windlass schedules put send_digest '{"user": 7}' --key digest:7 --cron '0 8 * * MON'
    """
    from windlass.cli.enqueue import explain_unknown
    from windlass.cli.slow_store import knock
    from windlass.errors import UnknownJob

    app = place.store(existing=False)
    knock(app)
    given = _with_instants(terms, None)
    try:
        _print_schedule(app.schedules.put(job, key=key, input=input_, **given), as_json)
    except UnknownJob as error:
        explain_unknown(app, error)


@click.command
@click.argument("schedule")
@job_arguments
@term_options
@json_option
@place_options
def change(
    place: StorePlace,
    schedule: str,
    input_: dict[str, Any] | None,
    as_json: bool,
    **terms: Any,
) -> None:
    """Change some terms of a schedule, or its input; the others stay.

    One that is declared in code is put back to what the code says when a worker starts. A TIME
    without an offset is in the schedule's zone, or in local time if it has none.
    """
    if input_ is None and all(value is None for value in terms.values()):
        raise click.UsageError("Say what to change.")
    app = place.store()
    given = _with_instants(terms, zone_of(app.schedules.get(schedule)))
    _print_schedule(app.schedules.change(schedule, input=input_, **given), as_json)


@click.command
@click.argument("names", metavar="SCHEDULE...", nargs=-1, required=True)
@place_options
def pause(place: StorePlace, names: tuple[str, ...]) -> None:
    """Pause schedules: no slot fires until they are resumed. Runs under way go on."""
    from windlass.cli.control import one_by_one

    app = place.store()
    one_by_one(names, lambda name: _state(app.schedules.pause(name)))


@click.command
@click.argument("names", metavar="SCHEDULE...", nargs=-1, required=True)
@place_options
def resume(place: StorePlace, names: tuple[str, ...]) -> None:
    """Resume schedules with the first slot after now; `backfill` makes those of the pause."""
    from windlass.cli.control import one_by_one

    app = place.store()
    one_by_one(names, lambda name: _state(app.schedules.resume(name)))


@click.command
@click.argument("schedule")
@click.option("--overlap", metavar="POLICY", help="Use this policy for the run: allow, …")
@json_option
@place_options
def trigger(place: StorePlace, schedule: str, overlap: str | None, as_json: bool) -> None:
    """Make a run now, besides the slots, and print its id; a paused schedule may be triggered."""
    from windlass.cli import output

    run = place.store().schedules.trigger(schedule, overlap=overlap)
    if as_json:
        click.echo(output.to_json(None if run is None else run.to_dict(), indent=2))
    elif run is None:
        click.echo("An earlier run is live; this one is made when it has ended.", err=True)
    else:
        click.echo(run.id)


@click.command
@click.argument("schedule")
@click.option("--from", "start", metavar="TIME", required=True, help="The first slot, ISO 8601.")
@click.option("--to", "end", metavar="TIME", help="The last one; now unless given.")
@click.option("--overlap", metavar="POLICY", help="Use this policy for these runs: allow, …")
@json_option
@place_options
def backfill(
    place: StorePlace,
    schedule: str,
    start: str,
    end: str | None,
    overlap: str | None,
    as_json: bool,
) -> None:
    """Make the runs of past slots that have none.

    Repeating it is harmless: a slot makes one run. A TIME without an offset is in the schedule's
    zone, or in local time if it has none.
    """
    from windlass.cli import output

    app = place.store()
    zone = zone_of(app.schedules.get(schedule))
    first = schedule_moment("from", start, zone)
    last = None if end is None else schedule_moment("to", end, zone)
    made = app.schedules.backfill(schedule, first, last, overlap=overlap)
    if as_json:
        shown = {
            "runs": [run.id for run in made.runs],
            "waiting": [slot.isoformat() for slot in made.waiting],
            "skipped": [slot.isoformat() for slot in made.skipped],
        }
        click.echo(output.to_json(shown, indent=2))
        return
    parts = [f"{len(made.runs):,} run{'' if len(made.runs) == 1 else 's'} made"]
    if made.waiting:
        parts.append(f"{len(made.waiting):,} waiting for earlier ones to end")
    if made.skipped:
        parts.append(f"{len(made.skipped):,} skipped")
    click.echo(", ".join(parts) + ".")


@click.command
@click.argument("names", metavar="SCHEDULE...", nargs=-1, required=True)
@place_options
def delete(place: StorePlace, names: tuple[str, ...]) -> None:
    """Delete schedules and the record of their slots; their runs stay."""
    from windlass.cli.control import one_by_one

    app = place.store()

    def end(name: str) -> str:
        app.schedules.delete(name)
        return "deleted"

    one_by_one(names, end)


@click.command
@click.option("--yes", is_flag=True, help="Delete without asking.")
@place_options
def prune(place: StorePlace, yes: bool) -> None:
    """Delete the schedules that were declared in code and have left it.

    They are compared with this application and its job files. Another program that shares the
    store has schedules of its own: look at the list before you agree.
    """
    app = place.application(alone=True)
    app.jobs.load()
    left = app.schedules.left()
    if not left:
        click.echo("Every schedule that was declared in code is still there.")
        return
    for schedule in left:
        click.echo(f"{schedule.key or schedule.id}  {schedule.job}  {schedule.when}")
    if not yes:
        click.confirm(
            f"Delete {'this one' if len(left) == 1 else f'these {len(left)}'}?", abort=True
        )
    click.echo(f"{len(app.schedules.prune()):,} deleted.")


def zone_of(schedule: "Schedule") -> "ZoneInfo | None":
    """The zone of a schedule: those by cron have one."""
    from windlass.domain.scheduling.rules import CronRule

    rule = schedule.timetable.rule
    return rule.zone if isinstance(rule, CronRule) else None


def _with_instants(terms: dict[str, Any], known: "ZoneInfo | None") -> dict[str, Any]:
    """The terms that were given, their times as instants; `known` is the zone so far."""
    from windlass.domain.zone import parse_zone

    given = {name: value for name, value in terms.items() if value is not None}
    if "timezone" in given:
        zone: ZoneInfo | None = parse_zone(given["timezone"])
    elif "cron" in given:
        zone = known or parse_zone("UTC")
    else:
        zone = None if given.keys() & {"interval", "once"} else known
    for name in given.keys() & {"once", "start", "end"}:
        given[name] = schedule_moment(name, given[name], zone)
    return given


def _state(schedule: "Schedule") -> str:
    if not schedule.enabled:
        return "paused"
    return "over" if schedule.next_slot is None else f"on, next {schedule.next_slot.isoformat()}"


def _print_schedule(schedule: "Schedule", as_json: bool) -> None:
    from windlass.cli import output

    if as_json:
        click.echo(output.to_json(schedule.to_dict(), indent=2))
        return
    click.echo(schedule.key or schedule.id)
    click.echo(f"{schedule.when}; {_state(schedule)}", err=True)


ACTS = (put, change, pause, resume, trigger, backfill, delete, prune)
