"""Middleware: code around every attempt, such as a tracer's span, a timer or a lock.

    @app.middleware
    def timed(ctx):
        began = time.monotonic()
        try:
            yield                     # the handler runs here
        finally:
            metrics.timing(ctx.job, time.monotonic() - began)

A middleware is a generator function with one `yield`. What it raises before or after, the attempt
ends by; what the handler raises is raised at the `yield`. The one that was defined first is
outermost.

A plain generator goes around every handler: in the thread of a sync one, in the task of an async
one, where it must not block. An async generator can await, and goes around async handlers alone.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Any, TypeVar

from windlass.context import Context, SyncContext
from windlass.engine.around import Around
from windlass.errors import BadOption

F = TypeVar("F", bound=Callable[..., Any])


class Middleware:
    """The definitions: `@app.middleware`. Calling one calls the function."""

    def __init__(self) -> None:
        self.around: list[Around] = []  # the first one is outermost

    def __call__(self, function: F, /) -> F:
        """Run a generator function around each attempt."""
        name = getattr(function, "__name__", repr(function))
        if inspect.isasyncgenfunction(function):
            self.around.append(_Async(function))
        elif inspect.isgeneratorfunction(function):
            self.around.append(_Plain(function))
        else:
            raise BadOption("middleware", f"{name} has no yield, where the handler is to run")
        if len(inspect.signature(function).parameters) != 1:
            self.around.pop()
            raise BadOption("middleware", f"{name} must take one argument, the context")
        return function


class _Plain:
    """A generator: around every handler."""

    def __init__(self, function: Callable[..., Iterator[None]]) -> None:
        self._managed = contextmanager(function)

    def blocking(self, ctx: SyncContext) -> AbstractContextManager[object]:
        """Around a sync handler, in its thread."""
        return self._managed(ctx)

    @asynccontextmanager
    async def awaited(self, ctx: Context) -> AsyncIterator[None]:
        """Around an async handler, in its task."""
        with self._managed(ctx):
            yield


class _Async:
    """An async generator: around async handlers."""

    def __init__(self, function: Callable[..., AsyncIterator[None]]) -> None:
        self._managed = asynccontextmanager(function)

    def blocking(self, ctx: SyncContext) -> AbstractContextManager[object]:
        """Nothing: a thread cannot await."""
        return nullcontext()

    def awaited(self, ctx: Context) -> AbstractAsyncContextManager[object]:
        """Around an async handler, in its task."""
        return self._managed(ctx)
