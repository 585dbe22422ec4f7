"""Ends that the pump sends again. As far as anybody knows, nothing is wrong with them.

The store failed on some (:class:`FailedEnds`). If such an end travels with others, the store
refuses the others too, and the claim of that trip. So each of these goes alone, without a claim, at
growing intervals, until it is recorded or its worker ends. The worker does not give it up before
that: another worker would take the lease, do the work again, and meet the same failure.

For others, somebody has locked the lease (:class:`LockedEnds`), for example by a cancel that is not
committed yet. The store skips them, so they can travel with the others, again and again.
"""

from collections import deque
from collections.abc import Sequence

from windlass.domain.run import Finish, Held

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_FIRST_BUSY = 0.02  # most locks are held for the time of a call
_LONGEST_BUSY = 1.0


class FailedEnds:
    """A queue of single ends, and when to try the next of them."""

    def __init__(self) -> None:
        self._ends: deque[Finish] = deque()
        self._pause = _FIRST_PAUSE
        self._resume_at = 0.0

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, finish: Finish, now: float) -> float:
        """Keep an end that was refused just now; the seconds until the next try."""
        self._ends.append(finish)
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        self._resume_at = now + pause
        return pause

    def next(self, now: float) -> Finish | None:
        """One that may be tried now."""
        return self._ends.popleft() if self._ends and now >= self._resume_at else None

    def recorded(self) -> None:
        """One of them was: the others need not wait."""
        self._pause = _FIRST_PAUSE
        self._resume_at = 0.0


class LockedEnds:
    """Ends whose lease somebody has locked, and when to send each again."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, Finish]] = []
        self._pauses: dict[Held, float] = {}  # the next pause of each that was ever here

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def unsettled(self) -> bool:
        """Whether there was one that is neither recorded nor lost yet."""
        return bool(self._pauses)

    def add(self, finish: Finish, now: float) -> float:
        """Keep an end; the seconds until its next try."""
        held = Held(finish.tenant, finish.id, finish.token)
        pause = self._pauses.get(held, _FIRST_BUSY)
        self._pauses[held] = min(pause * 2, _LONGEST_BUSY)
        self._ends.append((now + pause, finish))
        return pause

    def due(self, now: float) -> Sequence[Finish]:
        """Those that may be tried now."""
        if not self._ends:
            return ()
        due = [finish for at, finish in self._ends if at <= now]
        self._ends = [(at, finish) for at, finish in self._ends if at > now]
        return due

    def settled(self, held: Held) -> None:
        """It was recorded, or is lost."""
        if self._pauses:
            self._pauses.pop(held, None)
