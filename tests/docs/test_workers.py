"""The page about workers: its example works, from the enqueue to the result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.pages import Examples


@pytest.mark.examples("docs/workers.md", "Where a handler runs")
def test_the_example_runs_in_a_child_process(examples: Examples, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(examples["Where a handler runs"])

    def windlass(*arguments: str) -> str:
        command = [sys.executable, "-m", "windlass", "--app", "tasks", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=50
        )
        return done.stdout

    run = windlass("enqueue", "render", "--arg", "frames=4").strip()
    windlass("worker", "--processes", "1", "--drain")
    found = json.loads(windlass("show", run, "--json"))
    assert (found["status"], found["result"], found["progress"]) == ("succeeded", 4, 0.75)
