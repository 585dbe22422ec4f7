"""Reports: what the handlers of a worker tell, written for all of them together.

There are two: of their progress (`gauge.py`), and of what they log (`notebook.py`).

The first word after a quiet second is written at once; what is told during the next second goes
with the next write, which is one call for all runs of the worker. So a run costs at most one row a
second, and a worker one call, however much its handlers tell.

The last word of an attempt is not lost: when an attempt is concluded, what is not written yet
waits here, and the pump has it written *before* it sends the end (:meth:`Reports.before`). After
the end no word can be written, as the lease is gone. Reports that the store takes after the end,
too, are not waited for (`unhurried`): they go with the next write, within a second.

What happens when it dies here:

- the worker is killed: up to a second of words is lost with it, and nothing else. The attempt is
  made again, if its end was not recorded;
- the store is away: words are kept, and written when it is back: the latest progress of each run,
  all lines that live attempts keep, and so many of ended ones (`_MOST_LOOSE`);
- the lease is another's: the store says so. The handler is told, as by a renewal that finds it out:
  its task is canceled, and its next word raises LeaseLost;
- somebody has the lease locked: that word is kept for the next write, and its end with it.
"""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, Self, TypeVar

from windlass.domain.run import Finish, Held, ProgressReply
from windlass.engine.hosts import ReportsHost
from windlass.engine.signals import Signal
from windlass.engine.throttle import Throttle
from windlass.engine.time_limit import time_limit
from windlass.errors import SchemaMismatch, StoreRefused, UsageError, WindlassError
from windlass.logs import steady_log
from windlass.store.interface import Store
from windlass.store.operations import Call

log = steady_log(__name__)

_REFUSED = (StoreRefused, UsageError)
_MOST_LOOSE = 10_000


class Word(Protocol):
    """What is to be written of one attempt."""

    @property
    def id(self) -> str: ...

    @property
    def held(self) -> Held: ...

    def followed_by(self, later: Self, /) -> Self: ...


W = TypeVar("W", bound=Word)


class Source(Protocol[W]):
    """What one attempt tells. `enlist` is called when there is something to take."""

    over: bool

    @property
    def held(self) -> Held: ...

    def take(self) -> W | None: ...

    def again(self, word: W, /) -> None: ...

    def close(self) -> None: ...


class Reports(Generic[W]):
    """Writes what sources tell. Lives on one event loop."""

    def __init__(
        self,
        store: Store,
        record: Callable[[Sequence[W]], Call[ProgressReply]],
        every: float,
        host: ReportsHost,
        written: Signal[Sequence[W]],
        *,
        what: str,
        unhurried: Callable[[Finish], bool] = lambda finish: False,
    ) -> None:
        """`record` writes; `every` is the least time between two writes; `written` tells what the
        store answered; `what` names it in the log; words of ends that are `unhurried` may come
        after them."""
        self._store = store
        self._record = record
        self._host = host
        self._written = written
        self._what = what
        self._unhurried = unhurried
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._fresh: dict[Held, Source[W]] = {}
        self._last: dict[Held, W] = {}  # of attempts whose end is not sent yet
        self._loose: list[W] = []  # of attempts whose end does not wait for them
        self._flying: dict[Held, Source[W]] = {}  # what a write on its way has
        self._let_go: set[Held] = set()  # of those on their way: the end does not wait
        self._one = asyncio.Lock()
        self._soon = Throttle(every, self._start)
        self._tasks: set[asyncio.Task[None]] = set()

    def enlist(self, source: Source[W]) -> None:
        """Have a source written soon; in any thread."""
        try:
            # A write serves many, in nobody's context: least of all in a handler's transaction.
            self._loop.call_soon_threadsafe(self._add, source, context=self._context)
        except RuntimeError:  # the loop has closed: the handler has outlived its worker
            source.over = True

    def close(self, source: Source[W], finish: Finish | None) -> None:
        """Its attempt is concluded; unless the lease is lost, the last word goes with the end."""
        source.close()
        self._fresh.pop(source.held, None)
        write = source.take()
        if finish is None:
            return
        if self._unhurried(finish):
            if source.held in self._flying:
                self._let_go.add(source.held)
            if write is not None:
                self._loosen(write)
        elif write is not None:
            self._last[source.held] = write

    async def before(self, finishes: Sequence[Finish]) -> Sequence[Held]:
        """Write the last words of these attempts; returns those whose lease is locked.

        An end of which that is so must not be sent yet. Raises what keeps the store from writing.
        """
        if not self._last and not self._flying:  # nearly always
            return ()
        ends = {
            Held(finish.tenant, finish.id, finish.token)
            for finish in finishes
            if not self._unhurried(finish)
        }
        if ends.isdisjoint(self._last) and ends.isdisjoint(self._flying):
            return ()
        async with self._one:
            writes = [write for held in ends if (write := self._last.get(held)) is not None]
            busy = frozenset(await self._write(writes)) if writes else frozenset[Held]()
            for write in writes:
                if write.held not in busy:
                    del self._last[write.held]
        return tuple(busy)

    async def finish(self, deadline: float) -> None:
        """Write what is left, as the worker ends; by then, or not at all."""
        if self._loose:
            with suppress(TimeoutError):
                async with time_limit(deadline - self._loop.time()):
                    await self._flush()

    def _add(self, source: Source[W]) -> None:
        if not source.over:
            self._fresh[source.held] = source
            self._soon()

    def _loosen(self, write: W) -> None:
        """It is written the next time."""
        self._loose.append(write)
        if len(self._loose) > _MOST_LOOSE:
            dropped = self._loose.pop(0)
            log.warning("%s not written", self._what, extra={"run": dropped.id})
        self._soon()

    def _start(self) -> None:
        if not self._fresh and not self._loose:
            return
        task = self._loop.create_task(self._flush(), name="windlass-reports")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._host.task_ended(task)

    async def _flush(self) -> None:
        async with self._one:
            sources, self._fresh = self._fresh, {}
            loose, self._loose = self._loose, []
            told = [write for source in sources.values() if (write := source.take()) is not None]
            writes = [*loose, *told]
            self._flying = sources
            kept = writes
            try:
                busy = frozenset(await self._write(writes))
                kept = [write for write in writes if write.held in busy]
            except SchemaMismatch:
                raise
            except WindlassError as error:
                log.warning("%s not written", self._what, extra={"error": str(error)})
            finally:
                self._flying = {}
                for write in kept:
                    self._keep(sources.get(write.held), write)
                self._let_go.clear()

    def _keep(self, source: Source[W] | None, write: W) -> None:
        """It is written the next time; with the end, if its attempt has ended meanwhile."""
        if source is None or write.held in self._let_go:
            self._loosen(write)
        elif not source.over:
            source.again(write)
        else:
            last = self._last.get(write.held)
            self._last[write.held] = write if last is None else write.followed_by(last)

    async def _write(self, writes: Sequence[W]) -> Sequence[Held]:
        """Write some; returns those whose lease is locked."""
        busy: list[Held] = []
        for first in range(0, len(writes), self._store.batch):
            part = writes[first : first + self._store.batch]
            try:
                busy += await self._send(part)
            except _REFUSED:
                # One that the store refuses must not take the others with it.
                for write in part:
                    busy += await self._send_alone(write)
        return busy

    async def _send_alone(self, write: W) -> Sequence[Held]:
        try:
            return await self._send([write])
        except _REFUSED as error:
            log.error("%s refused", self._what, extra={"run": write.id, "error": str(error)})
            return ()

    async def _send(self, writes: Sequence[W]) -> Sequence[Held]:
        reply = await self._store.arun(self._record(writes))
        for lost in reply.lost:
            self._host.disowned(lost)
        self._written.emit(writes)
        return reply.busy
