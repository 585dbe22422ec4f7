"""The sweeper: how much it does at once, and what it tells of it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fixtures.apps import opened
from windlass import Windlass, WorkerOptions
from windlass.domain.run import SweepReply, Want, WorkerInfo
from windlass.engine import sweeper
from windlass.engine.environment import Environment
from windlass.engine.sweeper import Sweeper
from windlass.sources import ManualSources, Sources
from windlass.store.interface import Call

SECOND = 1.0
SWEEP = 5 * SECOND


@pytest.fixture
def sources() -> ManualSources:
    return Sources.manual()


@pytest.fixture
async def app(url: str, sources: ManualSources) -> AsyncIterator[Windlass]:
    """An application with one job, `nap`."""
    async with opened(url, sources=sources) as made:

        @made.job
        async def nap() -> None: ...

        made.store.migrate()
        yield made


def make_sweeper(app: Windlass, sources: ManualSources) -> Sweeper:
    options = WorkerOptions(sweep=SWEEP, poll=SECOND, max_crashes=3)
    return Sweeper(Environment(app.store, sources, options))


async def statuses(app: Windlass) -> Counter[str]:
    return Counter(run.status.value for run in await app.alist())


def watch(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Whether each sweep from now on is to end what has expired, and to reap."""
    asked: list[tuple[bool, bool]] = []
    sweep = app.store.operations.sweep

    def watched(**given: Any) -> Call[SweepReply]:
        asked.append((given["expire"], given["reap"]))
        return sweep(**given)

    monkeypatch.setattr(app.store.operations, "sweep", watched)
    return asked


@pytest.mark.parametrize("why", ["expired", "taken back"])
async def test_many_at_once_are_swept_without_a_pause(
    app: Windlass,
    sources: ManualSources,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each sweep has its limit: at one sweep per interval, thousands would take minutes."""
    monkeypatch.setattr(sweeper, "LIMIT", 2)
    operations, nap = app.store.operations, app.jobs["nap"]
    job = nap.using(expires=SECOND) if why == "expired" else nap
    for _ in range(5):
        await job.aenqueue()
    if why == "taken back":
        info = WorkerInfo(id="w", host="h", pid=1, version="1", queues=None, jobs=("nap",), seats=9)
        await app.store.arun(operations.register(info, 6 * SWEEP))
        await app.store.arun(operations.cycle("w", 1, [], Want(limit=9, jobs=("nap",))))
    sources.clock.advance(7 * SWEEP)
    left = "queued" if why == "expired" else "running"
    one = make_sweeper(app, sources)
    for _ in range(30):  # nobody has swept before, so the first ones spare the worker
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            pause = await one.work()
        if (await statuses(app))[left] == 3:
            break
        sources.clock.advance(SECOND)
    assert pause == 0
    told = caplog.records[0]
    if why == "expired":
        assert (told.message, vars(told)["runs"]) == ("runs expired", 2)
    else:
        assert told.message == "runs of dead workers taken back"
        assert [vars(told)[name] for name in ("workers", "back", "failed")] == ["w", 2, 0]
    assert await one.work() == 0
    assert (await statuses(app))[left] == 1
    assert await one.work() > 0
    assert (await statuses(app))[left] == 0


async def test_a_flood_of_timers_brings_no_reaper_with_each_page(
    app: Windlass, sources: ManualSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "LIMIT", 2)
    for _ in range(5):
        await app.jobs["nap"].using(delay=SECOND).aenqueue()
    sources.clock.advance(2 * SECOND)
    asked = watch(app, monkeypatch)
    one = make_sweeper(app, sources)
    assert [await one.work() for _ in range(2)] == [0, 0]
    await one.work()
    assert (await statuses(app))["queued"] == 5
    assert asked == [(True, True), (False, False), (False, False)]


async def test_workers_that_are_spared_are_told_of_once(
    app: Windlass, sources: ManualSources, caplog: pytest.LogCaptureFixture
) -> None:
    info = WorkerInfo(id="w", host="h", pid=1, version="1", queues=None, jobs=("nap",), seats=9)
    await app.store.arun(app.store.operations.register(info, 6 * SWEEP))
    sources.clock.advance(3600)
    one = make_sweeper(app, sources)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            await one.work()
            sources.clock.advance(SWEEP)
    assert [(told.message, vars(told)["workers"]) for told in caplog.records] == [
        ("workers spared after an outage", 1)
    ]
