"""Threads for sync handlers: daemons, so that a stubborn handler cannot keep the process alive."""

import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue

_Work = tuple[contextvars.Context, Callable[[], None]]


class Threads:
    """At most ``most`` threads, started when first needed; each runs one call at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, call: Callable[[], None], context: contextvars.Context) -> None:
        """Run a call, which must not raise, in a thread.

        Raises RuntimeError where the machine gives us none, and there is none yet.
        """
        with self._lock:
            if self._idle > 0 or not self._grown():
                self._idle -= 1  # below nothing: so many wait for those there are
        self._queue.put((context, call))

    def close(self) -> None:
        """Let the threads end once they are idle."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _grown(self) -> bool:
        """Whether there is one thread more."""
        if self._threads == self._most:
            return False
        name = f"windlass-handler-{self._threads + 1}"
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError:
            if not self._threads:
                raise
            return False
        self._threads += 1
        return True

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            if work is None:
                return
            context, call = work
            context.run(call)
            # Let go of the run before waiting for the next: its input may be large.
            del work, context, call
            with self._lock:
                self._idle += 1
