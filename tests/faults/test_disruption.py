"""Handlers that end their worker without killing it: they are blamed as if they had."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.faults.harness import Fleet, Stage, eventually
from tests.faults.test_crashes import CALM, jobs
from windlass import Windlass

__all__ = ["jobs"]

SETTINGS: dict[str, Any] = CALM | {"drain": 0.3, "max_crashes": 3}
SIGNALS = ("SIGTERM", "SIGINT", "descendant")
LOOPS = ("cancel", "stop", "exit in a callback", "exit in a task")


def disrupt(stage: Stage, fleet: Fleet, jobs: Windlass, kind: str) -> list[Any]:
    """Let a worker with two more runs be stopped by one of them; returns all three."""
    runs = [jobs.jobs["hold"].enqueue(), jobs.jobs["patient_process"].enqueue()]
    runs.insert(0, jobs.jobs["stopper"].enqueue(kind=kind))
    worker = fleet.command(**SETTINGS)
    stage.await_start(*(run.id for run in runs))
    stage.witness.raise_flag("go")
    assert worker.wait(within=20) == 1
    last = worker.log().splitlines()[-1]
    assert last.startswith("windlass: A handler disrupted its worker"), "not in one sentence"
    return [run.refresh() for run in runs]


@pytest.mark.parametrize(
    ("stage", "kind"),
    [*(("sqlite", kind) for kind in (*SIGNALS, *LOOPS)), ("postgres", "stop")],
    indirect=["stage"],
)
def test_a_handler_that_stops_its_worker_is_blamed(
    stage: Stage, fleet: Fleet, jobs: Windlass, kind: str
) -> None:
    stopper, hold, isolated = disrupt(stage, fleet, jobs, kind)

    # At once, and in good order: nobody had to find a dead worker.
    assert stage.rows("workers") == []
    for run in (stopper, hold):
        assert (run.status, run.crash_count, run.failures) == ("queued", 1, 0)
        (attempt,) = run.attempts
        assert attempt.outcome == "crashed"
        assert attempt.error.type.endswith("WorkerDisrupted")
    # A child process cannot have done it.
    assert (isolated.status, isolated.crash_count) == ("queued", 0)
    assert [attempt.outcome for attempt in isolated.attempts] == ["interrupted"]

    stage.witness.raise_flag("release")
    isolated.cancel()
    second = fleet.command(**SETTINGS)
    stage.quiet()
    assert second.alive
    assert (hold.refresh().status, hold.crash_count) == ("succeeded", 1)
    ends = dict.fromkeys(("cancel", *SIGNALS), ("succeeded", None))
    assert (stopper.refresh().status, stopper.failure) == ends.get(kind, ("failed", "crashed"))
    stage.check(acked=[stopper.id, hold.id, isolated.id])


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_a_child_process_that_stops_its_worker_is_alone_to_blame(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    runs = [jobs.jobs[name].enqueue() for name in ("parricide_process", "hold")]
    worker = fleet.command(process_seats=2, **SETTINGS)
    stage.await_start(*(run.id for run in runs))
    stage.witness.raise_flag("go")

    assert worker.wait(within=20) == 1

    culprit, neighbour = [run.refresh() for run in runs]
    assert (culprit.status, culprit.crash_count) == ("queued", 1)
    assert (neighbour.status, neighbour.crash_count) == ("queued", 0)
    assert [attempt.outcome for attempt in neighbour.attempts] == ["interrupted"]


@pytest.mark.parametrize(
    ("stage", "kind"), [("sqlite", "stop"), ("postgres", "SIGTERM")], indirect=["stage"]
)
def test_under_a_supervisor_its_neighbours_are_disturbed_once(
    stage: Stage, fleet: Fleet, jobs: Windlass, kind: str
) -> None:
    runs = [jobs.jobs["stopper"].enqueue(kind=kind), *(jobs.jobs["hold"].enqueue() for _ in "123")]
    supervisor = fleet.command("--processes", "1", **SETTINGS)
    stage.await_start(*(run.id for run in runs))
    stage.witness.raise_flag("go")
    stage.await_start(*(run.id for run in runs[1:]), attempt=2)
    stage.witness.raise_flag("release")
    stage.quiet()

    culprit, *neighbours = [run.refresh() for run in runs]
    assert culprit.status == ("failed" if kind == "stop" else "succeeded")
    assert {(run.status, run.crash_count, run.attempt) for run in neighbours} == {
        ("succeeded", 1, 2)
    }
    assert supervisor.log().count("worker process died") == 1


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
@pytest.mark.parametrize("arguments", [(), ("--processes", "1")], ids=["alone", "supervised"])
def test_a_signal_from_outside_counts_for_nothing(
    stage: Stage, fleet: Fleet, jobs: Windlass, arguments: tuple[str, ...]
) -> None:
    run = jobs.jobs["hold"].enqueue()
    process = fleet.command(*arguments, **SETTINGS)
    (line,) = stage.await_start(run.id)
    # To the worker itself, as a monitor or an operator sends it.
    os.kill(line.pid, signal.SIGTERM)

    if arguments:
        stage.await_start(run.id, attempt=2)
        assert "worker process died" not in process.log()
    else:
        assert process.wait(within=20) == 0
    run.refresh()
    assert (run.crash_count, run.attempts[0].outcome) == (0, "interrupted")


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_workers_whose_supervisor_is_gone_count_nothing(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    run = jobs.jobs["hold"].enqueue()
    supervisor = fleet.command("--processes", "1", **SETTINGS)
    stage.await_start(run.id)

    supervisor.kill()

    eventually(lambda: run.refresh().status == "queued", what="it was given back")
    assert (run.crash_count, run.attempts[0].outcome) == (0, "interrupted")


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_a_signal_to_a_single_thread_is_heard_as_one_from_outside(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    """Nobody can tell who sent it."""
    run = jobs.jobs["stopper"].enqueue(kind="raise")
    worker = fleet.command(**SETTINGS)
    stage.await_start(run.id)
    stage.witness.raise_flag("go")

    assert worker.wait(within=20) == 0

    run.refresh()
    assert (run.crash_count, run.attempts[0].outcome) == (0, "interrupted")


@pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
def test_programs_that_handlers_start_can_be_told_to_end(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    """The process waits for signals, which blocks them in one thread; nobody inherits that."""
    run = jobs.jobs["masks"].enqueue()
    fleet.command(**SETTINGS)
    stage.quiet()

    assert run.refresh().result == ["0" * 16] * 2
