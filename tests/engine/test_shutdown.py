"""A worker that stops: what is short ends, what is long is given back, nothing counts."""

from __future__ import annotations

import asyncio

from tests.fixtures.apps import PATIENCE, opened, within, working
from windlass import Windlass


async def test_stop_returns_as_soon_as_the_last_handler_has_ended(app: Windlass) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def short() -> str:
        started.set()
        await go.wait()
        return "done"

    async with working(app, drain=PATIENCE * 2) as worker:
        run = await short.aenqueue()
        await within(started)
        worker.stop()
        go.set()
    # Leaving the block waited for the worker, for less than its grace.
    assert await app.aresult(run.id, timeout=0) == "done"


async def test_a_worker_that_waits_for_its_store_can_be_stopped() -> None:
    async with opened("postgresql://nobody@127.0.0.1:1/nowhere") as app:

        @app.job
        async def never() -> None: ...

        async with working(app) as worker:
            await asyncio.sleep(0)  # it has begun to register
            assert worker.busy == 0
