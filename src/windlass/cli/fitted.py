"""A log for a terminal: its lines fit."""

import logging
import shutil
from typing import TextIO

from windlass import logs
from windlass.cli.output import fit, width_of


class FittedFormatter(logging.Formatter):
    """Cuts the fields of an event at the width of the terminal. Its message is shown whole, and so
    are warnings and errors."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the event's lines."""
        text = self._inner.format(record)
        if record.levelno >= logging.WARNING or "\n" in text:
            return text
        before, message, _ = text.partition(logs.escape(record.getMessage()))
        return fit(text, max(shutil.get_terminal_size().columns, width_of(before + message) + 2))


def configure_log(kind: str, level: str) -> None:
    """Send all logs to standard error, in the form that was asked for."""
    handler = logs.configure("json" if kind == "json" else "console", level)
    if kind != "json" and _is_terminal(handler):
        assert handler.formatter is not None
        handler.setFormatter(FittedFormatter(handler.formatter))


def _is_terminal(handler: logging.Handler) -> bool:
    stream: TextIO | None = getattr(handler, "stream", None)
    return stream is not None and stream.isatty()
