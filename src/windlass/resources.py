"""Resources: what handlers share, such as a pool of database connections.

    @app.resource
    async def db():
        pool = await make_pool()
        yield pool                    # handlers see it as ctx.resources.db
        await pool.close()

A worker opens all of them once, before its first attempt that has a context, in the order of their
definition; it closes them when it stops, in reverse. One that cannot be opened is an error of the
attempts that ask for it, and is tried again with a later one. They are foreign code, like handlers:
whatever they raise, `SystemExit` too, ends nothing else; one that hangs is not waited for when the
worker stops, and blocking ones have daemon threads, so that they cannot keep the process alive.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, TypeVar, overload

from windlass.errors import BadOption, UsageError
from windlass.offloop import off_loop

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds after which what could not be opened is tried again."""
CLOSING = 5.0
"""Seconds that each has to close, and what is being opened to be open, when a worker stops."""

_THREAD = "windlass-resource"

F = TypeVar("F", bound=Callable[[], Any])
T = TypeVar("T")
Cleanup = Generator[Any, None, None] | AsyncGenerator[Any, None]


class Resources:
    """The definitions: `@app.resource`, bare or with `name=`. Calling one calls the function."""

    def __init__(self) -> None:
        self.openers: dict[str, Callable[[], Any]] = {}
        self.passed_on_to: dict[str, Callable[[], Any]] = {}  # an application's, from a router

    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload
    def __call__(self, /, *, name: str) -> Callable[[F], F]: ...

    def __call__(self, function: Any = None, /, *, name: str | None = None) -> Any:
        """Define a resource by a function that makes it: plain, async, or a generator that yields
        it and cleans up afterwards."""

        def define(opener: Callable[[], Any]) -> Callable[[], Any]:
            named = str(name or getattr(opener, "__name__", ""))
            if not named.isidentifier() or named.startswith("_"):
                raise BadOption("name", f"{named!r} cannot be an attribute of ctx.resources")
            if named in self.openers or named in self.passed_on_to:
                raise BadOption("name", f"there are two resources {named!r}")
            if _required(opener):
                raise BadOption("resource", f"{named!r} must be made without arguments")
            self.openers[named] = self.passed_on_to[named] = opener
            return opener

        return define if function is None else define(function)

    def check_free(self, others: "Resources") -> None:
        """Raise BadOption if one of them has a name that is taken here."""
        for named in others.openers:
            if named in self.openers:
                raise BadOption("name", f"there are two resources {named!r}")

    def add_all(self, others: "Resources") -> None:
        """Take all of them, and whatever is defined there later."""
        self.openers.update(others.openers)
        others.passed_on_to = self.openers

    def remove_all(self, others: "Resources") -> None:
        """Give all of them back."""
        for named in others.openers:
            del self.openers[named]


class OpenResources:
    """What is open in one worker. Handlers read it by attributes, so it has no methods: the engine
    uses the functions below."""

    def __init__(self, openers: Mapping[str, Callable[[], Any]]) -> None:
        self._openers = openers
        self._open: dict[str, Any] = {}
        self._errors: dict[str, tuple[float, BaseException]] = {}
        self._cleanups: list[tuple[str, Cleanup]] = []
        self._opening: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # They serve many: they must not inherit the variables of the attempt that comes first. It
        # is one for all of them, so that what is set when one is opened is there when it is closed.
        self._context = contextvars.copy_context()

    def __getattr__(self, name: str) -> Any:
        try:
            return self._open[name]
        except KeyError:
            pass
        if name in self._errors:
            raise self._errors[name][1].with_traceback(None)
        known = ", ".join(self._openers) or "none"
        raise AttributeError(f"there is no resource {name!r} (there are: {known})")

    def __dir__(self) -> list[str]:
        return list(self._openers)

    def _opened(self, _: asyncio.Task[None]) -> None:
        self._opening = None

    async def _open_all(self) -> None:
        now = asyncio.get_running_loop().time
        for name, opener in self._openers.items():
            failed = self._errors.get(name)
            if name in self._open or (failed is not None and now() < failed[0] + AGAIN):
                continue
            try:
                value, cleanup = await _make(opener)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - foreign code: the error of who asks
                log.warning("resource not opened", extra={"resource": name, "error": repr(error)})
                self._errors[name] = (now(), error)
                continue
            self._errors.pop(name, None)
            if cleanup is not None:
                self._cleanups.append((name, cleanup))
            self._open[name] = value


def belong(resources: OpenResources, loop: asyncio.AbstractEventLoop) -> None:
    """Open them on this loop."""
    resources._loop = loop


def all_open(resources: OpenResources) -> bool:
    """Whether there is nothing left to open."""
    return len(resources._open) == len(resources._openers)


async def open_all(resources: OpenResources) -> None:
    """Open what is not open. An attempt that is canceled does not break it off."""
    if all_open(resources):
        return
    if resources._opening is None:
        resources._opening = asyncio.get_running_loop().create_task(
            resources._open_all(), context=resources._context
        )
        resources._opening.add_done_callback(resources._opened)
    await asyncio.shield(resources._opening)


def open_all_in_thread(resources: OpenResources) -> None:
    """The same, from a handler's thread."""
    if all_open(resources):
        return
    if resources._loop is None:
        raise UsageError("Resources are opened by a worker.")
    asyncio.run_coroutine_threadsafe(open_all(resources), resources._loop).result()


async def close_all(resources: OpenResources) -> None:
    """Close everything in reverse order; what fails or hangs keeps nothing else from closing."""
    if resources._opening is not None and not await _in_time(resources._opening):
        log.error("resource not opened in time, and given up")
    loop = asyncio.get_running_loop()
    while resources._cleanups:
        name, cleanup = resources._cleanups.pop()
        closing = loop.create_task(_closed(name, cleanup), context=resources._context)
        if not await _in_time(closing):
            log.error("resource not closed in time", extra={"resource": name})
    resources._open.clear()


async def _in_time(task: asyncio.Task[None]) -> bool:
    """Wait for what may hang; where it does, break it off and do not wait for that."""
    await asyncio.wait([task], timeout=CLOSING)
    return task.done() or not task.cancel()


async def _closed(name: str, cleanup: Cleanup) -> None:
    try:
        await _finish(cleanup)
    except asyncio.CancelledError:
        raise
    except BaseException:
        log.exception("resource not closed", extra={"resource": name})


async def _make(opener: Callable[[], Any]) -> tuple[Any, Cleanup | None]:
    if inspect.isasyncgenfunction(opener):
        stream = opener()
        return await anext(stream), stream
    if inspect.isgeneratorfunction(opener):
        steps = opener()
        return await off_loop(lambda: _first(steps), _THREAD), steps
    if inspect.iscoroutinefunction(opener):
        return await opener(), None
    return await off_loop(opener, _THREAD), None


def _first(steps: Generator[Any, None, None]) -> Any:
    for value in steps:
        return value
    raise UsageError("A resource's generator must yield it, once.")


async def _finish(cleanup: Cleanup) -> None:
    if isinstance(cleanup, AsyncGenerator):
        async for _ in cleanup:
            raise UsageError("A resource's generator must yield once.")
    else:
        await off_loop(lambda: _drain(cleanup), _THREAD)


def _drain(steps: Generator[Any, None, None]) -> None:
    for _ in steps:
        raise UsageError("A resource's generator must yield once.")


def _required(opener: Callable[[], Any]) -> bool:
    parameters = inspect.signature(opener).parameters.values()
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.default is p.empty and p.kind not in loose for p in parameters)
