"""A machine that has no thread, process or descriptor to give: real limits, both executors."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.kit import Process, command, started
from tests.faults.harness import eventually
from windlass import Run, Status, Windlass

RUNS = 6
MODULE = """
import os, resource, threading
from windlass import Windlass

app = Windlass("{url}", poll="100ms", threads=3, process_seats=3)
MEGABYTE = 1024 * 1024


@app.job
async def squeeze(what: str) -> None:
    if what == "descriptors":
        lowest = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest)
        limit(resource.RLIMIT_NOFILE, lowest)
    else:  # the stack of a thread does not fit any more; everything else does
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        threading.stack_size(512 * MEGABYTE)
        limit(resource.RLIMIT_AS, used + 256 * MEGABYTE)


@app.job
async def relax() -> None:
    threading.stack_size(0)
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS):
        limit(kind, resource.getrlimit(kind)[1])


def limit(kind, number):
    resource.setrlimit(kind, (number, resource.getrlimit(kind)[1]))


@app.job(max_attempts=1)
def thread() -> int:
    return os.getpid()


@app.job(max_attempts=1, executor="process")
def process() -> int:
    return os.getpid()
"""


@pytest.mark.parametrize(
    ("executor", "what"),
    [("thread", "threads"), ("process", "descriptors"), ("process", "threads")],
)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_runs_go_back_uncounted_until_the_machine_gives_again(
    tmp_path: Path, executor: str, what: str
) -> None:
    url = f"sqlite:///{tmp_path}/windlass.db"
    (tmp_path / "scarce.py").write_text(MODULE.format(url=url))
    app = Windlass(url)
    app.migrate()
    with started(command("worker", "--app", "scarce"), tmp_path) as worker:
        worker.wait_for("worker started")
        app.enqueue("squeeze", {"what": what}).wait(30)
        runs = [app.enqueue(executor) for _ in range(RUNS)]
        worker.wait_for("to be had")
        eventually(lambda: asked_again(runs), what="the machine was asked again")
        assert {run.status for run in runs} <= {Status.QUEUED, Status.RUNNING}
        pauses_grow(worker, runs)

        app.enqueue("relax").wait(30)
        for run in runs:
            run.wait(30)
        worker.send(signal.SIGTERM)
        assert worker.ends() == 0

    assert {(run.status, run.failures, run.crash_count) for run in runs} == {("succeeded", 0, 0)}
    assert {a.outcome for run in runs for a in run.attempts} == {"interrupted", "succeeded"}
    told = [line for line in worker.lines if "to be had: runs go back" in line]
    assert len(told) == 1
    assert "ulimit" in told[0]
    app.close()


def interrupted(runs: list[Run]) -> int:
    return sum(len(run.refresh().attempts) for run in runs)


def asked_again(runs: list[Run]) -> bool:
    """Three seats were refused at first; then one of them asks after each pause."""
    return interrupted(runs) >= 5


def pauses_grow(worker: Process, runs: list[Run]) -> None:
    """It does not ask without end: hardly any refusals, in all this time."""
    assert interrupted(runs) <= 12, worker.output
