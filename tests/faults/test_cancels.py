"""F17: canceling what runs in other processes."""

from __future__ import annotations

import time

from tests.faults.harness import Fleet, Stage, eventually
from tests.faults.test_crashes import alive, jobs
from windlass import IllegalTransition, Run, Windlass

__all__ = ["jobs"]

GRACE = 0.3


def test_handlers_are_told_and_stubborn_ones_are_ended_without(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    """Pending, cooperative, a stubborn thread, a stubborn process."""
    fleet.command(cancel_grace=GRACE, process_seats=2, renew=60.0, lease=180.0)
    names = ("patient", "patient_process", "stubborn", "stubborn_process")
    runs = {name: jobs.jobs[name].enqueue() for name in names}
    pending = jobs.jobs["good"].using(delay="1h").enqueue(n=1, ms=1)
    lines = dict(zip(names, stage.await_start(*(run.id for run in runs.values())), strict=True))

    assert pending.cancel().status == "canceled"
    asked = time.monotonic()
    for run in runs.values():
        assert run.cancel("enough").status == "running"
    for name in ("patient", "patient_process"):
        stage.await_line("told", runs[name].id)  # what it returns then counts
        await_status(runs[name], "succeeded")
    for name in ("stubborn", "stubborn_process"):
        await_status(runs[name], "canceled")
        assert runs[name].reason == "enough"
        assert runs[name].crash_count == 0
    # By the wake-up and after the grace, not when the next renewal comes or a lease runs out.
    assert time.monotonic() - asked < 20
    eventually(lambda: not alive(lines["stubborn_process"].pid), what="it was killed")
    assert alive(lines["stubborn"].pid), "a thread is the worker's own process"
    stage.check(acked=[run.id for run in (*runs.values(), pending)])


def test_cancel_and_success_race_and_both_sides_are_told_the_same(
    stage: Stage, fleet: Fleet, jobs: Windlass
) -> None:
    """200 times, from another process than the one that runs them."""
    # Slow enough that most are left when we have seen the first effect.
    fleet.ready_command(concurrency=2)
    runs = jobs.enqueue_many(jobs.jobs["good"].request(n=n, ms=40 + n % 10) for n in range(200))
    stage.await_lines("effects", 1)
    told = {run.id: _cancel(run) for run in reversed(runs)}  # they meet half way
    stage.quiet()

    stage.check(acked=[run.id for run in runs])
    started = {line.run for line in stage.witness.lines("starts")}
    ends = set()
    for run in runs:
        run.refresh()
        ends.add(run.status)
        final = [event.type for event in run.events()][-1]
        assert final == f"run.{run.status}"
        if told[run.id] != "running":
            assert run.status == told[run.id]  # what was told as final is final
            if told[run.id] == "canceled":
                assert run.id not in started
    assert ends == {"succeeded", "canceled"}


def await_status(run: Run, status: str) -> None:
    eventually(lambda: run.refresh().status == status, what=f"{run.job} has {status}")


def _cancel(run: Run) -> str:
    try:
        return str(run.cancel().status)
    except IllegalTransition as error:
        return error.status
