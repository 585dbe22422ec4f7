"""A run's time: `expires` is over with the first start, `deadline` holds until the run is done."""

from __future__ import annotations

import pytest

from tests.conformance.kit import LEASE, WORKER, Driver, make_error
from tests.conformance.plain_sql import Client
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed
from windlass.domain.states import Failure, Status
from windlass.errors import RunExpires

DAY = 86_400.0


def go_round(drive: Driver, held: Claimed, how: str) -> None:
    """Let a run that has started wait again."""
    match how:
        case "backoff":
            drive.finish(held, Outcome.RETRY, delay=DAY)
        case "snooze":
            drive.finish(held, Outcome.SNOOZED, delay=DAY)
        case "graceful stop":
            drive.finish(held, Outcome.RELEASED)
        case "retirement":
            drive.call(drive.ops.retire(WORKER))
        case "lost reply":
            drive.renew([], settled=1_000)
        case "crash of its child":
            drive.finish(held, Outcome.CRASHED, error=make_error())
        case "crash of its worker":
            drive.kill()
            drive.sweep(reap=True)
        case _:
            raise AssertionError(how)


ROUNDS = [
    "backoff", "snooze", "graceful stop", "retirement", "lost reply", "crash of its child",
    "crash of its worker",
]  # fmt: skip


@pytest.mark.parametrize("how", ROUNDS)
def test_what_has_started_in_time_expires_no_more(drive: Driver, how: str) -> None:
    held = drive.start(expires_in=1.0)
    go_round(drive, held, how)
    drive.advance(DAY)

    assert drive.sweep(expire=True, dispatch=True).expired == 0

    again = drive.take(held.ref)
    assert (again.attempt, again.token) == (2, 2)
    assert drive.get(held.ref).expires_at is not None  # what was asked for is still told


def test_what_has_started_may_be_moved_beyond_its_expiry(drive: Driver) -> None:
    held = drive.start(expires_in=1.0)
    drive.finish(held, Outcome.RETRY, delay=10.0)

    drive.reschedule(held.ref, delay=DAY)
    drive.advance(DAY)

    assert drive.sweep(expire=True, dispatch=True).expired == 0
    assert drive.get(held.ref).status is Status.QUEUED


@pytest.mark.parametrize("delay", [None, 100.0])
def test_what_waits_past_its_deadline_ends_failed(drive: Driver, delay: float | None) -> None:
    run = drive.add(deadline_in=10.0, delay=delay)
    drive.advance(9.999999)
    assert drive.sweep(expire=True).overrun == 0
    drive.advance(0.000001)

    reply = drive.sweep(expire=True)

    assert (reply.overrun, reply.expired) == (1, 0)
    record = drive.get(run)
    assert (record.status, record.failure) == (Status.FAILED, Failure.DEADLINE)
    assert (record.attempt, record.finished_at) == (0, drive.now)
    assert drive.positions(run) == []
    last = drive.events(run)[-1]
    assert (last.type, last.data) == (EventType.FAILED, {"failure": "deadline"})
    assert drive.list(dead=True, failure=Failure.DEADLINE) == [run.id]


@pytest.mark.parametrize("how", ROUNDS)
def test_a_deadline_counts_over_attempts_and_waits(drive: Driver, how: str) -> None:
    held = drive.start(deadline_in=60.0)
    go_round(drive, held, how)
    drive.advance(60)

    assert drive.sweep(expire=True, dispatch=True).overrun == 1

    record = drive.get(held.ref)
    assert (record.status, record.failure) == (Status.FAILED, Failure.DEADLINE)
    assert (record.attempt, len(record.attempts)) == (1, 1)


def test_what_is_past_its_deadline_is_not_claimed(drive: Driver) -> None:
    run = drive.add(deadline_in=10.0)
    drive.register()
    drive.advance(10)

    assert drive.claim().claimed == ()
    assert drive.claim(ids=(run,)).claimed == ()
    behind = drive.add()
    assert [held.ref for held in drive.claim(10).claimed] == [behind]


@pytest.mark.parametrize("by", ["queue", "name"])
def test_a_claim_tells_how_much_time_is_left(drive: Driver, by: str) -> None:
    run = drive.add(deadline_in=10.0)
    drive.register()
    drive.advance(4)

    (claimed,) = drive.claim(ids=(run,) if by == "name" else None).claimed

    assert (claimed.deadline_at, claimed.deadline_in) == (drive.later(6), 6.0)
    assert drive.start().deadline_at is None


def test_its_worker_has_a_lease_to_end_it(drive: Driver) -> None:
    held = drive.start(deadline_in=10.0)
    for _ in range(4):
        drive.advance(9.999999)
        drive.renew([held])
        assert drive.sweep(expire=True).overrun == 0
    drive.advance(LEASE + 10 - 4 * 9.999999)

    assert drive.sweep(expire=True).overrun == 1

    record = drive.get(held.ref)
    assert (record.status, record.failure) == (Status.FAILED, Failure.DEADLINE)
    assert (record.attempt, record.failures, record.crash_count) == (1, 1, 0)
    (attempt,) = record.attempts
    assert (attempt.outcome, attempt.worker) == (AttemptOutcome.TIMEOUT, WORKER)
    assert record.started_at == attempt.started_at
    # From now on it is fenced: nothing that it does is recorded.
    assert drive.renew([held]).lost == drive.finish(held, Outcome.SUCCEEDED).lost
    assert drive.get(held.ref).status is Status.FAILED


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.CANCELED])
def test_an_outcome_that_comes_first_wins(drive: Driver, outcome: Outcome) -> None:
    held = drive.start(deadline_in=10.0)
    drive.advance(20)

    assert drive.finish(held, outcome).lost == ()

    drive.advance(DAY)
    assert drive.sweep(expire=True).overrun == 0
    assert drive.get(held.ref).status.value == outcome.value


def test_a_worker_records_that_the_deadline_has_come(drive: Driver) -> None:
    held = drive.start(deadline_in=10.0)

    drive.finish(held, Outcome.FAILED, failure=Failure.DEADLINE, timed_out=True)

    record = drive.get(held.ref)
    assert (record.status, record.failure, record.failures) == (
        Status.FAILED, Failure.DEADLINE, 1,
    )  # fmt: skip
    assert record.attempts[0].outcome is AttemptOutcome.TIMEOUT


def test_a_run_that_is_moved_keeps_its_deadline(drive: Driver) -> None:
    run = drive.add(deadline_in=600.0, expires_in=300.0)
    with pytest.raises(RunExpires) as caught:
        drive.reschedule(run, delay=300.0)
    assert caught.value.expires_at == drive.later(300).isoformat().replace("+00:00", "Z")
    drive.reschedule(run, delay=200.0)
    drive.advance(200)
    drive.sweep(dispatch=True)
    drive.finish(drive.take(run), Outcome.RETRY, delay=10.0)

    with pytest.raises(RunExpires):
        drive.reschedule(run, delay=400.0)

    assert drive.reschedule(run, delay=399.0).deadline_at == drive.later(400)


@pytest.mark.parametrize("verb", ["retry", "reschedule"])
@pytest.mark.parametrize("why", ["expires_in", "deadline_in"])
def test_a_run_that_is_reopened_has_all_the_time(drive: Driver, verb: str, why: str) -> None:
    run = drive.add(**{why: 1.0})
    drive.advance(1)
    drive.sweep(expire=True)

    record = drive.retry(run) if verb == "retry" else drive.reschedule(run, delay=0.0)

    assert (record.status, record.expires_at, record.deadline_at) == (Status.QUEUED, None, None)
    drive.advance(DAY)
    reply = drive.sweep(expire=True)
    assert (reply.expired, reply.overrun) == (0, 0)
    assert drive.take(run).attempt == 1


def test_no_more_overrun_than_the_limit(drive: Driver) -> None:
    drive.start_many(3, deadline_in=10.0)
    drive.add_many(3, deadline_in=10.0)
    drive.add_many(3, deadline_in=10.0, delay=50.0)
    drive.advance(10 + LEASE)

    replies = [drive.sweep(expire=True, limit=4) for _ in range(3)]

    assert [(reply.overrun, reply.more) for reply in replies] == [(4, True), (4, True), (1, False)]


def test_deadlines_that_passed_in_an_outage_end_runs_after_it(drive: Driver) -> None:
    drive.register()
    drive.sweep(spare=True)
    for _ in range(4):
        drive.advance(LEASE / 6)
        drive.sweep(expire=True, spare=True)
    waits = drive.add(deadline_in=60.0)
    drive.advance(3600)

    assert drive.sweep(expire=True, spare=True).overrun == 0
    for _ in range(4):
        drive.advance(LEASE / 6)
        swept = drive.sweep(expire=True, spare=True)

    assert swept.overrun == 1
    assert drive.get(waits).failure is Failure.DEADLINE


def test_sql_clients_have_deadlines_too(client: Client) -> None:
    one = client.value("select id from windlass.enqueue('greet', p_deadline_in => 600)")
    at = client.value("select id from windlass.enqueue('greet', p_deadline_at => '2090-01-01Z')")
    client.all("select windlass.register('psql', 30)")
    claimed = client.all("select id, deadline_at from windlass.claim('psql', 1, 9, '{greet}')")

    shown = client.all(
        "select id, deadline_at, deadline_at - created_at = '10 min' as soon"
        " from windlass.get_runs('default', %s)", [one, at],
    )  # fmt: skip

    assert {row["id"]: row["deadline_at"] for row in claimed} == {
        row["id"]: row["deadline_at"] for row in shown
    }
    assert {row["id"]: row["soon"] for row in shown} == {one: True, at: False}
