"""A log handler that writes many lines by one call.

A call of the operating system for each line would cost more than the line. So a line waits for
others, up to a fifth of a second; a warning or an error is written at once, with all that came
before it, and the end of the program (`logging.shutdown`) writes the rest. A line only waits if
somebody is sure to come for it: the event loop that it was logged on. Without one, it is written
at once.

What the process has not written when it is killed is lost: at most the lines of that fifth of a
second, none of which is a problem. Whoever ends a process on the spot calls `rescue` first.
"""

import logging
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

WAIT = 0.2
"""Seconds that a line may wait."""
MOST = 64 * 1024
"""Characters that may wait."""

_PATIENCE = 0.5  # seconds for a lock, when the process must end


class BatchHandler(logging.Handler):
    """Writes lines to a stream, together."""

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        running_loop: "Callable[[], AbstractEventLoop | None] | None" = None,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._clock = clock
        self._running_loop = running_loop or _running_loop
        self._limit = _limit(stream)
        self._process = os.getpid()
        self._lines: list[str] = []
        self._size = 0
        self._loop: AbstractEventLoop | None = None  # which comes for what waits
        self._due = 0.0  # by when

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line; called under the handler's lock."""
        try:
            line = self.format(record) + "\n"
            if os.getpid() != self._process:
                # We are a fork's child: what waits is for the parent to write.
                self._process, self._lines, self._size, self._loop = os.getpid(), [], 0, None
            self._lines.append(line)
            self._size += len(line)
            if record.levelno >= logging.WARNING or self._size >= MOST or not self._may_wait():
                self._write()
        except Exception:  # noqa: BLE001 - told on standard error, as every handler does
            self.handleError(record)

    def flush(self) -> None:
        """Write what waits."""
        self.acquire()
        try:
            if self._lines and os.getpid() == self._process:
                self._write()
        finally:
            self.release()

    def rescue(self) -> None:
        """Write what waits, unless another thread is at it, and stuck."""
        if self.lock is None or not self.lock.acquire(timeout=_PATIENCE):
            return
        try:
            self.flush()
        except (OSError, ValueError, RuntimeError):  # closed, or busy writing
            return
        finally:
            self.lock.release()

    def _may_wait(self) -> bool:
        """Whether somebody will come for the line, and none has waited too long for them."""
        now = self._clock()
        if self._loop is not None and self._loop.is_running():
            if now < self._due:
                return True
            self._due = now + WAIT  # the loop is busy: what it left behind goes with this line
            return False
        loop = self._running_loop()
        if loop is None:
            return False
        loop.call_later(WAIT, self._come)
        self._loop, self._due = loop, now + WAIT
        return True

    def _come(self) -> None:
        self._loop = None
        try:
            self.flush()
        except Exception:  # noqa: BLE001 - as above
            self.handleError(logging.makeLogRecord({"name": __name__, "msg": "log not written"}))

    def _write(self) -> None:
        lines, self._lines, self._size = self._lines, [], 0
        for text in _together(lines, self._limit):
            self._stream.write(text)
            self._stream.flush()


def _running_loop() -> "AbstractEventLoop | None":
    asyncio = sys.modules.get("asyncio")  # without it there is no loop
    if asyncio is None:
        return None
    try:
        loop: AbstractEventLoop = asyncio.get_running_loop()
    except (RuntimeError, AttributeError):  # none, or the module is still being imported
        return None
    return loop


def _together(lines: list[str], limit: int) -> list[str]:
    """The lines, as few texts that are no longer than the limit (unless a line is)."""
    texts, waiting, size = [], list[str](), 0
    for line in lines:
        if waiting and size + len(line) > limit:
            texts.append("".join(waiting))
            waiting, size = [], 0
        waiting.append(line)
        size += len(line)
    return [*texts, "".join(waiting)]


def _limit(stream: TextIO) -> int:
    """How much may be written at once.

    Worker processes may share a pipe: only so much is sure to be written in one piece.
    """
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # no file
        is_pipe = False
    return select.PIPE_BUF if is_pipe else sys.maxsize
