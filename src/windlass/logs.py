"""Logs by the standard library, one event per line.

Within the package every module logs to the logger of its own name: constant text, with what
varies in `extra`. What must go on whoever listens, the engine above all, does so by `steady_log`.
As a library, Windlass adds no handler but a NullHandler; only its commands call `configure`. While
a worker runs inside another program, `problems_shown` writes warnings and errors to standard error,
but only those that no handler of that program would get. Whatever text gets into an event, it
cannot start a line of its own: JSON is written in ASCII, and the console shows control characters
escaped and tracebacks behind a bar.
"""

import json
import logging
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TextIO

from windlass.current import current_run, trace_of
from windlass.loglines import BatchHandler

LOGGER: Final = "windlass"

EACH: Final = "windlass.run.each"
"""A logger whose level is a switch: at INFO each run that goes well is an event of its own, however
fast they come. Its level is WARNING unless somebody sets it."""

TRACEBACK: Final = "windlass_traceback"
"""The member of `extra` for a traceback as it was recorded: text, shown as an exception's is."""

COUNTS: Final = "windlass_counts"
"""The member of `extra` for the numbers of an event about many runs: for programs."""

FIELDS: Final = ("worker", "run", "job", "tenant", "attempt", "trace", "duration_ms")
"""The members of an event that come from `extra`, in the order in which they are written."""

# C0, DEL and C1 (NEL and CSI among them), the separators that some readers take for line ends,
# the marks that reorder text, and lone surrogates, which no stream can encode.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_PLAIN = re.compile(r"[^\s\"=]+")

_COLORS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}

STANDARD: Final = frozenset(
    logging.LogRecord("", 0, "", 0, "", (), None).__dict__ | {"message": "", "asctime": ""}
)
"""What every event has, which is no field of its own."""

_BARE = len(logging.LogRecord("", 0, "", 0, "", (), None).__dict__)
_PLAIN_TYPES = frozenset({str, int})
_HIDDEN = frozenset({TRACEBACK, COUNTS})

logging.getLogger(LOGGER).addHandler(logging.NullHandler())
logging.getLogger(EACH).setLevel(logging.WARNING)


class RunLog(logging.LoggerAdapter[logging.Logger]):
    """The log of one attempt: every event says which.

    >>> log = RunLog(logging.getLogger("windlass.run"), run="018f…", job="greet", attempt=1)
    >>> log.info("greeted", extra={"duration_ms": 12})
    """

    def __init__(
        self,
        logger: logging.Logger,
        *,
        run: str,
        job: str,
        attempt: int,
        tenant: str = "default",
        worker: str | None = None,
        trace: str | None = None,
    ) -> None:
        bound = {"run": run, "job": job, "tenant": tenant, "attempt": attempt}
        optional = {"worker": worker, "trace": trace}
        super().__init__(logger, bound | {k: v for k, v in optional.items() if v is not None})

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log an event, as the caller's; it is kept with the run even if nobody else wants it."""
        if self.isEnabledFor(level):
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # not this line
            super().log(level, msg, *args, **kwargs)
        elif level >= logging.INFO:
            _keep_unheard(self.logger, level, msg, args, kwargs)

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Add the attempt to the event; its own fields come last, so that they cannot be faked."""
        return msg, {**kwargs, "extra": {**(kwargs.get("extra") or {}), **(self.extra or {})}}


class RunFields(logging.Filter):
    """Adds the run whose handler logs to an event that names none.

    `configure` uses it. With `RunFields(missing="-")` on a handler of your own, its format may have
    `%(run)s`, `%(job)s`, `%(tenant)s`, `%(attempt)s` and `%(trace)s`: of the run, whichever module
    writes the line, and `-` outside of handlers.
    """

    def __init__(self, missing: str | None = None) -> None:
        super().__init__()
        self._missing = missing

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything pass."""
        run = None if hasattr(record, "run") else current_run()
        if run is not None:
            record.run, record.job, record.tenant = run.id, run.job, run.tenant
            record.attempt, record.trace = run.attempt, trace_of(run)
        if self._missing is not None:
            for name in ("run", "job", "tenant", "attempt", "trace"):
                if not hasattr(record, name):
                    setattr(record, name, self._missing)
        return True


class SteadyLog(logging.LoggerAdapter["logging.Logger | RunLog"]):
    """A log for what must go on, whoever listens: nothing that a listener raises comes back.

    The standard library lets through what a filter raises, and what a handler does that catches
    nothing itself. Here it is told on standard error, as errors of handlers are.
    """

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Add nothing to the event."""
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log an event, as the caller's."""
        try:
            super().log(level, msg, *args, **{"stacklevel": 2, **kwargs})
        except Exception:  # noqa: BLE001 - foreign code: a lost line must not cost a run
            record = {"name": LOGGER, "levelno": level, "msg": msg, "args": args}
            _complain(logging.makeLogRecord(record))

    def handle(self, record: logging.LogRecord) -> None:
        """Log an event that was made elsewhere."""
        try:
            logging.getLogger(record.name).handle(record)
        except Exception:  # noqa: BLE001 - as above
            _complain(record)


def steady_log(name: str) -> SteadyLog:
    """The log of one of our own modules."""
    return SteadyLog(logging.getLogger(name))


def put(
    logger: logging.Logger,
    level: int,
    msg: str,
    args: tuple[object, ...],
    extra: Mapping[str, object],
) -> None:
    """Log as a SteadyLog does, for events of which there are thousands a second.

    Call it only if the level is enabled (`isEnabledFor`), and with an `extra` that names no
    standard field. The record does not say which line logged it.
    """
    try:
        make = logging.getLogRecordFactory()
        record = make(logger.name, level, __file__, 0, msg, args, None, "put")
        record.__dict__.update(extra)
        logger.handle(record)
    except Exception:  # noqa: BLE001 - as above
        _complain(logging.makeLogRecord({"name": logger.name, "msg": msg, "args": args}))


def _keep_unheard(
    logger: "logging.Logger | logging.LoggerAdapter[Any]",
    level: int,
    msg: object,
    args: tuple[object, ...],
    given: Mapping[str, Any],
) -> None:
    """Make the record that the program does not want: whoever keeps the lines of runs sees it."""
    error = given.get("exc_info")
    if isinstance(error, BaseException):
        error = (type(error), error, error.__traceback__)
    elif error and not isinstance(error, tuple):
        error = sys.exc_info()
    make = logging.getLogRecordFactory()
    record = make(logger.name, level, __file__, 0, msg, args, error or None, "log")
    record.__dict__.update(given.get("extra") or {})


class JsonFormatter(logging.Formatter):
    """One JSON object per event, on one line of ASCII."""

    def __init__(self) -> None:
        super().__init__()
        import msgspec  # not for those who log nothing

        self._encode = msgspec.json.Encoder().encode

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's line."""
        event: dict[str, object] = {
            "timestamp": _timestamp(record),
            "level": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
        }
        event.update(_fields(record))
        if COUNTS in record.__dict__:
            event["counts"] = record.__dict__[COUNTS]
        trace = _exception(self, record)
        if trace:
            event["exception"] = trace
        try:
            data = self._encode(event)
        except (ValueError, TypeError, OverflowError):
            data = b"\xff"
        if data.isascii():
            return data.decode()
        # Slower, and in ASCII whatever there is; it knows lone surrogates and large numbers too.
        return json.dumps(event, ensure_ascii=True, separators=(",", ":"))


class ConsoleFormatter(logging.Formatter):
    """One line per event for people; the lines of a traceback follow it, behind a bar."""

    def __init__(self, *, color: bool = False) -> None:
        super().__init__()
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's line and, where there is an exception, its traceback's."""
        level = f"{record.levelname:<8}"
        if self._color:
            level = f"\x1b[{_COLORS.get(record.levelname, '0')}m{level}\x1b[0m"
        words = [_timestamp(record), level, escape(record.getMessage())]
        words += [f"{escape(name)}={_shown(value)}" for name, value in _telling(record)]
        lines = [" ".join(words)]
        lines += [f"  | {escape(line)}" for line in _exception(self, record).splitlines()]
        return "\n".join(lines)


def configure(
    kind: Literal["console", "json"] = "console",
    level: str = "INFO",
    *,
    stream: TextIO | None = None,
    logger: str | None = None,
) -> logging.Handler:
    """Send all logs of this process to a stream, by default to standard error.

    With `logger`, send only what is logged under that name, and leave the rest as it is.

    For programs, not for libraries. Calling it again replaces what it did before, and nothing
    else. For people, runs that go well are counted when they come fast; as JSON each has its line,
    and lines are written together. Colours are used on terminals only, and not where NO_COLOR is
    set.
    """
    target = stream or sys.stderr
    handler: logging.Handler
    if kind == "json":
        handler = BatchHandler(target)
        handler.setFormatter(JsonFormatter())
    else:
        handler = _Handler(target)
        handler.setFormatter(ConsoleFormatter(color=_wants_color(target)))
    handler.addFilter(RunFields())
    logging.getLogger(EACH).setLevel(logging.NOTSET if kind == "json" else logging.WARNING)
    top = logging.getLogger(logger)
    for old in [old for old in top.handlers if isinstance(old, (_Handler, BatchHandler))]:
        old.flush()
        top.removeHandler(old)
    top.addHandler(handler)
    top.setLevel(level)
    return handler


@contextmanager
def problems_shown() -> Iterator[None]:
    """While this lasts, show warnings and errors of Windlass that nobody else would show.

    For a program that never configured logging, or whose server configured its own loggers only, as
    uvicorn does: a job that fails there must not fail in silence.
    """
    logger, handler = logging.getLogger(LOGGER), _Unheard()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def rescue() -> None:
    """Write what waits to be written, if that can be done at once: the process is about to end."""
    for handler in (*logging.getLogger().handlers, *logging.getLogger(LOGGER).handlers):
        if isinstance(handler, BatchHandler):
            handler.rescue()


def escape(text: str) -> str:
    """Return the text on one line, with what could move the cursor or the eye made visible."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


class _Handler(logging.StreamHandler[TextIO]):
    """A class of its own, so that `configure` knows its handler again."""


class _Unheard(logging.Handler):
    """Writes events to standard error that no other handler gets.

    Who else would get one is asked at each event: a program may configure its logging after it has
    started a worker.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event, unless somebody else does."""
        try:
            if self._is_first() and not _has_listener(record.name):
                stream = sys.stderr
                text = ConsoleFormatter(color=_wants_color(stream)).format(record)
                stream.write(f"{text}\n")
                stream.flush()
        except Exception:  # noqa: BLE001 - told on standard error, as every handler does
            self.handleError(record)

    def _is_first(self) -> bool:
        """Of several workers in one program, one speaks."""
        handlers = logging.getLogger(LOGGER).handlers
        return next(h for h in handlers if isinstance(h, _Unheard)) is self


def _has_listener(name: str) -> bool:
    """Whether a handler of the program gets the events of this logger."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if not all(isinstance(h, (_Unheard, logging.NullHandler)) for h in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _complain(record: logging.LogRecord) -> None:
    """Tell of the error that is being handled as the standard library does of its handlers'."""
    logging.Handler().handleError(record)


def _wants_color(stream: TextIO) -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and stream.isatty()


def _timestamp(record: logging.LogRecord) -> str:
    micros = round(record.created * 1e6)
    return f"{_second(micros // 1_000_000)}.{micros // 1000 % 1000:03}Z"


@lru_cache(maxsize=8)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Return our fields in their order, then whatever else the caller put into `extra`."""
    given = record.__dict__
    ours: dict[str, object] = {}
    for name in FIELDS:
        value = given.get(name)
        if value is not None:
            ours[name] = value if type(value) in _PLAIN_TYPES else plain(value)
    if len(given) != _BARE + len(ours):  # most have nothing else
        ours.update(_others(given))
    return ours


_PLACES = {"job": -2, "attempt": -1, "run": 1, "worker": 2}


def _telling(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """The fields that tell a person something: not the tenant or the trace that is always so.

    The longest and the least telling come last, where the edge of a terminal may cut them off.
    """
    fields = dict(sorted(_fields(record).items(), key=lambda field: _PLACES.get(field[0], 0)))
    run = fields.get("run")
    usual = {"tenant": "default", "trace": run.replace("-", "") if isinstance(run, str) else None}
    return ((name, value) for name, value in fields.items() if usual.get(name, ...) != value)


def _others(given: dict[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in given.items():
        if name not in STANDARD and name not in FIELDS and name not in _HIDDEN:
            yield str(name), plain(value)


def plain(value: object) -> object:
    """Return what JSON has a form for; other objects as their text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(formatter.formatException(record.exc_info))
    elif record.exc_text:  # of another process, which had the exception
        parts.append(record.exc_text)
    elif isinstance(recorded := record.__dict__.get(TRACEBACK), str):
        parts.append(recorded.rstrip("\n"))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _shown(value: object) -> str:
    text = escape(str(value))
    return text if _PLAIN.fullmatch(text) else '"' + text.replace('"', '\\"') + '"'
