"""How a test of a framework has its blocking code and its async code meet.

Without one, async handlers of a blocking test run on a loop of ours, and sync handlers of an async
test in a thread of ours. A framework that ties its database connections to threads gives a bridge,
by which both reach the connections of the test.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Bridge(Protocol):
    """Goes from one to the other."""

    def run(self, coroutine: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """Run a coroutine from blocking code; what it blocks on is done in this thread."""

    def call(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Call a blocking function from async code, in the thread of the test."""


current_bridge: ContextVar[Bridge | None] = ContextVar("windlass_bridge", default=None)
"""The bridge of the test that runs."""


@contextmanager
def bridged(bridge: Bridge) -> Iterator[None]:
    """Use this bridge in the test that runs."""
    kept = current_bridge.get()
    current_bridge.set(bridge)
    try:
        yield
    finally:
        # Not by its token: a test's set-up and its clean-up may have contexts of their own.
        current_bridge.set(kept)
