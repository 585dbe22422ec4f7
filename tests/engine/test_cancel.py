"""Canceling runs that a worker holds: the handler is told, and what it does first counts."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, Bell, opened, reached, within, working
from windlass import (
    AttemptOutcome,
    Cancel,
    Context,
    IllegalTransition,
    Retry,
    Run,
    Status,
    SyncContext,
    Windlass,
)
from windlass.domain.run import RenewReply

# Nothing that a worker does by itself comes within the patience of a test.
QUIET: dict[str, Any] = {"lease": "10m", "renew": "3m", "poll": "3m", "drain": 0}


def types(run: Run) -> list[str]:
    return [event.type.value for event in run.events()]


async def test_running_async_handler_is_canceled(app: Windlass) -> None:
    started = asyncio.Event()
    seen: list[Any] = []

    @app.job
    async def long(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(ctx.canceled)
            raise
        finally:
            await asyncio.sleep(0.01)
            seen.append("cleaned up")

    run = await long.aenqueue()
    async with working(app):
        await within(started)
        asked = await app.acancel(run.id, reason="changed my mind")
        assert (asked.status, asked.cancel_requested) == ("running", True)
        assert asked.reason == "changed my mind"
        await run.await_end(timeout=10)
    assert (run.status, run.reason, run.failure) == ("canceled", "changed my mind", None)
    assert (run.attempt, run.failures, run.cancel_requested) == (1, 0, False)
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.CANCELED]
    assert seen == [True, "cleaned up"]
    assert types(run) == ["run.enqueued", "run.started", "run.cancel_requested", "run.canceled"]
    (request,) = await run.astop_requests()
    assert (request.kind, request.reason) == ("cancel", "changed my mind")
    assert request.heard_at is not None
    assert request.done_at is not None
    assert request.done_at == run.finished_at
    assert request.asked_at <= request.heard_at <= request.done_at - timedelta(seconds=0.005)


async def test_cancel_need_not_wait_for_the_heartbeat(app: Windlass, url: str) -> None:
    started = asyncio.Event()

    @app.job
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await long.aenqueue()
    async with working(app, **QUIET), opened(url) as other:
        await within(started)
        await other.acancel(run.id)
        await run.await_end(timeout=PATIENCE)
    assert run.status == "canceled"


async def test_cancel_whose_hint_was_left_out_need_not_wait_either(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints close together become one: a worker that was woken looks a second time."""
    started, bell = asyncio.Event(), Bell()
    monkeypatch.setattr(app.store, "listen", bell.listen)

    @app.job
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await long.aenqueue()
    async with working(app, **QUIET) as worker:
        await within(started)

        def cancel(_: RenewReply) -> None:
            # Once the answer is there: too late for this look, in time for the next.
            app.store.run(app.store.operations.cancel(run.ref, None))

        with worker.signals.renewed.calling(cancel):
            bell.ring()
            await run.await_end(timeout=PATIENCE)
    assert run.status == "canceled"


async def test_cancel_again_while_it_runs_changes_nothing(app: Windlass) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def long() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await go.wait()

    run = await long.aenqueue()
    async with working(app):
        await within(started)
        for reason in ("first", "second", None):
            await app.acancel(run.id, reason=reason)
        go.set()
        await run.await_end(timeout=10)
    assert types(run).count("run.cancel_requested") == 1
    assert types(run).count("run.canceled") == 1


@pytest.mark.parametrize("how", ["return", "raise"])
async def test_sync_handler_sees_it_and_ends(app: Windlass, how: str) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job(retry=Retry.fixed(0))
    def long(ctx: SyncContext) -> Any:
        loop.call_soon_threadsafe(started.set)
        while not ctx.canceled:
            threading.Event().wait(0.005)
        if how == "raise":
            raise InterruptedError("asked to stop")
        return Cancel()

    run = await long.aenqueue()
    async with working(app):
        await within(started)
        await run.acancel("enough")
        await run.await_end(timeout=10)
    assert (run.status, run.reason, run.attempt) == ("canceled", "enough", 1)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_success_that_comes_first_wins(app: Windlass, kind: str) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job
    async def on_loop() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done nevertheless"
        return "never"

    @app.job
    def in_thread(ctx: SyncContext) -> str:
        loop.call_soon_threadsafe(started.set)
        while not ctx.canceled:
            threading.Event().wait(0.005)
        return "done nevertheless"

    run = await (on_loop if kind == "async" else in_thread).aenqueue()
    async with working(app):
        await within(started)
        await app.acancel(run.id)
        assert await app.aresult(run.id, timeout=10) == "done nevertheless"
    await run.arefresh()
    assert (run.status, run.reason) == ("succeeded", None)
    assert types(run)[-2:] == ["run.cancel_requested", "run.succeeded"]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_handler_that_ignores_it_is_recorded_without_it(app: Windlass, kind: str) -> None:
    started, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.job
    async def on_loop() -> str:
        started.set()
        while not go.is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                continue
        return "too late"

    @app.job
    def in_thread() -> str:
        loop.call_soon_threadsafe(started.set)
        go.wait(PATIENCE)
        return "too late"

    run = await (on_loop if kind == "async" else in_thread).aenqueue()
    async with working(app, cancel_grace="50ms"):
        await within(started)
        await app.acancel(run.id, reason="now")
        await run.await_end(timeout=10)
        assert (run.status, run.reason) == ("canceled", "now")
        go.set()
    assert ((await run.arefresh()).status, run.result) == ("canceled", None)


async def test_a_handler_that_swallows_a_cancel_does_no_further_step(app: Windlass) -> None:
    """Each of them stops it again. What it returns counts, as ever."""
    started, done = asyncio.Event(), list[str]()

    async def first() -> None:
        started.set()
        await asyncio.Event().wait()

    @app.job
    async def deaf(ctx: Context) -> int:
        told = 0
        for name, body in (("first", first), ("second", done.append), ("third", done.append)):
            try:
                await (ctx.step(name, body) if body is first else ctx.step(name, body, name))
            except asyncio.CancelledError:
                told += 1
        return told

    run = await deaf.aenqueue()
    async with working(app):
        await within(started)
        await run.acancel()
        ended = await run.await_end(timeout=PATIENCE)
    assert (ended.result, done, await run.asteps()) == (3, [], [])


async def test_failure_under_a_cancel_is_not_retried(app: Windlass) -> None:
    started = asyncio.Event()

    @app.job(retry=Retry.fixed(0))
    async def long() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("could not clean up") from None

    run = await long.aenqueue()
    async with working(app):
        await within(started)
        await app.acancel(run.id)
        await run.await_end(timeout=10)
    assert (run.status, run.attempt) == ("canceled", 1)
    assert run.attempts[0].error is not None
    assert run.attempts[0].error.message == "could not clean up"


async def test_run_in_backoff_is_canceled_at_once(app: Windlass) -> None:
    @app.job(retry=Retry.fixed("1h"))
    async def flaky() -> None:
        raise ValueError("boom")

    run = await flaky.aenqueue()
    async with working(app):
        await reached(app, run.id, Status.SCHEDULED)
        canceled = await app.acancel(run.id)
    assert (canceled.status, canceled.attempt, canceled.failures) == ("canceled", 1, 1)


async def test_cancel_racing_with_success_leaves_one_of_the_two(app: Windlass) -> None:
    ran: set[str] = set()
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def quick(ctx: Context) -> str:
        ran.add(ctx.run_id)
        started.set()
        await go.wait()
        return "done"

    async def cancel(run: Run) -> str:
        try:
            return str((await app.acancel(run.id)).status)
        except IllegalTransition as error:
            return error.status

    runs = await app.aenqueue_many(quick.request() for _ in range(200))
    async with working(app, concurrency=4):
        # Each end occurs: the last run is too late for a seat, those in the seats for a cancel.
        await within(started)
        told = [await cancel(runs[-1])]
        first = set(ran)
        go.set()
        told += await asyncio.gather(*(cancel(run) for run in reversed(runs[:-1])))
        for run in runs:
            await run.await_end(timeout=10)
    assert told[0] == "canceled"
    assert {run.status for run in runs if run.id in first} == {"succeeded"}
    for run, answer in zip(reversed(runs), told, strict=True):
        assert run.status in ("succeeded", "canceled")
        if answer != "running":
            assert run.status == answer  # what was told as final is final
        if answer == "canceled":
            assert run.id not in ran
        final = [name for name in types(run) if name in ("run.succeeded", "run.canceled")]
        assert final == [f"run.{run.status.value}"]
