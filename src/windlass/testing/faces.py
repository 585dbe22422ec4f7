"""One description of what is done, for tests with an event loop and for those without.

A procedure is a generator. It yields store calls and pieces of work, and is sent what comes of
them. :func:`perform` does them here, in the calling thread: sync handlers find no event loop that
is running, async ones run on a loop of our own, which is not the thread's. :func:`aperform` does
them on the caller's loop, and sync handlers in a thread, as a worker does. A test with a bridge
(:mod:`windlass.testing.bridge`) has both done where its framework wants them.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from windlass.errors import UsageError
from windlass.offloop import off_loop
from windlass.store.flow import adrive, drive
from windlass.store.interface import Call, Store
from windlass.testing.bridge import current_bridge

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Something to be done that is no store call: a coroutine, or a call that may block."""

    coroutine: Callable[[], Coroutine[Any, Any, Any]] | None = None
    call: Callable[[], Any] | None = None


Procedure = Generator[Call[Any] | Work, Any, T]


class OwnLoop:
    """An event loop of ours, made when first needed; the thread's own is left alone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runner: asyncio.Runner | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        if self._runner is None:
            # With a factory given, the runner does not become the thread's current loop.
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        return self._runner.run(coroutine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            # Connections belong to the loop that opened them, and it is about to go.
            self._runner.run(self._store.aclose())
            self._runner.close()


def perform(store: Store, procedure: Procedure[T], afterwards: Procedure[None] | None = None) -> T:
    """Do it here, blocking; `afterwards` is done whatever became of it."""
    bridge = current_bridge.get()
    if bridge is not None:
        return bridge.run(lambda: _perform_bridged(store, procedure, afterwards))
    with OwnLoop(store) as loop:
        try:
            return _drive(store, loop, procedure)
        finally:
            if afterwards is not None:
                _drive(store, loop, afterwards)


async def _perform_bridged(
    store: Store, procedure: Procedure[T], afterwards: Procedure[None] | None
) -> T:
    """On a loop that is about to go, and the connections that it opened with it."""
    try:
        return await aperform(store, procedure, afterwards)
    finally:
        await store.aclose()


async def aperform(
    store: Store, procedure: Procedure[T], afterwards: Procedure[None] | None = None
) -> T:
    """Do it on the running loop."""
    try:
        return await _adrive(store, procedure)
    finally:
        if afterwards is not None:
            await _adrive(store, afterwards)


def perform_anywhere(
    store: Store, procedure: Procedure[T], afterwards: Procedure[None] | None = None
) -> T:
    """As `perform`; where this thread runs a loop, in another thread, waiting for it."""
    if not loop_is_running():
        return perform(store, procedure, afterwards)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="windlass-testing") as other:
        return other.submit(context.run, perform, store, procedure, afterwards).result()


def refuse_inside_loop(name: str) -> None:
    """Raise UsageError where blocking would stop the event loop that is running."""
    if loop_is_running():
        raise UsageError(f"An event loop is running here: use `await testing.a{name}(...)`.")


def loop_is_running() -> bool:
    """Whether this thread runs an event loop now."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _drive(store: Store, loop: OwnLoop, procedure: Procedure[T]) -> T:
    def do(step: Call[Any] | Work) -> Any:
        if isinstance(step, Call):
            return store.run(step)
        if step.call is not None:
            return step.call()
        return None if step.coroutine is None else loop.run(step.coroutine())

    return drive(procedure, do)


async def _adrive(store: Store, procedure: Procedure[T]) -> T:
    async def do(step: Call[Any] | Work) -> Any:
        if isinstance(step, Call):
            return await store.arun(step)
        if step.call is not None:
            bridge = current_bridge.get()
            if bridge is not None:
                return await bridge.call(step.call)
            return await off_loop(step.call, "windlass-testing")
        return None if step.coroutine is None else await step.coroutine()

    return await adrive(procedure, do)
