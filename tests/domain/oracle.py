"""When a cron schedule is due, found by watching the clock: shares no code with what it judges.

The expressions are given twice: as text, for the code under test, and as sets of numbers and a
test of dates, for the oracle. The zone is asked in one direction only, "what does the clock show at
this instant", which has one answer.

`watch` is the published rules word for word: it goes through every minute, looks at the clock, sees
what was jumped over and remembers what it has seen before. `survey` is for whole years: it takes
each local time and looks for the instants at which the clock shows it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
THREE_HOURS = timedelta(hours=3)


def any_day(_: date) -> bool:
    return True


@dataclass(frozen=True)
class Expression:
    """A cron expression in both forms, and how it should take a change of the clocks."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    day: Callable[[date], bool] = any_day
    every_hour: bool = False  # follows real time: both repeated hours, and no making up
    both_hours: bool = False  # keeps its spacing through repeated hours

    def has(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.day(wall.date())


@dataclass(frozen=True)
class Place:
    """A zone, and the two years in which it is looked at."""

    zone: str
    year: int

    @property
    def begin(self) -> datetime:
        return datetime(self.year, 1, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        return datetime(self.year + 2, 1, 1, tzinfo=UTC)


zone_of = lru_cache(ZoneInfo)


def clock(instant: datetime, zone: str) -> datetime:
    """What a clock on the wall shows."""
    return instant.astimezone(zone_of(zone)).replace(tzinfo=None, fold=0)


@lru_cache
def changes(place: Place) -> tuple[datetime, ...]:
    """The UTC midnights after which, within a day, the clocks were changed."""
    found, day = [], place.begin
    while day < place.end:
        if clock(day + DAY, place.zone) - clock(day, place.zone) != DAY:
            found.append(day)
        day += DAY
    return tuple(found)


@lru_cache(maxsize=16)
def minutes(zone: str, begin: datetime, end: datetime) -> tuple[tuple[datetime, datetime], ...]:
    """Every minute from the one time to before the other, and what the clock shows then."""
    count = (end - begin) // MINUTE
    instants = (begin + n * MINUTE for n in range(count))
    return tuple((instant, clock(instant, zone)) for instant in instants)


def watch(expression: Expression, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """All slots from the one time to before the other, a change of the clocks or not."""
    slots: list[datetime] = []
    seen: set[datetime] = set()
    before: datetime | None = None
    for instant, wall in minutes(zone, begin, end):
        fires = expression.has(wall)
        if wall in seen and not (expression.every_hour or expression.both_hours):
            fires = False
        if before is not None and wall > before + MINUTE and not expression.every_hour:
            gap = (wall - before) // MINUTE - 1
            skipped = (before + (n + 1) * MINUTE for n in range(gap))
            if gap * MINUTE <= THREE_HOURS and any(map(expression.has, skipped)):
                fires = True
        if fires:
            slots.append(instant)
        seen.add(wall)
        before = wall
    return slots


@lru_cache
def offsets(place: Place) -> tuple[timedelta, ...]:
    """All that the clock there is off UTC in those years, asked at every hour."""
    found, instant = set(), place.begin - 2 * DAY
    while instant < place.end + 2 * DAY:
        found.add(clock(instant, place.zone) - instant.replace(tzinfo=None))
        instant += HOUR
    return tuple(sorted(found))


def survey(expression: Expression, place: Place) -> list[datetime]:
    """All slots of the two years."""
    found: set[datetime] = set()
    day = (place.begin - 2 * DAY).date()
    while day <= place.end.date() + 2 * DAY:
        if expression.day(day):
            for hour in expression.hours:
                for minute in expression.minutes:
                    wall = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
                    found.update(_instants(expression, place, wall))
        day += DAY
    return sorted(slot for slot in found if place.begin <= slot < place.end)


def _instants(expression: Expression, place: Place, wall: datetime) -> list[datetime]:
    candidates = sorted(wall.replace(tzinfo=UTC) - offset for offset in offsets(place))
    shown = [instant for instant in candidates if clock(instant, place.zone) == wall]
    if not shown and not expression.every_hour:
        return _after_the_gap(place, wall)
    return shown if expression.every_hour or expression.both_hours else shown[:1]


def _after_the_gap(place: Place, wall: datetime) -> list[datetime]:
    # Minute by minute, from a time at which the clock has surely not got there.
    instant = wall.replace(tzinfo=UTC) - max(offsets(place)) - MINUTE
    while clock(instant + MINUTE, place.zone) < wall:
        instant += MINUTE
    gap = clock(instant + MINUTE, place.zone) - clock(instant, place.zone) - MINUTE
    return [instant + MINUTE] if gap <= THREE_HOURS else []
