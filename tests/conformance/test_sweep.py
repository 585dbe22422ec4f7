"""Sweep: what is due becomes ready, what waited too long ends, what died comes back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.kit import LEASE, WORKER, Driver, ids
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.states import Failure, Status

pytestmark = pytest.mark.every_server

# -- dispatch --------------------------------------------------------------------------------


def test_what_is_due_becomes_ready(drive: Driver) -> None:
    due = drive.add(delay=10.0, priority=3)
    later = drive.add(delay=10.000001)
    drive.advance(10)

    reply = drive.sweep(dispatch=True)

    assert reply.now == drive.now
    assert reply.dispatched == (due,)
    assert reply.next_due == drive.get(later).due_at
    assert not reply.more
    record = drive.get(due)
    assert (record.status, record.due_at, record.waiting_for) == (Status.QUEUED, None, None)
    assert drive.trail(due) == [EventType.ENQUEUED, EventType.QUEUED]
    (place,) = drive.rows("ready")
    assert (place["rank"], place["ready_at"]) == (-3, drive.now)
    assert drive.get(later).status is Status.SCHEDULED


def test_the_longest_due_come_first(drive: Driver) -> None:
    runs = [drive.add(delay=float(delay)) for delay in (30, 10, 20, 40)]
    due = [drive.get(run).due_at for run in runs]
    drive.advance(35)

    first = drive.sweep(dispatch=True, limit=2)
    second = drive.sweep(dispatch=True, limit=2)

    assert set(ids(first.dispatched)) == {runs[1].id, runs[2].id}
    assert first.more
    assert first.next_due == due[3]  # the one before is due: `more` tells
    assert ids(second.dispatched) == [runs[0].id]
    assert not second.more
    assert second.next_due == due[3]


def test_nothing_is_due_where_nothing_waits(drive: Driver) -> None:
    reply = drive.sweep(dispatch=True, expire=True, reap=True)

    assert (reply.dispatched, reply.expired, reply.reaped, reply.crashed) == ((), 0, 0, 0)
    assert (reply.workers, reply.next_due, reply.more) == ((), None, False)


@pytest.mark.parametrize("outcome", [Outcome.RETRY, Outcome.SNOOZED])
def test_backoffs_and_snoozes_become_ready_too(drive: Driver, outcome: Outcome) -> None:
    held = drive.start()
    drive.finish(held, outcome, delay=5.0)
    drive.advance(5)

    assert drive.sweep(dispatch=True).dispatched == (held.ref,)
    assert drive.take(held.ref).token == 2


def test_only_what_is_asked_for_is_done(drive: Driver) -> None:
    due = drive.add(delay=1.0)
    expired = drive.add(expires_in=1.0)
    held = drive.start()
    drive.advance(LEASE)

    reply = drive.sweep()

    assert (reply.dispatched, reply.expired, reply.reaped) == ((), 0, 0)
    assert reply.next_due is None
    assert drive.get(due).status is Status.SCHEDULED
    assert drive.get(expired).status is Status.QUEUED
    assert drive.get(held.ref).status is Status.RUNNING


def test_all_is_done_in_one_call(drive: Driver) -> None:
    due = drive.add(delay=1.0)
    expired = drive.add(expires_in=1.0)
    held = drive.start()
    drive.advance(LEASE)

    reply = drive.sweep(dispatch=True, expire=True, reap=True)

    assert (reply.dispatched, reply.expired, reply.reaped) == ((due,), 1, 1)
    assert reply.workers == (WORKER,)
    assert drive.get(expired).status is Status.FAILED
    assert drive.get(held.ref).status is Status.QUEUED


# -- expire ----------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [None, 100.0])
def test_what_waited_too_long_ends_failed(drive: Driver, delay: float | None) -> None:
    run = drive.add(expires_in=10.0, delay=delay)
    drive.advance(9.999999)
    assert drive.sweep(expire=True).expired == 0
    drive.advance(0.000001)

    assert drive.sweep(expire=True).expired == 1

    record = drive.get(run)
    assert (record.status, record.failure) == (Status.FAILED, Failure.EXPIRED)
    assert record.finished_at == drive.now
    assert (record.attempt, record.token, record.started_at) == (0, 0, None)
    assert drive.positions(run) == []
    last = drive.events(run)[-1]
    assert (last.type, last.data) == (EventType.FAILED, {"failure": "expired"})
    assert drive.list(dead=True) == [run.id]


def test_a_running_run_does_not_expire(drive: Driver) -> None:
    held = drive.start(expires_in=1.0)
    drive.advance(3600)

    assert drive.sweep(expire=True).expired == 0
    assert drive.get(held.ref).status is Status.RUNNING


def test_what_is_due_and_expired_at_once_has_ended(drive: Driver) -> None:
    run = drive.add(delay=10.0, expires_in=10.0)
    drive.advance(10)

    reply = drive.sweep(dispatch=True, expire=True)

    assert (reply.expired, reply.dispatched) == (1, ())
    assert drive.trail(run) == [EventType.ENQUEUED, EventType.FAILED]


def test_no_more_expire_than_the_limit(drive: Driver) -> None:
    drive.add_many(3, expires_in=1.0)
    drive.add_many(3, expires_in=1.0, delay=50.0)
    drive.advance(2)

    replies = [drive.sweep(expire=True, limit=4) for _ in range(2)]

    assert [(reply.expired, reply.more) for reply in replies] == [(4, True), (2, False)]


# -- reap ------------------------------------------------------------------------------------


def test_a_dead_workers_runs_go_back_to_their_queue(drive: Driver) -> None:
    held = drive.start("dead", priority=2)
    alive = drive.start("alive")
    drive.advance(20)
    drive.renew([alive], worker="alive")
    drive.advance(9.999999)
    assert drive.sweep(reap=True).reaped == 0
    drive.advance(0.000001)

    reply = drive.sweep(reap=True)

    assert (reply.reaped, reply.crashed, reply.workers, reply.more) == (1, 0, ("dead",), False)
    record = drive.get(held.ref)
    assert record.status is Status.QUEUED
    assert (record.attempt, record.failures, record.crash_count, record.token) == (1, 0, 1, 1)
    (attempt,) = record.attempts
    assert (attempt.outcome, attempt.worker) == (AttemptOutcome.CRASHED, "dead")
    assert attempt.finished_at == drive.now
    last = drive.events(held.ref)[-1]
    assert (last.type, last.attempt) == (EventType.CRASHED, 1)
    (place,) = drive.rows("ready")
    assert (place["rank"], place["ready_at"]) == (-2, drive.now)
    assert drive.get(alive.ref).status is Status.RUNNING
    assert [w.id for w in drive.call(drive.ops.list_workers())] == ["alive"]


def test_a_lease_without_a_worker_is_dead(drive: Driver) -> None:
    held = drive.start()
    drive.tables.forget_worker(WORKER)

    reply = drive.sweep(reap=True)

    assert reply.reaped == 1
    assert drive.get(held.ref).crash_count == 1


def test_a_reaped_run_is_claimed_under_the_next_token(drive: Driver) -> None:
    held = drive.start("dead")
    drive.kill("dead")
    drive.sweep(reap=True)

    again = drive.take(held.ref, "next")

    assert (again.token, again.attempt, again.crash_count, again.failures) == (2, 2, 1, 0)


def test_a_run_ends_when_its_workers_died_too_often(drive: Driver) -> None:
    run = drive.add()
    for crashes in range(1, 4):
        drive.take(run)
        drive.kill()
        drive.advance(1)
        reply = drive.sweep(reap=True, max_crashes=3)
        assert (reply.reaped, reply.crashed) == ((1, 0) if crashes < 3 else (0, 1))

    record = drive.get(run)
    assert (record.status, record.failure) == (Status.FAILED, Failure.CRASHED)
    assert (record.attempt, record.crash_count, record.failures) == (3, 3, 0)
    assert [a.outcome for a in record.attempts] == [AttemptOutcome.CRASHED] * 3
    last = drive.events(run)[-1]
    assert (last.type, last.data) == (EventType.FAILED, {"failure": "crashed"})
    assert drive.list(dead=True) == [run.id]


def test_handler_failures_are_no_crashes(drive: Driver) -> None:
    run = drive.add()
    for _ in range(3):
        drive.finish(drive.take(run), Outcome.RETRY, delay=0.0)
    drive.take(run)
    drive.kill()

    assert drive.sweep(reap=True, max_crashes=2).crashed == 0
    assert (drive.get(run).failures, drive.get(run).crash_count) == (3, 1)


@pytest.mark.parametrize("max_crashes", [1, 3])
def test_a_reaped_run_that_was_to_be_canceled_ends_canceled(
    drive: Driver, max_crashes: int
) -> None:
    held = drive.start()
    drive.cancel(held.ref, "enough")
    drive.kill()

    reply = drive.sweep(reap=True, max_crashes=max_crashes)

    assert (reply.reaped, reply.crashed) == (0, 0)
    record = drive.get(held.ref)
    assert (record.status, record.reason, record.failure) == (Status.CANCELED, "enough", None)
    assert record.crash_count == 1
    assert record.attempts[0].outcome is AttemptOutcome.CRASHED
    last = drive.events(held.ref)[-1]
    assert (last.type, last.data) == (EventType.CANCELED, {"reason": "enough"})


def test_no_more_are_reaped_than_the_limit(drive: Driver) -> None:
    drive.start_many(5)
    drive.kill()

    replies = [drive.sweep(reap=True, limit=2) for _ in range(3)]

    assert [(reply.reaped, reply.more) for reply in replies] == [(2, True), (2, True), (1, False)]


def test_the_limit_of_the_reaper_counts_over_workers(drive: Driver) -> None:
    for number in range(4):
        drive.start(f"w{number}")
    for number in range(4):
        drive.kill(f"w{number}")

    first = drive.sweep(reap=True, limit=3)
    second = drive.sweep(reap=True, limit=3)

    assert (first.reaped, first.more) == (3, True)
    assert (second.reaped, second.more) == (1, False)


def test_a_worker_reaped_in_part_is_not_revived(drive: Driver) -> None:
    runs = drive.start_many(3)
    drive.kill()
    drive.sweep(reap=True, limit=1)

    reply = drive.renew(runs)

    assert not reply.alive
    assert drive.sweep(reap=True).reaped == 2


def test_many_dead_workers_are_reaped_at_once(drive: Driver) -> None:
    for number in range(30):
        drive.register(f"w{number}", lease=1)
    drive.advance(1)

    assert len(drive.sweep(reap=True).workers) == 30
    assert drive.call(drive.ops.list_workers()) == []


def test_a_revived_worker_is_not_reaped(drive: Driver) -> None:
    held = drive.start()
    drive.advance(LEASE + 5)
    drive.renew([held])

    assert drive.sweep(reap=True).reaped == 0


def test_a_renewal_counts_from_now_also_when_the_clock_was_set_back(drive: Driver) -> None:
    held = drive.start()
    drive.jump(-timedelta(hours=1))
    drive.renew([held])

    drive.advance(LEASE)

    assert drive.sweep(reap=True).reaped == 1


# -- unpublished -------------------------------------------------------------------------------


def test_ready_runs_whose_message_was_lost_are_sent_again(drive: Driver) -> None:
    old = drive.add()
    drive.advance(10)
    young = drive.add()
    drive.start()
    drive.add(delay=60.0)

    assert drive.call(drive.ops.unpublished(10.0, 100)) == [old]
    assert drive.call(drive.ops.unpublished(10.0, 100)) == []
    drive.advance(10)
    assert set(drive.call(drive.ops.unpublished(10.0, 100))) == {old, young}


def test_no_more_are_published_than_the_limit(drive: Driver) -> None:
    runs = drive.add_many(5)
    drive.advance(10)

    first = drive.call(drive.ops.unpublished(5.0, 3))
    second = drive.call(drive.ops.unpublished(5.0, 3))

    assert (len(first), len(second)) == (3, 2)
    assert set(first) | set(second) == set(runs)


def test_a_published_run_is_still_there_to_claim(drive: Driver) -> None:
    run = drive.add()
    drive.advance(10)
    drive.call(drive.ops.unpublished(5.0, 3))

    assert drive.take(run).token == 1
