"""Pickup: from just before the enqueue to the handler's start, and what the time is spent on.

    began -> enqueued           the call to enqueue; the worker is woken before it returns
    began -> sent               until the worker that was woken sends its claim
    sent -> answered            the claim, which the store has written to disk
    answered -> started         until the handler runs

All stamps are of CLOCK_MONOTONIC, which is the same for all processes of a machine.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from bench.claims import worker_on
from bench.ours import INPUT, Bench, now
from bench.report import median, quantile
from windlass.sources import Sources
from windlass.store.interface import Call, Store

T = TypeVar("T")

_WARM_UP = 20


class Pickup(NamedTuple):
    """When what happened to one run."""

    began: float
    enqueued: float
    sent: float
    answered: float
    started: float

    @property
    def seconds(self) -> float:
        """From the enqueue to the start."""
        return self.started - self.began


class Stamped:
    """A store that keeps when the last claim that brought something was sent and answered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.sent = self.answered = 0.0

    async def arun(self, call: Call[T]) -> T:
        """Pass it on."""
        sent = now()
        reply = await self._store.arun(call)
        if getattr(reply, "claimed", None):
            self.sent, self.answered = sent, now()
        return reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def same_process(bench: Bench, count: int) -> list[Pickup]:
    """The worker is on the loop that enqueues."""
    store = Stamped(bench.app.store)
    worker = worker_on(store, bench.app)
    task = asyncio.create_task(worker.run())
    await worker.started.wait()
    found = []
    for _ in range(count + _WARM_UP):
        bench.done.clear()
        bench.started.clear()
        bench.wanted = 1
        began = now()
        await bench.noop.aenqueue(**INPUT)
        enqueued = now()
        await bench.wait()
        found.append(Pickup(began, enqueued, store.sent, store.answered, bench.started[0]))
        await asyncio.sleep(_gap())
    await bench.stop(worker, task)
    return found[_WARM_UP:]


def two_processes(url: str, count: int) -> list[Pickup]:
    """The worker is in a process of its own, and the enqueues block."""
    bench = Bench(url)
    found = []
    with subprocess.Popen(
        [sys.executable, "-m", "bench.across", url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as worker:  # fmt: skip
        assert worker.stdout is not None
        assert worker.stdin is not None
        bench.noop.enqueue(**INPUT)
        worker.stdout.readline()
        for _ in range(count + _WARM_UP):
            time.sleep(_gap())
            began = now()
            bench.noop.enqueue(**INPUT)
            enqueued = now()
            found.append(Pickup(began, enqueued, *map(float, worker.stdout.readline().split())))
        worker.stdin.close()
        worker.wait()
    bench.app.close()
    return found[_WARM_UP:]


def _gap() -> float:
    """Seconds until the next: not always the same, so that no timer keeps step with it."""
    return 0.02 + 0.04 * Sources.system().jitter()


def share(found: Sequence[Pickup], part: float) -> float:
    """Milliseconds within which this share of the runs has started."""
    return quantile([one.seconds for one in found], part) * 1000


def stages(found: Sequence[Pickup]) -> str:
    """What the time is spent on, as medians."""
    enqueue = median([one.enqueued - one.began for one in found])
    until = median([one.sent - one.began for one in found])
    claim = median([one.answered - one.sent for one in found])
    start = median([one.started - one.answered for one in found])
    return (
        f"claim sent after {until * 1000:.2f}, answered in {claim * 1000:.2f}, started in "
        f"{start * 1000:.2f}; enqueue returned after {enqueue * 1000:.2f}"
    )
