"""Keeps what handlers log, whichever module logs it and whatever the program does with its log.

The logging module makes a record of each event that a logger lets through. While a worker runs, a
copy of each record that is made in the task or the thread of a handler goes into the notebook of
its attempt. No handler is added to any logger: a program that has configured nothing would lose its
warnings, as the logging module shows them only while there is no handler at all.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from windlass.current import current


class Keeper(Protocol):
    """What keeps the lines of an attempt."""

    def __call__(self, record: logging.LogRecord, /) -> None: ...


class _Factory:
    """Makes records as they were made before, and notes them."""

    def __init__(self, made: Callable[..., logging.LogRecord]) -> None:
        self.made = made
        self.workers = 0

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self.made(*args, **kwargs)
        note(record)
        return record


@contextmanager
def lines_kept() -> Iterator[None]:
    """While this lasts, what handlers log goes into their notebooks."""
    factory = logging.getLogRecordFactory()
    if not isinstance(factory, _Factory):
        factory = _Factory(factory)
        logging.setLogRecordFactory(factory)
    factory.workers += 1
    try:
        yield
    finally:
        factory.workers -= 1
        if not factory.workers and logging.getLogRecordFactory() is factory:
            logging.setLogRecordFactory(factory.made)


def note(record: logging.LogRecord) -> None:
    """Keep a line, if a handler logs it."""
    running = current.get(None)
    keep = None if running is None else running.keep_line
    if keep is not None:
        keep(record)
