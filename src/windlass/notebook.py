"""The notebook of one attempt: what its handler logs, until that is written (`domain/runlog.py`).

Whoever logs only adds a line here, in whichever thread. The first line after a write asks for the
next one (`enlist`); whoever writes takes a piece then. The first lines of an attempt are given out
as they come; of those beyond the limit the last ones stay until the attempt is over (`close`).

A line is made when it is logged, but for what was given as `extra`: the logging module adds that
after it has made its record. So it is read when the next line comes, or the piece is taken. A line
of another thread, which may be about to get it, is left for the next piece once.
"""

import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from windlass.domain.run import Held
from windlass.domain.runlog import (
    LONGEST_EXCEPTION,
    LONGEST_MESSAGE,
    MOST_BYTES,
    MOST_FIELDS,
    TAIL,
    LogLine,
    LogWrite,
)
from windlass.logs import FIELDS, STANDARD, plain

_BARRED = re.compile("[\x00\ud800-\udfff]")  # no store can hold them
_OURS = frozenset({*STANDARD, *FIELDS, "windlass_traceback", "windlass_counts", "taskName"})
_formatter = logging.Formatter()
_encode = msgspec.json.Encoder().encode
_OVERHEAD = 100  # bytes of a line beside its texts


class Notebook:
    """The lines of one attempt, and which of them are written."""

    __slots__ = (
        "_attempt",
        "_bytes",
        "_enlist",
        "_held",
        "_left_out",
        "_limit",
        "_lock",
        "_now",
        "_number",
        "_open",
        "_open_in",
        "_open_thread",
        "_pending",
        "_tail",
        "_taken",
        "_waited",
        "over",
    )

    def __init__(
        self,
        held: Held,
        attempt: int,
        limit: int,
        now: Callable[[], datetime],
        enlist: Callable[["Notebook"], None],
    ) -> None:
        """`limit` is how many lines are kept; `enlist` is called when there is something to write,
        in any thread."""
        self._held = held
        self._attempt = attempt
        self._limit = limit
        self._now = now
        self._enlist = enlist
        self._lock = threading.Lock()
        self._pending: list[LogLine] = []
        self._tail: deque[LogLine] = deque(maxlen=TAIL)
        self._open: logging.LogRecord | None = None  # the record of the last line
        self._open_in: list[LogLine] | deque[LogLine] = self._tail  # which has that line
        self._open_thread = 0  # where it was logged
        self._waited = False  # it was left once
        self._left_out = 0  # lines that were in the tail, and are no more
        self._number = 0  # of the next line to be taken
        self._taken = 0  # lines that count against the limit
        self._bytes = 0
        self.over = False  # the attempt has ended: nothing more is written

    @property
    def held(self) -> Held:
        """The lease that it is written under."""
        return self._held

    def add(self, record: logging.LogRecord) -> None:
        """A line was logged."""
        line = _line(record, self._now())
        with self._lock:
            if self.over:
                return
            self._complete()
            size = _size(line)
            if self._taken < self._limit and self._bytes + size <= MOST_BYTES:
                self._taken, self._bytes = self._taken + 1, self._bytes + size
                self._pending.append(line)
                self._open_in = self._pending
                first = len(self._pending) == 1
            else:
                self._limit = 0  # a shorter line must not come before those of the tail
                self._left_out += len(self._tail) == TAIL
                self._tail.append(line)
                self._open_in = self._tail
                first = False
            self._open, self._open_thread, self._waited = record, threading.get_ident(), False
        if first:
            self._enlist(self)

    def relay(self, write: LogWrite) -> None:
        """A piece of the notebook of a child process: it counts as logged here."""
        with self._lock:
            self._pending += write.lines
        self._enlist(self)

    def take(self) -> LogWrite | None:
        """What is to be written now; None if nothing was logged since the last time."""
        with self._lock:
            left = []
            if self._may_grow():
                left.append(self._pending.pop())
                self._waited = True
            else:
                self._complete()
            lines, self._pending = self._pending, left
            self._open_in = left
            first, self._number = self._number, self._number + len(lines)
        if left:
            self._enlist(self)
        return self._write(first, lines) if lines else None

    def again(self, write: LogWrite) -> None:
        """What was taken could not be written: it comes before what was logged since."""
        with self._lock:
            self._pending[:0] = write.lines
            self._number = write.first
        self._enlist(self)

    def close(self) -> None:
        """The attempt is over: nothing more is logged, and the tail may be taken."""
        with self._lock:
            if self.over:
                return
            self.over = True
            self._complete()
            if self._left_out:
                self._pending.append(_gap(self._left_out, self._tail[0].at))
            self._pending += self._tail
            self._tail.clear()

    def _may_grow(self) -> bool:
        """Whether the last line may be about to get its `extra`, in another thread."""
        return (
            self._open is not None
            and self._open_in is self._pending
            and self._open_thread != threading.get_ident()
            and not (self.over or self._waited)
        )

    def _complete(self) -> None:
        """Add its `extra` to the last line; its record is complete by now."""
        record, self._open = self._open, None
        fields = None if record is None else _fields(record)
        if fields:
            lines = self._open_in
            lines[-1] = msgspec.structs.replace(lines[-1], fields=fields)
            self._bytes += len(_encode(fields))

    def _write(self, first: int, lines: list[LogLine]) -> LogWrite:
        held = self._held
        return LogWrite(
            tenant=held.tenant, id=held.id, token=held.token, attempt=self._attempt, first=first,
            lines=lines,
        )  # fmt: skip


def _line(record: logging.LogRecord, at: datetime) -> LogLine:
    trace = None
    if record.exc_info and record.exc_info[0] is not None:
        trace = _text(_formatter.formatException(record.exc_info)[-LONGEST_EXCEPTION:])
    try:
        message = record.getMessage()
    except Exception as error:  # noqa: BLE001 - foreign code: the handlers of the program say so
        message = f"{record.msg} (its arguments do not fit: {type(error).__name__})"
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE]}…"
    return LogLine(
        at=at,
        level=_text(record.levelname[:100]),
        logger=_text(record.name[:200]),
        message=_text(message),
        exception=trace,
    )


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """What was given as `extra`, where JSON has a form for it and it is not too much."""
    found = {
        _text(str(name)): _plain(value) for name, value in vars(record).items() if name not in _OURS
    }
    return found if not found or len(_encode(found)) <= MOST_FIELDS else {"extra": "too large"}


def _plain(value: object) -> object:
    shown = plain(value)
    if isinstance(shown, str):
        return _text(shown)
    return shown if not isinstance(shown, int) or abs(shown) < 2**53 else str(shown)


def _text(text: str) -> str:
    return _BARRED.sub(lambda found: ascii(found[0])[1:-1], text)


def _gap(number: int, at: datetime) -> LogLine:
    lines = "line is" if number == 1 else "lines are"
    message = f"… {number:,} {lines} left out here"
    return LogLine(at=at, level="INFO", logger="windlass.run", message=message)


def _size(line: LogLine) -> int:
    texts: Iterable[str] = (line.message, line.logger, line.exception or "")
    return _OVERHEAD + sum(len(text.encode()) for text in texts)
