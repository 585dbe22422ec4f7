"""When a worker has nothing left to do, for those who run it until then."""

import asyncio
import contextlib
from collections.abc import Iterable

from windlass.domain.run import Backlog
from windlass.engine.holdings import Holdings
from windlass.engine.options import WorkerOptions
from windlass.store.interface import Store

_COUNT_REST = 9.0  # times what it took to count what is left: that reads walls of other jobs


async def drained(
    store: Store,
    options: WorkerOptions,
    jobs: Iterable[str],
    holdings: Holdings,
    changed: asyncio.Event,
) -> Backlog:
    """Wait until nothing is ready, running or retrying for these jobs and the queues served.

    What is paused is not waited for; it is counted in what this returns. `changed` is set whenever
    a lease is over.
    """
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        left = await store.arun(store.operations.backlog(options.queues, tuple(jobs)))
        if not left.ready and not left.running and not left.retrying and not len(holdings):
            return left
        changed.clear()
        await asyncio.sleep(min(_COUNT_REST * (loop.time() - began), 5.0))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(0.25, options.poll)):
                await changed.wait()
