"""Several calls that depend on each other, written once for both faces.

A flow is a generator that yields calls and is sent their answers. What it does between two calls
is not in one transaction with them: a flow must be correct when others act in between.
"""

from collections.abc import Generator
from typing import Any, TypeVar

from windlass.store.interface import Call, Store

T = TypeVar("T")

Flow = Generator[Call[Any], Any, T]


def run_flow(store: Store, flow: Flow[T]) -> T:
    """Run a flow, blocking."""
    answer = None
    while True:
        try:
            call = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answer = store.run(call)


async def arun_flow(store: Store, flow: Flow[T]) -> T:
    """Run a flow on the loop."""
    answer = None
    while True:
        try:
            call = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        answer = await store.arun(call)
