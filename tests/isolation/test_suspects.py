"""Runs under which a worker has died: in child processes, or apart from others in the worker."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable

import pytest

from tests.fixtures.apps import (
    PATIENCE,
    hold_claims,
    holds,
    hub_of,
    opened,
    resume_claims,
    within,
    working,
)
from tests.isolation.conftest import Load
from windlass import Context, Run, Windlass
from windlass.domain.job import Executor
from windlass.domain.run import Want, WorkerInfo
from windlass.engine.hub import Hub


async def crash(app: Windlass, *runs: Run) -> None:
    """Let a worker that nobody has seen claim these runs, and die."""
    operations = app.store.operations
    info = WorkerInfo(
        id="dead", host="h", pid=1, version="0", queues=None, jobs=tuple(app.jobs), seats=9
    )
    rows = [job.spec.row("default") for job in app.jobs.values()]
    await app.store.arun(operations.sync_jobs(rows))
    await app.store.arun(operations.register(info, 30))
    want = Want(limit=len(runs), jobs=tuple(app.jobs), ids=tuple(run.ref for run in runs))
    reply = await app.store.arun(operations.cycle("dead", 1, [], want))
    assert len(reply.claimed) == len(runs)
    await app.store.arun(operations.register(info, 0))
    sweep = operations.sweep(
        dispatch=False, expire=False, reap=True, max_crashes=3, limit=100, spare=False
    )
    async with asyncio.timeout(PATIENCE):
        while not (await app.store.arun(sweep)).reaped:  # noqa: ASYNC110 - its row may be locked
            await asyncio.sleep(0.01)


async def test_a_suspect_runs_in_a_child_whatever_its_executor(load: Load) -> None:
    jobs = load("""
@app.job
async def on_loop(ctx: Context) -> int:
    await ctx.progress(0.5)
    return os.getpid()

@app.job
def in_thread(ctx: SyncContext) -> int:
    return os.getpid()
""")
    app = jobs.app
    runs = [await jobs.on_loop.aenqueue(), await jobs.in_thread.aenqueue()]
    await crash(app, *runs)
    async with working(app):
        pids = [await app.aresult(run.id, timeout=PATIENCE) for run in runs]
        fresh = await jobs.on_loop.aenqueue()
        assert await app.aresult(fresh.id, timeout=PATIENCE) == os.getpid()
    assert os.getpid() not in pids
    for run in runs:
        await run.arefresh()
        assert (run.status, run.crash_count, run.attempt) == ("succeeded", 1, 2)


async def test_a_suspect_that_kills_its_child_is_given_up_and_nobody_else(load: Load) -> None:
    jobs = load("""
@app.job
async def pill() -> None:
    os._exit(1)

@app.job
async def good(ctx: Context) -> int:
    return ctx.attempt
""")
    app = jobs.app
    pill, *good = [await jobs.pill.aenqueue(), *[await jobs.good.aenqueue() for _ in range(5)]]
    await crash(app, pill, *good)
    async with working(app, max_crashes=3):
        for run in (pill, *good):
            await run.await_end(timeout=PATIENCE)
    assert (pill.status, pill.failure, pill.crash_count) == ("failed", "crashed", 3)
    assert {(run.status, run.crash_count) for run in good} == {("succeeded", 1)}


async def test_suspects_run_side_by_side_up_to_their_number(
    load: Load, said: Callable[[], list[str]]
) -> None:
    jobs = load("""
@app.job
async def suspect(ctx: Context) -> None:
    say("begin")
    while (folder / "said").read_text().split().count("begin") < 3:
        await asyncio.sleep(0.01)
    say("end")
""")
    app = jobs.app
    runs = [await jobs.suspect.aenqueue() for _ in range(8)]
    await crash(app, *runs)
    async with working(app, process_seats=1, suspect_seats=3):
        for run in runs:
            await run.await_end(timeout=PATIENCE)
    assert {(run.status, run.crash_count, run.attempt) for run in runs} == {("succeeded", 1, 2)}
    together = list(itertools.accumulate({"begin": 1, "end": -1}[word] for word in said()))
    assert max(together) == 3


async def test_suspects_that_wait_for_a_child_leave_the_seats_to_others(load: Load) -> None:
    jobs = load("""
@app.job
async def suspect() -> None:
    while not (folder / "go").exists():
        await asyncio.sleep(0.01)

@app.job
async def fresh() -> int:
    return os.getpid()
""")
    app = jobs.app
    runs = [await jobs.suspect.aenqueue() for _ in range(3)]
    await crash(app, *runs)
    async with working(app, concurrency=2, suspect_seats=1) as worker:
        await holds(worker, 3)
        other = await jobs.fresh.aenqueue()
        assert await app.aresult(other.id, timeout=PATIENCE) == os.getpid()
        (jobs.folder / "go").touch()
        for run in runs:
            await run.await_end(timeout=PATIENCE)
    assert {(run.status, run.attempt) for run in runs} == {("succeeded", 2)}


async def test_suspects_that_wait_for_a_child_can_be_canceled_and_are_given_back(
    load: Load,
) -> None:
    jobs = load("""
@app.job
async def suspect() -> None:
    await asyncio.Event().wait()
""")
    app = jobs.app
    runs = [await jobs.suspect.aenqueue() for _ in range(4)]
    await crash(app, *runs)
    async with working(app, suspect_seats=1, drain="1ms") as worker:
        await holds(worker, 4)
        hub = hub_of(worker)
        lane = hub.roster.lanes[Executor.ASYNC]
        running, waiting, *others = [holding.claimed.id for holding in hub.holdings.all()]
        assert [holding.claimed.id for holding in lane.suspects] == [waiting, *others]
        await app.acancel(waiting)
        assert (await app.aget(waiting)).status in ("running", "canceled")
        await holds(worker, 3)
    found = {run.id: await app.aget(run.id) for run in runs}
    assert found[waiting].status == "canceled"
    assert {found[run].status for run in (running, *others)} == {"queued"}
    assert {found[run].crash_count for run in (running, *others)} == {1}


async def test_half_of_the_suspects_that_no_child_can_find_run_together(url: str) -> None:
    running: set[str] = set()
    together: list[frozenset[str]] = []
    async with opened(url) as app:

        @app.job
        async def suspect(ctx: Context) -> None:
            running.add(ctx.run_id)
            # A group begins as one: all that will ever run beside this one are there.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            together.append(frozenset(running))
            await asyncio.sleep(0.02)
            running.discard(ctx.run_id)

        suspects = [await suspect.aenqueue() for _ in range(9)]
        await crash(app, *suspects)
        async with working(app, drain="60s"):
            for run in suspects:
                await run.await_end(timeout=PATIENCE)
    assert {(run.status, run.crash_count) for run in suspects} == {("succeeded", 1)}
    assert sorted(len(group) for group in set(together)) == [4, 5]


async def test_a_suspect_that_no_child_can_find_runs_alone(url: str) -> None:
    running: set[str] = set()
    seen: dict[str, set[int]] = {}
    async with opened(url) as app:

        async def take_part(run: str) -> None:
            running.add(run)
            counts = seen.setdefault(run, set())
            for _ in range(5):
                counts.add(len(running))
                await asyncio.sleep(0.01)
            running.discard(run)

        @app.job
        async def suspect(ctx: Context) -> None:
            await take_part(ctx.run_id)

        @app.job
        async def fresh(ctx: Context) -> None:
            await take_part(ctx.run_id)

        suspects = [await suspect.aenqueue() for _ in range(2)]
        await crash(app, *suspects)
        others = [await fresh.aenqueue() for _ in range(8)]
        async with working(app, drain="60s"):
            for run in (*suspects, *others):
                await run.await_end(timeout=PATIENCE)
    assert {run.status for run in (*suspects, *others)} == {"succeeded"}
    assert [seen[run.id] for run in suspects] == [{1}, {1}]
    assert any(max(seen[run.id]) > 1 for run in others), "nothing ran side by side at all"
    assert {run.crash_count for run in suspects} == {1}


async def test_a_suspect_need_not_wait_for_ever_to_be_alone(url: str) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    async with opened(url) as app:

        @app.job
        async def long() -> None:
            begun.set()
            await go.wait()

        @app.job
        async def suspect() -> None: ...

        run = await suspect.aenqueue()
        await crash(app, run)
        neighbour = await long.aenqueue()
        async with working(app, drain="200ms"):
            await within(begun)
            await run.await_end(timeout=PATIENCE)
            assert run.status == "succeeded"
            go.set()
            await neighbour.await_end(timeout=PATIENCE)


async def test_a_suspect_that_could_not_start_alone_starts_when_the_lease_is_sure(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubt, go = True, asyncio.Event()
    async with opened(url) as app:

        @app.job
        async def suspect() -> None:
            await go.wait()

        run = await suspect.aenqueue()
        await crash(app, run)
        async with working(app, drain="60s") as worker:
            hold_claims(worker)
            await within(worker.started)
            hub = hub_of(worker)
            monkeypatch.setattr(Hub, "may_start", property(lambda _: not doubt))
            sure = property(lambda hub: hub.heart.safe and not hub.seats.group.members)
            monkeypatch.setattr(Hub, "may_claim", sure)
            with worker.signals.claimed.heard() as claimed:
                resume_claims(worker)
                await claimed.next()
            group = list(hub.seats.group.members)
            go.set()
            assert [member.started for member in group] == [None]
            doubt = False
            await run.await_end(timeout=PATIENCE)
    assert run.status == "succeeded"
