"""Work that is given up when something else happens first."""

import asyncio
from collections.abc import Coroutine


async def done_unless(told: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Do something to its end, and raise what it raises; false: the event was set before."""
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
        return working.done()
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
