"""The roster: which jobs a worker runs, and in which lane. It may change while the worker runs.

A change is one step on the event loop: what is claimed after it is of the new jobs, what runs
goes on as it began. The store hears of it afterwards, and until it has.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from importlib.metadata import version

from windlass.domain.job import Executor, JobSpec
from windlass.domain.run import JobRow, WorkerInfo
from windlass.engine.hosts import RosterHost
from windlass.engine.lanes import Lane
from windlass.engine.options import WorkerOptions
from windlass.engine.registration import store_jobs
from windlass.engine.signals import Signal
from windlass.errors import SchemaMismatch, StoreError, StoreRefused, WindlassError
from windlass.logs import steady_log
from windlass.sources import Sources
from windlass.store.interface import Store

log = steady_log(__name__)


class Roster:
    """The jobs of one worker and their lanes; a lane without jobs has no seats."""

    def __init__(self, jobs: Sequence[JobSpec], options: WorkerOptions, batch: int) -> None:
        """`batch` is the most that one claim may bring."""
        self._options = options
        self._seats = {
            Executor.ASYNC: options.concurrency,
            Executor.THREAD: options.threads,
            Executor.PROCESS: options.process_seats,
        }
        self.jobs: dict[str, JobSpec] = {}
        self.lanes = {
            executor: Lane(executor, 0, (), options.queues, batch) for executor in self._seats
        }
        self._changed = asyncio.Event()
        self.stored: Signal[WindlassError | None] = Signal()
        """It tried to store the jobs after a change; why the store did not take them, if so."""
        self.replace(jobs)
        self._changed.clear()

    @property
    def seats(self) -> int:
        """How many attempts may run at once."""
        return sum(lane.seats for lane in self.lanes.values())

    @property
    def summary(self) -> dict[str, object]:
        """What the log says when its worker starts."""
        queues = self._options.queues
        shown = "all" if queues is None else ",".join(queues)
        return {"queues": shown, "jobs": len(self.jobs), "seats": self.seats}

    @property
    def open_lanes(self) -> int:
        """How many lanes ask for runs; at least one."""
        return max(1, sum(1 for lane in self.lanes.values() if lane.seats))

    def introduce(self, sources: Sources) -> WorkerInfo:
        """The worker, under a name that nobody had before."""
        host, pid = socket.gethostname(), os.getpid()
        return WorkerInfo(
            id=f"{host}:{pid}:{sources.new_id()[-6:]}",
            host=host,
            pid=pid,
            version=version("windlass"),
            queues=self._options.queues,
            jobs=tuple(self.jobs),
            seats=self.seats,
        )

    def rows(self) -> list[JobRow]:
        """The definitions, for the store."""
        tenant, kept = self._options.tenant, self._options.retention.runs
        return [spec.row(tenant, kept) for spec in self.jobs.values()]

    def replace(self, jobs: Sequence[JobSpec]) -> None:
        """Run these from now on."""
        # In place: the seats look at the same dict.
        self.jobs.clear()
        self.jobs.update((spec.name, spec) for spec in jobs)
        for executor, lane in self.lanes.items():
            names = tuple(spec.name for spec in jobs if spec.executor is executor)
            lane.serve(names, self._seats[executor] if names else 0)
        self.store_soon()

    def store_soon(self) -> None:
        """Have the jobs stored soon, as they are by then."""
        self._changed.set()

    async def keep_stored(self, store: Store, host: RosterHost) -> None:
        """Store the jobs after each change, then let the host know.

        If the store is away or has trouble of its own, try again later. If it refuses the jobs, do
        not: it would refuse them again.
        """
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await store_jobs(store, self.rows(), host.worker)
                await host.jobs_stored()
                self.stored.emit(None)
            except SchemaMismatch:
                raise
            except WindlassError as error:
                again = isinstance(error, StoreError) and not isinstance(error, StoreRefused)
                if again:
                    self._changed.set()
                    log.warning("new jobs not stored yet", extra={"error": str(error)})
                else:
                    log.error("new jobs not stored", extra={"error": str(error)})
                self.stored.emit(error)
                if again:
                    await asyncio.sleep(self._options.poll)
