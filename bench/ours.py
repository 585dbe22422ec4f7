"""Windlass through its public face: what a user gets."""

import asyncio
import os
import resource
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from bench.raw_postgres import PAYLOAD, batches
from windlass import Windlass, codec
from windlass.cli.serving import loop_factory
from windlass.engine.worker import Worker

T = TypeVar("T")

INPUT: dict[str, Any] = codec.decode(PAYLOAD)
LEASE = "30s"


class Bench:
    """An application with a no-op job, and what was seen of it."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.app = Windlass(url, **settings)
        self.started: list[float] = []
        self.wanted = 0
        self.done = asyncio.Event()

        @self.app.job
        async def noop(user_id: int, template: str, locale: str, note: str) -> None:
            self.started.append(now())
            if len(self.started) == self.wanted:
                self.done.set()

        self.noop = noop

    def enqueue(self, count: int, batch: int) -> float:
        """Runs per second, in batches through the sync face."""
        began = time.perf_counter()
        for size in batches(count, batch):
            if size == 1:
                self.noop.enqueue(**INPUT)
            else:
                self.app.enqueue_many([self.noop.request(**INPUT) for _ in range(size)])
        return count / (time.perf_counter() - began)

    async def enqueue_concurrently(self, count: int, coroutines: int) -> float:
        """Runs per second, one by one from many coroutines."""

        async def some() -> None:
            for _ in range(count // coroutines):
                await self.noop.aenqueue(**INPUT)

        began = time.perf_counter()
        await asyncio.gather(*(some() for _ in range(coroutines)))
        return count / (time.perf_counter() - began)

    async def drain(self, count: int) -> tuple[float, float]:
        """Runs per second of one worker, from the first start to the last recorded end; CPU us
        per run."""
        self.enqueue(count, 1000)
        return await self.drain_what_waits(count)

    async def drain_what_waits(self, count: int) -> tuple[float, float]:
        """As :meth:`drain`, where so many have been enqueued."""
        self.wanted = count
        before = cpu_seconds()
        worker, task = self.start()
        await self.wait()
        # What has started counts when its end is recorded. A signal would cost something for each.
        while worker.ended < count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        rate = count / (now() - self.started[0])
        await worker.drained()
        cpu = (cpu_seconds() - before) / count * 1e6
        await self.stop(worker, task)
        return rate, cpu

    def start(self) -> tuple[Worker, "asyncio.Task[None]"]:
        """Start a worker on this loop."""
        worker = self.app.worker()
        return worker, asyncio.get_running_loop().create_task(worker.run())

    async def stop(self, worker: Worker, task: "asyncio.Task[None]") -> None:
        """Stop a worker."""
        worker.stop()
        await task

    async def wait(self) -> None:
        """Until the wanted number has started."""
        async with asyncio.timeout(600):
            await self.done.wait()

    async def close(self) -> None:
        """Close the store."""
        await self.app.aclose()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on the loop that `windlass worker` uses."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def now() -> float:
    """A time that all processes of a machine have in common."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def cpu_seconds() -> float:
    """CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_megabytes() -> float:
    """Memory of this process now."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
