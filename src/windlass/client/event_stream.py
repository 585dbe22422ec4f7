"""`app.events(...)` and `app.aevents(...)`: what happens, one event after another.

Where a stream begins is settled when its block begins, or else with the loop: what happens after
that is not missed. While it follows, the tail of the process reads for it. Without `follow` it
reads pages by itself, up to where the feed ended when it began.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from windlass.client.event_filter import EventFilter
from windlass.client.scope import Scope
from windlass.client.tail import PAGE, Listening, order_of, tell_all
from windlass.domain.envelope import Event
from windlass.domain.run import FeedEvent
from windlass.errors import BadOption
from windlass.store.flow import Flow, arun_flow, run_flow

Since = str | datetime
"""Where to begin: the id of an event (it goes on after it), a time, the beginning, or now."""

_START, _NOW = "start", "now"
_BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)


class _Stream:
    """What both faces share."""

    def __init__(
        self, scope: Scope, wanted: EventFilter, since: Since, *, follow: bool, buffer: int
    ) -> None:
        if buffer < 1:
            raise BadOption("buffer", "it must hold at least one event")
        self._scope = scope
        self._wanted = wanted
        self._since = _check_since(since)
        self._follow = follow
        self._buffer = buffer
        self._listening: Listening | None = None

    def _begin(self) -> Flow[Listening]:
        """Settle where it begins. A place of another store is refused."""
        if self._listening is not None:
            return self._listening
        operations = self._scope.store.operations
        if isinstance(self._since, datetime):
            place = yield operations.find_place(self._since)
        elif self._since == _START:
            place = yield operations.find_place(_BEFORE_ALL)
        elif self._since == _NOW:
            place = yield operations.find_place(None)
        else:
            place = self._since
            yield operations.list_feed(place, 1)
        listening = Listening(self._scope.tenant, self._wanted, place, self._buffer)
        self._listening = listening
        if self._follow:
            self._scope.ground.tail.join(listening)
        return listening

    def _end(self) -> Flow[str]:
        end: str = yield self._scope.store.operations.find_place(None)
        return end

    def _read(self, listening: Listening, end: str) -> Flow[tuple[Sequence[Event], bool]]:
        events, more = yield from read_upto(self._scope, listening, end)
        return self._in_time(events), more

    def _taken(self, listening: Listening, events: Sequence[Event]) -> Sequence[Event]:
        if listening.behind:
            self._scope.ground.tail.wake()  # there is room for more
        return self._in_time(events)

    def _in_time(self, events: Sequence[Event]) -> Sequence[Event]:
        """The place of a time is found with some slack."""
        if not isinstance(self._since, datetime):
            return events
        return [event for event in events if event.time >= self._since]


class Events(_Stream):
    """Events as they happen: `for event in app.events(): …`, which blocks until the next one.

    By `with` it begins where the block does: what you do inside is seen, however late you read.
    """

    def __iter__(self) -> Iterator[Event]:
        with self:
            listening = self._started()
            if self._follow:
                while True:
                    yield from self._taken(listening, listening.box.take())
            store, more = self._scope.store, True
            end = run_flow(store, self._end())
            while more:
                events, more = run_flow(store, self._read(listening, end))
                yield from events

    def __enter__(self) -> Self:
        run_flow(self._scope.store, self._begin())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Listen no longer. Leaving the block, and the loop, does it too."""
        listening, self._listening = self._listening, None
        if listening is not None and self._follow:
            self._scope.ground.tail.leave(listening)

    def _started(self) -> Listening:
        return run_flow(self._scope.store, self._begin())


class AsyncEvents(_Stream):
    """Events as they happen: `async for event in app.aevents(): …`.

    By `async with` it begins where the block does: what you do inside is seen, however late you
    read. Leave the block, or the program's loop, to end it.
    """

    async def __aiter__(self) -> AsyncIterator[Event]:
        async with self:
            store, more = self._scope.store, True
            listening = await arun_flow(store, self._begin())
            if self._follow:
                while True:
                    for event in self._taken(listening, await listening.box.atake()):
                        yield event
            end = await arun_flow(store, self._end())
            while more:
                events, more = await arun_flow(store, self._read(listening, end))
                for event in events:
                    yield event

    async def __aenter__(self) -> Self:
        await arun_flow(self._scope.store, self._begin())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Listen no longer. Leaving the block, and the loop, does it too."""
        listening, self._listening = self._listening, None
        if listening is not None and self._follow:
            await self._scope.ground.tail.aleave(listening)


def read_upto(scope: Scope, listening: Listening, end: str) -> Flow[tuple[Sequence[Event], bool]]:
    """A page of what a listener asked for, up to a place; and whether there may be more.

    For one that no tail reads for: its cursor goes on.
    """
    operations = scope.store.operations
    page: Sequence[FeedEvent] = yield operations.list_feed(listening.cursor, PAGE)
    due = [fed for fed in page if order_of(fed.place) <= order_of(end)]
    wanted = [fed for fed in due if listening.wants(fed)]
    events: Sequence[Event] = yield from tell_all(operations, wanted)
    if due:
        listening.cursor = due[-1].place
    return [event for event in events if listening.is_for(event)], len(due) == PAGE


def _check_since(since: object) -> str | datetime:
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise BadOption("since", "the time must be aware, such as datetime.now(UTC)")
        return since
    if isinstance(since, str) and (since in (_START, _NOW) or since[:1].isdigit()):
        return since
    raise BadOption("since", f"{since!r} is neither the id of an event, a time, 'start' nor 'now'")
