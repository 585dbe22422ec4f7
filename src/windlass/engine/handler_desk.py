"""Where handlers have their calls done, if they run in the worker's own process."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from windlass.artifacts.shelf import Shelf
from windlass.domain.run import RunRef
from windlass.store.operations import Call, Operations

T = TypeVar("T")

Added = Callable[[Sequence[RunRef]], None]
"""Hears of runs that a handler has made ready; in any thread."""


class Store(Protocol):
    """What does the calls: a store, or, in a child process, its worker."""

    @property
    def operations(self) -> Operations: ...

    def run(self, call: Call[T]) -> T: ...

    async def arun(self, call: Call[T]) -> T: ...


class HandlerDesk:
    """A store, a shelf for artifacts, and whoever is to hear that there is new work."""

    def __init__(self, store: Store, added: Added) -> None:
        self._store = store
        self._added = added
        self.shelf = Shelf()

    @property
    def operations(self) -> Operations:
        """The store's."""
        return self._store.operations

    def run(self, call: Call[T]) -> T:
        """Do a call, blocking."""
        answer = self._store.run(call)
        self.tell(call, answer)
        return answer

    async def arun(self, call: Call[T]) -> T:
        """Do a call on the loop."""
        answer = await self._store.arun(call)
        self.tell(call, answer)
        return answer

    def tell(self, call: Call[T], answer: T) -> None:
        """Pass on which runs a call has made ready, if it makes any."""
        if call.operation.new_work:
            self._added(getattr(answer, "ready", ()))
