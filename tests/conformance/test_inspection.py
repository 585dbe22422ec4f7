"""Looks at the store: who works, what waits, what should have ended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.kit import JOB, LEASE, WORKER, Driver, ids, make_worker
from windlass.domain.inspection import Demand, Overdue, WorkerState
from windlass.domain.outcome import Outcome
from windlass.domain.run import Blocked, JobRow, Options


def workers(drive: Driver, most: int = 10) -> list[WorkerState]:
    return list(drive.call(drive.store.operations.inspect_workers(most)))


def names(worker: WorkerState) -> list[str]:
    return [run.id for run in worker.running]


def demand(drive: Driver, most: int = 100) -> list[Demand]:
    return list(drive.call(drive.store.operations.inspect_demand(most)))


def overdue(drive: Driver, late: float = 60.0, most: int = 10) -> list[Overdue]:
    return list(drive.call(drive.store.operations.inspect_overdue(late, most)))


# -- workers -----------------------------------------------------------------------------------


@pytest.mark.both_faces
def test_nobody_and_nothing(drive: Driver) -> None:
    assert (workers(drive), demand(drive), overdue(drive)) == ([], [], [])


@pytest.mark.both_faces
def test_a_worker_is_told_with_what_it_holds(drive: Driver) -> None:
    given: dict[str, Any] = {"host": "box", "pid": 42, "version": "1.2", "seats": 7}
    named = make_worker("w", queues=("main", "b"), jobs=(JOB, "b\\c"), **given)
    drive.call(drive.ops.register(named, LEASE))
    began = drive.now
    first, second, third = drive.add_many(3)
    drive.advance(5)
    drive.claim(2, worker="w")
    drive.advance(5)
    drive.claim(1, worker="w")

    (worker,) = workers(drive, most=2)

    assert (worker.id, worker.host, worker.pid, worker.version) == ("w", "box", 42, "1.2")
    assert (worker.queues, worker.jobs, worker.seats) == (("main", "b"), (JOB, "b\\c"), 7)
    assert (worker.started_at, worker.renewed_at) == (began, began)
    assert (worker.alive_until, worker.seen_at) == (drive.later(LEASE - 10), drive.now)
    assert worker.alive
    assert worker.lease_left == LEASE - 10
    assert worker.busy == 3
    assert names(worker) == ids([first, second])
    held = worker.running[0]
    assert (held.tenant, held.job, held.queue, held.attempt) == ("default", JOB, "main", 1)
    assert held.started_at == drive.later(-5)
    assert third.id not in names(worker)


def test_workers_are_told_apart_in_the_order_of_their_start(drive: Driver) -> None:
    theirs = drive.start("z")
    drive.advance(1)
    mine = drive.start("a")
    drive.finish(theirs, Outcome.SUCCEEDED)

    found = workers(drive)

    assert [(w.id, w.busy, names(w)) for w in found] == [("z", 0, []), ("a", 1, [mine.id])]


def test_a_blocked_event_loop_is_noted_until_it_answers(drive: Driver) -> None:
    held = drive.start()
    since = drive.later(-2)

    drive.renew([held], blocked=Blocked(seconds=2.0, tenant="default", run=held.id))
    drive.advance(5)
    drive.renew([held], blocked=Blocked(seconds=7.5))

    (worker,) = drive.call(drive.store.operations.inspect_workers(1))
    assert worker.blocked_since == since
    assert (worker.blocked, worker.blocked_run) == (7.0, None)
    (info,) = drive.call(drive.ops.list_workers())
    assert info.blocked_since == since
    drive.renew([held])
    (worker,) = drive.call(drive.store.operations.inspect_workers(1))
    assert (worker.blocked, worker.blocked_since, worker.blocked_tenant) == (None, None, None)


def test_a_renewal_is_noted(drive: Driver) -> None:
    drive.register()
    drive.advance(20)
    drive.renew()
    drive.advance(3)

    (worker,) = workers(drive)

    assert (worker.started_at, worker.renewed_at) == (drive.later(-23), drive.later(-3))
    assert worker.lease_left == LEASE - 3


def test_a_dead_worker_is_told_as_dead_until_it_is_reaped(drive: Driver) -> None:
    held = drive.start()
    drive.advance(LEASE)

    (worker,) = workers(drive)

    assert not worker.alive
    assert worker.lease_left == 0
    assert names(worker) == [held.id]
    drive.sweep(reap=True)
    assert workers(drive) == []


# -- demand ------------------------------------------------------------------------------------


def test_what_is_ready_is_told_by_queue_and_job(drive: Driver) -> None:
    oldest = drive.now
    drive.add_many(2)
    drive.advance(5)
    drive.add(job="other")
    drive.add(queue="aside", tenant="acme")
    drive.add(queue="later", delay=60.0)
    drive.start(queue="taken")
    drive.advance(5)

    found = demand(drive)

    assert [(d.queue, d.job, d.waiting, d.seconds) for d in found] == [
        ("aside", JOB, 1, 5.0),
        ("main", JOB, 2, 10.0),
        ("main", "other", 1, 5.0),
    ]
    assert found[1].oldest_at == oldest


def test_only_the_head_of_each_queue_is_looked_through(drive: Driver) -> None:
    drive.add_many(5)
    drive.add(job="behind")
    drive.add(queue="short")

    assert [(d.queue, d.waiting) for d in demand(drive, most=4)] == [("main", 4), ("short", 1)]


# -- overdue -----------------------------------------------------------------------------------


def test_runs_past_their_timeout_are_told(drive: Driver) -> None:
    drive.call(drive.ops.sync_jobs([JobRow(name=JOB, queue="main", timeout=100.0)]))
    by_job = drive.start()
    by_run = drive.start(options=Options(timeout=20.0))
    longer = drive.start(options=Options(timeout=500.0))
    endless = drive.start(job="endless")
    drive.advance(80)
    drive.renew([by_job, by_run, longer, endless])

    (found,) = overdue(drive)

    assert (found.id, found.job, found.worker, found.timeout) == (by_run.id, JOB, WORKER, 20.0)
    assert not found.abandoned
    drive.advance(80)
    drive.renew([by_job, by_run, longer, endless])
    assert {run.id for run in overdue(drive)} == {by_job.id, by_run.id}
    assert len(overdue(drive, most=1)) == 1


def test_runs_of_the_dead_are_told_after_a_while(drive: Driver) -> None:
    drive.start(worker="living")
    dead = drive.start(worker="dead")
    orphan = drive.start(worker="gone")
    drive.tables.forget_worker("gone")
    drive.advance(LEASE + 60)
    drive.register("living")

    assert {run.id: run.abandoned for run in overdue(drive)} == {dead.id: True, orphan.id: True}
    assert overdue(drive, late=LEASE + 61) == []


# -- who takes what ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queues", "queue", "job", "serves"),
    [
        (None, "any", JOB, True),
        (("main",), "main", JOB, True),
        (("main",), "aside", JOB, False),
        (None, "main", "unknown", False),
    ],
)
def test_a_worker_serves_its_jobs_in_its_queues(
    steer: Driver, queues: tuple[str, ...] | None, queue: str, job: str, serves: bool
) -> None:
    steer.call(steer.ops.register(make_worker(queues=queues), LEASE))

    (worker,) = workers(steer)

    assert worker.serves(queue, job) is serves
