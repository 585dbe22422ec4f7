"""Absurd: the async SDK claims 200 tasks at a time, runs 50 at once and polls every 20 ms.

It has no call for many tasks: the quickest way is a transaction of 500 spawns.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.peers.programs import kit


class AbsurdProgram(kit.Program):
    """The schema is the one that its command line tool ships."""

    batch = 500

    async def prepare(self) -> None:
        """Apply the schema and create the queue."""
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute(BUNDLED_SCHEMA_SQL)
            await AsyncAbsurd(connection).create_queue("default")

    async def open(self) -> None:
        """Connect. Statements are prepared by the driver after five uses."""
        self.connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        self.absurd = AsyncAbsurd(self.connection)

        @self.absurd.register_task("noop")
        async def noop(params: dict[str, Any], context: AsyncTaskContext) -> None:
            kit.stamps().stamp(params["number"])

    async def close(self) -> None:
        """Disconnect."""
        await self.connection.close()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one task."""
        await self.absurd.spawn("noop", payload)

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """One transaction, one call each."""
        async with self.connection.transaction():
            for each in payloads:
                await self.absurd.spawn("noop", each)

    async def work(self) -> None:
        """Poll: it has no wake-up."""
        await self.open()
        running = asyncio.create_task(
            self.absurd.start_worker(concurrency=50, batch_size=200, poll_interval=0.02)
        )
        await kit.stopped()
        self.absurd.stop_worker()
        await running
        await self.close()

    async def left(self) -> int:
        """Tasks in any state but `completed`."""
        rows = await self.connection.execute(
            "select count(*) from absurd.t_default where state <> 'completed'"
        )
        return int((await rows.fetchone() or (0,))[0])


if __name__ == "__main__":
    kit.main(AbsurdProgram)
