"""Pause and terminate, as handlers and workers meet them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.fixtures.apps import PATIENCE, holds, reached, within, working
from windlass import Context, Run, Status, SyncContext, Windlass, Worker
from windlass.domain.event import AttemptOutcome


@asynccontextmanager
async def told(worker: Worker) -> AsyncIterator[None]:
    """Wait until the worker has heard what was asked in the block."""
    with worker.signals.renewed.heard() as renewed:
        yield
        await renewed.until(lambda reply: bool(reply.orders))


def outcomes(run: Run) -> list[AttemptOutcome]:
    return [attempt.outcome for attempt in run.attempts]


async def test_a_handler_stops_at_its_next_step_and_goes_on_there(app: Windlass) -> None:
    started, go_on, calls = asyncio.Event(), asyncio.Event(), list[str]()

    async def first() -> None:
        calls.append("first")
        started.set()
        await go_on.wait()

    async def second() -> str:
        calls.append("second")
        return "done"

    @app.job
    async def work(ctx: Context) -> str:
        await ctx.step("first", first)
        return await ctx.step("second", second)

    run = await work.aenqueue()
    async with working(app) as worker:
        await within(started)
        async with told(worker):
            await run.apause("maintenance")
        assert (await app.aget(run.id)).pause_requested
        go_on.set()
        await reached(app, run.id, Status.PAUSED)
        await holds(worker, 0)
        assert calls == ["first"]

        await run.aresume()
        ended = await run.await_end(timeout=PATIENCE)
    assert ended.result == "done"
    assert calls == ["first", "second"]
    assert outcomes(ended) == [AttemptOutcome.INTERRUPTED, AttemptOutcome.SUCCEEDED]
    (request,) = await run.astop_requests()
    assert (request.kind, request.reason, request.became) == ("pause", "maintenance", "run.paused")
    assert request.heard_at is not None
    assert request.done_at is not None
    assert request.asked_at <= request.heard_at < request.done_at


async def test_steps_beside_it_are_waited_for(app: Windlass) -> None:
    """The body of a step that has begun is never cut off by a pause."""
    slow, asked, go_on, calls = asyncio.Event(), asyncio.Event(), asyncio.Event(), list[str]()

    async def long() -> None:
        slow.set()
        await go_on.wait()
        calls.append("long")

    @app.job
    async def work(ctx: Context) -> None:
        async def two() -> None:
            await asked.wait()
            await ctx.step("after", calls.append, "after")

        await asyncio.gather(ctx.step("long", long), two())

    run = await work.aenqueue()
    async with working(app) as worker:
        await within(slow)
        async with told(worker):
            await run.apause()
        asked.set()
        with worker.signals.renewed.heard() as renewed:
            await renewed.next()
            await renewed.next()
        assert (await app.aget(run.id)).status is Status.RUNNING
        go_on.set()
        await reached(app, run.id, Status.PAUSED)
        assert calls == ["long"]
        await run.aresume()
        await run.await_end(timeout=PATIENCE)
    assert calls == ["long", "after"]


async def test_a_handler_that_waits_is_paused_where_it_waits(app: Windlass) -> None:
    @app.job
    async def work(ctx: Context) -> int:
        answer: int = await ctx.wait_for("go")
        return answer

    run = await work.aenqueue()
    async with working(app):
        await reached(app, run.id, Status.WAITING)
        await run.apause()
        await run.asignal("go", 7)
        assert (await app.aget(run.id)).status is Status.PAUSED
        await run.aresume()
        assert (await run.await_end(timeout=PATIENCE)).result == 7


async def test_a_handler_in_a_thread_stops_at_a_checkpoint(app: Windlass) -> None:
    asked, starts = threading.Event(), list[int]()

    @app.job
    def work(ctx: SyncContext) -> str:
        starts.append(ctx.attempt)
        while not asked.is_set():
            ctx.checkpoint()
            threading.Event().wait(0.005)
        return "done"

    run = await work.aenqueue()
    async with working(app):
        await reached(app, run.id, Status.RUNNING)
        await run.apause()
        await reached(app, run.id, Status.PAUSED)
        asked.set()
        await run.aresume()
        ended = await run.await_end(timeout=PATIENCE)
    assert ended.result == "done"
    assert starts == [1, 2]


async def test_an_async_handler_stops_at_a_checkpoint(app: Windlass) -> None:
    asked = asyncio.Event()

    @app.job
    async def work(ctx: Context) -> int:
        while not asked.is_set():
            await ctx.checkpoint()
            await asyncio.sleep(0.005)
        return ctx.attempt

    run = await work.aenqueue()
    async with working(app):
        await reached(app, run.id, Status.RUNNING)
        await run.apause()
        await reached(app, run.id, Status.PAUSED)
        asked.set()
        await run.aresume()
        assert (await run.await_end(timeout=PATIENCE)).result == 2


async def test_a_request_that_is_taken_back_stops_nobody(app: Windlass) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> int:
        started.set()
        await go_on.wait()
        await ctx.step("one", int)
        return ctx.attempt

    run = await work.aenqueue()
    async with working(app) as worker:
        await within(started)
        async with told(worker):
            await run.apause()
        with worker.signals.renewed.heard() as renewed:
            await run.aresume()
            await renewed.until(lambda reply: not reply.orders)
        go_on.set()
        assert (await run.await_end(timeout=PATIENCE)).result == 1


async def test_a_handler_that_has_no_step_runs_to_its_end(app: Windlass) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def work() -> str:
        started.set()
        await go_on.wait()
        return "done"

    run = await work.aenqueue()
    async with working(app) as worker:
        await within(started)
        async with told(worker):
            await run.apause()
        go_on.set()
        assert (await run.await_end(timeout=PATIENCE)).result == "done"


async def test_a_terminated_run_is_over_whatever_its_handler_does(app: Windlass) -> None:
    started, canceled, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> str:
        started.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            canceled.set()
            await go_on.wait()  # it does not listen
        return "done"

    run = await work.aenqueue()
    async with working(app) as worker:
        await within(started)
        ended = await run.aterminate("stuck")
        assert (ended.status, ended.reason) == (Status.CANCELED, "stuck")
        await within(canceled)
        await holds(worker, 0)
        go_on.set()
    found = await app.aget(run.id)
    assert (found.status, found.result) == (Status.CANCELED, None)


async def test_many_runs_are_paused_resumed_and_terminated(app: Windlass) -> None:
    @app.job
    async def work(n: int) -> int:
        return n

    runs = [await work.using(tags=["import"]).aenqueue(n) for n in range(3)]
    selection = app.select(tag="import")
    assert (await selection.apause(dry_run=True)).done == 3
    assert (await selection.apause(reason="maintenance")).done == 3
    assert {run.status for run in await app.alist(tag="import")} == {Status.PAUSED}
    assert (await selection.aresume()).done == 3
    assert (await app.aget(runs[0].id)).status is Status.QUEUED
    assert (await selection.aterminate()).done == 3
    assert {run.status for run in await app.alist(tag="import")} == {Status.CANCELED}


async def test_a_pause_wins_over_clocks_of_the_handlers_own(app: Windlass) -> None:
    """It starts anew, and so do they: a pause must not run into their end."""
    started, asked = asyncio.Event(), asyncio.Event()

    @app.job(max_attempts=1)
    async def work(ctx: Context) -> int:
        async with asyncio.timeout(PATIENCE):
            await ctx.step("first", int)
            started.set()
            await asked.wait()
            await ctx.step("second", int)
        return ctx.attempt

    run = await work.aenqueue()
    async with working(app) as worker:
        await within(started)
        async with told(worker):
            await run.apause()
        asked.set()
        await reached(app, run.id, Status.PAUSED)
        await run.aresume()
        assert (await run.await_end(timeout=PATIENCE)).result == 2


async def test_a_phase_stops_at_a_step_in_it(app: Windlass) -> None:
    started, asked, calls = asyncio.Event(), asyncio.Event(), list[str]()

    async def load(ctx: Context) -> None:
        await ctx.step("one", calls.append, "one")
        started.set()
        await asked.wait()
        await ctx.step("two", calls.append, "two")

    def store(ctx: SyncContext) -> str:
        ctx.step("three", calls.append, "three")
        return "done"

    pipeline = app.pipeline("transfer", load, store)
    run = await pipeline.aenqueue()
    async with working(app) as worker:
        await within(started)
        async with told(worker):
            await run.apause()
        asked.set()
        await reached(app, run.id, Status.PAUSED)
        assert calls == ["one"]
        await run.aresume()
        await run.await_end(timeout=PATIENCE)
    assert calls == ["one", "two", "three"]
