"""Progress: told as often as one likes, written once a second, and the last word never lost."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.engine.test_leases import Serving
from tests.fixtures.apps import PATIENCE, reached, reap, within, working
from windlass import (
    BadOption,
    Context,
    LeaseLost,
    Retry,
    Snooze,
    Status,
    StoreUnavailable,
    SyncContext,
    Windlass,
)
from windlass.domain.run import ProgressReply, ProgressWrite
from windlass.store.interface import Call


class Noting:
    """The real store, which notes every write of progress, and may be told to fail some."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.writes: list[Sequence[ProgressWrite]] = []
        self.fails: Callable[[], Exception | None] = lambda: None
        self.locked: Callable[[], bool] = lambda: False
        self.lost = False
        self.order: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def arun(self, call: Call[Any]) -> Any:
        if call.name == "cycle" and call.arguments[2]:
            self.order.append("end")
        if call.name == "record_progress":
            (reports,) = call.arguments
            if (error := self.fails()) is not None:
                raise error
            if self.locked():
                self.order.append("locked")
                return ProgressReply(busy=[report.held for report in reports])
            if self.lost:
                return ProgressReply(lost=[report.held for report in reports])
            self.writes.append(reports)
            self.order.append("progress")
        return await self._store.arun(call)


@pytest.fixture
def noting(app: Windlass) -> Noting:
    return Noting(app.store)


async def test_the_first_word_is_written_at_once_and_the_last_one_counts(app: Windlass) -> None:
    told, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        await ctx.progress(0.25, "begun")
        told.set()
        await go.wait()
        for fraction, message in ((0.5, None), (1, "all"), (None, "after all")):
            await ctx.progress(fraction, message)

    run = await work.aenqueue()
    assert (run.progress, run.progress_message) == (None, None)
    async with working(app) as worker:
        with worker.signals.told.heard() as written:
            await within(told)
            await written.next()
        first = await app.aget(run.id)
        go.set()
        await app.aresult(run.id, timeout=10)
    assert (first.progress, first.progress_message) == (0.25, "begun")
    await run.arefresh()
    assert (run.progress, run.progress_message) == (None, "after all")


@pytest.mark.parametrize("kind", ["on the loop", "in a thread"])
async def test_a_hundred_thousand_words_cost_next_to_nothing(
    app: Windlass, noting: Noting, kind: str
) -> None:
    many = 100_000

    @app.job
    async def on_loop(ctx: Context) -> float:
        began = time.perf_counter()
        for n in range(many):
            await ctx.progress(n / many, "working")
        return time.perf_counter() - began

    @app.job
    def in_thread(ctx: SyncContext) -> float:
        began = time.perf_counter()
        for n in range(many):
            ctx.progress(n / many, "working")
        return time.perf_counter() - began

    run = await (on_loop if kind == "on the loop" else in_thread).aenqueue()
    async with Serving(app, noting):
        took = await app.aresult(run.id, timeout=60)
    # Microseconds each; the limit is for machines that stall.
    assert took / many < 50e-6
    assert len(noting.writes) <= took + 2, "one at once, one a second, one at the end"
    assert (await run.arefresh()).progress == (many - 1) / many


async def test_all_runs_of_a_worker_are_written_in_one_call(app: Windlass, noting: Noting) -> None:
    many, told, go = 20, asyncio.Semaphore(0), asyncio.Event()

    @app.job
    async def work(ctx: Context, n: int) -> None:
        for step in range(5):
            await ctx.progress(step / 10, f"{n}")
        told.release()
        await go.wait()

    runs = await app.aenqueue_many(work.request(n) for n in range(many))
    async with Serving(app, noting, concurrency=many, report=0.2) as worker:
        with worker.signals.told.heard() as written:
            for _ in range(many):
                await asyncio.wait_for(told.acquire(), PATIENCE)
            seen = set[str]()
            while len(seen) < many:
                seen |= {write.id for write in await written.next()}
        calls = len(noting.writes)
        go.set()
        await app.await_all(runs, timeout=10)
    assert calls <= 3, "those that came first, and the others together"
    assert len(noting.writes) == calls, "all of it was written, and nothing twice"


async def test_a_handler_that_tells_its_progress_lets_others_run(app: Windlass) -> None:
    """It may await nothing else in its loop, and must not keep the worker from its heartbeat."""
    turned = asyncio.Event()

    @app.job
    async def work(ctx: Context) -> bool:
        asyncio.get_running_loop().call_soon(turned.set)
        end = time.perf_counter() + PATIENCE
        while not turned.is_set() and time.perf_counter() < end:
            await ctx.progress(0.5)
        return turned.is_set()

    run = await work.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=2 * PATIENCE)


END: dict[str, tuple[Callable[[Context], Any], Status]] = {
    "success": (lambda ctx: None, Status.SUCCEEDED),
    "failure": (lambda ctx: 1 / 0, Status.FAILED),
    "snooze": (lambda ctx: Snooze("1h"), Status.SCHEDULED),
    "sleep": (lambda ctx: ctx.sleep("1h"), Status.SCHEDULED),
    "wait": (lambda ctx: ctx.wait_for("go"), Status.WAITING),
}


@pytest.mark.parametrize("end", END)
async def test_the_last_word_comes_before_the_end(app: Windlass, noting: Noting, end: str) -> None:
    act, status = END[end]
    written = asyncio.Event()

    @app.job(max_attempts=1)
    async def on_loop(ctx: Context) -> Any:
        await ctx.progress(0.1)
        await written.wait()  # what comes now waits for the next second, or the end
        await ctx.progress(0.9, "last")
        found = act(ctx)
        return await found if asyncio.iscoroutine(found) else found

    run = await on_loop.aenqueue()
    async with Serving(app, noting, report=3600.0) as worker:
        with worker.signals.told.heard() as told, worker.signals.recorded.heard() as recorded:
            await told.next()
            written.set()
            await recorded.next()
    found = await app.aget(run.id)
    assert (found.status, found.progress, found.progress_message) == (status, 0.9, "last")
    assert noting.order == ["progress", "progress", "end"]


async def test_the_last_word_of_a_run_that_is_canceled_timed_out_or_given_back(
    app: Windlass, noting: Noting
) -> None:
    @app.job(max_attempts=1)
    async def canceled(ctx: Context) -> None:
        await ctx.progress(0.6, "canceled")
        await asyncio.sleep(3600)

    @app.job(max_attempts=1, timeout="50ms")
    async def late(ctx: Context) -> None:
        await ctx.progress(0.7, "late")
        await asyncio.sleep(3600)

    @app.job(max_attempts=1)
    async def kept(ctx: Context) -> None:
        await ctx.progress(0.8, "given back")
        await asyncio.sleep(3600)

    @app.job
    async def first(ctx: Context) -> None:
        await ctx.progress(1.0)

    async with Serving(app, noting, report=3600.0, drain=0.0, cancel_grace=0.1) as worker:
        with worker.signals.told.heard() as told:
            await app.aresult((await first.aenqueue()).id, timeout=10)
            await told.next()
        runs = [await job.aenqueue() for job in (canceled, late, kept)]
        for run in (runs[0], runs[2]):
            await reached(app, run.id, Status.RUNNING)
        await runs[0].acancel()
        for run in runs[:2]:
            await run.await_end(timeout=10)
    found = [(await run.arefresh()).progress for run in runs]
    assert found == [0.6, 0.7, 0.8]
    assert runs[2].status is Status.QUEUED


async def test_words_are_kept_while_the_store_is_away(app: Windlass, noting: Noting) -> None:
    away, go = [StoreUnavailable("away")] * 3, asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        await ctx.progress(0.3, "kept")
        await go.wait()

    noting.fails = lambda: away.pop() if away else None
    run = await work.aenqueue()
    async with Serving(app, noting, report=0.02) as worker:
        with worker.signals.told.heard() as told:
            await told.next()
        assert (await app.aget(run.id)).progress == 0.3
        away.append(StoreUnavailable("away"))  # now for the last word, with its end
        go.set()
        await app.aresult(run.id, timeout=10)
    assert (await run.arefresh()).progress == 0.3


async def test_an_end_waits_for_its_last_word_whose_lease_is_locked(
    app: Windlass, noting: Noting
) -> None:
    left = [True] * 3

    @app.job
    async def work(ctx: Context) -> str:
        await ctx.progress(0.9, "last")
        return "done"

    noting.locked = lambda: bool(left and left.pop())
    run = await work.aenqueue()
    async with Serving(app, noting, report=3600.0):
        assert await app.aresult(run.id, timeout=10) == "done"
    assert (await run.arefresh()).progress == 0.9
    assert noting.order == ["locked"] * 3 + ["progress", "end"]


async def test_from_a_thread(app: Windlass) -> None:
    @app.job
    def work(ctx: SyncContext) -> None:
        ctx.progress(0.25)
        ctx.progress(0.75, "most of it")

    run = await work.aenqueue()
    async with working(app):
        await app.aresult(run.id, timeout=10)
    await run.arefresh()
    assert (run.progress, run.progress_message) == (0.75, "most of it")


async def test_the_next_attempt_starts_afresh(app: Windlass) -> None:
    @app.job(retry=Retry.fixed(0))
    async def work(ctx: Context) -> None:
        if ctx.attempt == 1:
            await ctx.units(done=3, total=4)
            raise ValueError("boom")
        await ctx.progress(0.1)

    run = await work.aenqueue()
    async with working(app):
        await app.aresult(run.id, timeout=10)
    await run.arefresh()
    assert (run.progress, run.units) == (0.1, None)


async def test_units_are_counts_with_a_rate_and_a_time_left(app: Windlass) -> None:
    @app.job
    async def on_loop(ctx: Context) -> None:
        await ctx.units(total=1000)
        await ctx.units(done=410)
        await ctx.units(failed=2)

    @app.job
    def in_thread(ctx: SyncContext) -> None:
        ctx.units(done=7)

    async with working(app):
        for job, told in (
            (on_loop, ((410, 2, 1000), 0.412)), (in_thread, ((7, 0, None), None)),
        ):  # fmt: skip
            run = await job.aenqueue()
            await app.aresult(run.id, timeout=10)
            await run.arefresh()
            assert run.units is not None
            counts = (run.units.done, run.units.failed, run.units.total)
            assert (counts, run.progress) == told


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


def tell_until_lost(ctx: SyncContext) -> None:
    """At the latest, the next write finds out."""
    for _ in range(1000):
        ctx.progress(0.9)
        time.sleep(0.01)


async def test_who_lost_the_lease_can_tell_nothing(app: Windlass, url: str) -> None:
    go, errors, told_off = threading.Event(), list[LeaseLost](), asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job
    def work(ctx: SyncContext) -> str:
        if ctx.attempt > 1:
            return "second"
        ctx.progress(0.1)
        go.wait(PATIENCE)
        with pytest.raises(LeaseLost) as caught:
            tell_until_lost(ctx)
        errors.append(caught.value)
        loop.call_soon_threadsafe(told_off.set)
        return "first"

    async with working(app) as worker:
        with worker.signals.told.heard() as told:
            run = await work.aenqueue()
            await told.next()
        await reap(app, url, run)
        go.set()
        assert await app.aresult(run.id, timeout=10) == "second"
        await within(told_off)
    assert (await run.arefresh()).progress == 0.1
    [error] = errors
    assert (error.run, error.token) == (run.id, 1)


@pytest.mark.parametrize("kind", ["on the loop", "in a thread"])
async def test_a_write_that_finds_the_lease_lost_tells_the_handler(
    app: Windlass, noting: Noting, kind: str
) -> None:
    """Without a renewal that might have told it before."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.job
    async def on_loop(ctx: Context) -> None:
        await ctx.progress(0.1)
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            assert ctx.canceled
            with pytest.raises(LeaseLost):
                await ctx.progress(0.2)
            told.set()

    @app.job
    def in_thread(ctx: SyncContext) -> None:
        with pytest.raises(LeaseLost):
            tell_until_lost(ctx)
        assert ctx.canceled
        loop.call_soon_threadsafe(told.set)

    noting.lost = True
    run = await (on_loop if kind == "on the loop" else in_thread).aenqueue()
    async with Serving(app, noting, renew=3600.0, lease=7200.0):
        await within(told)
    assert (await run.arefresh()).progress is None
    assert run.status is Status.QUEUED, "the worker has recorded nothing, and given it back"
