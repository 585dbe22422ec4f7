"""Several calls that depend on each other, written once for both faces.

A flow is a generator. It yields store calls and other acts and is sent their answers. What it does
between two calls is not in one transaction with them: a flow must be correct when others act in
between.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from windlass.store.interface import Call, Store

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S")


class Act(Protocol[T_co]):
    """A step of a flow that is more than one store call; it can be done on either face."""

    def run(self, store: Store) -> T_co:
        """Do it here, blocking."""
        ...

    async def arun(self, store: Store) -> T_co:
        """Do it without blocking the loop."""
        ...


Flow = Generator[Call[Any] | Act[Any], Any, T]


@dataclass(frozen=True, slots=True)
class Pause:
    """Let some time pass."""

    seconds: float

    def run(self, store: Store) -> None:
        """Sleep, blocking."""
        time.sleep(self.seconds)

    async def arun(self, store: Store) -> None:
        """Sleep on the loop."""
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class Hint:
    """Hint to workers and schedulers that there is something new."""

    def run(self, store: Store) -> None:
        """Send the hint, blocking."""
        store.notify()

    async def arun(self, store: Store) -> None:
        """Send the hint on the loop."""
        await store.anotify()


def run_flow(store: Store, flow: Flow[T]) -> T:
    """Run a flow, blocking."""

    def do(step: Call[Any] | Act[Any]) -> Any:
        return store.run(step) if isinstance(step, Call) else step.run(store)

    with store.blocking.watch():  # as one call: its pauses hold up a loop as well
        return drive(flow, do)


async def arun_flow(store: Store, flow: Flow[T]) -> T:
    """Run a flow on the loop."""

    def do(step: Call[Any] | Act[Any]) -> Awaitable[Any]:
        return store.arun(step) if isinstance(step, Call) else step.arun(store)

    return await adrive(flow, do)


def drive(steps: Generator[S, Any, T], do: Callable[[S], Any]) -> T:
    """Run a generator to its end: each step that it yields is done, and the answer sent back.

    A step that fails is raised in the generator, where it was yielded.
    """
    try:
        step = next(steps)
        while True:
            try:
                answer = do(step)
            except BaseException as error:  # noqa: BLE001 - raised again, where it was yielded
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def adrive(steps: Generator[S, Any, T], do: Callable[[S], Awaitable[Any]]) -> T:
    """As :func:`drive`, on the loop."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await do(step)
            except BaseException as error:  # noqa: BLE001 - raised again, where it was yielded
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
