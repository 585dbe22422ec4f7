"""Windlass as it is shipped: the settings are its defaults, on both stores."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from bench.peers.programs import kit
from windlass import Windlass


class WindlassProgram(kit.Program):
    """The blocking face enqueues, a worker in this process runs."""

    async def prepare(self) -> None:
        """Create the tables."""
        app = Windlass(self.url)
        app.migrate()
        app.close()

    async def open(self) -> None:
        """Declare the job; the first call connects."""
        logging.getLogger("windlass").setLevel(logging.WARNING)
        self.app = Windlass(self.url)

        @self.app.job
        async def noop(number: int, template: str, locale: str, note: str) -> None:
            kit.stamps().stamp(number)

        self.noop = noop

    async def close(self) -> None:
        """Disconnect."""
        await self.app.aclose()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one transaction."""
        self.noop.enqueue(**payload)

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """One call, one transaction."""
        self.app.enqueue_many([self.noop.request(**each) for each in payloads])

    async def work(self) -> None:
        """Run as `windlass worker` does: up to 100 async handlers at a time."""
        await self.open()
        worker = self.app.worker()
        running = asyncio.create_task(worker.run())
        await kit.stopped()
        worker.stop()
        await running
        await self.close()

    async def left(self) -> int:
        """Runs in any status but `succeeded`."""
        counts = self.app.counts(by="status")
        return sum(count for status, count in counts.items() if status != "succeeded")


if __name__ == "__main__":
    kit.main(WindlassProgram)
