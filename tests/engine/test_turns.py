"""Turns: no lane and no queue of a worker waits for ever behind another."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import count
from typing import Any

import msgspec
import pytest

from tests.fixtures.apps import PATIENCE, within, working
from tests.fixtures.hosts import PumpHost
from windlass import Context, SyncContext, Windlass
from windlass.domain.job import Executor
from windlass.domain.run import Claimed, CycleReply, Want
from windlass.engine.environment import Environment
from windlass.engine.holdings import Holdings
from windlass.engine.lanes import Lane
from windlass.engine.pump import Pump
from windlass.engine.trip import Trip
from windlass.sources import Sources


@pytest.mark.parametrize("queues", [None, ("a", "b")])
async def test_lanes_serve_all_queues(app: Windlass, queues: tuple[str, ...] | None) -> None:
    """Two kinds of jobs, two queues, a backlog of both kinds in both, and lanes that claim
    alternately."""
    loop = asyncio.get_running_loop()
    kinds = {"on_loop": Seat(), "in_thread": Seat()}

    @app.job
    async def on_loop(ctx: Context, queue: str) -> None:
        kinds["on_loop"].begin(queue)
        await kinds["on_loop"].on.acquire()

    @app.job
    def in_thread(ctx: SyncContext, queue: str) -> None:
        loop.call_soon_threadsafe(kinds["in_thread"].begin, queue)
        asyncio.run_coroutine_threadsafe(kinds["in_thread"].on.acquire(), loop).result(PATIENCE)

    for queue in ("a", "b"):
        for job in (on_loop, in_thread):
            await app.aenqueue_many(job.using(queue=queue).request(queue) for _ in range(20))
    async with working(app, concurrency=1, threads=1, queues=queues):
        for _ in range(12):
            for seat in kinds.values():
                await seat.next()
        for seat in kinds.values():
            seat.on.release()

    for seat in kinds.values():
        assert 4 <= seat.order[:12].count("a") <= 8, seat.order


class Seat:
    """The one seat of a lane: who had it, and when it becomes free."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.on = asyncio.Semaphore(0)
        self._begun = asyncio.Semaphore(0)

    def begin(self, queue: str) -> None:
        """A run of this queue has it."""
        self.order.append(queue)
        self._begun.release()

    async def next(self) -> None:
        """Wait until somebody has it; the one before lets it go first."""
        if self.order:
            self.on.release()
        async with asyncio.timeout(PATIENCE):
            await self._begun.acquire()


class Endless:
    """A store with runs for whoever asks, which remembers who did. Replies come when let."""

    batch = 500

    def __init__(self) -> None:
        self.operations = self
        self.jobs: list[str] = []
        self._numbers = count()

    def cycle(self, worker: str, claim_no: int, finishes: Any, want: Want | None) -> Want | None:
        """The call is what is wanted."""
        return want

    async def arun(self, want: Want | None) -> CycleReply:
        """Answer after a moment."""
        await asyncio.sleep(0)
        runs: list[Claimed] = []
        if want is not None:
            self.jobs.append(want.jobs[0])
            runs = [self._claimed(want.jobs[0]) for _ in range(want.limit)]
        return CycleReply(now=datetime.max, claimed=tuple(runs))  # noqa: DTZ901

    def _claimed(self, job: str) -> Claimed:
        return Claimed(
            tenant="default", id=str(next(self._numbers)), job=job, queue="default", token=1,
            attempt=1, failures=0, crash_count=0, input=msgspec.Raw(b"{}"),
        )  # fmt: skip


@pytest.mark.parametrize("number", [2, 3])
async def test_lanes_are_asked_in_turns(number: int) -> None:
    """Quick handlers: every lane always has room, and always wants more."""
    store: Any = Endless()
    executors = list(Executor)[:number]
    found = [Lane(executor, 10, (executor.value,), None) for executor in executors]
    pump = Pump(Environment(store, Sources.manual()), Holdings(), found, PumpHost())
    enough = asyncio.Event()

    def count_claims(_: Trip) -> None:
        pump.claiming = len(store.jobs) + 1 < 12  # those before, and this one
        if not pump.claiming:
            enough.set()

    with pump.sent.calling(count_claims):
        pump.hunger()
        await within(enough)
    await pump.flushed()
    assert {store.jobs.count(lane.jobs[0]) for lane in found} == {len(store.jobs) // number}
