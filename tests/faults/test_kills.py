"""Processes that are killed: workers in the midst of handlers, clients in the midst of calls."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterable
from typing import Any

import pytest

from tests.faults.harness import (
    LEASE,
    SLACK,
    SWEEP,
    Fleet,
    Process,
    Stage,
    eventually,
    rest,
    run_number,
)

SEATS: dict[str, Any] = {"concurrency": 2, "threads": 2}


def test_runs_of_killed_workers_are_recovered_within_a_lease_and_a_sweep(
    stage: Stage, fleet: Fleet
) -> None:
    """F01, the short form."""
    kill_workers(stage, fleet, runs=400, blows=4)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_workers_that_are_killed_all_the_time_lose_nothing(stage: Stage, fleet: Fleet) -> None:
    """F01, the long form."""
    kill_workers(stage, fleet, runs=5000, blows=20)  # enough to do until the last blow


def kill_workers(stage: Stage, fleet: Fleet, *, runs: int, blows: int) -> None:
    acked = [run.id for run in stage.load(runs // 2, job="block")]
    acked += [run.id for run in stage.load(runs * 3 // 8)]
    acked += [run.id for run in stage.load(runs // 8, job="flaky")]
    # One is spared: somebody must be there to notice, however long a process takes to start.
    spared, *squad = [fleet.worker(**SEATS) for _ in range(3)]
    fleet.await_workers(spared, *squad)
    for blow in range(blows):
        victim = squad[blow % 2]
        wait_until_busy(stage, victim)
        victim.kill()
        # Without a reaper: its first look would come at about the time when a lease ends, whatever
        # those do who have looked before.
        squad[blow % 2] = fleet.worker(services=False, **SEATS)
        rest(0.4)
    stage.quiet(within=60)
    stage.check(acked=acked)
    assert_recovered_in_time(stage, fleet.processes)


def wait_until_busy(stage: Stage, worker: Process) -> None:
    """Wait until a worker has begun something that it has not ended; it may have no more to do."""

    def busy() -> bool:
        ended = {(line.run, line.attempt) for line in stage.witness.lines("effects")}
        return not stage.live() or any(
            line.pid == worker.pid and (line.run, line.attempt) not in ended
            for line in stage.witness.lines("starts")
        )

    eventually(busy, what=f"worker {worker.pid} is at work")


def assert_recovered_in_time(stage: Stage, processes: Iterable[Process]) -> None:
    """The leases of a killed worker are taken within lease + sweep of its death.

    A reaper that was itself held up, by a machine that is too busy, gives the others time to
    renew before it reaps, so some may take longer: the quickest shows the rule. Nor is it told
    here who else died: a worker that such a machine starves for a lease is as good as killed.
    """
    crashed = stage.rows("attempts", outcome="crashed")
    deaths = {process.pid: process.killed_at for process in processes}
    took = []
    for attempt in crashed:
        died = deaths[pid_of(attempt["worker"])]
        if died is not None and died < attempt["finished_at"]:
            took.append((attempt["finished_at"] - died).total_seconds())
    assert took, "nobody was killed at work: the test tests nothing"
    assert min(took) <= LEASE + SWEEP + SLACK
    assert max(took) <= 20


def pid_of(worker: str) -> int:
    """The process id in a worker's name."""
    return int(worker.rsplit(":", 2)[1])


def test_no_acknowledged_run_is_lost_when_everything_is_killed(stage: Stage, fleet: Fleet) -> None:
    """F02: clients and workers are all killed, five times, in the midst of a stream."""
    for first in itertools.islice(itertools.count(0, 1_000_000), 5):
        before = len(stage.witness.raw("acks"))
        crowd = [fleet.client(first=first, ms=1), fleet.worker()]
        stage.await_lines("acks", before + 20)
        for process in crowd:
            process.signal(signal.SIGKILL)
        for process in crowd:
            process.kill()
    fleet.worker()
    stage.quiet()

    acked = stage.acked()
    stage.check(acked=acked.values())
    asked = [int(n) for n in stage.witness.raw("asked")]
    made = [run_number(row["input"]) for row in stage.rows("runs")]
    assert len(acked) >= 100
    assert len(made) == len(set(made)), "a call made two runs"
    assert set(made) <= set(asked)


def test_an_effect_whose_worker_dies_before_it_says_so_happens_again(
    stage: Stage, fleet: Fleet
) -> None:
    """F08: effects happen at least once, success is recorded once."""
    good = stage.load(20)
    doomed = stage.app.enqueue("doomed", {"n": 7})
    first = fleet.worker()
    assert first.wait(within=10) == -signal.SIGKILL
    fleet.worker()
    stage.quiet()

    stage.check(acked=[doomed.id, *(run.id for run in good)])
    effects = [line for line in stage.witness.lines("effects") if line.run == doomed.id]
    assert [(line.attempt, line.token) for line in effects] == [(1, 1), (2, 2)]
    found = stage.app.get(doomed.id)
    assert (found.result, found.crash_count) == (7, 1)
    outcomes = [row["outcome"] for row in stage.rows("attempts", run=doomed.id)]
    assert sorted(outcomes) == ["crashed", "succeeded"]
