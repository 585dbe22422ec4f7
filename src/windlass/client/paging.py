"""Pages of a listing: one that is full, and one after another, on both faces.

The store looks at a bounded number of runs in one call. Where few of them fit, a page takes several
calls: each is short, and holds up nobody.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from windlass.client.scope import Scope
from windlass.domain.listing import RunFilter, RunPage
from windlass.domain.run import RunRecord
from windlass.store.flow import Flow, arun_flow, run_flow
from windlass.store.interface import Store

T = TypeVar("T")
S = TypeVar("S")


def whole_page(store: Store, asked: RunFilter) -> Flow[Sequence[RunRecord]]:
    """As many runs as were asked for, or all that there are."""
    found: list[RunRecord] = []
    while True:
        page: RunPage = yield store.operations.list_runs(asked)
        found += page
        left = asked.limit - len(page)
        if page.next is None or left <= 0:
            return found
        asked = msgspec.structs.replace(asked, before=page.next, limit=left)


class Batch(NamedTuple, Generic[T, S]):
    """Some items of a stream, and how to get the next ones; None: there are no more."""

    items: Sequence[T]
    following: S | None


class Stream(Generic[T, S]):
    """Items that are read batch by batch: `for item in stream`, or `async for item in stream`."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @abstractmethod
    def _first(self) -> S:
        """Where a new look begins."""

    @abstractmethod
    def _batch(self, place: S) -> Flow[Batch[T, S]]:
        """Read the items from a place on."""

    def __iter__(self) -> Iterator[T]:
        place: S | None = self._first()
        while place is not None:
            items, place = run_flow(self._scope.store, self._batch(place))
            yield from items

    async def __aiter__(self) -> AsyncIterator[T]:
        place: S | None = self._first()
        while place is not None:
            items, place = await arun_flow(self._scope.store, self._batch(place))
            for item in items:
                yield item
