"""Runs that are not done by their deadline: ended wherever they are, and for good.

The store's clock stands still until a test moves it. So a worker has exactly the time that a claim
says, however busy the machine is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.fixtures.apps import (
    PATIENCE,
    at_rest,
    opened,
    reached,
    service_of,
    take_ahead,
    within,
    working,
)
from windlass import (
    AttemptOutcome,
    BadOption,
    Context,
    Failure,
    Retry,
    Run,
    Status,
    SyncContext,
    Windlass,
)
from windlass.engine.sweeper import Sweeper
from windlass.engine.worker import Worker
from windlass.sources import ManualSources, Sources


@pytest.fixture
def sources() -> ManualSources:
    return Sources.manual()


@pytest.fixture
async def app(url: str, sources: ManualSources) -> AsyncIterator[Windlass]:
    async with opened(url, sources=sources) as made:
        yield made


def check_overrun(run: Run, attempts: int = 1) -> None:
    """The run ended by its deadline, and says so everywhere."""
    assert (run.status, run.failure) == ("failed", Failure.DEADLINE)
    assert (run.attempt, len(run.attempts)) == (attempts, attempts)


async def swept(worker: Worker, run: Run, sources: ManualSources) -> None:
    """Let its deadline pass, and time for more sweeps: one may be under way, or find it running."""
    sources.clock.advance(5)
    with service_of(worker, Sweeper).swept.heard() as sweeps:
        async with asyncio.timeout(PATIENCE):
            while not (await run.arefresh()).status.finished:
                sources.clock.advance(0.1)
                await sweeps.next()


async def test_async_handler_is_stopped_for_good(app: Windlass) -> None:
    seen: list[tuple[bool, datetime | None]] = []

    @app.job(retry=Retry.fixed(0))
    async def slow(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append((ctx.canceled, ctx.deadline))

    run = await slow.using(deadline="100ms").aenqueue()
    async with working(app):
        await run.await_end(timeout=PATIENCE)
    check_overrun(run)
    assert run.error is not None
    assert run.error.message == f"not done by its deadline, {run.deadline_at}"
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.TIMEOUT]
    assert seen == [(True, run.deadline_at)]


async def test_thread_is_fenced(app: Windlass) -> None:
    go, left = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job
    def slow(ctx: SyncContext) -> str:
        go.wait(PATIENCE)
        loop.call_soon_threadsafe(left.set)
        return "late"

    run = await slow.using(deadline="100ms").aenqueue()
    async with working(app):
        await run.await_end(timeout=PATIENCE)
        go.set()
        await within(left)
    await run.arefresh()
    check_overrun(run)
    assert run.result is None


async def test_handler_that_does_not_listen_is_left_behind(app: Windlass) -> None:
    go = asyncio.Event()

    @app.job
    async def stubborn() -> str:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    run = await stubborn.using(deadline="50ms").aenqueue()
    async with working(app, cancel_grace="50ms"):
        await run.await_end(timeout=PATIENCE)
        go.set()
    await run.arefresh()
    check_overrun(run)


async def test_success_in_the_last_moment_counts(app: Windlass) -> None:
    """The handler was told to end, and ends by a result: what it did is done."""

    @app.job
    async def hurries() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    run = await hurries.using(deadline="50ms").aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=PATIENCE) == "done"


async def test_deadline_ends_the_waits_between_attempts(
    app: Windlass, sources: ManualSources
) -> None:
    @app.job(retry=Retry.fixed("1h"))
    async def fails() -> None:
        raise ValueError("no")

    run = await fails.using(deadline="5s").aenqueue()
    async with working(app) as worker:
        await reached(app, run.id, Status.SCHEDULED)
        await swept(worker, run, sources)
    check_overrun(run)
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.FAILED]


async def test_timeout_before_the_deadline_is_tried_again(
    app: Windlass, sources: ManualSources
) -> None:
    again = asyncio.Event()

    @app.job(timeout="20ms", retry=Retry.fixed(0), max_attempts=1_000_000)
    async def slow(ctx: Context) -> None:
        if ctx.attempt > 1:
            again.set()
        await asyncio.Event().wait()

    run = await slow.using(deadline="5s").aenqueue()
    async with working(app) as worker:
        await within(again)
        await swept(worker, run, sources)
    assert (run.status, run.failure) == ("failed", Failure.DEADLINE)


async def test_run_that_waits_for_a_seat_does_not_start_past_its_deadline(app: Windlass) -> None:
    started, go, called = asyncio.Event(), asyncio.Event(), list[str]()

    @app.job
    async def first() -> None:
        started.set()
        await go.wait()

    @app.job
    async def second() -> None:
        called.append("second")

    await first.aenqueue()
    async with working(app, concurrency=1) as worker:
        await within(started)
        run = await second.using(deadline="150ms").aenqueue()
        await at_rest(worker)
        await take_ahead(app, worker, 1)
        await run.await_end(timeout=PATIENCE)
        go.set()
    check_overrun(run)
    assert called == []


async def test_deadline_in_the_past_never_starts(app: Windlass) -> None:
    @app.job
    async def work() -> None: ...

    run = await work.using(deadline=datetime(2020, 1, 1, tzinfo=UTC)).aenqueue()
    async with working(app):
        await run.await_end(timeout=PATIENCE)
    check_overrun(run, attempts=0)


@pytest.mark.parametrize("option", ["expires", "deadline"])
async def test_schedule_gives_its_runs_a_length_of_time(app: Windlass, option: str) -> None:
    @app.job
    async def work() -> None: ...

    app.migrate()
    app.schedules.put(work.using(**{option: "90s"}), key="s", interval="1h")  # type: ignore[arg-type]
    run = app.schedules.trigger("s")
    assert run is not None
    assert getattr(run, f"{option}_at") - run.created_at == timedelta(seconds=90)
    with pytest.raises(BadOption, match="give a length of time"):
        app.schedules.put(
            work.using(**{option: datetime(2040, 1, 1, tzinfo=UTC)}),  # type: ignore[arg-type]
            key="s",
            interval="1h",
        )
