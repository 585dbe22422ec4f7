"""Reports: what the handlers of a worker tell of their progress, written for all of them together.

The first word after a quiet second is written at once; what is told during the next second goes
with the next write, which is one call for all runs of the worker. So a run costs at most one row a
second, and a worker one call, however much its handlers tell.

The last word of an attempt is never lost: when an attempt is concluded, what is not written yet
waits here, and the pump has it written *before* it sends the end (:meth:`Reports.before`), whatever
the end is. After the end no word can be written, as the lease is gone.

What happens when it dies here:

- the worker is killed: up to a second of progress is lost with it, and nothing else. The attempt is
  made again;
- the store is away: words are kept, the latest of each run, and written when it is back;
- the lease is another's: the store says so. The handler is told, as by a renewal that finds it out:
  its task is canceled, and its next word raises LeaseLost;
- somebody has the lease locked: that word is kept for the next write, and its end with it.
"""

import asyncio
from collections.abc import Iterable, Sequence

from windlass.domain.run import Finish, Held, ProgressWrite
from windlass.engine.hosts import ReportsHost
from windlass.engine.signals import Signal
from windlass.engine.throttle import Throttle
from windlass.errors import SchemaMismatch, StoreRefused, UsageError, WindlassError
from windlass.gauge import Gauge
from windlass.logs import steady_log
from windlass.store.interface import Store

log = steady_log(__name__)

_REFUSED = (StoreRefused, UsageError)


class Reports:
    """Writes what gauges tell. Lives on one event loop."""

    def __init__(
        self,
        store: Store,
        every: float,
        host: ReportsHost,
        written: Signal[Sequence[ProgressWrite]],
    ) -> None:
        """`every` is the least time between two writes; `written` tells what the store answered."""
        self._store = store
        self._host = host
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._fresh: dict[Held, Gauge] = {}
        self._last: dict[Held, ProgressWrite] = {}  # of attempts whose end is not sent yet
        self._flying: dict[Held, Gauge] = {}  # what a write on its way has
        self._one = asyncio.Lock()
        self._soon = Throttle(every, self._start)
        self._tasks: set[asyncio.Task[None]] = set()

    def enlist(self, gauge: Gauge) -> None:
        """Have a gauge written soon; in any thread."""
        try:
            self._loop.call_soon_threadsafe(self._add, gauge)
        except RuntimeError:  # the loop has closed: the handler has outlived its worker
            gauge.over = True

    def close(self, gauge: Gauge, *, lost: bool) -> None:
        """Its attempt is concluded; unless the lease is lost, the last word goes with the end."""
        gauge.over = True
        self._fresh.pop(gauge.held, None)
        write = gauge.take()
        if write is not None and not lost:
            self._last[gauge.held] = write

    async def before(self, finishes: Sequence[Finish]) -> Sequence[Held]:
        """Write the last words of these attempts; returns those whose lease is locked.

        An end of which that is so must not be sent yet. Raises what keeps the store from writing.
        """
        if not self._last and not self._flying:  # nearly always
            return ()
        ends = {Held(finish.tenant, finish.id, finish.token) for finish in finishes}
        if ends.isdisjoint(self._last) and ends.isdisjoint(self._flying):
            return ()
        async with self._one:
            writes = [write for held in ends if (write := self._last.get(held)) is not None]
            busy = frozenset(await self._write(writes)) if writes else frozenset[Held]()
            for write in writes:
                if write.held not in busy:
                    del self._last[write.held]
        return tuple(busy)

    def _add(self, gauge: Gauge) -> None:
        if not gauge.over:
            self._fresh[gauge.held] = gauge
            self._soon()

    def _start(self) -> None:
        if not self._fresh:
            return
        task = self._loop.create_task(self._flush(), name="windlass-reports")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._host.task_ended(task)

    async def _flush(self) -> None:
        async with self._one:
            gauges, self._fresh = self._fresh, {}
            writes = [write for gauge in gauges.values() if (write := gauge.take()) is not None]
            self._flying = gauges
            kept: Iterable[ProgressWrite] = writes
            try:
                busy = frozenset(await self._write(writes))
                kept = [write for write in writes if write.held in busy]
            except SchemaMismatch:
                raise
            except WindlassError as error:
                log.warning("progress not written", extra={"error": str(error)})
            finally:
                self._flying = {}
                for write in kept:
                    self._keep(gauges[write.held], write)

    def _keep(self, gauge: Gauge, write: ProgressWrite) -> None:
        """It is written the next time; with the end, if its attempt has ended meanwhile."""
        if not gauge.over:
            gauge.again()
        else:
            self._last.setdefault(write.held, write)

    async def _write(self, writes: Sequence[ProgressWrite]) -> Sequence[Held]:
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

    async def _send_alone(self, write: ProgressWrite) -> Sequence[Held]:
        try:
            return await self._send([write])
        except _REFUSED as error:
            log.error("progress refused", extra={"run": write.id, "error": str(error)})
            return ()

    async def _send(self, writes: Sequence[ProgressWrite]) -> Sequence[Held]:
        reply = await self._store.arun(self._store.operations.record_progress(writes))
        for lost in reply.lost:
            self._host.disowned(lost)
        self._written.emit(writes)
        return reply.busy
