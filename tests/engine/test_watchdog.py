"""An event loop that a handler blocks: it is seen and told, and its runs go to others."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE
from windlass import Context, Run, SyncContext, Windlass
from windlass.engine.hosting import WorkerThread
from windlass.logs import TRACEBACK

LEASE = 1.5


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Wait for what another thread does."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)
    return found


@contextmanager
def at_work(app: Windlass) -> Iterator[WorkerThread]:
    """A worker on a loop of its own, which may be blocked."""
    with app.running_in_thread(lease=LEASE, renew=0.2, sweep=0.5, drain=5) as thread:
        yield thread


class Gate:
    """Blocks the thread that comes to it, once."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def block(self) -> None:
        self.reached.set()
        assert self._open.wait(4 * PATIENCE)  # nobody waits for the end of that

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


def outcomes(run: Run) -> list[str]:
    return [attempt.outcome for attempt in run.refresh().attempts]


def interrupted(run: Run) -> bool:
    """Whether it succeeded after nothing but interruptions.

    There may be several: a claim that was under way when the loop was blocked may take the run once
    more, and is renounced.
    """
    *before, last = outcomes(run)
    return last == "succeeded" and set(before) == {"interrupted"} and run.crash_count == 0


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[Any]:
    return [record for record in caplog.records if record.getMessage() == text]


def test_a_handler_that_blocks_the_loop_is_told_and_alone_to_blame(
    app: Windlass, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    began = threading.Semaphore(0)
    told = threading.Event()
    story: list[str] = []

    @app.job
    async def neighbour(ctx: Context) -> int:
        began.release()
        story.append(f"{ctx.attempt} began")
        try:
            while ctx.attempt == 1:  # noqa: ASYNC110 - until it is canceled
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            story.append("1 canceled")
            raise
        return ctx.attempt

    @app.job
    def in_thread(ctx: SyncContext) -> int:
        began.release()
        while ctx.attempt == 1 and not ctx.canceled:
            time.sleep(0.01)
        told.set()
        return ctx.attempt

    @app.job
    async def blocker(ctx: Context) -> int:
        if ctx.attempt == 1:
            gate.block()
        return ctx.attempt

    others = [neighbour.enqueue(), in_thread.enqueue()]
    with at_work(app):
        for _ in others:
            assert began.acquire(timeout=PATIENCE)
        run = blocker.enqueue()
        assert gate.reached.wait(PATIENCE)

        worker = eventually(lambda: [w for w in app.workers() if w.blocked], "its row says it")[0]
        assert (worker.blocked_tenant, worker.blocked_run) == ("default", run.id)
        (line,) = eventually(lambda: lines(caplog, "event loop blocked"), "it is logged")
        assert (line.run, line.job) == (run.id, "blocker")
        assert "gate.block()" in getattr(line, TRACEBACK)

        eventually(lambda: run.refresh().status == "queued", "it is given back")
        assert (outcomes(run), run.crash_count) == (["crashed"], 1)
        error = run.attempts[0].error
        assert error is not None
        assert "blocked the event loop" in error.message
        assert "gate.block()" in error.traceback
        for other in others:
            assert (outcomes(other), other.crash_count) == (["interrupted"], 0)
        assert told.wait(PATIENCE), "a handler in a thread must hear of it at once"

        gate.open()
        for each in (run, *others):
            assert app.result(each.id, timeout=PATIENCE) >= 2  # not what the first attempt says
        assert story[:2] == ["1 began", "1 canceled"]
        assert len(story) == 3, "it ran once more"
        eventually(lambda: lines(caplog, "event loop runs again"), "that it is over is logged")
        eventually(lambda: [w for w in app.workers() if w.blocked is None], "and in its row")
    assert len(lines(caplog, "event loop blocked")) == 1


def test_where_nobody_knows_who_blocks_all_on_the_loop_are_suspects(
    app: Windlass, gate: Gate
) -> None:
    began = threading.Semaphore(0)

    @app.job
    async def one_of_them(ctx: Context, blocks: bool) -> int:
        began.release()
        if ctx.attempt == 1:
            if blocks:
                asyncio.get_running_loop().call_later(0.2, gate.block)
            await asyncio.Event().wait()
        return ctx.attempt

    runs = [one_of_them.enqueue(blocks=False), one_of_them.enqueue(blocks=True)]
    with at_work(app):
        for _ in runs:
            assert began.acquire(timeout=PATIENCE)
        eventually(lambda: {r.refresh().status for r in runs} == {"queued"}, "all are given back")
        for run in runs:
            assert (outcomes(run), run.crash_count) == (["crashed"], 1)
        gate.open()
        for run in runs:
            assert app.result(run.id, timeout=PATIENCE) > 1


def test_a_crash_in_a_callback_is_not_certain_enough_to_give_a_run_up(app: Windlass) -> None:
    go = threading.Semaphore(0)
    blocked = threading.Semaphore(0)
    calls = count(1)

    def block() -> None:
        blocked.release()
        assert go.acquire(timeout=PATIENCE)

    @app.job
    async def blocker() -> None:
        # Not by ctx.attempt: an attempt may be interrupted before it has blocked anything.
        if next(calls) <= 2:
            asyncio.get_running_loop().call_soon(block)
            await asyncio.Event().wait()

    run = blocker.enqueue()
    with app.running_in_thread(lease=LEASE, renew=0.2, sweep=0.5, drain=5, max_crashes=2):
        for crashes in (1, 2):
            assert blocked.acquire(timeout=PATIENCE)
            eventually(lambda n=crashes: run.refresh().crash_count == n, "it is counted")  # type: ignore[misc]
            go.release()
        assert app.result(run.id, timeout=PATIENCE) is None


def test_a_task_that_the_handler_made_is_the_handlers(app: Windlass, gate: Gate) -> None:
    began = threading.Semaphore(0)

    async def part() -> None:
        gate.block()

    @app.job
    async def one_of_them(ctx: Context, blocks: bool) -> int:
        began.release()
        if ctx.attempt == 1:
            if blocks:
                await asyncio.sleep(0.2)  # the other one is to begin
                async with asyncio.TaskGroup() as group:
                    group.create_task(part())
            await asyncio.Event().wait()
        return ctx.attempt

    neighbour, blocker = one_of_them.enqueue(blocks=False), one_of_them.enqueue(blocks=True)
    with at_work(app):
        for _ in range(2):
            assert began.acquire(timeout=PATIENCE)
        eventually(lambda: blocker.refresh().status == "queued", "it is given back")
        assert (outcomes(blocker), blocker.crash_count) == (["crashed"], 1)
        assert (outcomes(neighbour), neighbour.crash_count) == (["interrupted"], 0)
        gate.open()


def test_a_host_that_blocks_its_loop_is_no_runs_fault(app: Windlass, gate: Gate) -> None:
    """It has the loop together with the worker: its tasks are no handler's."""
    began = threading.Event()

    @app.job
    async def guest(ctx: Context) -> int:
        began.set()
        while ctx.attempt == 1:  # noqa: ASYNC110 - until it is canceled
            await asyncio.sleep(0.01)
        return ctx.attempt

    run = guest.enqueue()

    async def host() -> None:
        async with app.running(lease=LEASE, renew=0.2, sweep=0.5, drain=5):
            while not began.is_set():  # noqa: ASYNC110 - a thread's event
                await asyncio.sleep(0.01)
            gate.block()
            assert await app.aresult(run.id, timeout=PATIENCE) >= 2

    with ThreadPoolExecutor(1) as pool:
        hosting = pool.submit(asyncio.run, host())
        try:
            assert gate.reached.wait(PATIENCE)
            eventually(lambda: run.refresh().status == "queued", "it is given back")
            (worker,) = app.workers()
        finally:
            gate.open()
        hosting.result(PATIENCE)
    assert worker.blocked is not None
    assert worker.blocked_run is None
    assert interrupted(run)


def test_a_loop_that_hangs_in_its_log_is_given_up_all_the_same(app: Windlass, gate: Gate) -> None:
    """Whoever logs then hangs as well: a reader that does not read stops all writers."""

    class Stuck(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "stuck":
                gate.block()

    @app.job
    async def talker(ctx: Context) -> int:
        if ctx.attempt == 1:
            logging.getLogger("stuck").warning("is anybody there?")
        return ctx.attempt

    handler = Stuck()
    logging.getLogger().addHandler(handler)
    try:
        run = talker.enqueue()
        with at_work(app):
            assert gate.reached.wait(PATIENCE)
            eventually(lambda: run.refresh().crash_count == 1, "it is given up")
            gate.open()
            assert app.result(run.id, timeout=PATIENCE) >= 2
    finally:
        gate.open()
        logging.getLogger().removeHandler(handler)


def test_a_run_that_blocks_again_and_again_is_given_up(app: Windlass) -> None:
    go = threading.Semaphore(0)

    @app.job
    async def blocker() -> None:
        assert go.acquire(timeout=PATIENCE)

    run = blocker.enqueue()
    with app.running_in_thread(lease=LEASE, renew=0.2, sweep=0.5, drain=5, max_crashes=2):
        eventually(lambda: run.refresh().crash_count == 1, "it is blamed")
        go.release()
        eventually(lambda: run.refresh().status == "failed", "it is given up")
        go.release()
    assert (run.failure, run.crash_count, outcomes(run)) == ("crashed", 2, ["crashed"] * 2)


def test_a_run_that_blocks_at_once_does_not_hold_up_the_start(
    app: Windlass, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = app.store.listen

    async def listen_late() -> Any:
        await asyncio.to_thread(gate.reached.wait, PATIENCE)
        return await listen()

    @app.job
    async def blocker() -> str:
        gate.block()
        return "done"

    monkeypatch.setattr(app.store, "listen", listen_late)
    run = blocker.enqueue()
    with at_work(app):  # enters although the loop is blocked
        assert gate.reached.wait(PATIENCE)
        gate.open()
        assert app.result(run.id, timeout=PATIENCE) == "done"


def test_a_short_block_costs_nothing(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    @app.job
    async def short(ctx: Context) -> int:
        time.sleep(0.3)  # that is the point
        return ctx.attempt

    run = short.enqueue()
    with at_work(app):
        assert app.result(run.id, timeout=PATIENCE) == 1
    assert lines(caplog, "event loop blocked") == []


def test_a_claim_that_was_under_way_brings_nothing(
    app: Windlass, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reply waits for the loop, and its runs have been given back by then."""
    starts: list[int] = []

    @app.job
    async def late(ctx: Context) -> int:
        starts.append(ctx.attempt)
        return ctx.attempt

    arun = app.store.arun

    async def slow(call: Any) -> Any:
        reply = await arun(call)
        if call.name == "cycle" and [run.attempt for run in reply.claimed] == [1]:
            gate.block()  # the answer is there, and nobody reads it
        return reply

    monkeypatch.setattr(app.store, "arun", slow)
    run = late.enqueue()
    with at_work(app):
        assert gate.reached.wait(PATIENCE)
        eventually(lambda: run.refresh().status == "queued", "it is given back")
        gate.open()
        assert app.result(run.id, timeout=PATIENCE) >= 2
    assert len(starts) == 1
    assert interrupted(run)
