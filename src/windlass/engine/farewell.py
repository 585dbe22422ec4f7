"""The last things that a worker does: it records what can be recorded, and falls silent."""

import asyncio

from windlass.engine.pump import Pump
from windlass.engine.renewal import Renewal
from windlass.errors import StoreError
from windlass.logs import steady_log
from windlass.store.interface import Store

log = steady_log(__name__)


async def last_words(store: Store, pump: Pump, worker: str, deadline: float) -> None:
    """Record what can be recorded by then; what cannot is left to the reaper."""
    try:
        async with asyncio.timeout_at(deadline):
            await pump.flushed()
            await store.arun(store.operations.retire(worker))
    except (TimeoutError, StoreError) as error:
        extra = {"worker": worker, "error": str(error) or "no answer in time"}
        log.warning("leases left to run out", extra=extra)


async def silence(renewal: Renewal | None, deadline: float) -> None:
    """Stop the heartbeat and wait for it: the store may be closed as soon as we are gone."""
    if renewal is not None:
        renewal.stop()
        await renewal.ended(max(0.1, deadline - asyncio.get_running_loop().time()))
