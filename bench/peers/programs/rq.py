"""RQ on Redis: the worker that does not fork; results and finished jobs are not kept."""

import logging
from collections.abc import Sequence
from typing import Any

from redis import Redis
from rq import Queue, SimpleWorker

from bench.peers.programs import kit

HANDLER = "bench.peers.programs.rq.noop"


def noop(number: int, template: str, locale: str, note: str) -> None:
    """Stamp the start. The worker finds this function by its name."""
    kit.stamps().stamp(number)


class RqProgram(kit.Program):
    """A fork per job would cost milliseconds each."""

    async def open(self) -> None:
        """Connect."""
        self.queue = Queue("race", connection=Redis.from_url(self.url))

    async def close(self) -> None:
        """Disconnect."""
        self.queue.connection.close()

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """One call, one job."""
        self.queue.enqueue(HANDLER, kwargs=payload, result_ttl=0)

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """Its call for many jobs, one pipeline."""
        self.queue.enqueue_many(
            [Queue.prepare_data(HANDLER, kwargs=each, result_ttl=0) for each in payloads]
        )

    async def work(self) -> None:
        """Take over this process until SIGTERM, which finishes the job that runs."""
        logging.getLogger("rq.worker").setLevel(logging.WARNING)
        await self.open()
        kit.say("ready")
        SimpleWorker([self.queue], connection=self.queue.connection).work(logging_level="WARNING")

    async def left(self) -> int:
        """Jobs that wait, run or failed."""
        registries = (self.queue.started_job_registry, self.queue.failed_job_registry)
        return int(self.queue.count + sum(registry.count for registry in registries))


if __name__ == "__main__":
    kit.main(RqProgram)
