"""Lanes: the seats of one executor, and the runs that wait for one.

A worker has one lane per executor (the loop, the threads, child processes), so that slow handlers
of one kind never take the seats of another. A lane owns its capacity: how many seats it has, how
many of them are taken or promised to claims, and how many the machine has something to run in for.
So it knows how many runs it may claim: its free seats, plus a little ahead where handlers are so
quick that a round trip to the store would leave the seats empty.

Where its claims look for runs is the business of its :class:`~windlass.engine.search.Search`.
"""

from collections import deque
from collections.abc import Sequence

from windlass.domain.job import Executor
from windlass.domain.run import CycleReply
from windlass.engine.holdings import Holding
from windlass.engine.search import Look, Search

_AHEAD_SECONDS = 0.1
_AHEAD_LEAST = 16
_AHEAD_MOST = 3  # batches


class Lane:
    """Seats of one executor, and the runs that wait for one."""

    def __init__(
        self,
        executor: Executor,
        seats: int,
        jobs: tuple[str, ...],
        queues: tuple[str, ...] | None,
        batch: int = 500,
    ) -> None:
        """`batch` is the most that one claim may bring."""
        self.executor = executor
        self._batch = batch
        self.seats = seats
        self.search = Search(jobs, queues)
        self.limit: int | None = None  # how many may run, since the machine refused one more
        self.running = 0
        self.ends = 0  # how often a seat became free
        self.waiting: deque[Holding] = deque()
        self.suspects: deque[Holding] = deque()  # those that wait for a child process
        self._promised = 0  # seats, to claims on their way
        self._tempo = Tempo()

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs whose runs it takes."""
        return self.search.jobs

    @property
    def queues(self) -> tuple[str, ...] | None:
        """The queues that it takes them from; None: all."""
        return self.search.queues

    def serve(self, jobs: tuple[str, ...], seats: int) -> None:
        """Take runs of these jobs from now on."""
        self.seats = seats
        if self.limit is not None:
            self.limit = min(self.limit, seats)
        self.search.start_over(jobs)

    # -- seats ----------------------------------------------------------------------------

    @property
    def has_seat(self) -> bool:
        """Whether one more may start."""
        return self.running < (self.seats if self.limit is None else self.limit)

    def take_seat(self) -> None:
        """One more runs."""
        self.running += 1

    def ended(self, now: float) -> None:
        """A seat became free."""
        self.running -= 1
        self.ends += 1
        self._tempo.count(now)

    def close_seat(self) -> None:
        """Give up a seat that was taken: the machine has nothing to run in it."""
        self.running -= 1
        self.limit = self.running

    def open_seat(self) -> None:
        """Have one seat more than is used, if some were given up; all of them in the end."""
        if self.limit is not None:
            self.limit = max(self.limit, self.running + 1)
            if self.limit >= self.seats:
                self.limit = None

    def clear(self) -> Sequence[Holding]:
        """Let nobody wait any more; returns those who did."""
        waited = [*self.waiting, *self.suspects]
        self.waiting.clear()
        self.suspects.clear()
        return waited

    def calm(self) -> None:
        """What was taken ahead found no seat: look ahead no more until the pace is known anew."""
        self._tempo = Tempo()
        self.waiting = deque(holding for holding in self.waiting if not holding.concluded)

    def room(self, now: float) -> int:
        """How many runs may be claimed now."""
        ahead = self._tempo.rate(now) * _AHEAD_SECONDS
        ahead = min(int(ahead), _AHEAD_MOST * self._batch) if ahead >= _AHEAD_LEAST else 0
        # Suspects that wait for a child leave the seats to others, as long as they are not too
        # many: what is claimed next may be more of them.
        crowd = max(0, len(self.suspects) - self.seats)
        may_run = self.seats + ahead if self.limit is None else self.limit
        free = may_run - self.running - len(self.waiting) - self._promised - crowd
        return max(0, min(free, self._batch))

    # -- claims ---------------------------------------------------------------------------

    def hear(self) -> None:
        """There may be something to claim."""
        self.search.hear()

    def asks(self, now: float) -> bool:
        """Whether there is something to claim, and room for it."""
        return self.search.may_look(now) and self.room(now) > 0

    def asks_again(self, now: float) -> float | None:
        """When its search has rested, if that is what it waits for."""
        until = self.search.rests_until(now)
        return until if until is not None and self.room(now) else None

    def look(self, limit: int, now: float) -> Look:
        """Claim so many; :meth:`settle` must follow, and :meth:`answered` if there is an answer."""
        self._promised += limit
        return self.search.look(limit, now)

    def answered(self, look: Look, reply: CycleReply, now: float) -> None:
        """Learn from the answer to a claim."""
        self.search.answered(look, reply, now)

    def settle(self, look: Look) -> None:
        """A claim was answered or given up."""
        self._promised -= look.want.limit
        self.search.settle(look)


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
