"""When the machine has no thread, process or descriptor to give for an attempt.

The run has not failed: its handler was never called. It goes back to its queue, uncounted, where a
worker elsewhere may take it. Its lane goes on with as many seats as have something to run in, so
less is claimed here; after a pause it gets one seat more, which asks the machine again. What the
machine gives opens the next seat at once; the pauses grow as long as it refuses, up to ten seconds.

A suspect that finds no child process leaves its lane as it is, where others run without one: only
the place of a suspect stays empty for the pause.

The first refusal of a series is logged, and its end, when all seats are open again.
"""

import asyncio
from collections.abc import Callable

from windlass.engine.lanes import Lane
from windlass.logs import steady_log

log = steady_log(__name__)

REFUSALS = (OSError, RuntimeError, MemoryError)
"""How Python tells of it: "can't start new thread" is a RuntimeError."""

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 10.0


class NotGiven(Exception):
    """There is nothing to run an attempt in."""


class Scarcity:
    """Knows whether the machine gives one kind of thing, and how many seats there is one for."""

    def __init__(self, kind: str, advice: str, resume: Callable[[Lane], None]) -> None:
        """`resume` is called when a lane has got a seat more."""
        self._kind = kind
        self._advice = advice
        self._resume = resume
        self._loop = asyncio.get_running_loop()
        self._pause = 0.0  # nothing: the machine gives
        self._until = 0.0
        self._closed: set[Lane] = set()  # lanes whose pause is not over

    def refused(self, error: BaseException) -> float:
        """There was none; returns the seconds until it is worth asking again."""
        if not self._pause:
            extra = {"error": str(error) or type(error).__name__, "advice": self._advice}
            what = "no %s to be had: runs go back uncounted, and fewer are claimed"
            log.error(what, self._kind, extra=extra)
        now = self._loop.time()
        if now >= self._until:  # what was refused together waits as long
            self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._until = now + self._pause
        return self._pause

    def close_seat(self, lane: Lane, error: BaseException) -> None:
        """There was none for a seat of this lane, which is given up."""
        lane.close_seat()
        pause = self.refused(error)
        if lane not in self._closed:
            self._closed.add(lane)
            self._loop.call_later(pause, self._ask_again, lane)

    def given(self, lane: Lane) -> None:
        """There was a new one."""
        if lane.limit is not None:
            self._open_seat(lane)
        if lane.limit is None and self._pause:
            self._pause = self._until = 0.0
            log.info("%s to be had again", self._kind)

    def _ask_again(self, lane: Lane) -> None:
        self._closed.discard(lane)
        self._open_seat(lane)

    def _open_seat(self, lane: Lane) -> None:
        """Let the lane have one more than it uses."""
        if lane.limit is not None:
            lane.open_seat()
            self._resume(lane)
