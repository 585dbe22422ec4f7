"""Progress: the latest counts, nonsense is refused, and who lost the lease can tell nothing."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, reap, within, working
from windlass import BadOption, Context, LeaseLost, SyncContext, Windlass


async def test_latest_counts(app: Windlass) -> None:
    seen: list[tuple[float | None, str | None]] = []

    async def look(run: str) -> None:
        found = await app.aget(run)
        seen.append((found.progress, found.progress_message))

    @app.job
    async def work(ctx: Context) -> None:
        await look(ctx.run_id)
        for fraction, message in ((0, "begun"), (0.5, None), (1, "all"), (None, "after all")):
            await ctx.progress(fraction, message)
            await look(ctx.run_id)

    run = await work.aenqueue()
    async with working(app):
        await app.aresult(run.id, timeout=10)
    await look(run.id)
    assert seen == [
        (None, None), (0.0, "begun"), (0.5, None), (1.0, "all"), (None, "after all"),
        (None, "after all"),
    ]  # fmt: skip


async def test_from_a_thread(app: Windlass) -> None:
    @app.job
    def work(ctx: SyncContext) -> tuple[float | None, str | None]:
        ctx.progress(0.25)
        ctx.progress(0.75, "most of it")
        found = app.get(ctx.run_id)
        return found.progress, found.progress_message

    run = await work.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == [0.75, "most of it"]


WRONG: list[tuple[Any, Any]] = [
    (-0.01, None), (1.01, None), (math.nan, None), (math.inf, None), (True, None), ("half", None),
    (0.5, 5), (0.5, b"x"), (0.5, "a\0b"), (0.5, "\ud800"), (0.5, "x" * 10_001), ([0.5], None),
]  # fmt: skip


async def test_nonsense_is_refused(app: Windlass) -> None:
    refused: list[BadOption] = []

    @app.job
    async def on_loop(ctx: Context) -> None:
        await ctx.progress(0.5, "fine")
        for fraction, message in WRONG:
            with pytest.raises(BadOption) as caught:
                await ctx.progress(fraction, message)
            refused.append(caught.value)

    @app.job
    def in_thread(ctx: SyncContext) -> None:
        ctx.progress(0.5, "fine")
        for fraction, message in WRONG:
            with pytest.raises(BadOption) as caught:
                ctx.progress(fraction, message)
            refused.append(caught.value)

    async with working(app):
        for job in (on_loop, in_thread):
            run = await job.using(max_attempts=1).aenqueue()
            await app.aresult(run.id, timeout=10)
            await run.arefresh()
            assert (run.progress, run.progress_message) == (0.5, "fine")
            named = ["message" if message is not None else "fraction" for _, message in WRONG]
            assert [error.option for error in refused] == named
            refused.clear()


async def test_who_lost_the_lease_can_tell_nothing(app: Windlass, url: str) -> None:
    started, go, told = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    errors: list[LeaseLost] = []

    @app.job
    def work(ctx: SyncContext) -> str:
        if ctx.attempt > 1:
            return "second"
        ctx.progress(0.1)
        loop.call_soon_threadsafe(started.set)
        go.wait(PATIENCE)
        try:
            ctx.progress(0.9)
        except LeaseLost as error:
            errors.append(error)
        loop.call_soon_threadsafe(told.set)
        return "first"

    run = await work.aenqueue()
    async with working(app):
        await within(started)
        await reap(app, url, run)
        go.set()
        await within(told)
        assert await app.aresult(run.id, timeout=10) == "second"
    [error] = errors
    assert (error.run, error.token) == (run.id, 1)
    assert (await run.arefresh()).progress == 0.1
