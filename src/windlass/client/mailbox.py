"""Where the events for one listener wait until it takes them; two threads share it.

The tail puts in, the listener takes out: in any thread, or on any loop. It holds a bounded number.
Who closes it for a reason lets the listener have what is there, and then raises the reason.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

from windlass.domain.envelope import Event
from windlass.errors import WindlassError

TAKEN = 500  # events at once


class Mailbox:
    """Events of one listener, in order."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()
        self._reason: BaseException | None = None
        self._ring: Callable[[], object] | None = None  # tells a waiter on a loop, from any thread

    @property
    def room(self) -> int:
        """How many more it can hold."""
        return self.limit - len(self._events)

    def put(self, events: Sequence[Event]) -> None:
        """Add events; whoever waits for some is woken."""
        with self._changed:
            self._events.extend(events)
            self._wake()

    def close(self, reason: BaseException) -> None:
        """Add nothing more: what is there is taken, and then the reason is raised."""
        with self._changed:
            self._reason = self._reason or reason
            self._wake()

    def take(self) -> Sequence[Event]:
        """Wait until there is something; blocks. Raises the reason why nothing more comes."""
        with self._changed:
            while not self._events and self._reason is None:
                self._changed.wait()
            return self._taken(TAKEN)

    async def atake(self) -> Sequence[Event]:
        """As :meth:`take`, on the loop."""
        return await self._atake(TAKEN)

    async def atake_one(self) -> Event:
        """The next event, on the loop; the others stay here."""
        return (await self._atake(1))[0]

    def take_all(self) -> Sequence[Event]:
        """What is there now, and no waiting."""
        with self._changed:
            left = list(self._events)
            self._events.clear()
            return left

    async def _atake(self, most: int) -> Sequence[Event]:
        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        while True:
            with self._changed:
                if self._events or self._reason is not None:
                    return self._taken(most)
                there.clear()
                self._ring = lambda: loop.call_soon_threadsafe(there.set)
            await there.wait()

    def _taken(self, most: int) -> Sequence[Event]:
        if not self._events and self._reason is not None:
            reason = self._reason
            raise reason if not isinstance(reason, WindlassError) else _again(reason)
        return [self._events.popleft() for _ in range(min(most, len(self._events)))]

    def _wake(self) -> None:
        self._changed.notify_all()
        ring, self._ring = self._ring, None
        if ring is not None:
            try:
                ring()
            except RuntimeError:
                return  # its loop is closed: nobody waits any more


def _again(error: WindlassError) -> WindlassError:
    """The same error anew: several listeners may raise it, each with a traceback of its own."""
    return type(error)(*error.args)
