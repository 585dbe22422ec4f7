"""Procrastinate on psycopg's C code and uvloop, with 20 connections and 50 jobs at a time."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.peers.programs import kit


class ProcrastinateProgram(kit.Program):
    """Waits for NOTIFY by default, so no polling interval is set."""

    def __init__(self, task: kit.Task) -> None:
        super().__init__(task)
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        # The pool must leave connections to fetch with while others record ends.
        self.app = App(connector=PsycopgConnector(conninfo=self.url, min_size=5, max_size=20))

        @self.app.task(name="noop")
        async def noop(number: int, template: str, locale: str, note: str) -> None:
            kit.stamps().stamp(number)

        self.noop = noop

    async def prepare(self) -> None:
        """Apply the schema."""
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        """Open the pool."""
        await self.app.open_async()

    async def close(self) -> None:
        """Close the pool."""
        await self.app.close_async()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one job."""
        await self.noop.defer_async(**payload)

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """Its call for many jobs."""
        await self.noop.batch_defer_async(*payloads)

    async def work(self) -> None:
        """Run 50 jobs at a time. Each is fetched and recorded by itself."""
        await self.open()
        running = asyncio.create_task(
            self.app.run_worker_async(concurrency=50, install_signal_handlers=False)
        )
        await kit.stopped()
        running.cancel()  # its documented way to stop: jobs that run are finished first
        await asyncio.wait([running])
        await self.close()

    async def left(self) -> int:
        """Jobs in any status but `succeeded`."""
        jobs = await self.app.connector.execute_query_one_async(
            "select count(*) as count from procrastinate_jobs where status <> 'succeeded'"
        )
        return int(jobs["count"])


if __name__ == "__main__":
    kit.main(ProcrastinateProgram)
