"""Threads for sync handlers: daemons, so that a stubborn handler cannot keep the process alive."""

import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Work = tuple[contextvars.Context, Callable[[], Any], Callable[[Any], None]]


class Threads:
    """At most ``most`` threads, started when first needed; each runs one call at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(
        self, call: Callable[[], T], then: Callable[[T], None], context: contextvars.Context
    ) -> bool:
        """Run a call in a thread, and then, in that thread, tell what it returned; neither may
        raise. Whoever hears of the end may submit the next: the thread is free by then.

        Returns whether there is one thread more. Raises RuntimeError or MemoryError where all are
        busy and the machine gives us no other.
        """
        with self._lock:
            grown = self._idle <= 0 and self._threads < self._most
            if grown:
                self._grow()
            else:
                self._idle -= 1  # below nothing: so many wait for those there are
        self._queue.put((context, call, then))
        return grown

    def close(self) -> None:
        """Let the threads end once they are idle."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _grow(self) -> None:
        name = f"windlass-handler-{self._threads + 1}"
        threading.Thread(target=self._run, name=name, daemon=True).start()
        self._threads += 1

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            if work is None:
                return
            context, call, then = work
            end = context.run(call)
            with self._lock:
                self._idle += 1
            then(end)
            # Let go of the run before waiting for the next: its input may be large.
            del work, context, call, then, end
