"""Bad moments of the store: who is at work already waits until they are over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, hub_of, reap, within, working
from windlass import Context, StoreError, StoreFull, StoreRefused, Windlass, Worker
from windlass.domain.run import JobRow, WorkerInfo
from windlass.errors import WindlassError
from windlass.store.interface import Call

MOMENTS = [StoreFull("No room."), StoreError("An error of the disk.")]


class Moods:
    """Makes calls of one name fail, once for each error it is given; `over` lets the last go."""

    def __init__(self, app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
        self._arun: Callable[[Call[Any]], Any] = app.store.arun
        self._name = ""
        self._errors: list[Exception] = []
        self.met, self.over = asyncio.Event(), asyncio.Event()
        self.over.set()
        monkeypatch.setattr(app.store, "arun", self.arun)

    def fail(self, name: str, *errors: Exception) -> None:
        """Fail the next calls of that name."""
        self._name, self._errors = name, list(errors)

    async def arun(self, call: Call[Any]) -> Any:
        if call.name == self._name and self._errors:
            error = self._errors.pop(0)
            if not self._errors:
                self.met.set()
                await self.over.wait()
            raise error
        return await self._arun(call)


@pytest.fixture
def moods(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> Moods:
    return Moods(app, monkeypatch)


def define(app: Windlass) -> tuple[Any, asyncio.Event]:
    """A job whose first attempt never ends, and whether it has begun."""
    begun = asyncio.Event()

    @app.job
    async def work(ctx: Context) -> int:
        if ctx.attempt == 1:
            begun.set()
            await asyncio.Event().wait()
        return ctx.attempt

    return work, begun


async def named(app: Windlass, job: str) -> JobRow | None:
    return await app.store.arun(app.store.operations.get_job("default", job))


async def workers(app: Windlass) -> Sequence[WorkerInfo]:
    return await app.store.arun(app.store.operations.list_workers())


def was_taken(error: WindlassError | None) -> bool:
    """Whether the store took the jobs."""
    return error is None


# -- a new name ---------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["sync_jobs", "register"])
@pytest.mark.parametrize("error", MOMENTS, ids=lambda error: error.code)
async def test_reaped_worker_comes_back_after_bad_moments(
    app: Windlass, url: str, moods: Moods, call: str, error: StoreError
) -> None:
    """A fleet whose leases ran out in them would else end as one."""
    work, begun = define(app)
    run = await work.aenqueue()
    async with working(app) as worker:
        await within(begun)
        before = worker.id
        moods.fail(call, error, error)
        await reap(app, url, run)
        await within(moods.met)
        assert await app.aresult(run.id, timeout=PATIENCE) == 2
        assert worker.id != before


async def test_reaped_worker_whose_registration_is_refused_ends(
    app: Windlass, url: str, moods: Moods
) -> None:
    """Trying again cannot help."""
    work, begun = define(app)
    run = await work.aenqueue()
    worker = app.worker()
    task = asyncio.create_task(worker.run())
    await within(begun)
    moods.fail("register", StoreRefused("Not this."))
    await reap(app, url, run)
    with pytest.raises(StoreRefused, match="Not this"):
        await asyncio.wait_for(task, PATIENCE)


@pytest.mark.parametrize("error", MOMENTS, ids=lambda error: error.code)
async def test_worker_that_cannot_start_says_so_at_once(
    app: Windlass, moods: Moods, error: StoreError
) -> None:
    define(app)
    moods.fail("register", error)
    with pytest.raises(type(error)):
        await asyncio.wait_for(app.worker().run(), PATIENCE)


# -- new jobs -----------------------------------------------------------------------------------


async def adopted(app: Windlass, worker: Worker, moods: Moods, error: StoreError) -> None:
    """Give a worker another job, which the store does not take the first time."""
    await within(worker.started)

    @app.job
    async def more() -> None:
        pass

    moods.fail("sync_jobs", error)
    worker.adopt(app.jobs.specs())
    await within(moods.met)


@pytest.mark.parametrize("error", MOMENTS, ids=lambda error: error.code)
async def test_new_jobs_are_stored_after_a_bad_moment(
    app: Windlass, moods: Moods, error: StoreError
) -> None:
    define(app)
    async with working(app) as worker:
        with hub_of(worker).roster.stored.heard() as stored:
            await adopted(app, worker, moods, error)
            await stored.until(was_taken)
        assert await named(app, "more") is not None
        assert [info.jobs for info in await workers(app)] == [("work", "more")]


async def test_jobs_that_change_while_a_worker_comes_back_are_those_it_is_known_by(
    app: Windlass, url: str, moods: Moods
) -> None:
    """The store heard of them under the old name, which nobody has any more."""
    work, begun = define(app)
    run = await work.aenqueue()
    async with working(app) as worker:
        await within(begun)
        moods.fail("register", StoreFull("No room."))
        moods.over.clear()
        await reap(app, url, run)
        await within(moods.met)
        with hub_of(worker).roster.stored.heard() as stored:
            worker.adopt([replace(work.spec, queue="other"), replace(work.spec, name="more")])
            await stored.until(was_taken)
            assert await named(app, "more") is not None
            moods.over.set()
            assert await app.aresult(run.id, timeout=PATIENCE) == 2
            while [info.jobs for info in await workers(app)] != [("work", "more")]:
                await stored.next()
    found = await named(app, "work")
    assert found is not None
    assert found.queue == "other"


async def test_new_jobs_that_are_refused_wait_for_the_next_change(
    app: Windlass, moods: Moods, caplog: pytest.LogCaptureFixture
) -> None:
    define(app)
    async with working(app, poll="10ms") as worker:
        with hub_of(worker).roster.stored.heard() as stored:
            await adopted(app, worker, moods, StoreRefused("Not these."))
            await stored.until(lambda error: isinstance(error, StoreRefused))
            assert "new jobs not stored" in caplog.messages
            assert await named(app, "more") is None
            worker.adopt(app.jobs.specs())
            await stored.until(was_taken)
        assert await named(app, "more") is not None
