"""Seats: whichever way an attempt leaves one, it is free again, and the run is recorded."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from tests.fixtures.apps import (
    PATIENCE,
    hold_claims,
    holds,
    hub_of,
    reached,
    resume_claims,
    seats_taken,
    take_ahead,
    within,
    working,
)
from windlass import (
    AttemptOutcome,
    Context,
    Status,
    StoreUnavailable,
    SyncContext,
    Windlass,
    Worker,
)
from windlass.domain.job import Executor
from windlass.domain.run import Ordered
from windlass.domain.states import Intent
from windlass.engine.attempt import Runner
from windlass.engine.deadlines import Deadlines
from windlass.engine.holdings import Holding
from windlass.engine.threads import Threads
from windlass.store.interface import Call


class Bench:
    """One job per executor, and a worker with one seat for each that takes what it is told to."""

    def __init__(self, app: Windlass, worker: Worker) -> None:
        self._app, self._worker = app, worker

    async def take(self, job: Any) -> tuple[Any, Holding]:
        """Claim a run; when this returns the loop has not had a turn since."""
        hold_claims(self._worker)
        run = await job.aenqueue()
        await take_ahead(self._app, self._worker, 1)
        [holding] = hub_of(self._worker).holdings.all()
        return run, holding

    async def check_free(self, job: Any) -> None:
        """Nothing is held any more, and the seat can be used."""
        await holds(self._worker, 0)
        assert seats_taken(self._worker) == 0
        run = await job.aenqueue()
        resume_claims(self._worker)
        assert await self._app.aresult(run.id, timeout=PATIENCE) == "fine"


ONE = {"concurrency": 1, "threads": 1}


async def test_cancel_before_the_first_step_ends_the_run_and_frees_the_seat(app: Windlass) -> None:
    @app.job
    async def tame() -> str:
        return "fine"

    async with working(app, **ONE) as worker:
        await within(worker.started)
        bench = Bench(app, worker)
        run, holding = await bench.take(tame)
        hub_of(worker).seats.fill()
        lease = holding.held
        order = Ordered(lease.tenant, lease.id, lease.token, Intent.CANCEL, "no more")
        hub_of(worker).seats.orders.heed([order])
        await run.await_end(timeout=PATIENCE)
        assert (run.status, run.reason) == ("canceled", "no more")
        await bench.check_free(tame)


async def test_task_canceled_with_the_loop_before_its_first_step_is_given_back(
    app: Windlass,
) -> None:
    @app.job
    async def tame() -> str:
        return "fine"

    async with working(app, **ONE) as worker:
        await within(worker.started)
        bench = Bench(app, worker)
        run, holding = await bench.take(tame)
        hub_of(worker).seats.fill()
        assert holding.task is not None
        holding.task.cancel()
        await holds(worker, 0)
        await run.arefresh()
        assert (run.status, run.failures) == ("queued", 0)
        assert [a.outcome for a in run.attempts] == [AttemptOutcome.INTERRUPTED]
        await bench.check_free(tame)


async def test_error_of_our_own_fails_the_run_and_frees_the_seat(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job(max_attempts=1)
    async def tame() -> str:
        return "fine"

    async def broken(runner: Runner, holding: Holding) -> None:
        raise ZeroDivisionError("a bug")

    async with working(app, **ONE) as worker:
        await within(worker.started)
        with monkeypatch.context() as patch:
            patch.setattr(Runner, "run_async", broken)
            run = await tame.aenqueue()
            await run.await_end(timeout=PATIENCE)
        assert (run.status, run.failures) == ("failed", 1)
        assert run.error is not None
        assert (run.error.type, run.error.message) == ("ZeroDivisionError", "a bug")
        await Bench(app, worker).check_free(tame)


class NoThreads:
    """A machine that gives no handler's thread any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = asyncio.Event()
        self.refusals = 0
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if thread.name.startswith("windlass-handler"):
                self.refused.set()
                self.refusals += 1
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)


async def test_run_for_which_there_is_no_thread_goes_back_uncounted(
    app: Windlass, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(max_attempts=1)
    def tame() -> str:
        return "fine"

    async with working(app, threads=5) as worker:
        await within(worker.started)
        with monkeypatch.context() as patch:
            machine = NoThreads(patch)
            run = await tame.aenqueue()
            async with asyncio.timeout(PATIENCE):
                while machine.refusals < 3:
                    machine.refused.clear()
                    await machine.refused.wait()
                    await reached(app, run.id, Status.QUEUED)
        assert await app.aresult(run.id, timeout=PATIENCE) == "fine"
        await run.arefresh()
        assert (run.failures, run.crash_count) == (0, 0)
        outcomes = [attempt.outcome for attempt in run.attempts]
        # One seat asks after each pause, not all of them.
        assert outcomes == ["interrupted"] * machine.refusals + ["succeeded"]
        await Bench(app, worker).check_free(tame)
        assert (
            hub_of(worker).roster.lanes[Executor.THREAD].limit is not None
        )  # one of five is known to be had
    told = [record for record in caplog.records if "to be had" in record.message]
    assert len(told) == 1
    assert "can't start new thread" in str(told[0].__dict__["error"])
    assert "ulimit -u" in str(told[0].__dict__["advice"])


async def test_seats_open_again_as_the_machine_gives(
    app: Windlass, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    barrier = threading.Barrier(3)

    @app.job(max_attempts=1)
    def together() -> None:
        barrier.wait(PATIENCE)

    caplog.set_level(logging.INFO)
    async with working(app, threads=3) as worker:
        await within(worker.started)
        with monkeypatch.context() as patch:
            machine = NoThreads(patch)
            runs = await app.aenqueue_many([together.request() for _ in range(3)])
            await within(machine.refused)
        for run in runs:  # all three at once, which needs all seats
            await app.aresult(run.id, timeout=PATIENCE)
        assert hub_of(worker).roster.lanes[Executor.THREAD].limit is None
    assert "thread for a handler to be had again" in [r.message for r in caplog.records]


def test_a_thread_is_free_when_the_end_of_its_call_is_told() -> None:
    """Whoever hears of it submits the next call: that needs no other thread."""
    threads, ends = Threads(2), SimpleQueue[int]()
    for number in range(100):
        threads.submit(lambda n=number: n, ends.put, contextvars.copy_context())  # type: ignore[misc]
        assert ends.get(timeout=PATIENCE) == number
    assert threads._threads == 1
    threads.close()


async def test_run_for_which_there_is_no_further_thread_goes_back_and_the_others_go_on(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.job(max_attempts=1)
    def first(ctx: SyncContext) -> int:
        loop.call_soon_threadsafe(started.set)
        go.wait(PATIENCE)
        return threading.get_ident()

    @app.job(max_attempts=1)
    def second() -> int:
        return threading.get_ident()

    async with working(app, threads=2) as worker:
        one = await first.aenqueue()
        await within(started)
        with monkeypatch.context() as patch:
            machine = NoThreads(patch)
            other = await second.aenqueue()
            await within(machine.refused)
            await reached(app, other.id, Status.QUEUED)  # for a worker that has a thread
            go.set()
            same = await app.aresult(one.id, timeout=PATIENCE)
            assert await app.aresult(other.id, timeout=PATIENCE) == same
        threads: Any = hub_of(worker).seats._threads
        assert (threads._threads, threads._idle) == (1, 1)


# -- listeners of the log that raise -------------------------------------------------------------


class Deaf(logging.Handler):
    """Neither it nor its filter stands any of our events."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.heard = 0
        self._where = where

    def filter(self, record: logging.LogRecord) -> bool:
        if self._where == "filter":
            self.heard += 1
            raise ZeroDivisionError("filter")
        return True

    def emit(self, record: logging.LogRecord) -> None:
        self.heard += 1
        raise ZeroDivisionError("handler")


@pytest.fixture(params=["filter", "handler"])
def deaf(request: pytest.FixtureRequest) -> Iterator[Deaf]:
    """A listener that raises whatever it hears of Windlass."""
    listener, logger = Deaf(request.param), logging.getLogger("windlass")
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    yield listener
    logger.removeHandler(listener)
    logger.setLevel(level)


async def test_listener_that_raises_costs_no_end(app: Windlass, deaf: Deaf) -> None:
    @app.job
    async def on_loop() -> str:
        return "fine"

    @app.job
    def in_thread() -> str:
        return "fine"

    @app.job(timeout="10ms", max_attempts=1)
    async def slow(ctx: Context) -> None:
        await asyncio.Event().wait()

    runs = [await job.aenqueue() for job in (on_loop, in_thread) for _ in range(2)]
    async with working(app, concurrency=1, threads=1) as worker:
        for run in runs:
            assert await app.aresult(run.id, timeout=PATIENCE) == "fine"
        for _ in range(2):
            late = await slow.aenqueue()
            await late.await_end(timeout=PATIENCE)
            assert (late.status, late.failure) == (Status.FAILED, "timeout")
        await holds(worker, 0)
        assert seats_taken(worker) == 0
    assert deaf.heard >= len(runs) + 2


async def test_listener_that_raises_costs_no_trip(
    app: Windlass, deaf: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the worker: what is said of a store that is away is not worth more than the store."""
    away, arun = 3, app.store.arun

    async def unsteady(call: Call[Any]) -> Any:
        nonlocal away
        if call.name == "cycle" and away:
            away -= 1
            raise StoreUnavailable("gone fishing")
        return await arun(call)

    @app.job
    async def tame() -> str:
        return "fine"

    monkeypatch.setattr(app.store, "arun", unsteady)
    async with working(app):
        assert await app.aresult((await tame.aenqueue()).id, timeout=PATIENCE) == "fine"
    assert away == 0


async def test_deadlines_outlive_one_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    deadlines, done = Deadlines(loop), asyncio.Event()
    told: list[Any] = []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    def trip(_: Holding) -> None:
        raise ZeroDivisionError

    holding: Any = type("H", (), {"concluded": False})()
    deadlines.after(0, holding, trip)
    deadlines.after(0.001, holding, lambda _: done.set())
    try:
        await within(done)
    finally:
        loop.set_exception_handler(before)
    assert [type(error) for error in told] == [ZeroDivisionError]


async def test_level_of_the_runs_own_log_decides(app: Windlass) -> None:
    """It is the log of the runs that is written to."""
    told: list[str] = []
    runs, engine = logging.getLogger("windlass.run"), logging.getLogger("windlass.engine")
    listener = logging.Handler()
    listener.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]

    @app.job
    async def tame() -> str:
        return "fine"

    before = runs.level, engine.level
    runs.addHandler(listener)
    runs.setLevel(logging.INFO)
    engine.setLevel(logging.CRITICAL)
    try:
        async with working(app):
            await app.aresult((await tame.aenqueue()).id, timeout=PATIENCE)
    finally:
        runs.removeHandler(listener)
        runs.setLevel(before[0])
        engine.setLevel(before[1])
    assert told == ["run succeeded"]
