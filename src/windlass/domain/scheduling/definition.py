"""When a schedule is due, and what to do about it: values and decisions, no clock and no store.

A schedule has a rule that gives its slots, and bounds: dates, a number of runs. `due` looks at one
that the store has found to be due, at the time the store says it is, and decides which slots get a
run, which are recorded as missed, and which one comes next. Whether two schedulers decide the same
does not matter: the store lets one of them write.

A slot is *on time* if it is noticed within `ON_TIME`; such slots fire under every policy, so that
a busy moment drops nothing. The others are late, and `catch_up` decides. Under `skip` the newest
slot still fires if it is at most `GRACE` late, or a restart at three o'clock would cost a night's
backup; a longer absence costs it, as asked.

Nothing here walks through all slots of a long absence. Of those that fire at most `max` are made,
walking back from now; those of an interval are counted by division; those of a cron expression are
counted up to `COUNTED`, and the answer then says "at least".
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Self, TypedDict, Unpack

import msgspec

from windlass.domain.scheduling.catchup import CatchUp, CatchUpMode
from windlass.domain.scheduling.rows import Overlap
from windlass.domain.scheduling.rules import (
    MICROSECOND,
    CronRule,
    Every,
    Moment,
    Once,
    Rule,
    SlotCount,
    exact_duration,
    parse_moment,
)
from windlass.domain.zone import parse_zone
from windlass.duration import Duration, format_duration
from windlass.errors import BadOption

__all__ = [
    "CatchUp",
    "CatchUpMode",
    "CronRule",
    "Due",
    "Every",
    "Moment",
    "Once",
    "Rule",
    "ScheduleDefinition",
    "ScheduleState",
    "SlotCount",
    "Timing",
    "check_new",
    "define_schedule",
    "due",
    "parse_overlap",
    "realigned",
]

ON_TIME = timedelta(seconds=5)
GRACE = timedelta(seconds=60)
COUNTED = 1000
"""How many missed slots of a cron expression are counted."""
LISTED = 100
"""How many missed slots are named one by one: the newest."""

LONGEST_SPREAD = timedelta(days=1)
_NO_SPREAD = timedelta(0)


class ScheduleDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which slots there are. `start` and `end` are included.

    >>> start = datetime.fromisoformat("2030-01-01T00:00Z")
    >>> hourly = ScheduleDefinition(rule=Every.of("1h", start), end=start + timedelta(hours=2))
    >>> [slot.hour for slot in hourly.slots_between(start, start + timedelta(days=9))]
    [1, 2]
    """

    rule: Rule
    start: datetime | None = None
    end: datetime | None = None
    max_runs: int | None = None
    spread: timedelta = _NO_SPREAD
    catch_up: CatchUp = CatchUp.latest()  # written down even so: the default may change, not it

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        for name in ("start", "end"):
            if (value := getattr(self, name)) is not None:
                msgspec.structs.force_setattr(self, name, parse_moment(name, value))
        if self.start is not None and self.end is not None and self.end < self.start:
            raise BadOption("end", f"{self.end.isoformat(' ')} is before the start")
        if self.max_runs is not None and (type(self.max_runs) is not int or self.max_runs < 1):
            raise BadOption("max_runs", f"{self.max_runs!r} is not a whole number from 1 on")
        spread = format_duration(self.spread.total_seconds())
        if not _NO_SPREAD <= self.spread <= LONGEST_SPREAD:
            raise BadOption("spread", f"{spread} is not between 0 and 24 hours")
        if isinstance(self.rule, Every) and self.spread > self.rule.interval:
            raise BadOption("spread", f"{spread} is longer than the interval")

    def next_slot(self, after: datetime) -> datetime | None:
        """Return the first slot strictly after the instant, or None when there is none.

        It depends on nothing but the schedule and the instant.
        """
        slot = self.rule.after(self._after(after))
        return None if slot is None or (self.end is not None and slot > self.end) else slot

    def latest_slot(self, at: datetime) -> datetime | None:
        """Return the last slot up to and including the instant, or None when there is none."""
        slot = self.rule.until(self._until(at))
        return None if slot is None or (self.start is not None and slot < self.start) else slot

    def slots_between(self, after: datetime, until: datetime, limit: int = 1000) -> list[datetime]:
        """Return the first slots after the one instant, up to and including the other."""
        slots: list[datetime] = []
        slot = self.next_slot(after)
        while slot is not None and slot <= until and len(slots) < limit:
            slots.append(slot)
            slot = self.next_slot(slot)
        return slots

    def newest_between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """Return the last of those slots, in order."""
        slots: list[datetime] = []
        slot = self.latest_slot(until)
        while slot is not None and slot > after and len(slots) < limit:
            slots.append(slot)
            slot = self.latest_slot(slot - MICROSECOND)
        return slots[::-1]

    def count_between(self, after: datetime, until: datetime, bound: int = COUNTED) -> SlotCount:
        """Count the slots after the one instant, up to and including the other."""
        return self.rule.count(self._after(after), self._until(until), bound)

    def offset(self, schedule_id: str) -> timedelta:
        """Return how long after their slots this schedule's runs start: always the same."""
        digest = hashlib.sha256(schedule_id.encode("utf-8", "surrogatepass")).digest()
        return self.spread // MICROSECOND * int.from_bytes(digest[:8]) // 2**64 * MICROSECOND

    def explain(self) -> str:
        """Say in English when it runs."""
        parts = [self.rule.explain()]
        if self.start is not None:
            parts.append(f"from {self.start.isoformat(' ')}")
        if self.end is not None:
            parts.append(f"until {self.end.isoformat(' ')}")
        if self.max_runs is not None:
            parts.append("once only" if self.max_runs == 1 else f"{self.max_runs} times in all")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return what the store keeps."""
        stored: dict[str, Any] = msgspec.to_builtins(self)
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any] | bytes | msgspec.Raw) -> Self:
        """Read what `to_json` made, as an object or as JSON.

        Raises BadOption where it makes no sense (any more): a zone may have left the zone data.
        """
        try:
            if isinstance(stored, Mapping):
                return msgspec.convert(stored, cls)
            return msgspec.json.decode(stored, type=cls)
        except msgspec.MsgspecError as error:
            raise BadOption("schedule", str(error), "stored schedule") from error

    def _after(self, instant: datetime) -> datetime:
        return instant if self.start is None else max(instant, self.start - MICROSECOND)

    def _until(self, instant: datetime) -> datetime:
        return instant if self.end is None else min(instant, self.end)


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of a schedule: all slots before `next_slot` are decided."""

    schedule: ScheduleDefinition
    next_slot: datetime | None  # None: nothing is left to come
    last_slot: datetime | None = None
    fired: int = 0


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about a schedule. All slots are in order."""

    slots_to_fire: tuple[datetime, ...] = ()
    slots_missed: tuple[datetime, ...] = ()
    """The newest of those that are missed, at most `LISTED`."""
    missed_count: int = 0
    missed_at_least: bool = False
    """Whether counting stopped at `missed_count`."""
    next_slot: datetime | None = None
    exhausted: bool = False
    """Nothing is left to come: `next_slot` is None for good."""


def due(state: ScheduleState, now: datetime, *, grace: timedelta = GRACE) -> Due:
    """Decide what happens to the schedule at this time."""
    schedule, left = state.schedule, None
    if schedule.max_runs is not None:
        left = schedule.max_runs - state.fired
    if state.next_slot is None or (left is not None and left <= 0):
        return Due(exhausted=True)
    first = schedule.next_slot(state.next_slot - MICROSECOND)
    if first is None or first > now:
        return _and_then(Due(), first)
    newest, following = first, schedule.next_slot(first)
    if following is not None and following <= now:
        newest = schedule.latest_slot(now) or first
        following = schedule.next_slot(newest)
    fire = _to_fire(schedule, first, newest, now, grace)[:left]
    missed = _missed(schedule, first, fire[0] - MICROSECOND if fire else newest)
    decided = msgspec.structs.replace(missed, slots_to_fire=tuple(fire))
    return _and_then(decided, None if len(fire) == left else following)


def realigned(state: ScheduleState, now: datetime) -> datetime | None:
    """Return where the next slot is by the zone data of now, which may be newer than the state.

    A slot that has come is left to `due`: new data moves those to come and no others.
    """
    if state.next_slot is None or state.next_slot <= now:
        return state.next_slot
    return state.schedule.next_slot(max(now, state.last_slot or now))


def _to_fire(
    schedule: ScheduleDefinition, first: datetime, newest: datetime, now: datetime, grace: timedelta
) -> list[datetime]:
    """The slots that get a run: always the newest ones, without a gap."""
    since, late = first - MICROSECOND, now - ON_TIME - MICROSECOND  # what is late is so up to here
    on_time = [newest] if newest > late else []
    if on_time and first < newest:
        on_time = schedule.slots_between(max(since, late), newest)
    match schedule.catch_up.mode:
        case CatchUpMode.SKIP:
            return on_time or ([newest] if now - newest <= grace else [])
        case CatchUpMode.LATEST:
            return on_time or [newest]
        case CatchUpMode.ALL if first > late:
            return on_time
        case CatchUpMode.ALL:
            most = schedule.catch_up.max or 0
            return schedule.newest_between(since, min(newest, late), most) + on_time


def _missed(schedule: ScheduleDefinition, first: datetime, until: datetime) -> Due:
    if first > until:
        return Due()
    since = first - MICROSECOND
    count = schedule.count_between(since, until)
    return Due(
        slots_missed=tuple(schedule.newest_between(since, until, LISTED)),
        missed_count=count.number,
        missed_at_least=count.at_least,
    )


def _and_then(decided: Due, next_slot: datetime | None) -> Due:
    return msgspec.structs.replace(decided, next_slot=next_slot, exhausted=next_slot is None)


class Timing(TypedDict, total=False):
    """What people say about a schedule: exactly one of `once`, `interval` and `cron`, and bounds.

    Times without an offset are local times of `timezone`, which must then be given.
    """

    once: Moment | None
    interval: Duration | None
    cron: str | None
    timezone: str | None
    anchor: Moment | None
    start: Moment | None
    end: Moment | None
    max_runs: int | None
    spread: Duration | None
    catch_up: str | CatchUp | None


def define_schedule(now: datetime, **timing: Unpack[Timing]) -> ScheduleDefinition:
    """Make a schedule of what was said; raises BadOption with one sentence for what is wrong.

    An interval is counted from `anchor`, or else from `start`, or else from `now`.
    """
    for option in timing:
        if option not in Timing.__annotations__:
            raise BadOption(
                option, f"there is no such option; there are {', '.join(Timing.__annotations__)}"
            )
    zone_name = timing.get("timezone")
    zone = None if zone_name is None else parse_zone(zone_name)

    def moment(option: str, value: Moment | None) -> datetime | None:
        return None if value is None else parse_moment(option, value, zone)

    start = moment("start", timing.get("start"))
    anchor = moment("anchor", timing.get("anchor")) or start or now
    spread, catch_up = timing.get("spread"), timing.get("catch_up")
    return ScheduleDefinition(
        rule=_rule(timing, anchor, moment("once", timing.get("once"))),
        start=start,
        end=moment("end", timing.get("end")),
        max_runs=timing.get("max_runs"),
        spread=_NO_SPREAD if spread is None else exact_duration("spread", spread),
        catch_up=CatchUp.latest() if catch_up is None else CatchUp.parse(catch_up),
    )


def _rule(timing: Timing, anchor: datetime, once: datetime | None) -> Rule:
    interval, cron = timing.get("interval"), timing.get("cron")
    kinds = {"once": once, "interval": interval, "cron": cron}
    given = [kind for kind, value in kinds.items() if value is not None]
    if len(given) != 1:
        but = f", not {' and '.join(f'{kind}=' for kind in given)}" if given else ""
        raise BadOption("schedule", f"give one of once=, interval= and cron={but}")
    if timing.get("anchor") is not None and interval is None:
        raise BadOption("anchor", f"only an interval is counted from one, not {given[0]}")
    if once is not None:
        return Once(once)
    if interval is not None:
        return Every.of(interval, anchor)
    return CronRule(cron or "", timing.get("timezone") or "UTC")


def parse_overlap(value: str | Overlap) -> Overlap:
    """Read "allow", "skip", "queue" or "cancel_running"; raises BadOption for anything else."""
    given: object = value  # whatever the annotation says
    named = given.strip().lower() if isinstance(given, str) else None
    for overlap in Overlap:
        if overlap.value == named:
            return overlap
    known = ", ".join(repr(overlap.value) for overlap in Overlap)
    raise BadOption("overlap", f"{value!r} is none of {known}")


def check_new(schedule: ScheduleDefinition, now: datetime) -> datetime:
    """Return the first slot of a schedule made now; raises BadOption where it would have none."""
    slot = schedule.next_slot(now)
    if slot is not None:
        return slot
    if isinstance(schedule.rule, Once) and schedule.rule.at <= now:
        raise BadOption("once", f"{schedule.rule.at.isoformat(' ')} has passed")
    if schedule.end is not None and schedule.end <= now:
        raise BadOption("end", f"{schedule.end.isoformat(' ')} has passed")
    raise BadOption("schedule", "it would never run: no slot lies between its start and its end")
