"""Runs under which a worker has died: alone in a child process, or alone in the worker."""

from __future__ import annotations

import asyncio
import os

from tests.fixtures.apps import PATIENCE, opened, within, working
from tests.isolation.conftest import Load
from windlass import Context, Run, Windlass
from windlass.domain.run import Want, WorkerInfo


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
        dispatch=False, expire=False, reap=True, max_crashes=3, limit=100, grace=0
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
    url: str,
) -> None:
    doubt, go = True, asyncio.Event()
    async with opened(url) as app:

        @app.job
        async def suspect() -> None:
            await go.wait()

        run = await suspect.aenqueue()
        await crash(app, run)
        async with working(app, drain="60s") as worker:
            worker._pump.claiming = False
            await within(worker.started)
            worker._seats._may_start = lambda: not doubt
            worker._pump.claiming = True
            worker._pump.hunger()
            async with asyncio.timeout(PATIENCE):
                while (alone := worker._seats.alone) is None:  # noqa: ASYNC110 - until claimed
                    await asyncio.sleep(0.005)
            go.set()
            assert alone.started is None
            doubt = False
            await run.await_end(timeout=PATIENCE)
    assert run.status == "succeeded"
