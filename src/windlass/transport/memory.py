"""Run ids through this process's memory: for one process, for tests, and as the pattern."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Sequence


class MemoryTransport:
    """A queue in memory. What is in it when the process dies is sent again by the sweep."""

    pulls = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: deque[bytes] = deque()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def publish(self, messages: Sequence[bytes]) -> None:
        """Queue the messages and wake whoever waits."""
        with self._lock:
            self._messages.extend(messages)
            waiting = list(self._waiting)
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # that loop has closed
                loop.call_soon_threadsafe(event.set)

    async def receive(self, limit: int) -> Sequence[bytes]:
        """Wait until there is something, and take it."""
        event = asyncio.Event()
        me = (asyncio.get_running_loop(), event)
        with self._lock:
            self._waiting.append(me)
        try:
            while True:
                taken = self._take(limit)
                if taken:
                    return taken
                await event.wait()
                event.clear()
        finally:
            with self._lock:
                self._waiting.remove(me)

    async def close(self) -> None:
        """Nothing to stop."""

    def _take(self, limit: int) -> list[bytes]:
        with self._lock:
            return [self._messages.popleft() for _ in range(min(limit, len(self._messages)))]
