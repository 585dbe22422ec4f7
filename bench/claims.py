"""Claim cost through the store's own call, idle cost, and memory over many runs."""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

from bench.ours import Bench, rss_megabytes
from windlass import Windlass
from windlass.domain.run import Want, WorkerInfo
from windlass.engine.environment import Environment
from windlass.engine.worker import Worker
from windlass.store.interface import Call, Store

T = TypeVar("T")

WORKER = WorkerInfo(
    id="bench", host="bench", pid=1, version="", queues=None, jobs=("noop",), seats=1
)


def claim_times(
    url: str, backlog: int, sizes: Sequence[int], rounds: int
) -> dict[int, list[float]]:
    """Seconds per claim of so many runs, from the head, over the blocking face."""
    bench = Bench(url)
    bench.enqueue(backlog, 1000)
    store = bench.app.store
    store.run(store.operations.register(WORKER, 3600))
    found: dict[int, list[float]] = {size: [] for size in sizes}
    for number in range(rounds):
        for size in sizes:
            want = Want(limit=size, jobs=("noop",), queues=("default",))
            call = store.operations.cycle("bench", number, [], want)
            began = time.perf_counter()
            store.run(call)
            found[size].append(time.perf_counter() - began)
    bench.app.close()
    # The first ones open connections and prepare statements.
    return {size: times[10:] for size, times in found.items()}


class Counted:
    """A store that counts what is asked of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls = 0

    def run(self, call: Call[T]) -> T:
        """Count and pass on."""
        self.calls += 1
        return self._store.run(call)

    async def arun(self, call: Call[T]) -> T:
        """Count and pass on."""
        self.calls += 1
        return await self._store.arun(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def worker_on(store: Any, app: Windlass) -> Worker:
    """A worker of an application on another store."""
    specs = [job.spec for job in app.jobs.values()]
    return Worker(Environment(store, app.sources), specs)


async def memory(url: str, count: int) -> None:
    """Print the memory after the first 50,000 runs and after all."""
    bench = Bench(url)
    worker, task = bench.start()
    marks = []
    done = 0
    while done < count:
        some = min(50_000, count - done)
        bench.started.clear()
        bench.done.clear()
        bench.wanted = some
        for _ in range(0, some, 1000):
            await bench.app.aenqueue_many([bench.noop.request(**_INPUT) for _ in range(1000)])
        await bench.wait()
        bench.started.clear()
        done += some
        marks.append(rss_megabytes())
    await bench.stop(worker, task)
    await bench.close()
    print(marks[0], marks[-1])


_INPUT: dict[str, Any] = {"user_id": 7, "template": "welcome", "locale": "en", "note": "x" * 40}
