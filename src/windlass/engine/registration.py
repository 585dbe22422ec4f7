"""Registration: makes a worker and its jobs known to the store.

If registering is canceled, the registration is withdrawn: no name without a worker stays behind.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from windlass.domain.run import JobRow, WorkerInfo
from windlass.errors import (
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from windlass.logs import steady_log
from windlass.sources import Sources
from windlass.store.interface import Store

log = steady_log(__name__)

_ENOUGH_BUSY = 3  # rows that are locked, and it probably is the table
_TAKEN_BACK = 1.0  # seconds; with a store that does not answer, the name runs out with its lease


async def introduce(
    store: Store,
    sources: Sources,
    info: WorkerInfo,
    jobs: Sequence[JobRow],
    *,
    lease: float,
    poll: float,
    told: Callable[[], Awaitable[None]],
    later: Callable[[], None],
    again: bool,
) -> float:
    """Make a worker and its jobs known; wait for a store that is not there yet.

    Returns when the registration was sent, by the monotonic clock. `told` is called in between,
    when the store knows the jobs. Where somebody has a job or a schedule locked the worker starts
    without, and `later` is called: they are stored some time later. `again`: it was known before,
    and waits out other trouble of the store's as well, as its heartbeat does. One that starts is
    told of it.
    """
    while True:
        try:
            try:
                # So that processes without this code can enqueue by name.
                await store_jobs(store, jobs)
                await told()
            except StoreBusy as error:
                log.warning("jobs not stored yet", extra={"error": str(error)})
                later()
            sent = sources.clock.monotonic()
            await register(store, info, lease)
            return sent
        except (StoreRefused, SchemaMismatch):
            raise
        except StoreError as error:
            if not again and not isinstance(error, StoreUnavailable):
                raise
            log.warning("waiting for the store", extra={"error": str(error)})
            await asyncio.sleep(poll * (0.5 + sources.jitter()))


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
            async with asyncio.timeout(_TAKEN_BACK):
                await store.arun(store.operations.retire(info.id))
        raise
