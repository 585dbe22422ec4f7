"""Each example runs, and prints what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "codec_alone": """\
{"id":7,"at":"2030-01-01T00:00:00Z","items":["a","b"]}
{'id': 7, 'at': '2030-01-01T00:00:00Z', 'items': ['a', 'b']}
True
The order cannot be stored at $.rate: nan is not a number that JSON has.
""",
    "dispatcher_alone": "scheduled\nqueued\n",
    "phases_alone": """\
  0% download=running process=pending upload=pending
downloading a
 33% download=succeeded process=pending upload=pending
 33% download=succeeded process=running upload=pending
 50% download=succeeded process=running upload=pending
 50% download=succeeded process=failed upload=pending
failed: the machine went away - done so far: ['download']
 33% download=succeeded process=pending upload=pending
 33% download=succeeded process=running upload=pending
 50% download=succeeded process=running upload=pending
 67% download=succeeded process=succeeded upload=pending
 67% download=succeeded process=succeeded upload=running
100% download=succeeded process=succeeded upload=succeeded
a is now film.mov.mp4
""",
    "reaper_alone": "queued after 1 crash\n",
    "retry_policy": """\
connection errors: [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
wrong value: None
asked for: 90.0
fatal: True False
linear: [10.0, 20.0, 30.0, 30.0]
""",
    "scheduler_alone": "next slot: known\nreport queued for its slot: True\n",
    "worker_alone": "Hello, Ada\nHello, Grace\n",
}


ELSEWHERE = {"durable_agent"}  # no part; tests/agents/test_kill.py kills it


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.stdout, done.returncode) == (PRINTED[name], 0), done.stderr


def test_every_example_is_run_here_and_every_part_on_the_page() -> None:
    files = {path.stem for path in EXAMPLES.glob("*.py")}
    assert files - ELSEWHERE == PRINTED.keys()
    page = (ROOT / "docs/parts.md").read_text("utf-8")
    assert all(f"](../examples/{name}.py)" in page for name in files - ELSEWHERE)
