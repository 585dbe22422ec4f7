"""The last that a worker says: it records what can be recorded."""

import asyncio

from windlass.engine.pump import Pump
from windlass.engine.time_limit import time_limit
from windlass.errors import StoreError
from windlass.logs import steady_log
from windlass.store.interface import Store

log = steady_log(__name__)


async def last_words(store: Store, pump: Pump, worker: str, deadline: float) -> None:
    """Record what can be recorded by then; what cannot is left to the reaper."""
    try:
        async with time_limit(deadline - asyncio.get_running_loop().time()):
            await pump.flushed()
            await store.arun(store.operations.retire(worker))
    except (TimeoutError, StoreError) as error:
        extra = {"worker": worker, "error": str(error) or "no answer in time"}
        log.warning("leases left to run out", extra=extra)
