"""The run whose handler runs here: in its task and in those that it makes, or in its thread."""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import LogRecord


class Traced(Protocol):
    """A run that may have been given a trace."""

    @property
    def id(self) -> str: ...

    @property
    def trace(self) -> str | None: ...


class Started(Traced, Protocol):
    """A run that a worker holds."""

    @property
    def tenant(self) -> str: ...

    @property
    def job(self) -> str: ...

    @property
    def attempt(self) -> int: ...


class Running(Protocol):
    """An attempt that runs."""

    @property
    def claimed(self) -> Started: ...

    @property
    def keep_line(self) -> "Callable[[LogRecord], None] | None":
        """What keeps a line that its handler logs, if that is wanted."""


current: ContextVar[Running] = ContextVar("windlass_run")


def current_run() -> Started | None:
    """The run that a handler here is of; None outside of handlers."""
    running = current.get(None)
    return None if running is None else running.claimed


def trace_of(run: Traced) -> str:
    """The trace that a run belongs to: the one given, or one of its own."""
    return run.trace or run.id.replace("-", "")
