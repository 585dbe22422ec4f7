"""A reaper on a store whose clock is set."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fixtures.apps import opened
from windlass import Status, Windlass, WorkerOptions
from windlass.domain.run import Want, WorkerInfo
from windlass.engine.environment import Environment
from windlass.engine.sweeper import Sweeper
from windlass.sources import ManualSources, Sources

LEASE = 30.0


@pytest.fixture
def sources() -> ManualSources:
    return Sources.manual()


def make_sweeper(app: Windlass, sources: ManualSources) -> Sweeper:
    options = WorkerOptions(sweep=5.0, poll=1.0, max_crashes=3)
    return Sweeper(Environment(app.store, sources, options))


@pytest.mark.parametrize("swept", [True, False])
async def test_a_clock_that_was_set_ahead_is_no_crash_of_the_workers(
    url: str, sources: ManualSources, swept: bool
) -> None:
    """Also where the reaper starts right then, or nobody has swept before."""
    async with opened(url, sources=sources) as app:

        @app.job
        async def nap() -> None: ...

        app.migrate()
        operations = app.store.operations
        info = WorkerInfo(
            id="w", host="box", pid=1, version="1", queues=None, jobs=("nap",), seats=1
        )
        await app.store.arun(operations.register(info, LEASE))
        run = await nap.aenqueue()
        await app.store.arun(operations.cycle("w", 1, [], Want(limit=1, jobs=("nap",))))
        if swept:
            await make_sweeper(app, sources).work()
        sweeper = make_sweeper(app, sources)
        sources.clock.advance(5)
        sources.clock.jump(timedelta(hours=1))

        for _ in range(3):  # for two thirds of a lease
            await sweeper.work()
            sources.clock.advance(6)
        assert (await app.aget(run.id)).status is Status.RUNNING
        await app.store.arun(operations.renew("w", LEASE, [], 0))
        sources.clock.advance(6)
        await sweeper.work()
        assert (await app.aget(run.id)).status is Status.RUNNING

        for _ in range(3):
            sources.clock.advance(6)
            await sweeper.work()
        assert (await app.aget(run.id)).status is Status.RUNNING
        sources.clock.advance(6)
        await sweeper.work()
        assert (await app.aget(run.id)).status is Status.QUEUED
