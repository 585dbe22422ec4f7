"""Awa: its Rust core claims and records, Python runs the handlers.

The queue is its usual shape, one claimer that takes 512 jobs at a time, with the 1,024 seats that
its own capacity test uses. Producers of many jobs use its direct COPY path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import awa

from bench.peers.programs import kit


@dataclass
class Noop:
    """The arguments of the job."""

    number: int
    template: str
    locale: str
    note: str


class AwaProgram(kit.Program):
    """Logs are off unless RUST_LOG asks for them."""

    async def prepare(self) -> None:
        """Migrate. The first worker of a new database switches to the quicker storage."""
        await self.open()
        await self.client.migrate()
        await self._start()
        await self.client.shutdown()
        await self.close()

    async def open(self) -> None:
        """Connect."""
        self.client = awa.AsyncClient(self.url)

    async def close(self) -> None:
        """Disconnect."""
        await self.client.close()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one job."""
        await self.client.insert(Noop(**payload), queue="race")

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """Its quickest producer."""
        await self.client.enqueue_many_copy([Noop(**each) for each in payloads], queue="race")

    async def work(self) -> None:
        """Run until told to stop; NOTIFY wakes the claimer."""
        await self.open()
        await self._start()
        await kit.stopped()
        await self.client.shutdown(timeout_ms=10_000)
        await self.close()

    async def left(self) -> int:
        """Jobs that wait, run or failed."""
        stats = await self.client.queue_stats()
        return sum(
            each.available + each.scheduled + each.retryable + each.running + each.failed
            for each in stats
        )

    async def _start(self) -> None:
        @self.client.task(Noop, queue="race")
        async def noop(job: awa.Job) -> None:
            kit.stamps().stamp(job.args.number)

        await self.client.start([{"name": "race", "max_workers": 1024}], poll_interval_ms=50)


if __name__ == "__main__":
    kit.main(AwaProgram)
