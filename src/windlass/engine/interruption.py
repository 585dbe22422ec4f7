"""Work that an event may interrupt."""

import asyncio
from collections.abc import Coroutine


async def finished_before(event: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Return true if the work finished first, false if the event canceled it; raises its error."""
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
        return working.done()
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
