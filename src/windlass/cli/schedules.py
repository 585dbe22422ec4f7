"""`windlass schedules`: look at schedules, and at the times that a rule means."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import StorePlace, json_option, place_options
from windlass.cli.schedule_acts import ACTS

if TYPE_CHECKING:
    from windlass.domain.scheduling.rows import SlotRow
    from windlass.schedules import Schedule

TITLES = ("KEY OR ID", "JOB", "STATE", ">RUNS", ">MISSED", ">SKIPPED", "NEXT", "WHEN")
MOST_SHOWN = 1000


@click.group
def schedules() -> None:
    """Look at schedules; make, change, pause, resume, trigger, backfill and delete them.

    A schedule is named by its key or by its id.
    """


for act in ACTS:
    schedules.add_command(act)


@schedules.command("list")
@click.option("--job", metavar="NAME", help="Only those of one job.")
@click.option("--paused/--enabled", default=None, help="Only those that are paused, or not.")
@click.option("--limit", metavar="N", type=click.IntRange(1, 1000), default=100, show_default=True)
@json_option
@place_options
def list_(
    place: StorePlace, job: str | None, paused: bool | None, limit: int, as_json: bool
) -> None:
    """List schedules, newest first."""
    from windlass.cli import output

    app = place.store()
    narrowed: dict[str, Any] = {"job": job, "enabled": None if paused is None else not paused}
    found = app.schedules.list(limit=limit, **narrowed)
    if as_json:
        click.echo(output.to_json([schedule.to_dict() for schedule in found], indent=2))
    else:
        now = app.sources.now()
        rows = [_row(schedule, now) for schedule in found]
        output.print_listing(TITLES, rows, "There are no such schedules.")
        if len(found) == limit:
            click.echo(f"These are the newest {limit}; --limit shows more.", err=True)


@schedules.command
@click.argument("schedule")
@click.option("-n", "count", type=click.IntRange(0, 100), default=5, help="How many slots.")
@json_option
@place_options
def show(place: StorePlace, schedule: str, count: int, as_json: bool) -> None:
    """Show a schedule: its terms, its next slots, and what became of the last ones."""
    from windlass.cli import output

    app = place.store()
    found = app.schedules.get(schedule)
    slots = app.schedules.slots(schedule, limit=count) if count else []
    if as_json:
        shown = found.to_dict() | {
            "next": [moment.isoformat() for moment in _next(found, count)],
            "slots": [_slot_dict(slot) for slot in slots],
        }
        click.echo(output.to_json(shown, indent=2))
        return
    for name, value in _terms(found):
        click.echo(f"{name + ':':<12}{value}")
    _list_next(found, _next(found, count))
    if slots:
        click.echo(output.heading("Last slots"))
        for line in output.table(("SLOT", "OUTCOME", "RUN"), [_slot_row(slot) for slot in slots]):
            click.echo(f"  {line}")


@schedules.command("next")
@click.argument("expression", metavar="EXPR")
@click.option("--timezone", metavar="ZONE", default="UTC", show_default=True, help="IANA name.")
@click.option("--from", "start", metavar="TIME", help="From then on, ISO 8601; now unless given.")
@click.option("-n", "count", type=click.IntRange(1, MOST_SHOWN), default=10, show_default=True)
@json_option
def next_(expression: str, timezone: str, start: str | None, count: int, as_json: bool) -> None:
    """Print the next times of a cron expression, and say in English what it means.

    A TIME without an offset is in the zone of --timezone.

    \b
    windlass schedules next '30 2 * * *' --timezone Europe/Berlin --from 2026-03-28
    """
    from windlass.cli import output
    from windlass.domain.scheduling.definition import define_schedule
    from windlass.domain.scheduling.rules import parse_moment
    from windlass.domain.zone import parse_zone
    from windlass.sources import SystemClock

    zone = parse_zone(timezone)
    after = SystemClock().now() if start is None else parse_moment("from", start, zone)
    schedule = define_schedule(after, cron=expression, timezone=timezone)
    slots: list[datetime] = []
    slot = schedule.next_slot(after)
    while slot is not None and len(slots) < count:
        slots.append(slot)
        slot = schedule.next_slot(slot)
    local = [slot.astimezone(zone).isoformat() for slot in slots]
    if as_json:
        click.echo(output.to_json({"explanation": schedule.explain(), "next": local}, indent=2))
        return
    click.echo(schedule.explain())
    for text in local:
        click.echo(text)


def _row(schedule: "Schedule", now: datetime) -> tuple[str, ...]:
    from windlass.cli import output

    return (
        output.one_line(schedule.key or schedule.id),
        output.one_line(schedule.job),
        _state(schedule),
        f"{schedule.fired:,}",
        _alarming(schedule.missed),
        _alarming(schedule.skipped),
        "" if schedule.next_slot is None else output.ago(schedule.next_slot, now),
        output.one_line(schedule.when),
    )


def _state(schedule: "Schedule") -> str:
    from windlass.cli import output

    if not schedule.enabled:
        return output.paint("paused", "yellow")
    return output.faint("over") if schedule.next_slot is None else output.paint("on", "green")


def _alarming(count: int) -> str:
    from windlass.cli import output

    return output.paint(f"{count:,}", "yellow") if count else "0"


def _terms(schedule: "Schedule") -> Sequence[tuple[str, str]]:
    from windlass.cli import output

    options = {k: v for k, v in _options(schedule).items() if v}
    terms = [
        ("schedule", output.one_line(schedule.key or schedule.id)),
        ("id", schedule.id),
        ("job", output.one_line(schedule.job)),
        ("when", output.one_line(schedule.when)),
        ("state", _state(schedule)),
        ("input", output.readable(schedule.input)),
        ("overlap", schedule.overlap.value),
        ("catch up", _catch_up(schedule)),
        ("made by", "the code" if schedule.origin == "code" else "a call at run time"),
        ("runs", f"{schedule.fired:,} made"),
        ("slots", f"{schedule.missed:,} missed, {schedule.skipped:,} skipped"),
    ]
    if options:
        terms.insert(6, ("options", output.readable(options)))
    return terms


def _options(schedule: "Schedule") -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(schedule.options)


def _catch_up(schedule: "Schedule") -> str:
    from windlass.errors import BadOption

    try:
        return str(schedule.timetable.catch_up)
    except BadOption:
        return "?"


def _next(schedule: "Schedule", count: int) -> Sequence[datetime]:
    from windlass.errors import BadOption

    try:
        return schedule.next(count)
    except BadOption:
        return []


def _list_next(schedule: "Schedule", slots: Sequence[datetime]) -> None:
    from windlass.cli import output
    from windlass.domain.scheduling.definition import CronRule

    if not slots:
        return
    rule = schedule.timetable.rule
    zone = rule.zone if isinstance(rule, CronRule) else UTC
    click.echo(output.heading("Next slots"))
    for slot in slots:
        click.echo(f"  {slot.astimezone(zone).isoformat(' ', 'seconds')}")


def _slot_row(slot: "SlotRow") -> tuple[str, ...]:
    from windlass.cli import output

    colors = {"fired": "green", "missed": "yellow", "skipped": "yellow", "waiting": "cyan"}
    outcome = output.paint(slot.outcome.value, colors[slot.outcome.value])
    return (output.clock_time(slot.slot.astimezone(UTC)), outcome, slot.run or "")


def _slot_dict(slot: "SlotRow") -> dict[str, Any]:
    return {
        "slot": slot.slot.astimezone(UTC).isoformat(),
        "outcome": slot.outcome.value,
        "at": slot.at.astimezone(UTC).isoformat(),
        "run": slot.run,
    }
