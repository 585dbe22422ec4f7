"""Cron expressions: what they mean, and when they are due next.

The syntax is that of cron with the usual additions: five fields, or six with the seconds first;
names, lists, ranges and steps; `L` and `LW` for the last day and the last working day of the month,
`FRIL` (or `5L`) for its last Friday and `MON#2` for its second Monday; `@daily` and its kin.
Where both day fields are restricted, a day that matches either is due, as cron has always had it.
A field that begins with `*` does not restrict; `*/2` is an old exception, and must match too.

cronsim reads the fields and knows which dates they mean. It is not asked about zones: `walltime`
decides what the clocks do, since cronsim (2.8) differs there from the published rules.

- Begun within a repeated hour it answers with instants of the first one, which have passed.
- With six fields it drops what a gap skips, and fires twice what happens twice.
- So it does with `*/2` for hours, as Debian's cron; and where such an hour is repeated over
  midnight (St. John's, 2010-11-07) it never gets past it.
- With `*` for minutes it drops a fixed hour that a gap skips (`*/5 2 * * *`), as Debian's cron.
- After a change by half an hour (Lord Howe) it may step over the first half of a fixed hour:
  `*/10 5 * * *` begins at 05:30.
- For a day that a calendar left out (Apia, 2011-12-30) it fires at the midnight after it.
"""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Self

from cronsim import CronSim, CronSimError

from windlass.domain.scheduling.walltime import Changes, next_instant, previous_instant
from windlass.errors import BadOption

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

MAX_LENGTH = 1000

_ONE_DAY = timedelta(days=1)

_PART = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\w+))?", re.ASCII)
_NTH = re.compile(r"(?P<day>\w+?)(?:#(?P<nth>[1-5])|(?P<last>L))", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of the values from `low` on

    @property
    def count(self) -> int:
        """How many values differ: 7 is another name of Sunday."""
        return len(self.names) or self.high - self.low + 1

    def number(self, text: str) -> int | None:
        """The value that a number or a name stands for."""
        if text in self.names:
            return self.low + self.names.index(text)
        if not (text.isdigit() and len(text) <= 4 and self.low <= int(text) <= self.high):
            return None
        return int(text)


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("day of week", 0, 7, _DAYS)
_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _DAY,
    _MONTH,
    _WEEKDAY,
)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression that has been understood.

    >>> from zoneinfo import ZoneInfo
    >>> cron = Cron.parse("30 2 * * MON-FRI")
    >>> cron.explain()
    'At 02:30 on Monday through Friday'
    >>> friday = datetime.fromisoformat("2025-03-28T12:00Z")
    >>> cron.next_after(friday, ZoneInfo("Europe/Berlin")).isoformat()
    '2025-03-31T00:30:00+00:00'
    """

    text: str
    """The expression as it was given."""
    fields: tuple[str, ...]
    """Its six fields, seconds first, in numbers."""
    changes: Changes = field(compare=False)
    """What a change of the clocks does to it."""
    _walls: "_Walls" = field(compare=False, repr=False)

    @classmethod
    def parse(cls, expression: str) -> Self:
        """Read an expression; raises BadOption with a sentence that names the field at fault."""
        text, fields = _fields(expression)
        begin = datetime(2000, 1, 1)  # noqa: DTZ001
        try:
            sim = CronSim(" ".join(fields), begin)
            # No pattern of dates has a gap of more than 40 years, and cronsim looks 50 ahead.
            next(sim)
        except (CronSimError, StopIteration):
            raise BadOption("cron", _never(text)) from None
        every_hour = len(sim.hours) == 24
        changes = Changes(makes_up=not every_hour, repeats=every_hour or fields[1].startswith("*"))
        return cls(text, fields, changes, _Walls.of(sim))

    def next_after(self, instant: datetime, zone: tzinfo) -> datetime:
        """Return the first slot strictly after the instant, in UTC.

        Raises OverflowError where the calendar of Python ends, in the year 9999.
        """
        return next_instant(self._walls.after, instant, zone, self.changes)

    def previous_at_or_before(self, instant: datetime, zone: tzinfo) -> datetime:
        """Return the last slot up to and including the instant, in UTC."""
        return previous_instant(self._walls.before, instant, zone, self.changes)

    def explain(self) -> str:
        """Return what the expression says, in English.

        >>> Cron.parse("0 0 13 * FRI").explain()
        'At 00:00 on the 13th day of month or on Friday'
        """
        # cronsim says "and" for days of either kind, and has no other use of these words.
        return self._walls.sim.explain().replace(" and on ", " or on ")


def cached_cron(expression: str) -> Cron:
    """Return the parsed expression, from those that were parsed before if possible."""
    given: object = expression  # what is no text may not even be hashable
    return _parsed(given) if isinstance(given, str) else Cron.parse(expression)


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> Cron:
    return Cron.parse(expression)


@dataclass(frozen=True, slots=True)
class _Walls:
    """The local times of an expression, in order.

    cronsim could step through them itself, but from minute to minute; here it only judges dates.
    """

    sim: CronSim
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    @classmethod
    def of(cls, sim: CronSim) -> Self:
        return cls(sim, *(tuple(sorted(x)) for x in (sim.hours, sim.minutes, sim.seconds)))

    def after(self, wall: datetime) -> datetime:
        """Return the first one strictly after the given one."""
        day = wall.date()
        found = self._time_after(wall.hour, wall.minute, wall.second) if self._has(day) else None
        if found is None:
            day = self._day_after(day)
            found = time(self.hours[0], self.minutes[0], self.seconds[0])
        return datetime.combine(day, found)

    def before(self, wall: datetime) -> datetime:
        """Return the last one strictly before the given one."""
        day = wall.date()
        found = self._time_before(wall.hour, wall.minute, wall.second) if self._has(day) else None
        if found is None:
            day = self._day_before(day)
            found = time(self.hours[-1], self.minutes[-1], self.seconds[-1])
        return datetime.combine(day, found)

    def _has(self, day: date) -> bool:
        return day.month in self.sim.months and self.sim.match_day(day)

    def _time_after(self, hour: int, minute: int, second: int) -> time | None:
        hours, minutes, seconds = self.hours, self.minutes, self.seconds
        if hour in self.sim.hours:
            if minute in self.sim.minutes and second < seconds[-1]:
                return time(hour, minute, seconds[bisect_right(seconds, second)])
            if minute < minutes[-1]:
                return time(hour, minutes[bisect_right(minutes, minute)], seconds[0])
        if hour < hours[-1]:
            return time(hours[bisect_right(hours, hour)], minutes[0], seconds[0])
        return None

    def _time_before(self, hour: int, minute: int, second: int) -> time | None:
        hours, minutes, seconds = self.hours, self.minutes, self.seconds
        if hour in self.sim.hours:
            if minute in self.sim.minutes and second > seconds[0]:
                return time(hour, minute, seconds[bisect_left(seconds, second) - 1])
            if minute > minutes[0]:
                return time(hour, minutes[bisect_left(minutes, minute) - 1], seconds[-1])
        if hour > hours[0]:
            return time(hours[bisect_left(hours, hour) - 1], minutes[-1], seconds[-1])
        return None

    def _day_after(self, day: date) -> date:
        day += _ONE_DAY
        while not self._has(day):
            if day.month in self.sim.months:
                day += _ONE_DAY
            else:
                day = (day.replace(day=28) + 4 * _ONE_DAY).replace(day=1)
        return day

    def _day_before(self, day: date) -> date:
        day -= _ONE_DAY
        while not self._has(day):
            day = (day if day.month in self.sim.months else day.replace(day=1)) - _ONE_DAY
        return day


def _fields(expression: str) -> tuple[str, tuple[str, ...]]:
    if not isinstance(expression, str):
        raise BadOption("cron", f"{expression!r} is not an expression such as '0 3 * * *'")
    if len(expression) > MAX_LENGTH:
        raise BadOption("cron", f"the expression has more than {MAX_LENGTH:,} characters")
    text = expression.strip()
    plain = _expand(text) if text.startswith("@") else text
    parts = plain.split()
    if len(parts) not in (5, 6):
        raise BadOption(
            "cron",
            f"{text[:100]!r} has {len(parts)} fields; give five (minute, hour, day of month, "
            "month, day of week), or six with the second first",
        )
    given = parts if len(parts) == 6 else ["0", *parts]
    fields = tuple(
        ",".join(_part(f, part, text) for part in value.split(","))
        for f, value in zip(_FIELDS, given, strict=True)
    )
    return text, fields


def _expand(text: str) -> str:
    known = ALIASES.get(text.lower())
    if known is not None:
        return known
    if text.lower() == "@reboot":
        raise BadOption("cron", "'@reboot' is no time: schedules live longer than a machine")
    if text.lower().startswith("@every"):
        raise BadOption("cron", f"{text!r} is an interval: give it as interval= instead")
    raise BadOption("cron", f"there is no {text!r}, but {', '.join(ALIASES)}")


def _part(f: _Field, part: str, text: str) -> str:
    """One item of a field's list, in the words that cronsim knows."""
    upper = part.upper()
    if f is _DAY and upper in ("L", "LW"):
        return upper
    if f is _WEEKDAY and (nth := _NTH.fullmatch(upper)):
        day = f.number(nth["day"])
        if day is not None:
            return f"{day}L" if nth["last"] else f"{day}#{nth['nth']}"
    shape = _PART.fullmatch(upper)
    if shape is None:
        raise _bad(f, part, text, _forms(f))
    step = _step_width(f, part, shape["step"], text)
    if shape["first"] == "*":
        if shape["last"]:
            raise _bad(f, part, text, "a range is between two values")
        return part
    first = _number(f, shape["first"], part, text)
    if shape["last"] is None:
        return f"{first}/{step}" if shape["step"] else f"{first}"
    last = _number(f, shape["last"], part, text)
    if first == last:
        return f"{first}"  # to cronsim 5-5/2 is 5/2, which runs to the end
    if first < last:
        return f"{first}-{last}/{step}" if step > 1 else f"{first}-{last}"
    if not {shape["first"], shape["last"]} <= set(f.names):
        raise _bad(f, part, text, "the range runs backwards")
    # FRI-MON and NOV-FEB go round the end, which cronsim does not.
    around = [*range(first, f.low + f.count), *range(f.low, last + 1)]
    return ",".join(map(str, around[::step]))


def _number(f: _Field, value: str, part: str, text: str) -> int:
    number = f.number(value)
    if number is None:
        raise _bad(f, part, text, _forms(f))
    return number


def _step_width(f: _Field, part: str, given: str | None, text: str) -> int:
    if given is None:
        return 1
    if not (given.isdigit() and len(given) <= 4 and int(given) > 0):
        raise _bad(f, part, text, "a step is a whole number from 1 on")
    if int(given) > f.count:
        # */90 for minutes would mean "at minute 0", which nobody who writes it wants.
        raise _bad(f, part, text, f"the field has {f.count} values, so the step is too long")
    return int(given)


def _forms(f: _Field) -> str:
    names = f" or {f.names[0]} to {f.names[-1]}" if f.names else ""
    last = {"day of month": ", L or LW", "day of week": ", or such as FRIL and MON#2"}
    return f"it takes {f.low} to {f.high}{names}{last.get(f.name, '')}"


def _bad(f: _Field, part: str, text: str, why: str) -> BadOption:
    return BadOption("cron", f"{f.name} {part[:60]!r} in {text[:100]!r} is not valid: {why}")


def _never(text: str) -> str:
    day, month, weekday = text.split()[-3:]
    if weekday == "*":
        return f"{text!r} never fires: day of month {day!r} does not come in month {month!r}"
    return (
        f"{text!r} never fires: no date has day of month {day!r}, month {month!r} and "
        f"day of week {weekday!r} at once"
    )
