"""Processes that are stopped for longer than their lease, and wake up."""

from __future__ import annotations

import pytest

from tests.faults.harness import (
    LEASE,
    SWEEP,
    Fleet,
    Process,
    Stage,
    eventually,
    rest,
    through,
)
from tests.faults.proxy import Fault, Proxy
from windlass.domain.outcome import Outcome

RESULT = "first"  # of the first attempt of `last`: no other request has it


def test_a_worker_that_wakes_up_after_its_lease_can_record_nothing(
    stage: Stage, fleet: Fleet
) -> None:
    """F05: stopped in the midst of handlers until others have its runs, it is told, and goes on
    working."""
    sleeper = fleet.ready_worker()
    (old,) = stage.workers(sleeper.pid)
    names = ("zombie", "patient", "hold")
    zombie, patient, held = (stage.app.enqueue(job).id for job in names)
    stage.await_start(zombie, patient, held)
    stop_between_writes(stage, sleeper)
    # Each has a worker to itself: they are suspects now, and no fresh process can find these jobs.
    heirs = [fleet.worker(jobs=[name]) for name in names]
    stage.await_start(zombie, patient, held, attempt=2)
    stage.witness.raise_flag("woken")

    sleeper.go_on()

    # The heirs still hold the runs: only the token tells the two apart.
    stage.await_lines("tried", 4 + len(Outcome))
    tried = stage.witness.lines("tried")
    assert [line.word for line in tried if not line.word.endswith("refused")] == []
    for run in (patient, held):
        stage.await_line("told", run, word="canceled")  # by the renewal that is overdue
    assert [row["token"] for row in stage.rows("leases", id=zombie)] == [2]
    assert stage.rows("progress") == []
    stage.witness.raise_flag("release")
    stage.quiet()
    stage.check(acked=[zombie, patient, held])
    assert [stage.app.get(run).result for run in (zombie, patient, held)] == [
        "fresh", "fresh", "held",
    ]  # fmt: skip
    for heir in heirs:
        heir.kill()
    (later,) = stage.load(1)
    stage.await_line("effects", later.id)
    stage.quiet()
    (attempt,) = stage.rows("attempts", run=later.id)
    assert attempt["worker"] != old["id"]
    assert stage.witness.lines("effects")[-1].pid == sleeper.pid
    assert "declared dead" in sleeper.log()
    assert "event loop blocked" not in sleeper.log()  # it stood still with all the others
    stage.check(acked=[later.id])


def stop_between_writes(stage: Stage, worker: Process) -> None:
    """Stop a worker, but not with the lock in its hands: then nobody could take its runs."""
    worker.stop()
    while not stage.writable():
        worker.go_on()
        rest(0.01)
        worker.stop()


def test_an_end_that_arrives_after_its_lease_is_refused(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    """F06: the network holds the end of an attempt until another worker has the run."""
    stage = postgres_stage
    slow = fleet.ready_worker(url=through(proxy, stage.url), services=False)
    rule = proxy.expect(Fault.HOLD_REQUEST, "windlass.cycle", RESULT)
    run = stage.app.enqueue("last").id
    assert rule.struck.wait(10), "the end was never sent"
    proxy.pause()
    fleet.worker()
    stage.await_start(run, attempt=2)

    rule.released.set()
    proxy.resume()

    assert rule.answered.wait(10), "the late end never reached the store"
    assert [row["token"] for row in stage.rows("leases", id=run)] == [2]
    stage.witness.raise_flag("release")
    stage.quiet()
    stage.check(acked=[run])
    assert stage.app.get(run).result == "second"
    assert slow.alive


def test_an_end_that_was_recorded_before_its_lease_ran_out_stands(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    """F06: the store has it, the worker does not know, and its lease runs out."""
    stage = postgres_stage
    slow = fleet.ready_worker(url=through(proxy, stage.url), services=False)
    (old,) = stage.workers(slow.pid)
    rule = proxy.expect(Fault.HOLD_REPLY, "windlass.cycle", RESULT)
    run = stage.app.enqueue("last").id
    assert rule.struck.wait(10), "the end was never sent"
    proxy.pause()
    fleet.worker(jobs=["load"])
    eventually(
        lambda: not stage.rows("workers", id=old["id"]),
        what="the slow worker is dead to the store",
    )

    rule.released.set()
    proxy.resume()

    eventually(lambda: stage.workers(slow.pid), what="the slow worker has a new name")
    stage.check(acked=[run])
    assert stage.app.get(run).result == "first"
    assert len(stage.rows("attempts", run=run)) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_is_stopped_in_its_commit_ends_the_run_once(
    sqlite_stage: Stage, fleet: Fleet, moment: str
) -> None:
    """F06: stopped with the write lock in its hands, or just after it let go."""
    stage = sqlite_stage
    sleeper = fleet.ready_worker(stop_in_commit=moment, services=False)
    run = stage.app.enqueue("last").id
    stage.await_lines("stopped", 1)
    other = fleet.worker()
    rest(LEASE + SWEEP)

    sleeper.go_on()

    eventually(lambda: stage.app.get(run).status.finished, what="the run has ended")
    fleet.await_workers(sleeper, other)
    later = stage.load(10)
    stage.quiet()
    stage.check(acked=[run, *(one.id for one in later)])
    assert stage.app.get(run).result == "first"
    assert len(stage.rows("attempts", run=run)) == 1


def test_a_worker_that_is_stopped_at_any_instant_leaves_one_end_to_each_run(
    sqlite_stage: Stage, fleet: Fleet
) -> None:
    """F06: many short stops under load, wherever the writer thread happens to be."""
    stop_and_go(sqlite_stage, fleet, runs=200, stops=12)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_workers_that_are_stopped_all_the_time_leave_one_end_to_each_run(
    stage: Stage, fleet: Fleet
) -> None:
    """F06, the long form."""
    stop_and_go(stage, fleet, runs=1500, stops=150)


def stop_and_go(stage: Stage, fleet: Fleet, *, runs: int, stops: int) -> None:
    acked = [run.id for run in stage.load(runs)]
    squad = [fleet.worker(), fleet.worker()]
    fleet.await_workers(*squad)
    for number in range(stops):
        victim = squad[number % 2]
        victim.stop()
        # Every tenth time for longer than the lease.
        rest(1.2 * LEASE if number % 10 == 9 else 0.02)
        victim.go_on()
        rest(0.011 + number * 7 % 30 / 1000)
    stage.quiet()
    stage.check(acked=acked)
    assert all(worker.alive for worker in squad)
