"""Pages with one example: the first page, and the one on the parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.pages import Examples
from windlass import Windlass
from windlass.engine.scheduler import Scheduler
from windlass.engine.sweeper import Sweeper
from windlass.testing import clock_of, drain, isolated


@pytest.mark.examples("docs/index.md")
def test_first_page_shows_a_job_and_its_schedule(
    examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = examples.run("Windlass")
    with isolated(page["app"]) as app:
        (run,) = drain(app, until="7d").check().runs
    assert (run.job, run.input, run.attempt) == ("send_welcome", {"user_id": 7}, 1)
    assert run.slot is not None
    assert f"{run.slot:%A %H:%M}" == "Monday 09:00"


@pytest.mark.examples("docs/parts.md")
async def test_parts_of_the_page_are_made(examples: Examples) -> None:
    with isolated(Windlass()) as app:

        @app.job
        def tidy() -> None: ...

        names = examples.run("The parts, one by one", app=app)
        parts = names["parts"]
        assert type(parts.scheduler(app)) is Scheduler
        assert type(parts.reaper(app)) is type(parts.dispatcher(app)) is Sweeper
        assert {Scheduler, Sweeper} <= {type(service) for service in parts.services(app)}

        run = await tidy.using(delay="1m").aenqueue()
        clock_of(app).advance(61)
        await parts.dispatcher(app).work()
        assert (await run.arefresh()).status == "queued"
        await app.aclose()
