"""Lanes: the seats of one executor, and which runs to ask the store for.

A worker has one lane per executor (the loop, the threads, child processes), so that slow handlers
of one kind never take the seats of another. A lane knows what it may claim: its free seats, plus a
little ahead where handlers are so quick that a round trip to the store would leave the seats
empty.

Where to look in a queue (`Want.after`, `Want.window`) follows three rules:

- A *deep* claim starts behind the last key this lane took. It is for saturation: it steps over
  index entries of runs that are gone already. It may miss what sorts before its mark (an urgent
  run, a late commit), so
- a *head* claim looks from the start of the queue, over a bounded window: several times a second
  under saturation, and whenever a deep claim came back short.
- A *full* claim has neither mark nor window. It is what finds a run behind thousands of runs of
  jobs that this worker does not know; it may be slow there, so it is done at most once a second.
"""

from collections import deque
from enum import Enum, auto

from windlass.domain.job import Executor
from windlass.domain.run import CycleReply, Mark, Want
from windlass.engine.holdings import Holding

BATCH = 500
_AHEAD_SECONDS = 0.1
_AHEAD_LEAST = 16
_HEAD_EVERY = 0.25
_FULL_EVERY = 1.0
_PASS_UNKNOWN = 1000


class Reach(Enum):
    """How far a claim looks."""

    DEEP = auto()
    HEAD = auto()
    FULL = auto()


class Lane:
    """Seats of one executor, and the runs that wait for one."""

    def __init__(
        self, executor: Executor, seats: int, jobs: tuple[str, ...], queues: tuple[str, ...] | None
    ) -> None:
        self.executor = executor
        self.seats = seats
        self.jobs = jobs
        self.queues = queues
        self.running = 0
        self.ends = 0  # how often a seat became free
        self.asked = 0  # seats promised to claims on their way
        self.waiting: deque[Holding] = deque()
        self.hungry = False  # whether there may be something to claim
        self._marks: dict[str, Mark] = {}
        self._turn = 0
        self._next_head = 0.0
        self._next_full = 0.0
        self._tempo = Tempo()

    def ended(self, now: float) -> None:
        """A seat became free."""
        self.running -= 1
        self.ends += 1
        self._tempo.count(now)

    def calm(self) -> None:
        """What was taken ahead found no seat: look ahead no more until the pace is known anew."""
        self._tempo = Tempo()

    def room(self, now: float) -> int:
        """How many runs may be claimed now."""
        ahead = self._tempo.rate(now) * _AHEAD_SECONDS
        ahead = min(int(ahead), 3 * BATCH) if ahead >= _AHEAD_LEAST else 0
        free = self.seats + ahead - self.running - len(self.waiting) - self.asked
        return max(0, min(free, BATCH))

    def reach(self, now: float) -> Reach:
        """How far the next claim should look."""
        if self._marks and now < self._next_head:
            return Reach.DEEP
        if now >= self._next_full:
            return Reach.FULL
        return Reach.HEAD

    def want(self, limit: int, reach: Reach, now: float) -> Want:
        """Ask for runs from the queues, starting with another one each time."""
        if reach is not Reach.DEEP:
            self._next_head = now + _HEAD_EVERY
        if reach is Reach.FULL:
            self._next_full = now + _FULL_EVERY
        return Want(
            limit=limit,
            jobs=self.jobs,
            queues=self._rotated(),
            after=self._marks if reach is Reach.DEEP else {},
            window=_PASS_UNKNOWN + limit if reach is Reach.HEAD else None,
        )

    def answered(self, reply: CycleReply, limit: int, reach: Reach, now: float) -> None:
        """Learn from a claim: was that all there is?"""
        self._marks = reply.marks if reach is not Reach.DEEP else {**self._marks, **reply.marks}
        short = len(reply.claimed) < limit
        if short and reach is Reach.DEEP:
            self._next_head = 0.0  # look at the head before believing that it is empty
        elif short:
            # A short look at the head may have met a wall of unknown or locked runs.
            self.hungry = reach is Reach.HEAD and now >= self._next_full

    def _rotated(self) -> tuple[str, ...] | None:
        if self.queues is None or len(self.queues) < 2:
            return self.queues
        self._turn = (self._turn + 1) % len(self.queues)
        return self.queues[self._turn :] + self.queues[: self._turn]


class Tempo:
    """Runs per second, over about the last tenth of a second."""

    _SPAN = 0.1

    def __init__(self) -> None:
        self._rate = 0.0
        self._count = 0
        self._since = 0.0

    def rate(self, now: float) -> float:
        """The pace; after a silence the old one says nothing about the next moments."""
        return self._rate if now - self._since < 2 * self._SPAN else 0.0

    def count(self, now: float) -> None:
        """One more has ended."""
        self._count += 1
        elapsed = now - self._since
        if elapsed >= self._SPAN:
            self._rate = self._count / elapsed if elapsed < 10 * self._SPAN else 0.0
            self._count = 0
            self._since = now
