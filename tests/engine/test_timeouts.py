"""Attempts that take too long: told so, recorded whatever the handler does, counted as failures."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tests.fixtures.apps import PATIENCE, at_rest, hub_of, take_ahead, told_of_work, within, working
from windlass import (
    AttemptOutcome,
    Context,
    Failure,
    LeaseLost,
    Retry,
    Run,
    SyncContext,
    Windlass,
)


def check_timed_out(run: Run, seconds: str = "0.05") -> None:
    """The run ended by a timeout, and says so everywhere."""
    assert (run.status, run.failure) == ("failed", Failure.TIMEOUT)
    assert (run.attempt, run.failures) == (1, 1)
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("TimeoutError", f"timed out after {seconds} s")
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.TIMEOUT]


async def test_async_handler_is_canceled(app: Windlass) -> None:
    seen: list[str] = []

    @app.job(timeout="50ms", max_attempts=1)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("canceled")
            raise
        finally:
            await asyncio.sleep(0)  # time to clean up
            seen.append("cleaned up")

    run = await slow.aenqueue()
    async with working(app):
        await run.await_end(timeout=10)
    check_timed_out(run)
    assert seen == ["canceled", "cleaned up"]


async def test_timeout_is_retried_as_other_failures_are(app: Windlass) -> None:
    @app.job(timeout="50ms", retry=Retry.fixed(0))
    async def slow_at_first(ctx: Context) -> str:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return "done"

    run = await slow_at_first.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "done"
    await run.arefresh()
    assert (run.attempt, run.failures) == (2, 1)
    assert [a.outcome.value for a in run.attempts] == ["timeout", "succeeded"]


async def test_one_runs_own_timeout_wins(app: Windlass) -> None:
    @app.job(timeout="1h", max_attempts=1)
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.job(timeout="1ms")
    async def brief() -> str:
        await asyncio.sleep(0.02)
        return "done"

    shorter = await slow.using(timeout="30ms").aenqueue()
    longer = await brief.using(timeout="1h").aenqueue()
    async with working(app):
        assert await app.aresult(longer.id, timeout=10) == "done"
        await shorter.await_end(timeout=10)
    check_timed_out(shorter, "0.03")


async def test_waiting_for_a_seat_is_not_counted(app: Windlass) -> None:
    started, go, leave = asyncio.Event(), asyncio.Event(), threading.Event()

    @app.job
    async def first() -> None:
        started.set()
        await go.wait()

    @app.job(timeout="20ms", max_attempts=1)
    async def second() -> str:
        return "done"

    @app.job(timeout="20ms", max_attempts=1)
    def witness() -> None:
        leave.wait(PATIENCE)

    await first.aenqueue()
    async with working(app, concurrency=1) as worker:
        await within(started)
        run = await second.aenqueue()
        await take_ahead(app, worker, 1)
        assert (await run.arefresh()).attempt == 1
        # In a lane of its own, and of the same time: when that is over, so would be the other's.
        later = await witness.aenqueue()
        await later.await_end(timeout=PATIENCE)
        check_timed_out(later, "0.02")
        go.set()
        assert await app.aresult(run.id, timeout=10) == "done"
        leave.set()


async def test_handler_that_ends_in_time_once_told_has_succeeded(app: Windlass) -> None:
    @app.job(timeout="50ms", max_attempts=1)
    async def graceful() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "what I have"
        return "all"

    run = await graceful.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "what I have"


async def test_handler_that_swallows_cancellation_is_recorded_without_it(
    app: Windlass,
) -> None:
    go, told = asyncio.Event(), asyncio.Event()

    @app.job(timeout="50ms", max_attempts=1)
    async def stubborn(ctx: Context) -> str:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                assert ctx.canceled
                told.set()
        return "too late"

    @app.job
    async def next_one() -> str:
        return "fine"

    run = await stubborn.aenqueue()
    async with working(app, concurrency=1, cancel_grace="50ms") as worker:
        await run.await_end(timeout=10)
        assert told.is_set()
        check_timed_out(run)
        # It still has its seat, and gives it up only when it ends.
        other = await next_one.aenqueue()
        told_of_work(worker)
        await at_rest(worker)
        waits = (await other.arefresh()).attempt == 0
        go.set()  # whatever comes of the test: nothing else ends it
        assert waits
        assert await app.aresult(other.id, timeout=10) == "fine"
    check_timed_out(await run.arefresh())  # the late result was ignored


async def test_thread_is_recorded_fenced_and_keeps_its_seat(app: Windlass) -> None:
    go = threading.Event()
    seen: list[bool] = []

    @app.job(timeout="50ms", max_attempts=1)
    def slow(ctx: SyncContext) -> str:
        go.wait(PATIENCE)
        seen.append(ctx.canceled)
        try:
            ctx.progress(0.5)
        except LeaseLost:
            seen.append(True)
        return "too late"

    @app.job
    def next_one() -> str:
        return "fine"

    run = await slow.aenqueue()
    async with working(app, threads=1) as worker:
        await run.await_end(timeout=10)
        check_timed_out(run)
        other = await next_one.aenqueue()
        told_of_work(worker)
        await at_rest(worker)
        assert (await other.arefresh()).attempt == 0
        go.set()
        assert await app.aresult(other.id, timeout=10) == "fine"
    check_timed_out(await run.arefresh())
    assert seen == [True, True]
    assert run.progress is None


async def test_thread_that_timed_out_is_tried_again_beside_itself(app: Windlass) -> None:
    go = threading.Event()

    @app.job(timeout="50ms", retry=Retry.fixed(0))
    def slow_at_first(ctx: SyncContext) -> str:
        if ctx.attempt == 1:
            go.wait(PATIENCE)
            return "stale"
        return "fresh"

    run = await slow_at_first.aenqueue()
    async with working(app, threads=2):
        assert await app.aresult(run.id, timeout=10) == "fresh"
        go.set()
    assert (await run.arefresh()).result == "fresh"


async def test_timers_of_ended_runs_are_let_go(app: Windlass) -> None:
    @app.job(timeout="1h")
    async def quick() -> None: ...

    runs = await app.aenqueue_many(quick.request() for _ in range(3000))
    async with working(app) as worker:
        await worker.drained()
        held: Any = hub_of(worker).seats._deadlines
        assert len(held._heap) <= 2048
    assert runs[-1].refresh().status == "succeeded"
