"""Pipelines and progress in child processes: as in the worker."""

from __future__ import annotations

import os

import pytest

from tests.fixtures.apps import PATIENCE, working
from tests.isolation.conftest import Load
from windlass.domain.run import ProgressWrite


@pytest.mark.parametrize("kind", ["blocking", "mixed"])
async def test_a_pipeline_in_a_child(load: Load, kind: str) -> None:
    jobs = load(f"""
def download(ctx: SyncContext, url: str) -> str:
    ctx.progress(0.5)
    return ctx.step("get", str, url)

{"async " if kind == "mixed" else ""}def process(download: str) -> list:
    return [download, os.getpid()]

def upload(ctx: SyncContext, process: list) -> list:
    ctx.units(done=3, total=4)
    return [*process, ctx.phases["download"].result]

transcode = app.pipeline("transcode", download, process, upload, executor="process")
""")
    async with working(jobs.app):
        run = await jobs.transcode.aenqueue("a.mov")
        first, pid, again = await jobs.app.aresult(run.id, timeout=PATIENCE)
    assert (first, again) == ("a.mov", "a.mov")
    assert pid != os.getpid()
    await run.arefresh()
    assert [p.status.value for p in await run.aphases()] == ["succeeded"] * 3
    assert (run.progress, run.phase, str(run.units)) == (1.0, "upload", "3 of 4 units")
    assert sorted(s.path for s in await run.asteps()) == [
        "download", "download/get", "process", "upload",
    ]  # fmt: skip


async def test_a_child_may_tell_a_hundred_thousand_times(load: Load) -> None:
    jobs = load("""
@app.job(executor="process")
def work(ctx: SyncContext) -> float:
    began = time.perf_counter()
    for n in range(100_000):
        ctx.progress(n / 100_000, "working")
    return time.perf_counter() - began
""")
    async with working(jobs.app) as worker:
        with worker.signals.told.heard() as told:
            run = await jobs.work.aenqueue()
            took = await jobs.app.aresult(run.id, timeout=PATIENCE)
    writes: list[ProgressWrite] = [write for part in told.all for write in part]
    assert len(writes) <= took + 2, "one at once, one a second, one at the end"
    await run.arefresh()
    assert (run.progress, run.progress_message) == (0.99999, "working")


async def test_what_a_child_told_before_it_died_is_written(load: Load) -> None:
    jobs = load("""
@app.job(executor="process", max_attempts=1)
def work(ctx: SyncContext) -> None:
    if ctx.attempt == 1:
        ctx.progress(0.7, "told")
        while not (folder / "written").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("no more")
""")
    async with working(jobs.app) as worker:
        with worker.signals.told.heard() as told:
            run = await jobs.work.aenqueue()
            await told.next()
        (jobs.folder / "written").touch()
        await run.await_end(timeout=PATIENCE)
    assert (run.crash_count, run.progress, run.progress_message) == (1, 0.7, "told")
