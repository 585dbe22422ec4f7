"""A worker that stops: what is short ends, what is long is given back, nothing counts."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.fixtures.apps import (
    PATIENCE,
    at_rest,
    opened,
    take_ahead,
    told_of_work,
    within,
    working,
)
from windlass import AttemptOutcome, Context, EventType, SyncContext, Windlass
from windlass.store.interface import Call


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


async def test_a_worker_that_is_stopped_as_it_registers_leaves_no_name(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store knows it before it hears so itself."""
    known, arun = asyncio.Event(), app.store.arun

    async def slow(call: Call[Any]) -> Any:
        reply = await arun(call)
        if call.name == "register":
            known.set()
            await asyncio.Event().wait()
        return reply

    @app.job
    async def never() -> None: ...

    monkeypatch.setattr(app.store, "arun", slow)
    async with working(app):
        await within(known)
        assert len(await app.aworkers()) == 1
    assert await app.aworkers() == []


async def test_short_runs_are_finished(app: Windlass) -> None:
    started = asyncio.Event()
    go = asyncio.Event()

    @app.job
    async def on_loop(n: int) -> int:
        started.set()
        await go.wait()
        return n

    @app.job
    def in_thread(n: int) -> int:
        threading.Event().wait(0.02)
        return n

    runs = await app.aenqueue_many(
        [*(on_loop.request(n) for n in range(5)), *(in_thread.request(n) for n in range(5))]
    )
    async with working(app) as worker:
        await within(started)
        worker.stop()
        go.set()
    for run in runs:
        await run.arefresh()
        if run.job == "on_loop" or run.attempt:
            assert run.status == "succeeded"
    assert {run.failures for run in runs} == {0}


async def test_long_runs_are_given_back_uncounted(app: Windlass) -> None:
    started = asyncio.Event()
    seen: list[str] = []

    @app.job(max_attempts=1)
    async def long(ctx: Context) -> str:
        if ctx.attempt == 2:
            return "in the end"
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("canceled")
            raise
        return "never"

    run = await long.aenqueue()
    async with working(app, drain="50ms") as worker:
        await within(started)
        worker.stop()
    await run.arefresh()
    assert (run.status, run.attempt, run.failures, run.crash_count) == ("queued", 1, 0, 0)
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.INTERRUPTED]
    assert run.events()[-1].type is EventType.INTERRUPTED
    assert seen == ["canceled"]
    assert not await app.store.arun(app.store.operations.list_workers())
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "in the end"


async def test_thread_that_goes_on_is_given_back_and_fenced(app: Windlass) -> None:
    started, go, over = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.job
    def long(ctx: SyncContext) -> str:
        loop.call_soon_threadsafe(started.set)
        go.wait(PATIENCE)
        over.set()
        return "too late"

    run = await long.aenqueue()
    async with working(app, drain="50ms") as worker:
        await within(started)
        worker.stop()
    assert (await run.arefresh()).status == "queued"
    go.set()
    assert await asyncio.to_thread(over.wait, PATIENCE)
    assert ((await run.arefresh()).status, run.failures) == ("queued", 0)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_handlers_see_it_coming(app: Windlass, kind: str) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job
    async def on_loop(ctx: Context) -> str:
        started.set()
        while not ctx.stopping:  # noqa: ASYNC110 - it is a flag to look at
            await asyncio.sleep(0.005)
        return "canceled" if ctx.canceled else "left in time"

    @app.job
    def in_thread(ctx: SyncContext) -> str:
        loop.call_soon_threadsafe(started.set)
        while not ctx.stopping:
            threading.Event().wait(0.005)
        return "canceled" if ctx.canceled else "left in time"

    run = await (on_loop if kind == "async" else in_thread).aenqueue()
    async with working(app) as worker:
        await within(started)
        worker.stop()
    assert await app.aresult(run.id, timeout=0) == "left in time"


async def test_what_has_not_started_is_given_back_at_once(app: Windlass) -> None:
    """Runs taken ahead of the seats never begin once the worker stops."""
    started: list[str] = []
    first, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        started.append(ctx.run_id)
        first.set()
        await go.wait()

    runs = await app.aenqueue_many(work.request() for _ in range(20))
    async with working(app, concurrency=4, drain=PATIENCE * 2) as worker:
        await within(first)
        # As if quick runs had made it look ahead.
        await take_ahead(app, worker, 5)
        worker.stop()
        held = [run.id for run in runs if run.refresh().status == "running"]
        assert len(held) == 9
        go.set()
    for run in runs:
        await run.arefresh()
        assert run.failures == 0
        assert run.status == ("succeeded" if run.id in started else "queued")
    given_back = [run for run in runs if run.attempt and run.id not in started]
    assert len(given_back) == 5
    assert {run.attempts[0].outcome for run in given_back} == {AttemptOutcome.INTERRUPTED}


async def test_nothing_is_claimed_after_stop(app: Windlass) -> None:
    """Not even by a worker that has free seats, still drains, and is told that there is work."""
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def hold() -> None:
        started.set()
        await go.wait()

    @app.job
    async def work() -> None: ...

    async with working(app, drain=PATIENCE * 2) as worker:
        await hold.aenqueue()
        await within(started)
        await at_rest(worker)  # a claim that is on its way is not one after the stop
        worker.stop()
        late = await app.aenqueue_many(work.request() for _ in range(10))
        told_of_work(worker)
        await at_rest(worker)
        go.set()
    assert {run.refresh().attempt for run in late} == {0}


async def test_cancel_that_meets_the_shutdown_ends_the_run(app: Windlass) -> None:
    started = asyncio.Event()

    @app.job
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await long.aenqueue()
    # No heartbeat comes in time to tell the worker.
    async with working(app, lease="90s", renew="30s", drain=0) as worker:
        await within(started)
        worker.stop()
        await app.acancel(run.id, reason="and canceled")
    assert ((await run.arefresh()).status, run.reason) == ("canceled", "and canceled")


async def test_an_application_can_work_again(app: Windlass) -> None:
    @app.job
    async def work(n: int) -> int:
        return n

    for n in range(3):
        async with working(app):
            run = await work.aenqueue(n)
            assert await app.aresult(run.id, timeout=10) == n
