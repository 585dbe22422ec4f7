"""Seats: whichever way an attempt leaves one, it is free again, and the run is recorded."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, holds, take_ahead, told_of_work, within, working
from windlass import AttemptOutcome, SyncContext, Windlass, Worker
from windlass.domain.run import Ordered
from windlass.domain.states import Intent
from windlass.engine.holdings import Holding


class Bench:
    """One job per executor, and a worker with one seat for each that takes what it is told to."""

    def __init__(self, app: Windlass, worker: Worker) -> None:
        self._app, self._worker = app, worker

    async def take(self, job: Any) -> tuple[Any, Holding]:
        """Claim a run; when this returns the loop has not had a turn since."""
        self._worker._pump.claiming = False
        run = await job.aenqueue()
        await take_ahead(self._app, self._worker, 1)
        [holding] = self._worker._holdings.all()
        return run, holding

    async def check_free(self, job: Any) -> None:
        """Nothing is held any more, and the seat can be used."""
        await holds(self._worker, 0)
        assert [lane.running for lane in self._worker._lanes.values()] == [0] * 3
        self._worker._pump.claiming = True
        run = await job.aenqueue()
        told_of_work(self._worker)
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
        worker._seats.fill()
        lease = holding.held
        worker._seats.order(Ordered(lease.tenant, lease.id, lease.token, Intent.CANCEL, "no more"))
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
        worker._seats.fill()
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

    async def broken(holding: Holding) -> None:
        raise ZeroDivisionError("a bug")

    async with working(app, **ONE) as worker:
        await within(worker.started)
        with monkeypatch.context() as patch:
            patch.setattr(worker._runner, "run_async", broken)
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
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if thread.name.startswith("windlass-handler"):
                self.refused.set()
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)


async def test_handler_for_which_there_is_no_thread_has_failed(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job(max_attempts=1)
    def tame() -> str:
        return "fine"

    async with working(app, **ONE) as worker:
        await within(worker.started)
        with monkeypatch.context() as patch:
            NoThreads(patch)
            run = await tame.aenqueue()
            await run.await_end(timeout=PATIENCE)
        assert run.status == "failed"
        assert run.error is not None
        assert run.error.message == "can't start new thread"
        await Bench(app, worker).check_free(tame)


async def test_handler_for_which_there_is_no_further_thread_waits_for_one(
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
        go.set()
        same = await app.aresult(one.id, timeout=PATIENCE)
        assert await app.aresult(other.id, timeout=PATIENCE) == same
        threads: Any = worker._seats._threads
        assert (threads._threads, threads._idle) == (1, 1)
