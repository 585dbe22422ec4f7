"""How many runs there are, by status, queue or job.

A store counts exactly up to a limit. Beyond it PostgreSQL estimates, and says so: to count a
million rows takes a second, and nobody reads the last digit. SQLite counts all.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from windlass.domain.pause import PauseKind, WorkPause
from windlass.domain.states import Status

MOST_COUNTED = 10_000  # rows of each status, before PostgreSQL estimates


class By(StrEnum):
    """What runs are counted by."""

    STATUS = "status"
    QUEUE = "queue"  # live and dead runs; succeeded ones are counted by status only
    JOB = "job"


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """The number of runs with one status and one name: a queue's, a job's, or the status' own."""

    name: str
    status: Status
    count: int
    exact: bool = True


class Counts(Mapping[str, int]):
    """How many runs there are, by name; `rows` has each status by itself.

    >>> row = Count(name="mail", status=Status.QUEUED, count=3)
    >>> Counts(By.QUEUE, [row])["mail"]
    3
    """

    def __init__(self, by: By, rows: Sequence[Count]) -> None:
        self.by = by
        self.rows = tuple(rows)
        self._sums: dict[str, int] = {}
        for row in rows:
            self._sums[row.name] = self._sums.get(row.name, 0) + row.count

    @property
    def estimated(self) -> frozenset[str]:
        """The names whose numbers are estimates."""
        return frozenset(row.name for row in self.rows if not row.exact)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {"by": self.by.value, "rows": msgspec.to_builtins(self.rows)}

    def __getitem__(self, name: str) -> int:
        return self._sums[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sums)

    def __len__(self) -> int:
        return len(self._sums)

    def __repr__(self) -> str:
        shown = {n: f"~{c}" if n in self.estimated else c for n, c in self._sums.items()}
        return f"Counts({self.by.value}, {shown})"


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that has runs which have not ended, or that is paused."""

    name: str
    ready: int = 0  # its depth: what could be claimed now, unless it is paused
    running: int = 0
    scheduled: int = 0  # not yet due, asleep included
    waiting: int = 0  # for a signal
    paused: int = 0  # runs that are paused themselves
    pause: WorkPause | None = None  # of the whole queue
    exact: bool = True
    oldest_at: datetime | None = None  # since when the oldest has been ready; None: nothing is
    seen_at: datetime

    @property
    def age(self) -> float | None:
        """How long its oldest run has been ready, in seconds."""
        if self.oldest_at is None:
            return None
        return (self.seen_at - self.oldest_at).total_seconds()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown | {"age": self.age}


class QueueAge(msgspec.Struct, frozen=True, kw_only=True):
    """Since when the oldest run of a queue has been ready."""

    queue: str
    oldest_at: datetime | None
    seen_at: datetime


def join_queues(
    counts: Sequence[Count], ages: Sequence[QueueAge], pauses: Sequence[WorkPause] = ()
) -> Sequence[QueueState]:
    """What is known of each queue, the deepest first. The first of `ages` has the time alone."""
    seen_at = ages[0].seen_at
    oldest = {age.queue: age.oldest_at for age in ages[1:]}
    paused = {pause.name: pause for pause in pauses if pause.kind is PauseKind.QUEUE}
    found: dict[str, dict[Status, Count]] = {name: {} for name in (*oldest, *paused)}
    for row in counts:
        if not row.status.finished:
            found.setdefault(row.name, {})[row.status] = row
    states = [
        QueueState(
            name=name,
            ready=_count(by_status, Status.QUEUED),
            running=_count(by_status, Status.RUNNING),
            scheduled=_count(by_status, Status.SCHEDULED),
            waiting=_count(by_status, Status.WAITING),
            paused=_count(by_status, Status.PAUSED),
            pause=paused.get(name),
            exact=all(row.exact for row in by_status.values()),
            oldest_at=oldest.get(name),
            seen_at=seen_at,
        )
        for name, by_status in found.items()
    ]
    return sorted(states, key=lambda state: (-state.ready, state.name))


def _count(by_status: Mapping[Status, Count], status: Status) -> int:
    return by_status[status].count if status in by_status else 0
