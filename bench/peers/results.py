"""What was measured, and what follows from it: medians over the rounds, and ratios to Windlass.

A ratio is taken within each round, where both ran minutes apart on the same machine, and the median
of these is shown. It is above 1 where Windlass is ahead, for rates and for latencies alike.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bench.peers.catalogue import OURS, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One entry in one round: rates per second, latencies in milliseconds."""

    drain: float | None = None
    bulk: float | None = None  # none: the peer has no call for many runs
    single: float | None = None
    p50: float | None = None
    p99: float | None = None

    def __str__(self) -> str:
        values = ((name, getattr(self, name)) for name in NAMES)
        return ", ".join(f"{name} {number(value)}" for name, value in values)


NAMES = tuple(each.name for each in fields(Figures))
LATENCIES = frozenset({"p50", "p99"})


@dataclass(frozen=True, slots=True)
class Ratio:
    """How far Windlass is ahead of a peer: the median over the rounds, and the extremes."""

    median: float
    low: float
    high: float


@dataclass(slots=True)
class Line:
    """All that is known of one entry; None stands for a round that it did not finish."""

    entry: Entry
    runs: int
    rounds: list[Figures | None]
    packages: Sequence[str] = ()
    failure: str = ""

    @property
    def few(self) -> bool:
        """Whether the drain is too short: its first fetch, which takes no time, is a tenth."""
        return self.runs < 10 * self.entry.peer.fetch

    def median(self, name: str) -> float | None:
        """The middle of a figure over the rounds that have it."""
        found = [value for _, value in self.values(name)]
        return statistics.median(found) if found else None

    def values(self, name: str) -> Iterator[tuple[int, float]]:
        """A figure in each round that has it."""
        for number, figures in enumerate(self.rounds):
            value = None if figures is None else getattr(figures, name)
            if value is not None:
                yield number, value


@dataclass(slots=True)
class Results:
    """Every entry of a race."""

    lines: list[Line]
    about: dict[str, Any] = field(default_factory=dict)

    def ours(self, line: Line) -> Line | None:
        """Windlass on the same store, or on its first if it does not know that store."""
        mine = [each for each in self.lines if each.entry.peer.name == OURS]
        same = [each for each in mine if each.entry.store == line.entry.store]
        return next(iter(same or mine), None)

    def ratio(self, line: Line, name: str) -> Ratio | None:
        """How far Windlass is ahead in a figure, from the rounds that have both."""
        mine = self.ours(line)
        if mine is None or mine is line:
            return None
        ours = dict(mine.values(name))
        found = [_ahead(ours[at], value, name) for at, value in line.values(name) if at in ours]
        return Ratio(statistics.median(found), min(found), max(found)) if found else None

    def to_json(self) -> dict[str, Any]:
        """Everything, for `--json`."""
        return {**self.about, "entries": [self._entry(line) for line in self.lines]}

    def _entry(self, line: Line) -> dict[str, Any]:
        ratios = {name: self.ratio(line, name) for name in NAMES}
        return {
            "name": line.entry.peer.name,
            "store": line.entry.store,
            "runs": line.runs,
            "too_few_runs": line.few,
            "failure": line.failure or None,
            "median": {name: line.median(name) for name in NAMES},
            "windlass_ahead": {name: asdict(ratio) for name, ratio in ratios.items() if ratio},
            "rounds": [asdict(each) if each else None for each in line.rounds],
            "packages": list(line.packages),
        }


def _ahead(ours: float, theirs: float, name: str) -> float:
    return theirs / ours if name in LATENCIES else ours / theirs


def number(value: float | None) -> str:
    """Three digits that matter."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
