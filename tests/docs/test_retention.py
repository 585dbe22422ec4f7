"""The page on retention: its jobs, and what becomes of their runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.docs.conftest import Load
from tests.fixtures.pages import Examples
from windlass.errors import RunNotFound
from windlass.testing import drain


@pytest.mark.examples("docs/retention.md", "tasks.py", "test_tasks.py")
def test_the_virtual_clock_drives_retention(
    examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("tasks.py", "test_tasks.py"):
        examples.write(tmp_path, name)
    importlib.import_module("test_tasks").test_old_runs_go()
    for name in ("tasks", "test_tasks"):
        del sys.modules[name]


@pytest.mark.examples("docs/retention.md", "tasks.py")
def test_runs_go_as_their_jobs_say(load: Load) -> None:
    tasks = load("tasks.py")
    short = tasks.ping.enqueue(host="a")
    last, long = tasks.close_the_month.enqueue(), tasks.sign_contract.enqueue(contract_id=7)
    drain(tasks.app, until="40d")
    assert long.refresh().status == "succeeded"
    assert long.stale_at is None
    assert last.refresh().stale_at is not None
    with pytest.raises(RunNotFound):
        short.refresh()
