"""How far a run is: what its handler told last, and what people are shown of it.

A run has one row of progress, and the latest word counts. It is written at most once a second
(`gauge.py`), so a row says what was true when it was written, `at`. What `ctx.progress` gives is a
fraction and a message; units and phases are in the `Detail` beside them.
"""

from collections import deque

import msgspec

from windlass.duration import format_duration
from windlass.errors import BadOption

MOST_UNITS = 2**53
"""The greatest count that every JSON reader has exactly."""

_WINDOW = 30.0  # seconds of which a rate is the average


class Units(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Pieces of work: how many went well, how many failed, how many there are if that is known.

    >>> str(Units(done=410, failed=2, total=1000, rate=35.0))
    '412 of 1,000 units, 2 failed, 35/s, 17 s left'
    """

    done: int = 0
    failed: int = 0
    total: int | None = None
    rate: float | None = None
    """Units a second, by the latest half minute; None until two counts tell."""

    @property
    def processed(self) -> int:
        """How many are over, one way or the other."""
        return self.done + self.failed

    @property
    def left(self) -> float | None:
        """Seconds until all are over, at this rate; None if that cannot be said."""
        if self.total is None or not self.rate:
            return None
        return (self.total - self.processed) / self.rate

    def __str__(self) -> str:
        """A line for people."""
        of = "" if self.total is None else f" of {self.total:,}"
        parts = [f"{self.processed:,}{of} unit{'' if (self.total or self.processed) == 1 else 's'}"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.rate is not None and self.processed != self.total:
            parts.append(_rate_text(self.rate))
            if self.left is not None:
                parts.append(f"{format_duration(max(1, round(self.left)))} left")
        return ", ".join(parts)


class Detail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told beside the fraction and the message."""

    units: Units | None = None
    phases: tuple[str, ...] = ()
    """The names of the run's phases, in order, as its code has them; none if it has no phases."""
    place: int = 0
    """Which of them it is in, from 0."""
    own: float | None = None
    """The progress of that phase by itself; the row's fraction is that of the run."""
    took: float = 0.0
    """Seconds for which this attempt has been in it, when the row was written."""


class Pace:
    """How many units a second: by the counts of the latest half minute.

    >>> pace = Pace()
    >>> [pace.add(at, count) for at, count in ((0.0, 100), (1.0, 135), (2.0, 170))]
    [None, 35.0, 35.0]
    """

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, at: float, count: int) -> float | None:
        """Take a count, `at` seconds of a clock that only goes on; returns the rate by now."""
        samples = self._samples
        if samples and count < samples[-1][1]:
            samples.clear()  # it counts something else now
        samples.append((at, count))
        while len(samples) > 2 and samples[1][0] <= at - _WINDOW:
            samples.popleft()
        (first, before), (last, after) = samples[0], samples[-1]
        return (after - before) / (last - first) if last > first else None


def check_fraction(value: object) -> float | None:
    """A part of one, or None. Raises BadOption."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise BadOption("fraction", f"{value!r} is not a number from 0 to 1")


def check_units(known: Units, done: object, failed: object, total: object) -> Units:
    """What is known of a run's units, with what was just told. Raises BadOption."""
    if done is None and failed is None and total is None:
        raise BadOption("units", "give at least one of done, failed and total")
    found = Units(
        done=known.done if done is None else _count("done", done),
        failed=known.failed if failed is None else _count("failed", failed),
        total=known.total if total is None else _count("total", total),
    )
    if found.total is not None and found.processed > found.total:
        both = f"{found.done:,} done and {found.failed:,} failed"
        raise BadOption("units", f"{both} are more than the total of {found.total:,}")
    return found


def _count(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_UNITS:
        return int(value)
    raise BadOption(name, f"{value!r} is not a count: a whole number from 0 on")


def _rate_text(rate: float) -> str:
    """A rate in words: `35/s`, or `4/min` for what is slower than one a second."""
    if rate >= 1 or not rate:
        return f"{rate:,.0f}/s" if rate >= 10 or not rate else f"{rate:.2g}/s"
    return f"{rate * 60:.2g}/min" if rate * 60 >= 1 else f"{rate * 3600:.2g}/h"
