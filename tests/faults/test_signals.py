"""F22: SIGTERM to `windlass worker`, whatever its handlers run in."""

from __future__ import annotations

import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests.faults.harness import SLACK, Fleet, Stage, eventually, rest
from tests.faults.test_crashes import alive, jobs
from windlass import Windlass

__all__ = ["jobs"]

DRAIN = 0.6


SUPERVISED = ("--processes", "2")


@pytest.mark.parametrize(
    ("stage", "arguments"),
    [("sqlite", ()), ("postgres", ()), ("sqlite", SUPERVISED)],
    ids=["sqlite", "postgres", "supervisor"],
    indirect=["stage"],
)
def test_what_takes_longer_than_the_grace_is_given_back(
    stage: Stage, fleet: Fleet, jobs: Windlass, arguments: tuple[str, ...]
) -> None:
    short = jobs.jobs["good"].enqueue(n=1, ms=300)
    long = [jobs.jobs[name].enqueue() for name in ("stubborn", "stubborn_process", "patient")]
    worker = fleet.command(*arguments, drain=DRAIN, process_seats=2)
    lines = stage.await_start(short.id, *(run.id for run in long))
    count = 2 if arguments else 1
    eventually(lambda: worker.log().count("worker started") == count, what="all have started")

    told = worker.terminate()
    eventually(lambda: worker.log().count("worker stopping") == count, what="all have heard")
    late = jobs.jobs["good"].enqueue(n=2, ms=1)
    assert worker.wait(within=15) == 0

    assert DRAIN <= time.monotonic() - told <= DRAIN + 3 + 2 * SLACK
    assert short.refresh().status == "succeeded"
    # A claim that was on its way may have seen it; then it was given back.
    assert late.refresh().status == "queued"
    assert stage.said("starts", late.id) is None
    for run in long:
        run.refresh()
        assert (run.status, run.failures, run.crash_count) == ("queued", 0, 0)
        assert [a.outcome for a in run.attempts] == ["interrupted"]
        released = stage.rows("attempts", run=run.id)[0]["finished_at"]
        began = stage.rows("attempts", run=run.id)[0]["started_at"]
        assert (released - began).total_seconds() < DRAIN + 10
    assert stage.rows("leases") == []
    assert stage.rows("workers") == []
    eventually(lambda: not any(alive(line.pid) for line in lines), what="nothing is left")


def test_a_second_signal_leaves_nothing_behind(stage: Stage, fleet: Fleet, jobs: Windlass) -> None:
    run = jobs.jobs["stubborn_process"].enqueue()
    worker = fleet.command(drain=60)
    (line,) = stage.await_start(run.id)
    worker.terminate()
    eventually(lambda: "worker stopping" in worker.log(), what="it has heard the first")
    rest(0.3)  # two within a quarter of a second are one

    worker.signal(signal.SIGTERM)

    assert worker.wait(within=20) == 128 + signal.SIGTERM
    eventually(lambda: not alive(line.pid), what="the handler's process is gone")
    assert stage.rows("attempts") == []


def test_a_signal_during_start_up_ends_it_at_once(stage: Stage, fleet: Fleet) -> None:
    workers = [fleet.command(*more) for more in ((), ("--processes", "2"))]
    # The interpreter is up, the application most likely not.
    for worker in workers:
        eventually(partial(_handles_term, worker.pid), what="it is starting")
        worker.terminate()

    assert [worker.wait(within=10) for worker in workers] == [0, 0]
    assert stage.rows("workers") == []


def _handles_term(pid: int) -> bool:
    """Whether a process has set a handler of its own for SIGTERM."""
    caught = next(
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "SigCgt" in line
    )
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
