"""The end of a run in its handler's own transaction: the effect exists if and only if it does."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.test_joined_steps import ainsert, effects, insert, table
from tests.fixtures.apps import PATIENCE, Bell, holds, reached, within, working
from windlass import (
    Context,
    ContinueAs,
    Fail,
    FailedRun,
    LeaseLost,
    Retry,
    Run,
    Snooze,
    Status,
    SyncContext,
    UsageError,
    Windlass,
)

__all__ = ["table"]
pytestmark = pytest.mark.usefixtures("table")
MOMENTS = ["never", "before the end", "before the commit", "after the commit"]
# Nothing that a worker does by itself comes within the patience of a test.
QUIET: dict[str, Any] = {"lease": "10m", "renew": "3m", "poll": "3m", "drain": 0}


@pytest.mark.parametrize("fails", MOMENTS)
async def test_effect_and_end_are_committed_together(
    app: Windlass, fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whenever the attempt fails, the effect is there once in the end, and what came after the
    commit does not count."""

    def fail(ctx: Context | SyncContext, moment: str) -> None:
        if (ctx.attempt, fails) == (1, moment):
            raise ConnectionError

    @app.job(retry=Retry.fixed("10ms"))
    async def on_loop(ctx: Context) -> str:
        await ctx.progress(0.9, "nearly")
        async with app.transaction() as tx:
            await ainsert(tx, "loop")
            fail(ctx, "before the end")
            ctx.log.info("booked")
            await ctx.using(connection=tx).finish("loop")
            fail(ctx, "before the commit")
        ctx.log.info("tidied")
        fail(ctx, "after the commit")
        return "ignored"

    @app.job(retry=Retry.fixed("10ms"))
    def in_thread(ctx: SyncContext) -> str:
        ctx.progress(0.9, "nearly")
        with app.transaction() as tx:
            insert(tx, "thread")
            fail(ctx, "before the end")
            ctx.using(connection=tx).finish("thread")
            fail(ctx, "before the commit")
        fail(ctx, "after the commit")
        return "ignored"

    caplog.set_level("INFO", "windlass.run")
    runs = [await on_loop.aenqueue(), await in_thread.aenqueue()]
    async with working(app):
        ended = [await run.await_end(timeout=PATIENCE) for run in runs]

    assert [run.result for run in ended] == ["loop", "thread"]
    assert [run.progress for run in ended] == [0.9, 0.9]
    assert [run.attempt for run in ended] == [1 + fails.startswith("before")] * 2
    assert effects(app) == ["loop", "thread"]
    said = [record.getMessage() for record in caplog.records]
    assert "lease lost, nothing recorded" not in said
    assert said.count("handler failed after it had ended its run") == 2 * (fails == MOMENTS[-1])
    assert said.count("run succeeded") == 2
    assert [line.message for line in await runs[0].alogs()][-2:] == ["booked", "tidied"]


async def test_an_end_that_is_not_committed_is_a_failed_attempt(app: Windlass) -> None:
    @app.job(max_attempts=1)
    async def forgetful(ctx: Context) -> str:
        try:
            async with app.transaction() as tx:
                await ainsert(tx, "nothing")
                await ctx.using(connection=tx).finish("ended")
                raise ConnectionError
        except ConnectionError:
            return "returned"

    run = await forgetful.aenqueue()
    async with working(app):
        ended = await run.await_end(timeout=PATIENCE)
    assert (ended.status, effects(app)) == (Status.FAILED, [])
    assert ended.error is not None
    assert ended.error.type.endswith("EndNotCommitted")


async def test_a_transaction_that_is_repeated_ends_the_run_once(app: Windlass) -> None:
    @app.job
    async def stubborn(ctx: Context) -> list[Any]:
        for turn in range(3):
            try:
                async with app.transaction() as tx:
                    found = await ctx.using(connection=tx).step("pay", ainsert, tx, "paid")
                    ended = await ctx.using(connection=tx).finish([found, turn])
                    if turn == 2:
                        return ended
                    raise ConnectionError
            except ConnectionError:
                continue
        raise AssertionError

    run = await stubborn.aenqueue()
    async with working(app):
        ended = await run.await_end(timeout=PATIENCE)
    assert (ended.result, ended.attempt, effects(app)) == (["paid", 2], 1, ["paid"])


async def test_a_handler_goes_on_after_the_commit(app: Windlass) -> None:
    """The renewal finds the lease gone while the handler cleans up: it is left alone. Nothing that
    it does by then is recorded."""
    ended, renewed = asyncio.Event(), asyncio.Event()
    seen: list[object] = []

    @app.job(timeout="10m")
    async def tidy(ctx: Context) -> str:
        async with app.transaction() as tx:
            await ctx.using(connection=tx).finish("ended")
        ended.set()
        await renewed.wait()
        seen.append(ctx.canceled)
        try:
            await ctx.step("late", str, 1)
        except LeaseLost as error:
            seen.append(error.code)
        return "ignored"

    run = await tidy.aenqueue()
    async with working(app) as worker:
        await within(ended)
        assert run.refresh().status is Status.SUCCEEDED
        with worker.signals.renewed.heard() as heard:
            for _ in range(2):
                await heard.until(lambda reply: bool(reply.lost))
        renewed.set()
    assert seen == [False, "lease_lost"]
    assert (run.refresh().result, await run.asteps()) == ("ended", [])


async def test_a_worker_that_lost_its_lease_ends_nothing(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if its handler catches the error."""
    over = asyncio.Event()

    @app.job
    async def zombie(ctx: Context) -> None:
        await app.aterminate(ctx.run_id)
        try:
            async with app.transaction() as tx:
                await ainsert(tx, "nothing")
                try:
                    await ctx.using(connection=tx).finish("zombie")
                except LeaseLost:
                    over.set()
        finally:
            over.set()

    run = await zombie.aenqueue()
    # No renewal, no wake-up: by either the worker would learn of its loss and cancel the handler.
    monkeypatch.setattr(app.store, "listen", Bell().listen)
    async with working(app, renew="20s", lease="60s"):
        await within(over)
    assert (run.refresh().status, effects(app)) == (Status.CANCELED, [])


@pytest.mark.parametrize("heard", [False, True])
async def test_a_cancel_that_came_first_counts_if_the_handler_has_heard_of_it(
    app: Windlass, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the end does, as that of any handler."""
    started, asked = asyncio.Event(), asyncio.Event()
    bell = Bell()
    monkeypatch.setattr(app.store, "listen", bell.listen)

    @app.job
    async def late(ctx: Context) -> None:
        started.set()
        with suppress(asyncio.CancelledError):  # and it goes on
            await asked.wait()
        async with app.transaction() as tx:
            await ainsert(tx, "late")
            await ctx.using(connection=tx).finish("late")

    run = await late.aenqueue()
    async with working(app, **QUIET):
        await within(started)
        await run.acancel()
        bell.ring() if heard else asked.set()
        ended = await run.await_end(timeout=PATIENCE)
    assert ended.status is (Status.CANCELED if heard else Status.SUCCEEDED)
    assert effects(app) == ([] if heard else ["late"])


async def test_a_run_that_is_to_pause_stops_before_its_end(app: Windlass) -> None:
    started = asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        async with app.transaction() as tx:
            await ainsert(tx, f"attempt {ctx.attempt}")
            if ctx.attempt == 1:
                started.set()
                await paused.wait()
            await ctx.using(connection=tx).finish(ctx.attempt)

    paused = asyncio.Event()
    run = await work.aenqueue()
    async with working(app) as worker:
        if app.store.place.startswith("sqlite"):
            # Its transaction has the file's lock: nobody can ask for a pause meanwhile.
            paused.set()
        await within(started)
        if not paused.is_set():
            with worker.signals.renewed.heard() as renewed:
                await run.apause()
                await renewed.until(lambda reply: bool(reply.orders))
            paused.set()
            await reached(app, run.id, Status.PAUSED)
            assert effects(app) == []
            await run.aresume()
        ended = await run.await_end(timeout=PATIENCE)
    assert effects(app) == [f"attempt {ended.attempt}"]


async def test_every_end_that_a_handler_may_return(app: Windlass) -> None:
    """It goes on, sleeps, fails with its failure handler, and lets its parent go on: all of it if
    the transaction is committed."""
    heard: list[str] = []

    @app.job
    async def pages(ctx: Context, n: int = 0) -> int | ContinueAs:
        async with app.transaction() as tx:
            await ainsert(tx, f"page {n}")
            return await ctx.using(connection=tx).finish(ContinueAs(n=n + 1) if n < 2 else n)

    @app.job
    async def naps(ctx: Context) -> None:
        async with app.transaction() as tx:
            again = Snooze("10ms") if ctx.attempt == 1 else None
            await ctx.using(connection=tx).finish(again)

    @app.job(retry=Retry.fixed("1ms"), max_attempts=2)
    def fails(ctx: SyncContext) -> None:
        with app.transaction() as tx:
            insert(tx, f"failure {ctx.attempt}")
            ctx.using(connection=tx).finish(Fail("no stock"))

    @fails.on_failure
    async def mourn(ctx: Context, failed: FailedRun) -> None:
        heard.append(failed.id)

    @app.job
    async def parent(ctx: Context) -> object:
        return await ctx.run(pages, 2)

    runs: list[Run] = [
        await pages.aenqueue(), await naps.aenqueue(), await fails.aenqueue(),
        await parent.aenqueue(),
    ]  # fmt: skip
    async with working(app):
        ended = [await run.await_end(timeout=PATIENCE) for run in runs]
        async with asyncio.timeout(PATIENCE):
            while not heard:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    statuses = [(run.status.value, run.attempt, run.raw_result) for run in ended]
    assert statuses == [
        ("succeeded", 3, 2), ("succeeded", 2, None), ("failed", ended[2].attempt, None),
        ("succeeded", 2, 2),
    ]  # fmt: skip
    assert heard == [ended[2].id]
    failures = [f"failure {n + 1}" for n in range(ended[2].attempt)]
    assert effects(app) == [*failures, "page 0", "page 1", "page 2", "page 2"]


async def test_a_handler_that_takes_too_long_after_the_commit_has_ended_its_run(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(timeout="300ms", max_attempts=1)
    async def slow(ctx: Context) -> str:
        async with app.transaction() as tx:
            await ctx.using(connection=tx).finish("in time")
        await asyncio.Event().wait()
        return "never"

    run = await slow.aenqueue()
    async with working(app) as worker:
        await run.await_end(timeout=PATIENCE)
        await holds(worker, 0)
    assert run.refresh().result == "in time"
    assert run.finished_at is not None
    assert run.started_at is not None
    assert run.finished_at - run.started_at < timedelta(seconds=0.3)
    assert "lease lost, nothing recorded" not in [r.getMessage() for r in caplog.records]


async def test_what_cannot_be_an_end_is_refused(app: Windlass) -> None:
    said: list[str] = []

    @app.job(max_attempts=1)
    async def careless(ctx: Context) -> str:
        async def ends(tx: Any) -> None:
            await ctx.using(connection=tx).finish(1)

        for way in ("in a step", "no JSON"):
            try:
                async with app.transaction() as tx:
                    if way == "in a step":
                        await ctx.using(connection=tx).step("inner", ends, tx)
                    await ctx.using(connection=tx).finish(object())
            except UsageError as error:
                said.append(str(error))
        return "ended otherwise"

    run = await careless.aenqueue()
    async with working(app):
        assert (await run.await_end(timeout=PATIENCE)).result == "ended otherwise"
    assert "cannot end inside of 'inner'" in said[0]
    assert "result" in said[1]
