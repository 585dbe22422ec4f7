"""Failure handlers: their runs exist if and only if a failure is recorded, whoever is killed."""

from __future__ import annotations

import pytest

from tests.conformance.history import History, unhandled
from tests.conformance.places import opened
from tests.faults.harness import Fleet, Stage, eventually

HANDLER = "hopeless.on_failure"


def failed(stage: Stage) -> list[str]:
    """The runs whose failure is recorded."""
    return sorted(row["id"] for row in stage.rows("runs", job="hopeless", status="failed"))


def handled(stage: Stage) -> list[str]:
    """The runs for which there is a handler's run, once for each of those."""
    return sorted(row["enqueued_by"] for row in stage.rows("runs", job=HANDLER))


def await_failures(stage: Stage, count: int) -> None:
    eventually(lambda: len(failed(stage)) >= count, what=f"{count} runs have failed")


def problems(stage: Stage) -> list[str]:
    """What the history checker says about failures and their handlers' runs."""
    with opened(stage.place) as tables:
        return list(unhandled(History.read(tables)))


def test_each_failure_has_its_handlers_run_whenever_workers_are_killed(
    stage: Stage, fleet: Fleet
) -> None:
    runs = [run.id for run in stage.load(80, job="hopeless", ms=(1, 20))]
    for blow in range(1, 4):
        worker = fleet.ready_worker(concurrency=4)
        await_failures(stage, 6 * blow)
        worker.kill()
        # Nobody writes any more, once the server has ended the transaction that was under way.
        eventually(lambda: failed(stage) == handled(stage), what="each has its handler's run")
        assert problems(stage) == []
    fleet.worker()
    stage.quiet(within=60)

    stage.check(acked=runs)
    assert failed(stage) == handled(stage) == sorted(runs)
    told = {line.word for line in stage.witness.lines("effects")}
    assert told == set(runs)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_is_killed_in_its_commit_leaves_both_or_neither(
    sqlite_stage: Stage, fleet: Fleet, moment: str
) -> None:
    stage = sqlite_stage
    victim = fleet.ready_worker(stop_in_commit=moment, services=False, jobs=["hopeless"])
    run = stage.app.enqueue("hopeless").id
    stage.await_lines("stopped", 1)

    victim.kill()

    left = [run] if moment == "after" else []
    assert (failed(stage), handled(stage)) == (left, left)
    fleet.worker()
    stage.quiet()
    stage.check(acked=[run])
    assert (failed(stage), handled(stage)) == ([run], [run])
