"""A worker whose store has a schema that it does not know any more ends, and says why."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, reap, service_of, told_of_work, within
from tests.fixtures.outgrown import LATER, go_back, outgrow
from windlass import SchemaMismatch, Status, SyncContext, Windlass, parts
from windlass.engine.scheduler import Scheduler

CANNOT = "worker cannot go on"
# Nothing but the part that is looked at has anything to say to what it misses.
QUIET: dict[str, dict[str, Any]] = {
    "pump": {"services": False},
    "renewal": {"services": False, "poll": "1h"},
    "sweeper": {},
    "scheduler": {},
    "roster": {"services": False, "poll": "1h"},
}
# Without these tables a lease cannot be given back.
KEPT = {("sqlite", "pump"), ("sqlite", "renewal")}


class Handlers:
    """One on the loop and one in a thread, both at work until they are told to end."""

    def __init__(self, app: Windlass) -> None:
        self.begun = [asyncio.Event(), asyncio.Event()]
        self.told = [asyncio.Event(), asyncio.Event()]
        self._loop = asyncio.get_running_loop()
        self.jobs: list[Any] = [app.job(self.on_loop), app.job(self.in_thread)]

    async def on_loop(self) -> None:
        self.begun[0].set()
        try:
            await asyncio.Event().wait()
        finally:
            self.told[0].set()

    def in_thread(self, ctx: SyncContext) -> None:
        self._loop.call_soon_threadsafe(self.begun[1].set)
        pause = threading.Event()
        while not ctx.canceled:
            pause.wait(0.005)
        self._loop.call_soon_threadsafe(self.told[1].set)


def hint(app: Windlass, worker: Any, part: str) -> None:
    """Give the part something to do, where it does not look by itself."""
    if part == "pump":
        told_of_work(worker)
    elif part == "scheduler":
        service_of(worker, Scheduler).wake()
    elif part == "roster":
        worker.adopt(app.jobs.specs())


@pytest.mark.parametrize("part", QUIET)
async def test_a_worker_that_the_schema_outgrew_ends_by_itself(
    app: Windlass, url: str, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = Handlers(app)
    runs = [await job.aenqueue() for job in handlers.jobs]
    worker = app.worker(**QUIET[part])
    with caplog.at_level(logging.WARNING):
        task = asyncio.create_task(worker.run())
        for event in handlers.begun:
            await within(event)
        outgrow(url, part)
        hint(app, worker, part)
        with pytest.raises(SchemaMismatch, match="upgrade Windlass") as caught:
            await asyncio.wait_for(task, PATIENCE)
    for event in handlers.told:
        await within(event)

    assert caught.value.found == LATER
    reasons = [r.__dict__["error"] for r in caplog.records if r.getMessage() == CANNOT]
    assert reasons == [str(caught.value)]  # once, in one sentence
    others = ("store refused a batch", "service failed", "not renewed")
    assert [(m, r.__dict__.get("error")) for r in caplog.records if (m := r.msg) in others] == []
    go_back(url, part)
    kept = (url.partition(":")[0], part) in KEPT
    left = {(await run.arefresh()).status for run in runs}
    assert left == {Status.RUNNING if kept else Status.QUEUED}
    if kept:
        await reap(app, url, runs[0])
    for run in runs:
        await run.arefresh()
        assert (run.status, run.failures, run.crash_count) == (Status.QUEUED, 0, int(kept))


async def test_an_end_that_cannot_be_recorded_is_not_waited_for(app: Windlass, url: str) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def handler() -> str:
        begun.set()
        await go.wait()
        return "done"

    run = await handler.aenqueue()
    worker = app.worker(services=False, poll="1h", drain="1h", renew="10s")
    task = asyncio.create_task(worker.run())
    await within(begun)
    outgrow(url, "ends")
    go.set()
    with pytest.raises(SchemaMismatch):
        await asyncio.wait_for(task, PATIENCE)
    assert worker.busy == 0
    go_back(url, "ends")
    assert (await run.arefresh()).result is None


@pytest.mark.parametrize("part", ["sweeper", "scheduler"])
async def test_a_service_by_itself_ends_too_and_says_so_where_it_is_stopped(
    app: Windlass, url: str, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = parts.dispatcher(app) if part == "sweeper" else parts.scheduler(app)
    await service.work()
    outgrow(url, part)
    service.start()
    (task,) = (t for t in asyncio.all_tasks() if t.get_name() == f"windlass-{part}")
    await asyncio.wait({task}, timeout=PATIENCE)
    with pytest.raises(SchemaMismatch):
        await service.stop()
    await service.stop()  # once
    assert caplog.messages == ["service cannot go on"]


async def test_whoever_asks_at_once_is_told_the_same(app: Windlass, url: str) -> None:
    operations = app.store.operations
    app.migrate()
    await app.store.arun(operations.sync_jobs([]))
    outgrow(url, "roster")
    row = app.job(name="another")(Handlers(app).on_loop).spec.row("default")
    calls = (app.store.arun(operations.sync_jobs([row])) for _ in range(20))
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(error, "found", error) for error in errors] == [LATER] * 20
