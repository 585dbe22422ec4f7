"""Handlers that wait: when they give up their seat, and when they keep it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fixtures.apps import reached, working
from windlass import Context, Status, SyncContext, Windlass

NO_TIME = 3600.0


async def test_a_run_that_waits_leaves_its_seat_to_others(app: Windlass) -> None:
    @app.job
    async def waits(ctx: Context) -> Any:
        return await ctx.wait_for("go")

    @app.job
    def waits_in_thread(ctx: SyncContext) -> Any:
        return ctx.wait_for("go")

    @app.job
    async def quick() -> str:
        return "done"

    runs = [await waits.aenqueue(), await waits_in_thread.aenqueue()]
    async with working(app, concurrency=1, threads=1):
        for run in runs:
            await reached(app, run.id, Status.WAITING)
        other = await quick.aenqueue()
        assert (await other.await_end(timeout=10)).result == "done"
        for run in runs:
            await run.asignal("go", run.id)
        assert [(await run.await_end(timeout=10)).result for run in runs] == [r.id for r in runs]


async def test_a_short_sleep_keeps_its_seat(app: Windlass) -> None:
    @app.job
    async def nap(ctx: Context) -> int:
        await ctx.sleep("10ms")
        return ctx.attempt

    @app.job
    def nap_in_thread(ctx: SyncContext) -> int:
        ctx.sleep("10ms")
        return ctx.attempt

    runs = [await nap.aenqueue(), await nap_in_thread.aenqueue()]
    async with working(app):
        assert [(await run.await_end(timeout=10)).result for run in runs] == [1, 1]


@pytest.mark.parametrize("way", ["timeout", "wait_for"])
async def test_a_wait_in_a_time_limit_of_the_loop_keeps_its_seat(app: Windlass, way: str) -> None:
    """Else the limit would begin anew with each attempt, and never end."""

    @app.job(max_attempts=1)
    async def impatient(ctx: Context) -> str:
        try:
            if way == "timeout":
                async with asyncio.timeout(0.3):
                    await ctx.wait_for("never")
            else:
                await asyncio.wait_for(ctx.wait_for("never"), 0.3)
        except TimeoutError:
            return f"gave up in attempt {ctx.attempt}"
        return "?"

    run = await impatient.aenqueue()
    async with working(app):
        assert (await run.await_end(timeout=10)).result == "gave up in attempt 1"


async def test_a_wait_beside_other_work_keeps_its_seat(app: Windlass) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    attempts: list[int] = []

    async def answered() -> bool:
        return any(step.path == "go" and step.state == "done" for step in await run.asteps())

    async def work() -> str:
        await gate.wait()
        return "worked"

    @app.job
    async def both(ctx: Context) -> list[Any]:
        attempts.append(ctx.attempt)
        begun.set()
        return list(await asyncio.gather(ctx.wait_for("go"), ctx.step("work", work)))

    run = await both.aenqueue()
    async with working(app):
        await begun.wait()
        await run.asignal("go", 1)  # heard by a handler that holds its seat
        await reached(app, run.id, Status.RUNNING)
        while not await answered():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        gate.set()
        assert (await run.await_end(timeout=10)).result == [1, "worked"]
    assert attempts == [1]


async def test_clean_up_runs_when_a_handler_is_suspended(app: Windlass) -> None:
    cleaned: list[int] = []

    @app.job
    async def tidy(ctx: Context) -> str:
        try:
            return str(await ctx.wait_for("go"))
        finally:
            cleaned.append(ctx.attempt)
            await asyncio.sleep(0)

    run = await tidy.aenqueue()
    async with working(app):
        await reached(app, run.id, Status.WAITING)
        await run.asignal("go", "went")
        assert (await run.await_end(timeout=10)).result == "went"
    assert cleaned == [1, 2]


async def test_a_handler_that_does_not_leave_is_left(app: Windlass) -> None:
    holding_on = asyncio.Event()

    @app.job
    async def clings(ctx: Context) -> str:
        while ctx.attempt == 1:
            try:
                await ctx.wait_for("go")
            except asyncio.CancelledError:
                await holding_on.wait()
        return str(await ctx.wait_for("go"))

    run = await clings.aenqueue()
    async with working(app, cancel_grace="100ms"):
        await reached(app, run.id, Status.WAITING)
        holding_on.set()
        await run.asignal("go", "went")
        assert (await run.await_end(timeout=10)).result == "went"


async def test_a_cancel_ends_a_run_that_waits_in_its_seat(app: Windlass) -> None:
    begun = asyncio.Event()

    @app.job
    async def held(ctx: Context) -> None:
        begun.set()
        async with asyncio.timeout(NO_TIME):
            await ctx.wait_for("never")

    run = await held.aenqueue()
    async with working(app):
        await begun.wait()
        await run.acancel("enough")
        assert (await run.await_end(timeout=10)).status is Status.CANCELED


async def test_a_step_after_the_end_of_its_handler_is_refused(app: Windlass) -> None:
    said: list[str] = []
    left = asyncio.Event()

    @app.job
    async def leaves(ctx: Context) -> None:
        async def later() -> None:
            await left.wait()
            try:
                await ctx.step("late", asyncio.sleep, 0)
            except Exception as error:  # noqa: BLE001
                said.append(str(error))

        await ctx.step("first", asyncio.sleep, 0)
        leaves.task = asyncio.ensure_future(later())  # type: ignore[attr-defined]

    run = await leaves.aenqueue()
    async with working(app):
        await run.await_end(timeout=10)
        left.set()
        await leaves.task  # type: ignore[attr-defined]
    assert said == ["Step 'late' was called when its attempt was over: await it in the handler."]


async def test_a_race_in_a_thread(app: Windlass) -> None:
    """One that is over soon keeps its seat; another leaves it to others."""

    @app.job
    def soon(ctx: SyncContext) -> list[Any]:
        return [ctx.first(a=ctx.waiting_for("a"), b=ctx.sleeping("10ms")).name, ctx.attempt]

    @app.job
    def late(ctx: SyncContext) -> list[Any]:
        won = ctx.first(a=ctx.waiting_for("a"), b=ctx.sleeping("b", days=1))
        return [*won, ctx.attempt]

    run = await late.aenqueue()
    async with working(app, threads=1):
        await reached(app, run.id, Status.WAITING)
        assert set((await run.arefresh()).waits) == {"a", "b"}
        other = await soon.aenqueue()
        assert (await other.await_end(timeout=10)).result == ["b", 1]
        await run.asignal("a", 7)
        assert (await run.await_end(timeout=10)).result == ["a", 7, 2]
