"""Pauses of queues and jobs: nothing is started from them, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import WORKER, Driver, ids
from windlass.domain.outcome import Outcome
from windlass.domain.pause import PauseKind
from windlass.domain.run import CycleReply, RunRef, Want
from windlass.domain.states import Failure, Status

QUEUE, JOB = PauseKind.QUEUE, PauseKind.JOB


def pause(drive: Driver, kind: PauseKind, name: str, tenant: str = "default") -> None:
    drive.call(drive.ops.pause_work(tenant, kind, name, "why", by="ann"))
    drive.call(drive.ops.settle_pauses())


def resume(drive: Driver, kind: PauseKind, name: str, tenant: str = "default") -> bool:
    return drive.call(drive.ops.resume_work(tenant, kind, name, by="bob")) is not None


def claim(
    drive: Driver, *, limit: int = 10, jobs: tuple[str, ...] = ("greet", "other"), **want: Any
) -> CycleReply:
    reply = drive.call(drive.ops.cycle(WORKER, 1, [], Want(limit=limit, jobs=jobs, **want)))
    assert not reply.locked
    assert not reply.refused
    return reply


@pytest.fixture
def worker(drive: Driver) -> str:
    drive.register()
    return WORKER


@pytest.mark.parametrize("kind", PauseKind)
@pytest.mark.parametrize("queues", [None, ("mail", "media")])
@pytest.mark.parametrize("window", [None, 5])
def test_nothing_is_claimed_from_what_is_paused(
    drive: Driver, worker: str, kind: PauseKind, queues: tuple[str, ...] | None, window: int | None
) -> None:
    first = [drive.add(queue="mail", job="greet") for _ in range(3)]
    others = [drive.add(queue="media", job="other") for _ in range(2)]
    last = drive.add(queue="mail", job="greet")
    pause(drive, kind, "mail" if kind is QUEUE else "greet")

    found = claim(drive, queues=queues, window=window)

    assert sorted(ids(found.claimed)) == sorted(ids(others))
    assert "mail" not in found.stops
    assert claim(drive, queues=queues, window=window).claimed == ()
    assert [drive.get(run).status for run in (*first, last)] == [Status.QUEUED] * 4
    assert resume(drive, kind, "mail" if kind is QUEUE else "greet")
    # They keep their place.
    assert ids(claim(drive, queues=queues).claimed) == [*ids(first), last.id]
    assert violations(History.read(drive.tables)) == []


def test_what_is_named_by_a_message_is_not_claimed_while_it_is_paused(
    drive: Driver, worker: str
) -> None:
    one, two = drive.add(queue="mail"), drive.add(queue="media", job="other")
    three = drive.add(queue="media")
    pause(drive, QUEUE, "mail")
    pause(drive, JOB, "other")

    assert ids(claim(drive, ids=(one, two, three)).claimed) == [three.id]
    drive.advance(10)
    assert drive.call(drive.ops.unpublished(5.0, 10)) == []
    resume(drive, QUEUE, "mail")
    resume(drive, JOB, "other")
    assert {r.id for r in drive.call(drive.ops.unpublished(5.0, 10))} == {one.id, two.id}
    assert sorted(ids(claim(drive, ids=(one, two)).claimed)) == sorted([one.id, two.id])


@pytest.mark.parametrize("kind", PauseKind)
@pytest.mark.parametrize("between", [("a", "z"), ("a",), ("z",), ("k",)])
def test_a_pause_is_one_tenants(
    drive: Driver, worker: str, kind: PauseKind, between: tuple[str, ...]
) -> None:
    """Before, after and between those for whom it is paused."""
    name = "mail" if kind is QUEUE else "greet"
    for tenant in ("default", "paused"):
        drive.add(queue="mail", tenant=tenant)
        pause(drive, kind, name, tenant)
    assert claim(drive).claimed == ()
    assert claim(drive, window=1, jobs=("greet",)).stops == {}
    others = [drive.add(queue="mail", tenant=tenant) for tenant in between]

    assert sorted(ids(claim(drive, window=100).claimed)) == sorted(ids(others))
    assert claim(drive).claimed == ()


def test_runs_that_are_running_go_on(drive: Driver) -> None:
    held = drive.start(queue="mail")
    pause(drive, QUEUE, "mail")

    drive.finish(held, Outcome.SUCCEEDED)

    assert drive.get(RunRef(held.tenant, held.id)).status is Status.SUCCEEDED


def test_time_goes_on_while_a_queue_is_paused(drive: Driver, worker: str) -> None:
    delayed = drive.add(queue="mail", delay=10.0)
    expiring = drive.add(queue="mail", expires_at=drive.later(10))
    ending = drive.add(queue="mail", deadline_at=drive.later(10))
    pause(drive, QUEUE, "mail")

    drive.advance(20)
    drive.sweep(dispatch=True, expire=True)

    assert drive.get(delayed).status is Status.QUEUED
    assert drive.get(expiring).failure is Failure.EXPIRED
    assert drive.get(ending).failure is Failure.DEADLINE
    assert claim(drive).claimed == ()
    resume(drive, QUEUE, "mail")
    assert ids(claim(drive).claimed) == [delayed.id]


def test_what_is_paused_is_no_work_that_is_left(drive: Driver, worker: str) -> None:
    drive.add(queue="mail")
    retried = drive.start(queue="mail")
    drive.finish(retried, Outcome.RETRY, delay=30.0)
    drive.add(queue="media", job="other")
    drive.add(queue="media", delay=5.0)
    drive.advance(10)
    pause(drive, QUEUE, "mail")
    pause(drive, JOB, "other")

    left = drive.call(drive.ops.backlog(None, None))

    assert (left.ready, left.retrying, left.running, left.paused) == (1, 0, 0, 3)
    only = drive.call(drive.ops.backlog(("mail",), ("greet",)))
    assert (only.ready, only.paused) == (0, 2)
    demand = drive.call(drive.ops.inspect_demand(100))
    assert [(d.queue, d.job, d.waiting, d.paused) for d in demand] == [
        ("mail", "greet", 1, 1),
        ("media", "other", 1, 1),
    ]


def test_a_pause_says_who_when_and_why_and_the_first_one_stays(drive: Driver) -> None:
    first = drive.call(drive.ops.pause_work("default", QUEUE, "mail", "full", by="ann"))
    drive.advance(5)
    again = drive.call(drive.ops.pause_work("default", QUEUE, "mail", "still", by="bob"))
    drive.call(drive.ops.pause_work("default", JOB, "mail", None, by="ann"))
    drive.call(drive.ops.pause_work("stranger", QUEUE, "mail", None, by="eve"))

    assert again == first
    assert (first.by, first.reason) == ("ann", "full")
    assert [(p.kind, p.by) for p in drive.call(drive.ops.list_pauses("default"))] == [
        (QUEUE, "ann"),
        (JOB, "ann"),
    ]
    assert len(drive.call(drive.ops.list_pauses(None))) == 3
    assert drive.call(drive.ops.resume_work("default", QUEUE, "mail", by="bob")) == first
    assert drive.call(drive.ops.resume_work("default", QUEUE, "mail", by="bob")) is None
    log = drive.call(drive.ops.list_audit("default", kind="queue", subject="mail"))
    assert [(entry.actor, entry.verb, entry.reason) for entry in log] == [
        ("bob", "resume", None),
        ("bob", "resume", None),
        ("bob", "pause", "still"),
        ("ann", "pause", "full"),
    ]
    assert {entry.kind for entry in log} == {"queue"}
    assert len(drive.call(drive.ops.list_audit("default", kind="job", subject="mail"))) == 1
