"""Cancel, retry, discard and progress."""

from __future__ import annotations

import pytest

from tests.conformance.kit import (
    ABSENT,
    Driver,
    held_of,
    make_error,
    raw,
    reachable,
    ref,
    value_of,
)
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Options, RunRef
from windlass.domain.states import Failure, Intent, Status
from windlass.errors import BadArguments, IllegalTransition, RunNotFound

# -- cancel ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED])
@pytest.mark.parametrize("reason", [None, 'no "more"\\ needed'])
def test_a_run_that_waits_ends_for_good(drive: Driver, status: Status, reason: str | None) -> None:
    run = drive.bring(status)
    drive.advance(1)

    record = drive.cancel(run, reason)

    assert record == drive.get(run)
    assert (record.status, record.reason, record.intent) == (Status.CANCELED, reason, None)
    assert (record.finished_at, record.started_at) == (drive.now, None)
    assert (record.due_at, record.waiting_for) == (None, None)
    assert drive.positions(run) == []
    last = drive.events(run)[-1]
    assert (last.type, last.data) == (
        EventType.CANCELED,
        None if reason is None else {"reason": reason},
    )
    drive.advance(3600)
    drive.sweep(dispatch=True)
    drive.register()
    assert drive.claim().claimed == ()
    assert drive.list(status=Status.CANCELED) == [run.id]
    assert drive.list(dead=True) == []


def test_a_running_run_is_asked_to_end(drive: Driver) -> None:
    held = drive.start()
    drive.advance(1)

    record = drive.cancel(held.ref, "enough")

    assert record == drive.get(held.ref)
    assert (record.status, record.intent, record.reason) == (
        Status.RUNNING, Intent.CANCEL, "enough",
    )  # fmt: skip
    assert record.finished_at is None
    last = drive.events(held.ref)[-1]
    assert (last.type, last.data, last.attempt) == (
        EventType.CANCEL_REQUESTED, {"reason": "enough"}, 1,
    )  # fmt: skip
    assert drive.positions(held.ref) == ["leases"]


def test_a_running_run_is_asked_once(drive: Driver) -> None:
    held = drive.start()
    drive.cancel(held.ref, "first")
    drive.advance(1)

    again = drive.cancel(held.ref, "second")

    assert (again.intent, again.reason) == (Intent.CANCEL, "first")
    assert drive.trail(held.ref) == [
        EventType.ENQUEUED,
        EventType.STARTED,
        EventType.CANCEL_REQUESTED,
    ]
    drive.finish(held, Outcome.RELEASED)
    assert drive.trail(held.ref)[-1] is EventType.CANCELED


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED])
def test_canceling_again_is_harmless(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    first = drive.cancel(run, "first")
    drive.advance(1)

    assert drive.cancel(run, "second") == first
    assert drive.trail(run) == [EventType.ENQUEUED, EventType.CANCELED]


def test_canceling_a_run_that_ended_canceled_is_harmless(drive: Driver) -> None:
    run = drive.bring(Status.CANCELED)
    before = drive.get(run)

    assert drive.cancel(run, "late") == before


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED])
def test_a_finished_run_cannot_be_canceled(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    before = drive.get(run)

    with pytest.raises(IllegalTransition) as caught:
        drive.cancel(run)

    error = caught.value
    assert (error.run, error.status, error.verb) == (run.id, status, "cancel")
    assert drive.get(run) == before


@pytest.mark.parametrize("ident", [ABSENT, "not-an-id", ""])
def test_an_unknown_run_cannot_be_canceled(drive: Driver, ident: str) -> None:
    with pytest.raises(RunNotFound) as caught:
        drive.cancel(ref(ident))

    assert caught.value.run == ident


def test_another_tenants_run_cannot_be_canceled(drive: Driver) -> None:
    run = drive.add(tenant="acme")

    with pytest.raises(RunNotFound):
        drive.cancel(ref(run.id, "other"))

    assert drive.get(run).status is Status.QUEUED


def test_a_run_in_backoff_is_canceled_with_its_counts(drive: Driver) -> None:
    held = drive.start()
    drive.finish(held, Outcome.RETRY)

    record = drive.cancel(held.ref)

    assert (record.status, record.attempt, record.failures, record.token) == (
        Status.CANCELED, 1, 1, 1,
    )  # fmt: skip
    assert len(record.attempts) == 1


# -- retry -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED])
def test_a_run_that_ended_is_reopened_with_a_fresh_budget(drive: Driver, status: Status) -> None:
    run = drive.bring(status, priority=5, input=raw({"n": 9}))
    drive.advance(1)

    record = drive.retry(run)

    assert record == drive.get(run)
    assert record.status is Status.QUEUED
    assert (record.attempt, record.token) == (1, 1)
    assert (record.failures, record.crash_count) == (0, 0)
    assert (record.failure, record.error, record.reason, record.finished_at) == (None,) * 4
    assert record.discarded_at is None
    assert len(record.attempts) == 1
    last = drive.events(run)[-1]
    assert (last.type, last.seq, last.at) == (EventType.RETRIED, 4, drive.now)
    (place,) = drive.rows("ready")
    assert (place["rank"], place["ready_at"]) == (-5, drive.now)
    assert drive.rows("failures") == []
    again = drive.take(run)
    assert (again.token, again.attempt, again.failures) == (2, 2, 0)
    assert value_of(again.input) == {"n": 9}
    drive.finish(again, Outcome.SUCCEEDED, result=raw("at last"))
    assert value_of(drive.get(run).result) == "at last"
    assert len(drive.get(run).attempts) == 2
    assert drive.trail(run)[-1] is EventType.SUCCEEDED


def test_token_attempt_and_seq_go_on_through_many_retries(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED)
    for number in range(2, 5):
        drive.retry(run)
        claimed = drive.take(run)
        assert (claimed.token, claimed.attempt, claimed.failures) == (number, number, 0)
        drive.finish(claimed, Outcome.FAILED)

    assert len(drive.trail(run)) == 3 + 3 * 3
    assert [a.token for a in drive.get(run).attempts] == [1, 2, 3, 4]


def test_crashes_start_at_zero_again(drive: Driver) -> None:
    run = drive.start().ref
    drive.kill()
    drive.sweep(reap=True, max_crashes=1)
    assert drive.get(run).failure is Failure.CRASHED

    assert drive.retry(run).crash_count == 0
    assert drive.take(run).crash_count == 0


def test_a_run_that_never_started_is_reopened(drive: Driver) -> None:
    run = drive.bring(Status.QUEUED)
    drive.cancel(run)

    assert drive.retry(run).status is Status.QUEUED
    assert drive.take(run).token == 1
    assert drive.trail(run) == [
        EventType.ENQUEUED,
        EventType.CANCELED,
        EventType.RETRIED,
        EventType.STARTED,
    ]


def test_a_run_that_expired_does_not_expire_again(drive: Driver) -> None:
    run = drive.add(expires_in=1.0)
    drive.advance(1)
    drive.sweep(expire=True)

    record = drive.retry(run)

    assert (record.status, record.expires_at) == (Status.QUEUED, None)
    assert drive.sweep(expire=True).expired == 0
    assert drive.take(run).id == run.id


def test_a_retry_may_change_the_budget(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED, options=Options(timeout=5.0, max_attempts=1))

    record = drive.retry(run, max_attempts=7)

    assert record.options == Options(timeout=5.0, max_attempts=7)
    assert drive.events(run)[-1].data == {"max_attempts": 7}
    assert drive.take(run).options == Options(timeout=5.0, max_attempts=7)


def test_a_retry_gives_a_budget_to_a_run_without_options(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED)

    assert drive.retry(run, max_attempts=2).options == Options(max_attempts=2)


def test_a_retry_keeps_the_options(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED, options=Options(max_attempts=3))

    assert drive.retry(run).options == Options(max_attempts=3)
    assert drive.events(run)[-1].data is None


@pytest.mark.parametrize("max_attempts", [0, -1, 1_000_001])
def test_a_budget_out_of_range_is_refused(drive: Driver, max_attempts: int) -> None:
    run = drive.ended(Outcome.FAILED)

    with pytest.raises(BadArguments, match="takes max_attempts of 1 to 1,000,000") as refused:
        drive.retry(run, max_attempts)

    assert refused.value.parameter == "max_attempts"

    assert drive.get(run).status is Status.FAILED


@pytest.mark.parametrize(
    "status", [Status.SCHEDULED, Status.QUEUED, Status.RUNNING, Status.SUCCEEDED]
)
def test_other_runs_are_not_reopened(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    before = drive.get(run)

    with pytest.raises(IllegalTransition) as caught:
        drive.retry(run)

    error = caught.value
    assert (error.run, error.status, error.verb) == (run.id, status, "retry")
    assert drive.get(run) == before


def test_a_success_is_reopened_once_it_is_stale(drive: Driver) -> None:
    run = drive.bring(Status.SUCCEEDED)
    drive.tables.mark_stale(run, drive.now)
    assert drive.get(run).stale_at == drive.now

    record = drive.retry(run)

    assert (record.status, record.stale_at) == (Status.QUEUED, None)
    assert value_of(record.result) is None
    assert drive.take(run).token == 2


@pytest.mark.parametrize("ident", [ABSENT, "not-an-id"])
def test_an_unknown_run_cannot_be_retried(drive: Driver, ident: str) -> None:
    with pytest.raises(RunNotFound) as caught:
        drive.retry(ref(ident))

    assert caught.value.run == ident


def test_another_tenants_run_cannot_be_retried(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED, tenant="acme")

    with pytest.raises(RunNotFound):
        drive.retry(ref(run.id, "other"))

    assert drive.get(run).status is Status.FAILED


def test_the_old_token_is_worth_nothing_after_a_retry(drive: Driver) -> None:
    held = drive.start()
    drive.finish(held, Outcome.FAILED)
    drive.retry(held.ref)
    drive.take(held.ref)

    assert drive.finish(held, Outcome.SUCCEEDED).lost == (held_of(held),)
    assert drive.get(held.ref).status is Status.RUNNING


# -- discard ---------------------------------------------------------------------------------


def test_discarded_runs_are_no_dead_letters(drive: Driver) -> None:
    kept, gone = drive.ended(Outcome.FAILED), drive.ended(Outcome.FAILED)
    drive.advance(1)

    assert drive.call(drive.ops.discard("default", [gone.id])) == 1

    record = drive.get(gone)
    assert (record.status, record.discarded_at) == (Status.FAILED, drive.now)
    assert drive.list(dead=True) == [kept.id]
    assert set(drive.list(status=Status.FAILED)) == {kept.id, gone.id}
    last = drive.events(gone)[-1]
    assert (last.type, last.seq, last.attempt) == (EventType.DISCARDED, 4, 1)


def test_discarding_again_counts_nothing(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED)
    drive.call(drive.ops.discard("default", [run.id]))

    assert drive.call(drive.ops.discard("default", [run.id])) == 0
    assert drive.trail(run)[-2:] == [EventType.FAILED, EventType.DISCARDED]


def test_only_failed_runs_of_the_tenant_are_discarded(drive: Driver) -> None:
    failed = drive.ended(Outcome.FAILED)
    others = [drive.bring(status) for status in reachable() if status is not Status.FAILED]
    foreign = drive.ended(Outcome.FAILED, tenant="acme")
    named = [run.id for run in (failed, *others, foreign)] + [ABSENT, "not-an-id", failed.id]

    assert drive.call(drive.ops.discard("default", named)) == 1

    assert drive.get(foreign).discarded_at is None
    assert drive.list(dead=True, tenant="acme") == [foreign.id]
    assert drive.trail(failed).count(EventType.DISCARDED) == 1


def test_a_discarded_run_may_be_retried_and_fail_anew(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED)
    drive.call(drive.ops.discard("default", [run.id]))

    assert drive.retry(run).discarded_at is None
    drive.finish(drive.take(run), Outcome.FAILED)

    assert drive.list(dead=True) == [run.id]
    assert drive.get(run).discarded_at is None


def test_ended_runs_have_one_name_in_each_tenant(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED)
    twin = drive.new(id=run.id, tenant="acme")
    drive.enqueue(twin)

    drive.retry(run)

    assert drive.get(RunRef("acme", run.id)).status is Status.QUEUED
    assert drive.get(run).attempts[0].error == make_error()
