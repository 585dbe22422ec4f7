"""Runs that go on with another input, under real workers: `return ContinueAs(…)`."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from tests.fixtures.apps import opened, working
from windlass import AttemptOutcome, Context, ContinueAs, Status, SyncContext, Windlass

NO_TIME = 3600.0


async def test_it_goes_on_at_once(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    """The worker that gave it back takes it again, without waiting for its next look."""

    @app.job
    async def count(ctx: Context, n: int = 0) -> int | ContinueAs:
        await ctx.step("note", str, n)
        return ContinueAs(n=n + 1) if n < 5 else n

    @app.job
    def count_in_thread(ctx: SyncContext, n: int = 0) -> int | ContinueAs:
        ctx.step("note", str, n)
        return ContinueAs(n=n + 1) if n < 5 else n

    with caplog.at_level(logging.INFO, "windlass.run"):
        async with working(app, poll=NO_TIME):
            for job in (count, count_in_thread):
                run = await job.aenqueue()
                assert (await run.await_end(timeout=20)).result == 5
                kept = [msgspec.json.decode(one.input) for one in await run.agenerations()]
                assert kept == [{}, *({"n": n} for n in range(1, 5))]
                (step,) = await run.asteps(generation=3)
                assert msgspec.json.decode(step.value or b"") == "2"
                assert [a.outcome for a in run.attempts[:5]] == [AttemptOutcome.CONTINUED] * 5
    assert "run goes on with a new input" in caplog.messages


async def test_how_many_steps_is_a_setting(url: str) -> None:
    async with opened(url, max_steps=2) as app:

        @app.job
        async def many(ctx: Context) -> None:
            for n in range(3):
                await ctx.step("note", str, n)

        @app.job(max_steps=3)
        async def more(ctx: Context) -> str:
            await many(ctx)
            return "done"

        runs = [await many.aenqueue(), await more.aenqueue()]
        async with working(app):
            ends = [await run.await_end(timeout=20) for run in runs]
    assert ends[0].error is not None
    assert "has 2 steps, the most that a run may have" in ends[0].error.message
    assert ends[1].result == "done"


async def test_a_cancel_that_came_first_ends_it(app: Windlass) -> None:
    begun, canceled = asyncio.Event(), asyncio.Event()

    @app.job
    async def stubborn(ctx: Context, n: int = 0) -> ContinueAs:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            canceled.set()
        return ContinueAs(n=n + 1)

    run = await stubborn.aenqueue()
    async with working(app):
        await begun.wait()
        await run.acancel("enough")
        await canceled.wait()
        ended = await run.await_end(timeout=20)
    assert (ended.status, ended.reason, ended.attempt) == (Status.CANCELED, "enough", 1)
    assert (ended.input, await run.agenerations()) == ({}, [])
