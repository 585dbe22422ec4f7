"""Chancy with its async executor and 1,000 jobs at a time, fetching again as soon as jobs end."""

import logging
from collections.abc import Sequence
from typing import Any

from chancy import Chancy, Queue, Worker, job

from bench.peers.programs import kit


@job(queue="default")
async def noop(*, number: int, template: str, locale: str, note: str) -> None:
    """Stamp the start. A worker finds this function by its name."""
    kit.stamps().stamp(number)


class ChancyProgram(kit.Program):
    """Plugins are left out: they retry, prune and lead, which the race does not need."""

    async def prepare(self) -> None:
        """Migrate and declare the queue."""
        await self.open()
        await self.chancy.migrate()
        await self.chancy.declare(
            Queue("default", concurrency=1000, executor=Chancy.Executor.Async, eager_polling=True)
        )
        await self.close()

    async def open(self) -> None:
        """Open the pool."""
        self.chancy = Chancy(self.url)
        logging.getLogger("chancy").setLevel(logging.WARNING)
        await self.chancy.pool.open()

    async def close(self) -> None:
        """Close the pool."""
        await self.chancy.pool.close()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one job."""
        await self.chancy.push(noop.job.with_kwargs(**payload))

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """Its call for many jobs."""
        jobs = [noop.job.with_kwargs(**each) for each in payloads]
        async for _ in self.chancy.push_many(jobs, batch_size=self.batch):
            pass

    async def work(self) -> None:
        """NOTIFY wakes the worker; the polling interval is a fallback."""
        await self.open()
        async with Worker(self.chancy, register_signal_handlers=False):
            await kit.stopped()
        await self.close()

    async def left(self) -> int:
        """Jobs in any state but `succeeded`."""
        async with self.chancy.pool.connection() as connection:
            rows = await connection.execute(
                "select count(*) from chancy_jobs where state <> 'succeeded'"
            )
            return int((await rows.fetchone() or (0,))[0])


if __name__ == "__main__":
    kit.main(ChancyProgram)
