"""Turns: no lane and no queue of a worker waits for ever behind another."""

from __future__ import annotations

import asyncio
from datetime import datetime
from itertools import count
from typing import Any

import msgspec
import pytest

from tests.fixtures.apps import PATIENCE
from windlass.domain.job import Executor
from windlass.domain.run import Claimed, CycleReply, Want
from windlass.engine.holdings import Holdings
from windlass.engine.lanes import Lane
from windlass.engine.pump import Pump
from windlass.sources import Sources


class Endless:
    """A store with runs for whoever asks, which remembers who did. Replies come when let."""

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

    async def requeued(runs: object) -> None: ...

    pump = Pump(
        store,
        Sources.manual(),
        Holdings(),
        found,
        arrived=lambda runs: None,  # done at once
        forgotten=lambda held: None,
        refused=lambda: None,
        requeued=requeued,
        may_claim=lambda: True,
        ended=lambda task: task.result(),
    )
    pump.hunger()
    async with asyncio.timeout(PATIENCE):
        while len(store.jobs) < 12:  # noqa: ASYNC110
            await asyncio.sleep(0)
    pump.claiming = False
    await pump.flushed()
    assert {store.jobs.count(lane.jobs[0]) for lane in found} == {len(store.jobs) // number}
