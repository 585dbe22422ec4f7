"""Jobs that a worker finds by the names of the runs that wait."""

from __future__ import annotations

import logging

import pytest

from tests.fixtures.apps import PATIENCE, opened, working
from windlass import Windlass


class Shelf:
    """Where jobs are found: each name is looked for here, and taken down in `asked`."""

    def __init__(self, app: Windlass, *known: str) -> None:
        self.app = app
        self.known = known
        self.asked: list[str] = []
        app.jobs.finder = self.find

    def find(self, name: str) -> None:
        """Define the job, if it is known."""
        self.asked.append(name)
        if name == "broken":
            raise RuntimeError("half of it is missing")
        if name in self.known:
            self.app.job(name=name)(lambda: name)


async def enqueue(url: str, *names: str, queue: str = "default") -> list[str]:
    """Enqueue runs of jobs that only this other application has."""
    async with opened(url) as other:
        jobs = [other.job(name=name, queue=queue)(lambda: None) for name in names]
        return [(await job.aenqueue()).id for job in jobs]


async def test_worker_that_drains_runs_jobs_that_it_finds(app: Windlass, url: str) -> None:
    shelf = Shelf(app, "far.away")
    (run, other) = await enqueue(url, "far.away", "unheard.of")
    async with working(app) as worker:
        await worker.drained()
    assert (await app.aget(run)).result == "far.away"
    assert (await app.aget(other)).status == "queued"
    assert sorted(shelf.asked) == ["far.away", "unheard.of"]


async def test_worker_finds_jobs_while_it_works(app: Windlass, url: str) -> None:
    shelf = Shelf(app, "far.away")
    async with working(app, services=False) as worker:
        await worker.started.wait()
        assert shelf.asked == []
        (run,) = await enqueue(url, "far.away")
        assert await app.aresult(run, timeout=PATIENCE) == "far.away"


async def test_jobs_of_other_queues_are_not_looked_for(app: Windlass, url: str) -> None:
    shelf = Shelf(app, "far.away")
    await enqueue(url, "far.away", queue="elsewhere")
    async with working(app, queues="default") as worker:
        await worker.drained()
    assert shelf.asked == []


async def test_job_that_cannot_be_imported_is_logged_and_stops_nothing(
    app: Windlass, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    Shelf(app, "far.away")
    (_, run) = await enqueue(url, "broken", "far.away")
    with caplog.at_level(logging.ERROR, "windlass"):
        async with working(app) as worker:
            await worker.drained()
    assert (await app.aget(run)).status == "succeeded"
    (line,) = [record for record in caplog.records if "imported" in record.message]
    assert (line.job, line.error) == ("broken", "RuntimeError: half of it is missing")  # type: ignore[attr-defined]
