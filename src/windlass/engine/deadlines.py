"""One timer for all deadlines: a heap, and a single call of the loop for the earliest."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from windlass.engine.holdings import Holding

_FEW = 1024


class Deadlines:
    """Calls back for holdings whose time is up and that are not concluded by then."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Holding, Callable[[Holding], None]]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._sift_at = _FEW

    def after(self, seconds: float, holding: Holding, due: Callable[[Holding], None]) -> None:
        """Call ``due(holding)`` in so many seconds, unless it is concluded before."""
        at = self._loop.time() + seconds
        if len(self._heap) >= self._sift_at:
            self._sift()
        heapq.heappush(self._heap, (at, next(self._order), holding, due))
        if self._heap[0][0] == at:
            self._arm()

    def close(self) -> None:
        """Call nobody any more."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _sift(self) -> None:
        """Let go of what is concluded: a short run must not be kept for its long timeout."""
        self._heap = [entry for entry in self._heap if not entry[2].concluded]
        heapq.heapify(self._heap)
        self._sift_at = max(_FEW, 2 * len(self._heap))

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._heap[0][0], self._fire) if self._heap else None

    def _fire(self) -> None:
        now = self._loop.time()
        try:
            while self._heap and (self._heap[0][2].concluded or self._heap[0][0] <= now):
                at, _, holding, due = heapq.heappop(self._heap)
                if not holding.concluded and at <= now:
                    due(holding)
        finally:  # what is wrong with one must not hold up the others
            self._timer = None
            self._arm()
