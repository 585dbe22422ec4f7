"""A worker's name in the store, where none may stay to which nobody answers."""

import asyncio
import contextlib
from datetime import datetime

from windlass.domain.run import WorkerInfo
from windlass.errors import StoreError
from windlass.store.interface import Store

_TAKEN_BACK = 1.0  # seconds; with a store that does not answer, the name runs out with its lease


async def register(store: Store, info: WorkerInfo, lease: float) -> datetime:
    """Make a worker known to the store, return its time; if this is canceled, take the name back.

    The store may have written it before its answer comes.
    """
    try:
        return await store.arun(store.operations.register(info, lease))
    except asyncio.CancelledError:
        with contextlib.suppress(TimeoutError, StoreError):
            async with asyncio.timeout(_TAKEN_BACK):
                await store.arun(store.operations.retire(info.id))
        raise
