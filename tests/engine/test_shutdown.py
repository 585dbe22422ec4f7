"""A worker that stops: what is short ends, what is long is given back, nothing counts."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.fixtures.apps import (
    PATIENCE,
    Bell,
    at_rest,
    hub_of,
    opened,
    take_ahead,
    told_of_work,
    within,
    working,
)
from windlass import (
    AttemptOutcome,
    Context,
    EventType,
    SyncContext,
    Windlass,
    Worker,
    WorkerOptions,
)
from windlass.domain.run import RenewReply
from windlass.engine.environment import Environment
from windlass.engine.sweeper import Sweeper
from windlass.store.interface import Call
from windlass.transport.store import StoreTransport


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
    started, go, go_on = asyncio.Semaphore(0), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.job
    async def on_loop(n: int) -> int:
        started.release()
        await go.wait()
        return n

    @app.job
    def in_thread(n: int) -> int:
        loop.call_soon_threadsafe(started.release)
        go_on.wait(PATIENCE)
        return n

    runs = await app.aenqueue_many(
        [*(on_loop.request(n) for n in range(5)), *(in_thread.request(n) for n in range(5))]
    )
    async with working(app, drain=PATIENCE * 2) as worker:
        for _ in runs:
            await asyncio.wait_for(started.acquire(), PATIENCE)
        worker.stop()
        go.set()
        go_on.set()
    for run in runs:
        await run.arefresh()
        assert (run.status, run.attempt, run.failures) == ("succeeded", 1, 0)


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
    started, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    threads: list[threading.Thread] = []

    @app.job
    def long(ctx: SyncContext) -> str:
        threads.append(threading.current_thread())
        loop.call_soon_threadsafe(started.set)
        go.wait(PATIENCE)
        return "too late"

    run = await long.aenqueue()
    async with working(app, drain="50ms") as worker:
        await within(started)
        worker.stop()
    assert (await run.arefresh()).status == "queued"
    with hub_of(worker).pump.sent.heard() as sent:
        go.set()
        await asyncio.to_thread(threads[0].join, PATIENCE)
        assert not threads[0].is_alive()  # whatever came of it has been told to the loop
        await at_rest(worker)
    assert sent.all == []  # and went no further
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


# -- ends that are in no good order ---------------------------------------------------------------


class Long:
    """A handler that goes on until it is stopped."""

    def __init__(self, app: Windlass) -> None:
        self.started = asyncio.Event()
        self.job: Any = app.job(self.work)

    async def work(self) -> None:
        self.started.set()
        await asyncio.Event().wait()


async def check_left_behind(app: Windlass, worker: Worker, run: Any) -> None:
    """Nothing: the run is given back, the name is gone, the heart does not beat."""
    await run.arefresh()
    assert (run.status, run.failures, run.crash_count) == ("queued", 0, 0)
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.INTERRUPTED]
    assert await app.aworkers() == []
    assert worker.heart.renewal is not None
    assert await worker.heart.renewal.ended(PATIENCE)


class Told(StoreTransport):
    """Says when it is closed: the worker begins to wait for its handlers then."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


def worker_with(app: Windlass, transport: StoreTransport, drain: float) -> Worker:
    specs = [job.spec for job in app.jobs.values()]
    options = WorkerOptions(drain=drain, poll=0.1)
    return Worker(Environment(app.store, app.sources, options, transport), specs)


async def test_canceled_again_it_waits_no_longer_and_still_ends_in_order(app: Windlass) -> None:
    long, transport = Long(app), Told()
    run = await long.job.aenqueue()
    worker = worker_with(app, transport, drain=3600.0)
    task = asyncio.create_task(worker.run())
    await within(long.started)
    task.cancel()
    await within(transport.closed)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE)
    await check_left_behind(app, worker, run)


class Clumsy(StoreTransport):
    """Cannot even be closed."""

    async def close(self) -> None:
        raise ZeroDivisionError("transport")


class Jammed(Bell):
    async def close(self) -> None:
        raise ZeroDivisionError("wakeups")


@pytest.mark.parametrize("part", ["transport", "wakeups", "sweeper"])
async def test_part_that_cannot_be_ended_keeps_no_other_from_it(
    app: Windlass, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    async def broken(self: Sweeper) -> None:
        await stop(self)
        raise ZeroDivisionError("sweeper")

    stop = Sweeper.stop
    if part == "wakeups":
        monkeypatch.setattr(app.store, "listen", Jammed().listen)
    elif part == "sweeper":
        monkeypatch.setattr(Sweeper, "stop", broken)
    long = Long(app)
    run = await long.job.aenqueue()
    transport = Clumsy() if part == "transport" else StoreTransport()
    worker = worker_with(app, transport, drain=0.01)
    task = asyncio.create_task(worker.run())
    await within(long.started)
    worker.stop()
    with pytest.raises(ZeroDivisionError, match=part):
        await asyncio.wait_for(task, PATIENCE)
    await check_left_behind(app, worker, run)


async def test_worker_that_cannot_listen_leaves_nothing_behind(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a name and a heartbeat by then."""

    async def deaf() -> None:
        raise ZeroDivisionError("listen")

    @app.job
    async def never() -> None: ...

    monkeypatch.setattr(app.store, "listen", deaf)
    worker = app.worker()
    with pytest.raises(ZeroDivisionError, match="listen"):
        await asyncio.wait_for(worker.run(), PATIENCE)
    assert await app.aworkers() == []
    assert worker.heart.renewal is not None
    assert await worker.heart.renewal.ended(PATIENCE)


async def test_claim_that_comes_back_after_a_cancel_starts_nothing(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canceled is stopped, for whoever runs a worker as a task."""
    claimed, go, called = asyncio.Event(), asyncio.Event(), asyncio.Event()
    arun = app.store.arun

    async def slow(call: Call[Any]) -> Any:
        reply = await arun(call)
        if call.name == "cycle" and reply.claimed:
            claimed.set()
            await go.wait()
        return reply

    @app.job
    async def work() -> None:
        called.set()

    monkeypatch.setattr(app.store, "arun", slow)
    run = await work.aenqueue()
    worker = app.worker(drain="50ms")
    task = asyncio.create_task(worker.run())
    await within(claimed)
    with worker.signals.stopping.heard() as stopping:
        task.cancel()
        await stopping.next()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not called.is_set()
    await check_left_behind(app, worker, run)


async def test_worker_that_is_canceled_takes_no_new_name(app: Windlass) -> None:
    long = Long(app)
    await long.job.aenqueue()
    worker = app.worker(drain="1h")
    task = asyncio.create_task(worker.run())
    await within(long.started)
    name = worker.id
    with worker.signals.stopping.heard() as stopping:
        task.cancel()
        await stopping.next()
    hub_of(worker).renewed(name, RenewReply(now=app.sources.now(), alive=False))
    with pytest.raises(asyncio.CancelledError):  # at once: there is nothing to wait for
        await asyncio.wait_for(task, PATIENCE)
    assert worker.id == name
    assert await app.aworkers() == []


async def test_stop_waits_for_no_thread_that_handlers_can_take(app: Windlass) -> None:
    """All of the loop's own are taken, as by handlers that use asyncio.to_thread."""
    go = threading.Event()
    loop = asyncio.get_running_loop()

    @app.job
    async def work() -> str:
        return "done"

    try:
        async with working(app) as worker:
            run = await work.aenqueue()
            assert await app.aresult(run.id, timeout=PATIENCE) == "done"
            taken = [loop.run_in_executor(None, go.wait, PATIENCE * 2) for _ in range(64)]
            worker.stop()
        assert not taken[0].done()
    finally:
        go.set()
    await asyncio.gather(*taken)
