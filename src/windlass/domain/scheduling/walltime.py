"""From local times to instants: what happens to a schedule when the clocks change.

A cron expression is a set of local times ("walls"): what a clock on the wall shows. A zone turns
them into instants, and twice a year that is no one-to-one matter. The rules, as published:

- A local time that is *skipped* (the clocks go forward) fires once, at the first instant after
  the gap. Several skipped times, and one that is due at that instant anyway, make one slot.
- A local time that happens *twice* (the clocks go back) fires once, the first time.
- What runs in every hour follows real time: nothing was missed, so nothing is made up, and both
  of the repeated hours count. What names hours but has a wildcard for minutes keeps its even
  spacing through both repeated hours as well.
- A gap of more than three hours is no clock change but a calendar's: on the day that Samoa left
  out in 2011 nothing was due, and nothing is made up.

Every function here walks from one *segment*, a stretch of time with one offset, to the next.
Within a segment a wall is an instant plus the offset and nothing can go wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias

SECOND = timedelta(seconds=1)
LONGEST_GAP = timedelta(hours=3)
"""The longest gap whose local times are made up, as in Debian's cron."""

# How far to look for a change of offset at a time. No zone has changed its offset twice within
# six days since 1906, so comparing both ends is enough; and no change exceeds a day, so walls and
# instants that are farther apart than this cannot change places.
_LOOK = timedelta(days=3)

Walls: TypeAlias = Callable[[datetime], datetime]
"""Gives the wall (naive, whole seconds) that comes next, strictly after or before the given one."""


@dataclass(frozen=True, slots=True)
class Changes:
    """How a schedule takes a change of the clocks.

    `makes_up`: what a gap skipped fires once after it. `repeats`: what happens twice fires twice.
    """

    makes_up: bool
    repeats: bool


def next_instant(walls: Walls, after: datetime, zone: tzinfo, changes: Changes) -> datetime:
    """Return the first instant after the given one, in UTC, at which a wall is due.

    `walls` gives the next one. Raises OverflowError when the calendar ends first.
    """
    instant = _whole_second(after)
    if (fixed := zone.utcoffset(None)) is not None:
        return walls(_wall(instant, fixed)).replace(tzinfo=UTC) - fixed
    offset = _offset(instant, zone)
    wall = _wall(instant, offset)
    if not changes.repeats and (start := _second_pass(instant, zone)) is not None:
        # These walls have been: go on where the clock stood when it was put back.
        wall = _wall(start - SECOND, _offset(start - SECOND, zone))
    while True:
        found = walls(wall)
        due = found.replace(tzinfo=UTC) - offset
        change = _first_change(instant, min(due, instant + _LOOK), zone)
        if change is None:
            if due - instant <= _LOOK:
                return due
            instant = due - _LOOK  # nothing lies between, whatever the offsets there
            offset = _offset(instant, zone)
            wall = _wall(instant, offset)
            continue
        before, offset, instant = offset, _offset(change, zone), change
        if changes.makes_up and found < _wall(change, offset) and offset - before <= LONGEST_GAP:
            return change
        wall = _wall(change, offset if changes.repeats else max(before, offset)) - SECOND


def previous_instant(walls: Walls, at: datetime, zone: tzinfo, changes: Changes) -> datetime:
    """Return the last instant up to and including the given one at which a wall was due.

    `walls` gives the previous one. Raises OverflowError when the calendar begins first.
    """
    instant = _whole_second(at)
    if (fixed := zone.utcoffset(None)) is not None:
        return walls(_wall(instant, fixed) + SECOND).replace(tzinfo=UTC) - fixed
    while True:
        offset = _offset(instant, zone)
        found = walls(_wall(instant, offset) + SECOND)
        due = found.replace(tzinfo=UTC) - offset
        change = _first_change(max(due, instant - _LOOK), instant, zone)
        if change is not None:
            before = _offset(change - SECOND, zone)
            skipped = found >= _wall(change, before) and offset - before <= LONGEST_GAP
            if changes.makes_up and skipped:
                return change
            instant = change - SECOND
        elif instant - due > _LOOK:
            instant = due + _LOOK  # nothing lies between, whatever the offsets there
        elif not changes.repeats and (start := _second_pass(due, zone)) is not None:
            instant = start - SECOND
        else:
            return due


def instant_of(wall: datetime, zone: tzinfo) -> datetime:
    """Return when a clock first shows this naive local time, or the end of the gap that hides it.

    >>> from zoneinfo import ZoneInfo
    >>> instant_of(datetime(2025, 3, 30, 2, 30), ZoneInfo("Europe/Berlin")).isoformat()
    '2025-03-30T01:00:00+00:00'
    """
    after, before = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    if after < before:  # by the offset after a gap the clock is not there yet, by the other past it
        return _first_change(_whole_second(after), _whole_second(before), zone) or before
    return before


def _whole_second(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(microsecond=0)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    if offset is None:
        raise ValueError(f"{zone!r} is no time zone: it has no offset")
    return offset


def _wall(instant: datetime, offset: timedelta) -> datetime:
    return (instant + offset).replace(tzinfo=None)


def _second_pass(instant: datetime, zone: tzinfo) -> datetime | None:
    """When the clock was put back, if it shows at this instant what it has shown before."""
    if instant.astimezone(zone).fold == 0:
        return None
    return _first_change(instant - _LOOK, instant, zone)


def _first_change(after: datetime, until: datetime, zone: tzinfo) -> datetime | None:
    """The second at which the offset changes; both times are at most `_LOOK` apart."""
    offset = _offset(after, zone)
    if until <= after or _offset(until, zone) == offset:
        return None
    low, high = after, until
    while high - low > SECOND:
        middle = low + (high - low) // (2 * SECOND) * SECOND
        if _offset(middle, zone) == offset:
            low = middle
        else:
            high = middle
    return high
