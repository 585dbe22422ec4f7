"""The page on schedules: its files, its commands, and what becomes of its slots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.docs.conftest import Load
from tests.docs.session import Session
from tests.fixtures.pages import Examples
from windlass import Schedule, ScheduleNotFound
from windlass.testing import drain

SCHEDULES = "docs/schedules.md"


@pytest.mark.examples(SCHEDULES, "tasks.py")
def test_schedules_of_the_code_fire(load: Load) -> None:
    tasks = load("tasks.py")
    assert tasks.app.schedules.list() == []  # nothing is written before a worker starts, or sync
    tasks.app.schedules.sync()
    plans: dict[str, Schedule] = {plan.key: plan for plan in tasks.app.schedules.list()}
    assert sorted(plans) == ["party", "report", "stock"]
    assert plans["report"].when == "At 03:00 every day, in Europe/Berlin"
    done = drain(tasks.app, until="1d").check()
    results = [run.result for run in done.runs]
    assert results.count("sales until 2030-01-01") == 1  # at 2 o'clock UTC
    assert len(results) - 1 == 24 * 6
    run = tasks.report.enqueue()
    drain(tasks.app).check()
    assert run.refresh().result == "sales until now"


@pytest.mark.examples(SCHEDULES)
def test_schedules_at_run_time(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = load("tasks.py")
    page = load("customers.py")
    monday = datetime(2030, 1, 6, 23, tzinfo=UTC)  # 8 o'clock in Tokyo
    assert page.plan.next_slot == monday
    assert page.plan.next(3) == [monday + timedelta(weeks=n) for n in range(3)]
    assert str(monday) in capsys.readouterr().out
    with pytest.raises(ScheduleNotFound):
        tasks.app.schedules.get("customer:7")
    assert (page.run.refresh().status, page.run.input) == ("queued", {})
    drain(tasks.app).check()
    assert page.run.refresh().result.startswith("sales until 2030-01-01")


@pytest.mark.timeout(120)
@pytest.mark.examples(SCHEDULES, "tasks.py")
def test_commands_of_the_page_print_what_it_shows(examples: Examples, tmp_path: Path) -> None:
    session = Session(tmp_path, examples)
    session.follow(SCHEDULES)
    assert session.commands == 6
