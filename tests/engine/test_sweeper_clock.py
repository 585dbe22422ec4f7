"""A reaper that notices that the store's clock was set."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fixtures.apps import opened
from windlass import Status
from windlass.domain.run import Want, WorkerInfo
from windlass.engine.sweeper import Sweeper
from windlass.sources import ManualSources, Sources
from windlass.transport.store import StoreTransport

SECOND = 0.02  # a server that has just started reaps nothing for two thirds of a lease
LEASE = 30 * SECOND


@pytest.fixture
def sources() -> ManualSources:
    return Sources.manual()


async def test_a_clock_that_was_set_ahead_is_no_crash_of_the_workers(
    url: str, sources: ManualSources
) -> None:
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
        sweeper = Sweeper(
            app.store, sources, StoreTransport(), lease=LEASE, sweep=5 * SECOND, poll=SECOND,
            max_crashes=3,
        )  # fmt: skip
        await sweeper.work()
        sources.clock.advance(5 * SECOND)
        sources.clock.jump(timedelta(hours=1))

        for _ in range(3):  # for two thirds of a lease
            await sweeper.work()
            sources.clock.advance(6 * SECOND)
        assert (await app.aget(run.id)).status is Status.RUNNING
        await app.store.arun(operations.renew("w", LEASE, [], 0))
        sources.clock.advance(6 * SECOND)
        await sweeper.work()
        assert (await app.aget(run.id)).status is Status.RUNNING

        for _ in range(1000):  # the first ones may come too soon after the start of the server
            sources.clock.advance(6 * SECOND)
            await sweeper.work()
            if (await app.aget(run.id)).status is Status.QUEUED:
                return
        raise AssertionError("a worker that does not renew is never found dead")
