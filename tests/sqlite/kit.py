"""What the tests of the SQLite store share."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Finish, NewRun, WorkerInfo
from windlass.sources import Sources

JOB = "send"
QUEUE = "mail"


def new_run(sources: Sources, **fields: Any) -> NewRun:
    """A run to be enqueued."""
    known = {"id": sources.new_id(), "job": JOB, "queue": QUEUE, "input": msgspec.Raw(b"{}")}
    return NewRun(**(known | fields))


def new_worker(name: str = "w1") -> WorkerInfo:
    """A worker that knows the one job."""
    return WorkerInfo(id=name, host="here", pid=1, version="1", queues=None, jobs=(JOB,), seats=100)


def succeeded(claimed: Claimed) -> Finish:
    """The good end of an attempt."""
    return Finish(
        tenant=claimed.tenant,
        id=claimed.id,
        token=claimed.token,
        outcome=Outcome.SUCCEEDED,
        result=msgspec.Raw(b"1"),
    )


def start_script(text: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python program in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", text, *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_script(text: str, *arguments: object) -> str:
    """Run a Python program in a process of its own; return what it prints."""
    process = start_script(text, *arguments)
    out, err = process.communicate(timeout=50)
    assert process.returncode == 0, err
    return out
