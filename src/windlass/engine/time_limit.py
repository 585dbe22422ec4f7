"""A time limit for a block of code, also in a task that was canceled before.

A worker that is canceled still ends in good order: it waits a little for its runs, and for the
store. These waits have limits, and what follows depends on whether the limit ended one.

`asyncio.timeout` of Python 3.11.0 to 3.11.3 cannot tell in such a task. It takes the earlier cancel
for one that came during the block, and raises CancelledError instead of TimeoutError.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError if the block takes longer; CancelledError if its task is canceled."""
    task = asyncio.current_task()
    assert task is not None, "asyncio.timeout needs one, too"
    before = task.cancelling()
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except asyncio.CancelledError as error:
        if limit.expired() and task.cancelling() <= before:
            raise TimeoutError from error
        raise
