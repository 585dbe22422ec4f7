"""PgQueuer on asyncpg and uvloop, the drivers that its own benchmark is fastest with.

Durable tables and the autovacuum settings of `pgq autovac`. A batch of 500 is what its tuning guide
asks for when jobs are short. Logs are off above warnings, as for everyone in the race.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.programs import kit


class PgQueuerProgram(kit.Program):
    """Producers use one connection: a pool resets it after each call."""

    async def prepare(self) -> None:
        """Install the tables, durable by default."""
        await self.open()
        await self.queries.install()
        await self.queries.optimize_autovacuum()
        await self.close()

    async def open(self) -> None:
        """Connect."""
        self.connection = await asyncpg.connect(self.url)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def close(self) -> None:
        """Disconnect."""
        await self.connection.close()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one row."""
        await self.queries.enqueue("noop", json.dumps(payload).encode())

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """One call with lists."""
        count = len(payloads)
        encoded = [json.dumps(each).encode() for each in payloads]
        await self.queries.enqueue(["noop"] * count, encoded, [0] * count)

    async def work(self) -> None:
        """Fetch by 500, with a pool so that fetching and recording overlap."""
        logging.getLogger("pgqueuer").setLevel(logging.WARNING)
        async with asyncpg.create_pool(self.url, min_size=5, max_size=20) as pool:
            queuer = PgQueuer(AsyncpgPoolDriver(pool))
            stamp = kit.stamps().stamp

            @queuer.entrypoint("noop")
            async def noop(job: Job) -> None:
                stamp(json.loads(job.payload)["number"])

            running = asyncio.create_task(
                queuer.run(batch_size=500, dequeue_timeout=timedelta(seconds=30))
            )
            await kit.stopped()
            queuer.shutdown.set()
            await running

    async def left(self) -> int:
        """Rows of the queue: a finished job is deleted."""
        return int(await self.connection.fetchval("select count(*) from pgqueuer"))


if __name__ == "__main__":
    kit.main(PgQueuerProgram)
