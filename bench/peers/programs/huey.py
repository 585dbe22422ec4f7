"""Huey on SQLite with fsync: eight threads that poll every 10 ms, and up to 50 ms when idle.

It has no call for many tasks, and results are not kept, which saves it a write.
"""

import asyncio
import logging
from typing import Any

from huey import SqliteHuey

from bench.peers.programs import kit


class HueyProgram(kit.Program):
    """The same object enqueues and runs."""

    def __init__(self, task: kit.Task) -> None:
        super().__init__(task)
        # fsync: durable against a loss of power, as the others in the race are.
        self.huey = SqliteHuey(
            filename=self.url.removeprefix("sqlite:///"), fsync=True, results=False, timeout=30
        )

        @self.huey.task(name="noop")
        def noop(number: int, template: str, locale: str, note: str) -> None:
            kit.stamps().stamp(number)

        self.noop = noop

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one task."""
        self.noop(**payload)

    async def work(self) -> None:
        """Run the consumer beside this loop."""
        logging.getLogger("huey").setLevel(logging.WARNING)
        consumer = self.huey.create_consumer(
            workers=8, initial_delay=0.01, max_delay=0.05, backoff=1.15, periodic=False
        )
        consumer.start()
        await kit.stopped()
        await asyncio.to_thread(consumer.stop, graceful=True)

    async def left(self) -> int:
        """Tasks that wait: one that runs has left the queue already."""
        return int(self.huey.pending_count())


if __name__ == "__main__":
    kit.main(HueyProgram)
