"""How a worker is told to stop, and how its process ends whatever handlers do.

- The first SIGTERM or SIGINT asks. Before there is a worker that could be asked the process ends on
  the spot, with 0: nothing was claimed. It does not end by an exception: that would be raised
  between any two instructions of whatever is being imported, which may catch it, or turn it into
  another. Once there is a worker, it drains.
- A later one insists: the process ends on the spot, and its leases run out. Process managers
  often pass Ctrl-C on to children that the terminal has told already: a second signal right
  after the first is that, and not impatience. A process under a supervisor may hear of one request
  twice, at any distance on a busy machine: from the supervisor, and from whoever tells the whole
  group. So there only the supervisor insists, by SIGKILL.
- At the very end, when Python takes its handlers away, signals are ignored: the work is done, and
  the exit code says so.
- A thread that cannot be stopped, a coroutine that swallows its cancellation, a library that
  blocks at exit: none of them may keep a process alive whose work is done. Hence the alarm.

The handlers are Python's own, not the event loop's: those would wait for the very handler that
blocks the loop.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType
from typing import NoReturn

from windlass.process import SIGNALS, take_signals

FAREWELL = 3.0
"""Seconds for what an application does at exit."""
TOGETHER = 0.25
"""Seconds within which two signals are one request."""


class Signals:
    """Turns signals into a stop; made in the main thread, before anything slow."""

    def __init__(self, *, insistent: bool = True) -> None:
        """`insistent`: a second signal ends the process on the spot."""
        self._stop: Callable[[], None] = lambda: leave(0)
        self._insist: Callable[[], None] = lambda: None
        self._insistent = insistent
        self._first: float | None = None
        for number in SIGNALS:
            signal.signal(number, self._received)
        atexit.register(_ignore_signals)  # the first to be registered is the last to be called
        take_signals()

    def then(self, stop: Callable[[], None], insist: Callable[[], None] | None = None) -> None:
        """From now on ask by calling this, in the main thread, between any two instructions;
        `insist` is called before the process ends on the spot."""
        self._stop = stop
        self._insist = insist or (lambda: None)

    def _received(self, number: int, _: FrameType | None) -> None:
        if self._first is None:
            self._first = time.monotonic()
            self._stop()
        elif self._insistent and time.monotonic() - self._first > TOGETHER:
            self._insist()
            leave(128 + number)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class Alarm:
    """Ends the process if it has not ended by itself in time."""

    def __init__(self) -> None:
        # Its thread exists before it is needed: a signal handler cannot start one, lest it wait
        # for a lock that the code it interrupted holds.
        self._orders: SimpleQueue[tuple[float, int]] = SimpleQueue()
        threading.Thread(target=self._watch, name="windlass-alarm", daemon=True).start()

    def set(self, seconds: float, code: int) -> None:
        """End in so many seconds, with this exit code; replaces what was set before."""
        self._orders.put((seconds, code))

    def _watch(self) -> None:
        seconds, code = self._orders.get()
        while True:
            try:
                seconds, code = self._orders.get(timeout=seconds)
            except Empty:
                leave(code)


def leave(code: int) -> NoReturn:
    """End the process now, whatever else runs in it."""
    logs = sys.modules.get("windlass.logs")  # not imported for that
    if logs is not None:
        logs.rescue()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, RuntimeError):  # closed, or busy writing
            continue
    os._exit(code)
