"""The audience: what `@app.on` has defined, called while a worker works.

Each listener has a mailbox of its own at the tail of the process, and a task that takes from it, in
order, one event at a time. So a listener that is slow, or fails, holds up neither a run nor another
listener; what it raises is logged. If its mailbox overflows it falls behind: it goes on from the
store, at its own pace, and that is logged.

It begins before the worker claims its first run, and ends after the last one has ended: what the
worker has done is told, for as long as the end allows. Then, or if the process dies, what was not
told yet is not told: a listener is no job. On PostgreSQL events are held back while an older
transaction is open, and then some may be missing at the end.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from windlass.client.event_filter import EventFilter
from windlass.client.event_stream import read_upto
from windlass.client.scope import Scope
from windlass.client.tail import BUFFER, Listening
from windlass.domain.envelope import Event
from windlass.errors import ListenerTooSlow, StoreUnavailable
from windlass.logs import steady_log
from windlass.offloop import off_loop
from windlass.store.flow import arun_flow

log = steady_log(__name__)

_AGAIN = 0.5  # seconds after which a store that is away is asked again
_FAREWELL = 5.0  # seconds in which the last events are told


class Wanted(Protocol):
    """A function, and what it listens to."""

    @property
    def function(self) -> Callable[[Any], Any]: ...

    @property
    def wanted(self) -> EventFilter: ...


class Audience:
    """The listeners of an application, in one worker."""

    def __init__(self, scope: Scope, listeners: Iterable[Wanted], *, buffer: int = BUFFER) -> None:
        """`buffer` events wait for each of them."""
        self._scope = scope
        self._seats = [_Seat(scope, each, buffer) for each in listeners]

    async def start(self) -> None:
        """Listen from now on; waits for a store that is not there."""
        if not self._seats:
            return
        cursor = None
        while cursor is None:
            try:
                cursor = await self._now()
            except StoreUnavailable as error:
                log.debug("listeners wait for the store", extra={"error": str(error)})
                await asyncio.sleep(_AGAIN)
        for seat in self._seats:
            seat.start(cursor)

    async def stop(self) -> None:
        """Tell what there is by now, for as long as that may take, and listen no more."""
        seats = [seat for seat in self._seats if seat.started]
        try:
            if seats:
                async with asyncio.timeout(_FAREWELL):
                    end = await self._now()
                    await asyncio.gather(*(seat.finish(end) for seat in seats))
        except (TimeoutError, StoreUnavailable) as error:
            log.warning("listeners have not heard all", extra={"error": repr(error)})
        finally:
            for seat in seats:
                seat.leave()

    async def _now(self) -> str:
        return await self._scope.store.arun(self._scope.store.operations.find_place(None))


class _Seat:
    """One listener."""

    def __init__(self, scope: Scope, listener: Wanted, buffer: int) -> None:
        self._scope = scope
        self._buffer = buffer
        self._function = listener.function
        self._wanted = listener.wanted
        self._name = getattr(listener.function, "__name__", repr(listener.function))
        self._listening = Listening(scope.tenant, self._wanted, "0", buffer)
        self._task: asyncio.Task[None] | None = None
        self._calling = asyncio.Lock()

    @property
    def started(self) -> bool:
        """Whether it listens."""
        return self._task is not None

    def start(self, cursor: str) -> None:
        """Listen to what comes after this place."""
        self._sit(cursor)
        self._task = asyncio.create_task(self._listen(), name=f"windlass-on-{self._name}")

    async def finish(self, end: str) -> None:
        """Be told what is left, up to this place."""
        self._scope.ground.tail.drop(self._listening)
        left = self._listening.box.take_all()
        async with self._calling:  # a call that has begun ends first
            if self._task is not None:
                self._task.cancel()
            for event in left:
                await self._call(event)
            more = True
            while more:
                flow = read_upto(self._scope, self._listening, end)
                events, more = await arun_flow(self._scope.store, flow)
                for event in events:
                    await self._call(event)

    def leave(self) -> None:
        """Listen no more; what it is at is canceled."""
        self._scope.ground.tail.drop(self._listening)
        if self._task is not None:
            self._task.cancel()

    def _sit(self, cursor: str) -> None:
        self._listening = Listening(self._scope.tenant, self._wanted, cursor, self._buffer)
        self._scope.ground.tail.join(self._listening)

    async def _listen(self) -> None:
        while True:
            try:
                event = await self._listening.box.atake_one()
            except ListenerTooSlow as slow:
                told = {"listener": self._name, "cursor": slow.cursor}
                log.warning("listener is behind", extra=told)
                self._sit(slow.cursor)
                continue
            except Exception as error:  # noqa: BLE001 - what ended the tail ends no worker
                told = {"listener": self._name, "error": repr(error)}
                log.error("listener hears no more", extra=told)
                return
            if self._listening.behind:
                self._scope.ground.tail.wake()  # there may be room for more
            async with self._calling:
                await self._call(event)

    async def _call(self, event: Event) -> None:
        try:
            made = self._begin(event)
            if inspect.isawaitable(made):
                await made
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            log.error("listener failed", extra={"listener": self._name, "error": "canceled itself"})
        except (Exception, SystemExit) as error:
            told = {"listener": self._name, "type": event.type.value, "subject": event.subject}
            log.error("listener failed", extra=told, exc_info=error)

    def _begin(self, event: Event) -> Awaitable[Any]:
        if _is_async(self._function):
            made: Awaitable[Any] = self._function(event)
            return made
        return off_loop(lambda: self._function(event), "windlass-listener")


def _is_async(function: Callable[..., Any]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object that is called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
