"""The page about workers: its example works, from the enqueue to the result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "workers.md"


def test_the_example_runs_in_a_child_process(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "tasks.py").write_text(example)

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
