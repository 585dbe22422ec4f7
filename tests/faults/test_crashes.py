"""Handlers that kill or stall the process they run in, and the runs beside them."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import cgroups
from tests.faults.harness import SLACK, Fleet, Stage, eventually
from tests.faults.programs.isolated import define
from windlass import AttemptOutcome, Windlass

ENDS = {"exit": "with exit code 3", "segv": "by SIGSEGV", "rlimit": "by SIGABRT"}
BRISK: dict[str, Any] = {"lease": 1.0, "renew": 0.2, "sweep": 0.2}
# Where crashes are counted: a process that a busy machine starves for a lease is one more.
CALM: dict[str, Any] = BRISK | {"lease": 3.0}


@pytest.fixture
def jobs(stage: Stage) -> Iterator[Windlass]:
    """An application that enqueues what `programs.isolated` runs."""
    made = Windlass(stage.url, **stage.settings)
    define(made)
    yield made
    made.close()


def alive(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("stage", "kind"), [("sqlite", "exit"), ("postgres", "segv")], indirect=["stage"]
)
def test_a_poison_run_takes_its_neighbours_down_once(
    stage: Stage, fleet: Fleet, jobs: Windlass, kind: str
) -> None:
    """F09, the short form."""
    poison(stage, fleet, jobs, kind)


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["exit", "segv", "rlimit"])
def test_a_poison_run_of_any_kind_is_given_up_alone(
    stage: Stage, fleet: Fleet, jobs: Windlass, kind: str
) -> None:
    """F09, the long form."""
    poison(stage, fleet, jobs, kind)


@pytest.fixture(params=["cgroup" if cgroups.POSSIBLE else "no-cgroup-here-so-rlimit"])
def group(request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """A control group with little memory, if this machine lets us make one: the id tells."""
    if request.param != "cgroup":
        yield None
        return
    made = cgroups.make_group()
    assert made is not None
    yield made
    eventually(lambda: cgroups.remove(made), what="the group is removed")


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_poison_run_that_the_kernel_kills_for_its_memory(
    group: Path | None, stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    """F09, killed by the kernel where that can be had."""
    poison(stage, fleet, jobs, "rlimit" if group is None else str(group))
    assert group is None or cgroups.kills_in(group) == 3


def poison(stage: Stage, fleet: Fleet, jobs: Windlass, kind: str) -> None:
    good = [jobs.jobs["good"].request(n=n, ms=20 + n % 5 * 20) for n in range(200)]
    requests = [*good[:20], jobs.jobs["pill"].request(kind=kind), *good[20:]]
    runs = list(jobs.enqueue_many(requests))
    pill = runs.pop(20)
    process = fleet.command("--processes", "2", max_crashes=3, process_seats=2, **CALM)
    stage.quiet(within=50)  # each suspect has a process to itself
    process.terminate()
    assert process.wait(within=15) == 0

    stage.check(acked=[pill.id, *(run.id for run in runs)])
    pill.refresh()
    assert (pill.status, pill.failure, pill.crash_count) == ("failed", "crashed", 3)
    assert pill.error is not None
    assert ENDS.get(kind, "by SIGKILL") in pill.error.message
    for run in runs:
        run.refresh()
    assert {(run.status, run.failures) for run in runs} == {("succeeded", 0)}
    crashes = [run.crash_count for run in runs]
    assert max(crashes) == 1, "nobody was beside it: the test tests nothing"
    # It killed a worker once; from then on it was alone.
    assert process.log().count("worker process died") == 1
    assert len({line.pid for line in stage.witness.lines("starts") if line.run == pill.id}) == 3


@pytest.mark.parametrize(("stage", "workers"), [("sqlite", 1), ("postgres", 2)], indirect=["stage"])
def test_a_poison_run_that_no_child_can_find_is_found_by_halves(
    stage: Stage, fleet: Fleet, workers: int
) -> None:
    good = [stage.app.jobs["load"].request(n=n, ms=100) for n in range(11)]
    requests = [*good[:5], stage.app.jobs["poison"].request(), *good[5:]]
    runs = list(stage.app.enqueue_many(requests))
    pill = runs.pop(5)

    def all_ended() -> bool:
        while sum(process.alive for process in fleet.processes) < workers:
            fleet.worker(max_crashes=3, concurrency=12, **CALM)
        return stage.live() == 0

    eventually(all_ended, within=80, what="every run has ended")
    stage.check(acked=[pill.id, *(run.id for run in runs)])
    pill.refresh()
    assert (pill.status, pill.failure) == ("failed", "crashed")
    assert {run.refresh().status for run in runs} == {"succeeded"}
    deaths = sum(not process.alive for process in fleet.processes)
    assert deaths == pill.crash_count <= math.ceil(math.log2(len(requests))) + 2
    # The last time it was alone: nobody else has as many crashes.
    assert max(run.crash_count for run in runs) < pill.crash_count


def test_a_handler_that_blocks_the_loop_loses_its_runs_to_others(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    """F07: longer than a lease, with others about who take what it cannot vouch for."""
    runs = [jobs.jobs[name].enqueue() for name in ("block", "hold", "hold", "patient_process")]
    blocker, *neighbours, isolated = runs
    first = fleet.command(**CALM)
    lines = stage.await_start(*(run.id for run in runs))
    second = fleet.ready_command(**CALM)
    stage.witness.raise_flag("go")
    stage.await_start(*(run.id for run in (blocker, *neighbours)), attempt=2)
    stage.witness.raise_flag("release")
    for run in (blocker, *neighbours):
        assert jobs.result(run.id, timeout=20) == 2

    assert [attempt.outcome for attempt in blocker.refresh().attempts] == ["crashed", "succeeded"]
    for run in neighbours:
        assert (run.refresh().crash_count, run.attempts[0].outcome) == (0, "interrupted")
    # Its child process goes on, under the lease that the worker keeps.
    isolated.refresh()
    assert (isolated.status, isolated.attempt) == ("running", 1)
    assert alive(lines[-1].pid)
    (found,) = [worker for worker in jobs.workers() if worker.pid == first.pid]
    assert (found.alive, found.blocked_run) == (True, blocker.id)
    told = ("event loop blocked", "job=block", f"run={blocker.id}", f"worker={found.id}")
    assert any(all(word in line for word in told) for line in first.log().splitlines())

    stage.witness.raise_flag("wake")
    eventually(lambda: "event loop runs again" in first.log(), what="it has come back")
    isolated.cancel()
    stage.quiet()
    stage.check(acked=[run.id for run in runs])
    assert (isolated.refresh().attempt, isolated.crash_count) == (1, 0)
    assert first.alive
    assert second.alive


def test_a_blocked_worker_that_is_told_to_stop_ends_by_itself(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    runs = [jobs.jobs[name].enqueue() for name in ("block", "hold", "patient_process")]
    worker = fleet.command(**(CALM | {"lease": 30.0, "drain": 2.0}))
    lines = stage.await_start(*(run.id for run in runs))
    stage.witness.raise_flag("go")
    eventually(lambda: "event loop blocked" in worker.log(), what="it is blocked")

    told = worker.terminate()

    assert worker.wait(within=20) == 1
    assert time.monotonic() - told < 2.0 + 3 * SLACK
    blocker, *others = [run.refresh() for run in runs]
    assert (blocker.status, blocker.crash_count) == ("queued", 1)
    assert {(run.status, run.crash_count) for run in others} == {("queued", 0)}
    assert stage.rows("workers") == []
    eventually(lambda: not alive(lines[-1].pid), what="its child has ended")


def test_a_handler_that_holds_the_interpreter_is_fenced(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    """F07: nothing in its process can renew, so its runs are another's when it wakes up."""
    fleet.command(**BRISK)
    run = jobs.jobs["hold_gil"].enqueue()
    (first,) = stage.await_start(run.id)
    fleet.command(**BRISK)
    stage.await_start(run.id, attempt=2)
    assert stage.said("effects", run.id, attempt=1) is None, "it was awake: this tests nothing"
    stage.witness.raise_flag("wake")
    stage.await_line("effects", run.id, attempt=1)  # it woke up, had its effect, and tells it
    eventually(lambda: "starting over" in fleet.processes[0].log(), what="it was declared dead")
    stage.witness.raise_flag("release")
    stage.quiet()

    stage.check(acked=[run.id])
    run.refresh()
    assert (run.status, run.result, run.crash_count) == ("succeeded", 2, 1)
    assert [a.outcome for a in run.attempts] == [AttemptOutcome.CRASHED, AttemptOutcome.SUCCEEDED]
    # The second attempt was a suspect's: in a child process.
    second = stage.said("starts", run.id, attempt=2)
    assert second is not None
    assert second.pid not in {first.pid, *(process.pid for process in fleet.processes)}


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_child_processes_end_with_a_worker_that_is_killed(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    run = jobs.jobs["stubborn_process"].enqueue()
    worker = fleet.command()
    (line,) = stage.await_start(run.id)
    assert line.pid != worker.pid

    worker.kill()

    eventually(lambda: not alive(line.pid), within=5, what="its child has ended")


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_a_child_that_is_killed_is_one_crash(stage: Stage, fleet: Fleet, jobs: Windlass) -> None:
    """By whoever has the right to, such as a kernel without memory."""
    run = jobs.jobs["patient_process"].enqueue()
    worker = fleet.command(**BRISK)
    (line,) = stage.await_start(run.id)
    os.kill(line.pid, signal.SIGTERM)  # as a service manager does to all: the worker answers it
    os.kill(line.pid, signal.SIGKILL)
    stage.await_start(run.id, attempt=2)
    run.cancel()
    stage.quiet()
    stage.await_line("told", run.id, attempt=2)

    run.refresh()
    assert worker.alive
    assert (run.crash_count, run.attempts[0].outcome) == (1, AttemptOutcome.CRASHED)
    assert run.attempts[0].error is not None
    assert "SIGKILL" in run.attempts[0].error.message
    assert run.status in ("succeeded", "canceled")
