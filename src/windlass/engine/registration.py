"""Registration: makes a worker and its jobs known to the store.

If registering is canceled, the registration is withdrawn: no name without a worker stays behind.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from windlass.domain.run import JobRow, WorkerInfo
from windlass.engine.environment import Environment
from windlass.engine.hosts import RosterHost
from windlass.engine.time_limit import time_limit
from windlass.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from windlass.logs import steady_log
from windlass.store.interface import Store

log = steady_log(__name__)

_ENOUGH_BUSY = 3  # rows that are locked, and it probably is the table
_TAKEN_BACK = 1.0  # seconds; with a store that does not answer, the name runs out with its lease


class JobsToStore(Protocol):
    """The jobs of a worker: its roster."""

    def rows(self) -> Sequence[JobRow]:
        """The definitions, for the store."""

    def store_soon(self) -> None:
        """Have them stored soon."""


async def introduce(
    environment: Environment,
    info: WorkerInfo,
    jobs: JobsToStore,
    host: RosterHost,
    *,
    again: bool,
) -> float:
    """Make a worker and its jobs known; wait for a store that is not there yet.

    Returns when the registration was sent, by the monotonic clock. If somebody has a job or a
    schedule locked, the worker starts without it, and the jobs are stored later. `again`: it was
    known before, and waits out other trouble of the store as well, as its heartbeat does. When a
    worker starts for the first time, such trouble is raised.
    """
    store, sources, options = environment.store, environment.sources, environment.options
    while True:
        try:
            try:
                # So that processes without this code can enqueue by name.
                await store_jobs(store, jobs.rows())
                await host.jobs_stored()
            except StoreBusy as error:
                log.warning("jobs not stored yet", extra={"error": str(error)})
                jobs.store_soon()
            sent = sources.clock.monotonic()
            await register(store, info, options.lease)
            return sent
        except (StoreRefused, SchemaMismatch):
            raise
        except StoreError as error:
            if not again and not isinstance(error, StoreUnavailable):
                raise
            log.warning("waiting for the store", extra={"error": str(error)})
            await asyncio.sleep(options.poll * (0.5 + sources.jitter()))


async def store_jobs(store: Store, jobs: Sequence[JobRow], worker: str | None = None) -> None:
    """Store definitions; raises StoreBusy where somebody has one locked, and stores the others.

    `worker` runs these from now on.
    """
    try:
        await store.arun(store.operations.sync_jobs(jobs, worker))
    except StoreBusy:
        busy = 0
        for job in jobs:
            try:
                await store.arun(store.operations.sync_jobs([job]))
            except StoreBusy:
                busy += 1
                if busy >= _ENOUGH_BUSY:
                    break
        raise


async def register(store: Store, info: WorkerInfo, lease: float) -> None:
    """Make a worker known to the store; if this is canceled, take the name back.

    The store may have written it before its answer comes.
    """
    try:
        await store.arun(store.operations.register(info, lease))
    except asyncio.CancelledError:
        with contextlib.suppress(TimeoutError, StoreError):
            async with time_limit(_TAKEN_BACK):
                await store.arun(store.operations.retire(info.id))
        raise
