"""Ends that the store tripped over, for no reason that lies in them as far as anybody knows.

An end that travels with others makes the store refuse them too, and the claim that goes with them.
So each of these goes alone, without a claim, at growing intervals, until it is recorded or its
worker ends. It is not given up before: its lease would pass to another, who would do the work
again, only to trip over the same stone.
"""

from collections import deque

from windlass.domain.run import Finish

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Troubled:
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
