"""Several workers on one store: each run once, and none is kept from who could do it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

from tests.fixtures.apps import PATIENCE, opened, reached, within, working
from windlass import Context, Status, Windlass


async def test_two_workers_share_a_thousand_runs_once_each(app: Windlass, url: str) -> None:
    starts: Counter[str] = Counter()
    by_worker: Counter[str] = Counter()
    tokens: set[tuple[str, int]] = set()
    both, met = asyncio.Event(), set()

    def define(app: Windlass, name: str) -> Any:
        @app.job
        async def work(ctx: Context, n: int) -> int:
            starts[ctx.run_id] += 1
            by_worker[name] += 1
            tokens.add((ctx.run_id, ctx.token))
            met.add(name)
            if len(met) == 2:
                both.set()
            await both.wait()  # nobody runs ahead before both have begun
            return n

        return work

    work = define(app, "one")
    async with opened(url) as other:
        define(other, "two")
        runs = await app.aenqueue_many(work.request(n) for n in range(1000))
        async with working(app, concurrency=20), working(other, concurrency=20) as worker:
            await within(both)
            async with asyncio.timeout(30):
                await worker.drained()
    assert len(starts) == 1000
    assert set(starts.values()) == {1}
    assert len(tokens) == 1000
    assert min(by_worker.values()) >= 20
    done = await app.alist(status="succeeded", limit=1000)
    assert {run.id for run in done} == {run.id for run in runs}
    assert all(run.result == run.input["n"] for run in done)
    assert {run.attempt for run in done} == {1}


async def all_at_once(
    app: Windlass, url: str, runs: int, seats: int, *, warm: bool
) -> Counter[str]:
    """Start as many slow runs as two workers have seats: none may wait behind another."""
    by_worker: Counter[str] = Counter()
    running = 0
    full = asyncio.Event()

    def define(app: Windlass, name: str) -> Any:
        @app.job
        async def quick() -> None: ...

        @app.job
        async def slow() -> None:
            nonlocal running
            by_worker[name] += 1
            running += 1
            if running == runs:
                full.set()
            await full.wait()

        return quick, slow

    quick, slow = define(app, "one")
    async with opened(url) as other, AsyncExitStack() as stack:
        define(other, "two")
        first = await stack.enter_async_context(working(app, concurrency=seats))
        second = await stack.enter_async_context(working(other, concurrency=seats))
        if warm:
            # Quick runs make a worker look ahead; that must be over when they are.
            await app.aenqueue_many(quick.request() for _ in range(1500))
            async with asyncio.timeout(PATIENCE):
                await first.drained()
                await second.drained()
        await app.aenqueue_many(slow.request() for _ in range(runs))
        await within(full)
    return by_worker


async def test_slow_runs_spread_over_the_seats_of_all(app: Windlass, url: str) -> None:
    spread = await all_at_once(app, url, 10, 5, warm=False)
    assert spread == {"one": 5, "two": 5}


async def test_slow_runs_spread_after_a_burst_of_quick_ones(app: Windlass, url: str) -> None:
    spread = await all_at_once(app, url, 60, 30, warm=True)
    assert spread == {"one": 30, "two": 30}


async def test_runs_taken_ahead_are_given_back_when_no_seat_becomes_free(
    app: Windlass, url: str
) -> None:
    full, go = asyncio.Event(), asyncio.Event()
    stuck = 0
    seats = 50

    @app.job
    async def quick() -> None: ...

    @app.job
    async def slow() -> None:
        nonlocal stuck
        stuck += 1
        if stuck == seats:
            full.set()
        await go.wait()

    @app.job
    async def after() -> str:
        return "done"

    # In one queue, in this order: a worker in full swing meets a wall.
    requests = [quick.request() for _ in range(1500)] + [slow.request() for _ in range(seats)]
    await app.aenqueue_many(requests)
    runs = await app.aenqueue_many(after.request() for _ in range(100))
    async with working(app, concurrency=seats), opened(url) as other:
        for job in app.jobs.values():
            other.job(name=job.name)(job.spec.handler)
        await within(full)
        async with working(other):
            for run in runs:
                assert await app.aresult(run.id, timeout=PATIENCE) == "done"
        go.set()
    for run in runs:
        assert (await run.arefresh()).failures == 0


async def test_a_worker_that_joins_gets_its_share(app: Windlass, url: str) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work() -> None:
        started.set()
        await go.wait()

    runs = await app.aenqueue_many(work.request() for _ in range(4))
    async with working(app, concurrency=2), opened(url) as other:
        other.job(name="work")(work.spec.handler)
        await within(started)
        async with working(other, concurrency=2):
            for run in runs:
                await reached(app, run.id, Status.RUNNING)
            go.set()
            for run in runs:
                await run.await_end(timeout=10)
    assert len({run.worker for run in runs}) == 2
