"""What the tests of the SQLite store share."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Finish, NewRun, WorkerInfo
from windlass.sources import Sources
from windlass.store.sqlite.store import SqliteStore

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


@contextmanager
def traced(store: SqliteStore) -> Iterator[list[str]]:
    """The statements that both faces run, in small letters."""
    own = store._own()
    seen: list[str] = []

    def trace(_: apsw.Cursor, text: str, __: object) -> bool:
        seen.append(text.lower().strip())
        return True

    used = (own.blocking, own.renewing, own.writer._connection)
    connections = [connection._handle() for connection in used]
    for connection in connections:
        connection.exec_trace = trace
    yield seen
    for connection in connections:
        connection.exec_trace = None


def writes(seen: list[str]) -> list[str]:
    """Those that take the lock."""
    words = ("insert", "update", "delete", "begin immediate")
    return [text for text in seen if text.startswith(words)]
