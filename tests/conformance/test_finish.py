"""Finish: the ends of attempts, valid only under the token of their lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.conformance.kit import (
    ABSENT,
    WORKER,
    Driver,
    held_of,
    make_error,
    make_finish,
    raw,
    value_of,
)
from tests.conformance.places import Place, PostgresPlace
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Held
from windlass.domain.states import Failure, Status
from windlass.domain.stopping import stop_requests

END_OF_ATTEMPT = {
    Outcome.SUCCEEDED: AttemptOutcome.SUCCEEDED,
    Outcome.RETRY: AttemptOutcome.FAILED,
    Outcome.FAILED: AttemptOutcome.FAILED,
    Outcome.SNOOZED: AttemptOutcome.SNOOZED,
    Outcome.SLEEPING: AttemptOutcome.WAITED,
    Outcome.WAITING: AttemptOutcome.WAITED,
    Outcome.CONTINUED: AttemptOutcome.CONTINUED,
    Outcome.CANCELED: AttemptOutcome.CANCELED,
    Outcome.RELEASED: AttemptOutcome.INTERRUPTED,
    Outcome.CRASHED: AttemptOutcome.CRASHED,
}


def test_success_records_the_result(drive: Driver) -> None:
    held = drive.start()
    started = drive.now
    drive.advance(2)

    reply = drive.finish(held, Outcome.SUCCEEDED, result=raw({"sent": True}))

    assert reply.lost == ()
    assert reply.now == drive.now
    record = drive.get(held.ref)
    assert record.status is Status.SUCCEEDED
    assert value_of(record.result) == {"sent": True}
    assert (record.failure, record.error, record.reason) == (None, None, None)
    assert (record.started_at, record.finished_at) == (started, drive.now)
    assert (record.attempt, record.failures, record.crash_count, record.token) == (1, 0, 0, 1)
    assert record.worker == WORKER
    (attempt,) = record.attempts
    assert (attempt.attempt, attempt.token, attempt.worker) == (1, 1, WORKER)
    assert attempt.outcome is AttemptOutcome.SUCCEEDED
    assert (attempt.started_at, attempt.finished_at) == (started, drive.now)
    assert attempt.error is None
    assert drive.positions(held.ref) == []
    assert drive.trail(held.ref) == [EventType.ENQUEUED, EventType.STARTED, EventType.SUCCEEDED]
    assert drive.rows("failures") == []


@pytest.mark.parametrize(
    "result",
    [
        None,
        0,
        "",
        'say "hi"',
        "back\\slash \\\\ \\n",
        "{a,b} NULL null",
        "☃ 𝄞 ünï \u2028",
        [{"a": [1, 2.5, None, True]}, "line\nbreak\ttab"],
    ],
)
def test_a_result_comes_back_as_it_was(steer: Driver, result: object) -> None:
    runs = steer.start_many(2)

    steer.finish_all([make_finish(run, Outcome.SUCCEEDED, result=raw(result)) for run in runs])

    assert [value_of(steer.get(run.ref).result) for run in runs] == [result] * 2


def test_some_of_a_batch_have_results_and_others_none(drive: Driver) -> None:
    runs = drive.start_many(3)
    results = [raw("one"), None, raw("three")]

    drive.finish_all(
        [
            make_finish(run, Outcome.SUCCEEDED, result=result)
            for run, result in zip(runs, results, strict=True)
        ]
    )

    assert [value_of(drive.get(run.ref).result) for run in runs] == ["one", None, "three"]


def test_a_retry_waits_for_its_backoff(drive: Driver) -> None:
    held = drive.start(priority=4)
    drive.advance(1)
    error = make_error('bad "thing"\\', "acme.Broken")

    drive.finish(held, Outcome.RETRY, delay=12.5, error=error, counts=True)

    record = drive.get(held.ref)
    assert record.status is Status.SCHEDULED
    assert (record.waiting_for, record.due_at) == ("backoff", drive.later(12.5))
    assert (record.attempt, record.failures, record.token) == (1, 1, 1)
    assert record.finished_at is None
    (attempt,) = record.attempts
    assert attempt.outcome is AttemptOutcome.FAILED
    assert attempt.error == error
    last = drive.events(held.ref)[-1]
    assert (last.type, last.data, last.attempt) == (EventType.RETRYING, {"delay": 12.5}, 1)
    assert drive.positions(held.ref) == ["timers"]
    drive.advance(12.5)
    drive.sweep(dispatch=True)
    again = drive.take(held.ref)
    assert (again.token, again.attempt, again.failures) == (2, 2, 1)
    assert drive.get(held.ref).priority == 4


@pytest.mark.parametrize("outcome", [Outcome.RETRY, Outcome.SNOOZED])
@pytest.mark.parametrize("delay", [0.0, None])
def test_without_a_delay_the_run_is_ready_at_once(
    steer: Driver, outcome: Outcome, delay: float | None
) -> None:
    held = steer.start()

    steer.finish(held, outcome, delay=delay)

    assert steer.get(held.ref).status is Status.QUEUED
    assert steer.positions(held.ref) == ["ready"]
    assert steer.events(held.ref)[-1].data == {"delay": 0}


def test_a_snooze_waits_and_counts_nothing(drive: Driver) -> None:
    held = drive.start()

    drive.finish(held, Outcome.SNOOZED, delay=600.0)

    record = drive.get(held.ref)
    assert record.status is Status.SCHEDULED
    assert (record.waiting_for, record.due_at) == ("snooze", drive.later(600))
    assert (record.attempt, record.failures) == (1, 0)
    assert record.attempts[0].outcome is AttemptOutcome.SNOOZED
    assert drive.events(held.ref)[-1].type is EventType.SNOOZED


def test_a_release_goes_back_to_the_queue_and_counts_nothing(drive: Driver) -> None:
    held = drive.start(priority=2)
    drive.advance(3)

    drive.finish(held, Outcome.RELEASED)

    record = drive.get(held.ref)
    assert record.status is Status.QUEUED
    assert (record.attempt, record.failures, record.crash_count) == (1, 0, 0)
    assert record.attempts[0].outcome is AttemptOutcome.INTERRUPTED
    assert drive.events(held.ref)[-1].type is EventType.INTERRUPTED
    (place,) = drive.rows("ready")
    assert (place["rank"], place["ready_at"]) == (-2, drive.now)


@pytest.mark.parametrize(
    "failure",
    [Failure.EXHAUSTED, Failure.FATAL, Failure.TIMEOUT, Failure.NONDETERMINISM],
)
def test_a_failed_run_is_a_dead_letter(steer: Driver, failure: Failure) -> None:
    held = steer.start()
    steer.advance(1)
    error = make_error()

    steer.finish(held, Outcome.FAILED, failure=failure, error=error, counts=True)

    record = steer.get(held.ref)
    assert record.status is Status.FAILED
    assert record.failure is failure
    assert record.error == error
    assert value_of(record.result) is None
    assert (record.attempt, record.failures) == (1, 1)
    assert record.finished_at == steer.now
    last = steer.events(held.ref)[-1]
    assert (last.type, last.data) == (EventType.FAILED, {"failure": failure})
    (letter,) = steer.rows("failures")
    assert (letter["id"], letter["status"], letter["failure"]) == (held.id, "failed", failure)
    assert (letter["error_type"], letter["fingerprint"]) == (error.type, error.fingerprint)
    assert (letter["at"], letter["discarded_at"]) == (steer.now, None)


def test_a_failure_without_a_name_is_fatal(drive: Driver) -> None:
    held = drive.start()

    drive.finish(held, Outcome.FAILED, failure=None)

    assert drive.get(held.ref).failure is Failure.FATAL


def test_a_handler_may_end_its_run_as_canceled(drive: Driver) -> None:
    held = drive.start()

    drive.finish(held, Outcome.CANCELED, error=make_error("not needed any more"))

    record = drive.get(held.ref)
    assert record.status is Status.CANCELED
    assert record.reason == "not needed any more"
    assert (record.failure, record.error) == (None, None)
    assert record.attempts[0].outcome is AttemptOutcome.CANCELED
    last = drive.events(held.ref)[-1]
    assert (last.type, last.data) == (EventType.CANCELED, {"reason": "not needed any more"})
    (letter,) = drive.rows("failures")
    assert (letter["status"], letter["failure"]) == ("canceled", None)


def test_a_cancel_without_a_reason_has_none(drive: Driver) -> None:
    held = drive.start()

    drive.finish(held, Outcome.CANCELED)

    assert drive.get(held.ref).reason is None
    assert drive.events(held.ref)[-1].data is None


@pytest.mark.parametrize("outcome", [Outcome.RETRY, Outcome.FAILED])
def test_a_timeout_is_told_of_the_attempt(steer: Driver, outcome: Outcome) -> None:
    held = steer.start()

    steer.finish(held, outcome, timed_out=True)

    assert steer.get(held.ref).attempts[0].outcome is AttemptOutcome.TIMEOUT


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("outcome", [Outcome.RETRY, Outcome.FAILED])
def test_only_what_counts_is_counted(steer: Driver, outcome: Outcome, counts: bool) -> None:
    held = steer.start()

    steer.finish(held, outcome, counts=counts)

    assert steer.get(held.ref).failures == int(counts)


def test_failures_add_up_over_attempts(drive: Driver) -> None:
    run = drive.add()
    for expected, outcome in enumerate([Outcome.RETRY, Outcome.RETRY, Outcome.FAILED]):
        claimed = drive.take(run)
        assert claimed.failures == expected
        drive.finish(claimed, outcome, delay=0.0 if outcome is Outcome.RETRY else None)

    record = drive.get(run)
    assert (record.failures, record.attempt, record.token) == (3, 3, 3)
    assert [(a.attempt, a.token) for a in record.attempts] == [(1, 1), (2, 2), (3, 3)]
    assert drive.trail(run) == [
        EventType.ENQUEUED,
        EventType.STARTED, EventType.RETRYING,
        EventType.STARTED, EventType.RETRYING,
        EventType.STARTED, EventType.FAILED,
    ]  # fmt: skip


# -- fencing -------------------------------------------------------------------------------


def _everything(drive: Driver) -> dict[str, Any]:
    names = ("runs", "timers", "ready", "leases", "attempts", "events", "failures", "progress")
    return {name: drive.rows(name) for name in names}


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("shift", [-1, 1, 1_000_000])
def test_another_token_records_nothing(steer: Driver, outcome: Outcome, shift: int) -> None:
    held = steer.start()
    before = _everything(steer)

    reply = steer.finish(held, outcome, token=held.token + shift)

    assert reply.lost == (Held(held.tenant, held.id, held.token + shift),)
    assert _everything(steer) == before


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_stale_token_records_nothing_while_another_holds_the_run(
    steer: Driver, outcome: Outcome
) -> None:
    stale = steer.start("zombie")
    steer.kill("zombie")
    steer.sweep(reap=True)
    current = steer.take(stale.ref, "fresh")
    before = _everything(steer)

    reply = steer.finish(stale, outcome)

    assert reply.lost == (held_of(stale),)
    assert _everything(steer) == before
    assert steer.finish(current, Outcome.SUCCEEDED).lost == ()


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_lease_that_was_reaped_this_very_instant_is_lost(steer: Driver, outcome: Outcome) -> None:
    stale = steer.start()
    steer.kill()
    steer.sweep(reap=True)
    before = _everything(steer)

    reply = steer.finish(stale, outcome)

    assert reply.lost == (held_of(stale),)
    assert _everything(steer) == before


@pytest.mark.parametrize("second", list(Outcome))
@pytest.mark.parametrize("first", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RETRY])
def test_the_first_end_stands(steer: Driver, first: Outcome, second: Outcome) -> None:
    held = steer.start()
    steer.finish(held, first)
    before = _everything(steer)
    steer.advance(1)

    reply = steer.finish(held, second)

    assert reply.lost == (held_of(held),)
    assert _everything(steer) == before


@pytest.mark.parametrize("spelt", [str, str.upper])
def test_of_two_ends_in_one_call_the_first_stands(
    drive: Driver, place: Place, spelt: Callable[[str], str]
) -> None:
    held, other = drive.start_many(2)
    again = make_finish(held, Outcome.SUCCEEDED, result=raw(2), version="v")
    again = msgspec.structs.replace(again, id=spelt(held.id))

    reply = drive.finish_all(
        [
            make_finish(held, Outcome.SUCCEEDED, result=raw(1), version="v"),
            again,
            make_finish(other, Outcome.SUCCEEDED, result=raw(3), version="w"),
        ]
    )

    # PostgreSQL takes both for one.
    lost = [] if isinstance(place, PostgresPlace) else [Held(again.tenant, again.id, again.token)]
    assert list(reply.lost) == lost
    assert [value_of(drive.get(run.ref).result) for run in (held, other)] == [1, 3]
    assert len(drive.rows("attempts")) == 2


def test_an_unknown_run_is_lost(drive: Driver) -> None:
    unknown = Held("default", ABSENT, 1)

    for outcome in Outcome:
        assert drive.finish(unknown, outcome).lost == (unknown,)
    assert drive.rows("events") == []


def test_another_tenant_cannot_finish_a_run(drive: Driver) -> None:
    held = drive.start()
    other = Held("acme", held.id, held.token)

    for outcome in Outcome:
        assert drive.finish(other, outcome).lost == (other,)
    assert drive.get(held.ref).status is Status.RUNNING


def test_the_token_decides_and_not_the_worker(drive: Driver) -> None:
    held = drive.start("w1")

    reply = drive.finish_all([make_finish(held, Outcome.SUCCEEDED)], worker="w2")

    assert reply.lost == ()
    assert drive.get(held.ref).worker == "w1"


def test_an_expired_lease_that_nobody_took_may_finish(drive: Driver) -> None:
    held = drive.start()
    drive.advance(3600)

    assert drive.finish(held, Outcome.SUCCEEDED).lost == ()
    assert drive.get(held.ref).status is Status.SUCCEEDED


def test_lost_ends_do_not_keep_the_others_from_counting(drive: Driver) -> None:
    runs = drive.start_many(2 * len(Outcome))
    outcomes = list(Outcome) * 2
    ends = [
        make_finish(run, outcome, token=run.token + (number >= len(Outcome)))
        for number, (run, outcome) in enumerate(zip(runs, outcomes, strict=True))
    ]

    reply = drive.finish_all(ends)

    half = len(Outcome)
    assert set(reply.lost) == {Held(run.tenant, run.id, run.token + 1) for run in runs[half:]}
    expected = [
        Status.SUCCEEDED, Status.SCHEDULED, Status.FAILED, Status.SCHEDULED, Status.SCHEDULED,
        Status.WAITING, Status.QUEUED, Status.CANCELED, Status.QUEUED, Status.QUEUED,
    ]  # fmt: skip
    assert [drive.get(run.ref).status for run in runs] == expected + [Status.RUNNING] * half
    for run, outcome in zip(runs[:half], outcomes, strict=False):
        assert drive.get(run.ref).attempts[0].outcome is END_OF_ATTEMPT[outcome]


def test_lost_successes_do_not_keep_the_others_from_counting(drive: Driver) -> None:
    runs = drive.start_many(8)
    ends = [
        make_finish(run, Outcome.SUCCEEDED, token=run.token + number % 2)
        for number, run in enumerate(runs)
    ]

    reply = drive.finish_all(ends)

    assert {held.id for held in reply.lost} == {run.id for run in runs[1::2]}
    assert [drive.get(run.ref).status for run in runs] == [Status.SUCCEEDED, Status.RUNNING] * 4


def test_only_the_named_runs_end_where_others_lie_between(drive: Driver) -> None:
    runs = drive.start_many(20)

    drive.finish_all([make_finish(run, Outcome.SUCCEEDED) for run in runs[::2]])

    assert [drive.get(run.ref).status for run in runs] == [Status.SUCCEEDED, Status.RUNNING] * 10


def test_ends_of_several_tenants_come_in_one_call(drive: Driver) -> None:
    for tenant in ("a", "b"):
        drive.add_many(5, tenant=tenant)
    drive.register()
    runs = drive.claim(10).claimed

    reply = drive.finish_all([make_finish(run, Outcome.SUCCEEDED) for run in runs])

    assert reply.lost == ()
    assert {drive.get(run.ref).status for run in runs} == {Status.SUCCEEDED}


def test_five_hundred_end_at_once(drive: Driver) -> None:
    runs = drive.start_many(500)

    reply = drive.finish_all(
        [make_finish(run, Outcome.SUCCEEDED, result=raw(n)) for n, run in enumerate(runs)]
    )

    assert reply.lost == ()
    assert drive.rows("leases") == []
    stored = {row["id"]: row for row in drive.rows("runs")}
    assert all(stored[run.id]["status"] == "succeeded" for run in runs)
    events = drive.rows("events")
    assert len(events) == 3 * 500
    assert {row["seq"] for row in events} == {1, 2, 3}
    assert len(drive.rows("attempts", outcome="succeeded")) == 500
    sample = drive.call(drive.ops.get_runs("default", [runs[0].id, runs[499].id]))
    assert sorted(value_of(record.result) for record in sample) == [0, 499]


def test_five_hundred_of_all_kinds_end_at_once(drive: Driver) -> None:
    runs = drive.start_many(500)
    outcomes = [list(Outcome)[n % len(Outcome)] for n in range(500)]

    reply = drive.finish_all([make_finish(r, o) for r, o in zip(runs, outcomes, strict=True)])

    assert reply.lost == ()
    assert drive.rows("leases") == []
    assert len(drive.rows("attempts")) == 500
    assert len(drive.rows("events", seq=3)) == 500


def test_nothing_to_finish_and_nothing_wanted_tells_the_time(drive: Driver) -> None:
    reply = drive.finish_all([])

    assert (reply.now, reply.lost, reply.claimed, reply.refused) == (drive.now, (), (), False)


# -- under a cancel intent -------------------------------------------------------------------


@pytest.mark.parametrize(
    "outcome", [Outcome.RETRY, Outcome.SNOOZED, Outcome.RELEASED, Outcome.CRASHED]
)
def test_under_a_cancel_what_would_go_round_again_ends_canceled(
    drive: Driver, outcome: Outcome
) -> None:
    held = drive.start()
    drive.cancel(held.ref, "no longer wanted")

    assert drive.finish(held, outcome).lost == ()

    record = drive.get(held.ref)
    assert record.status is Status.CANCELED
    assert record.reason == "no longer wanted"
    assert record.intent is None
    assert record.attempts[0].outcome is END_OF_ATTEMPT[outcome]
    assert drive.positions(held.ref) == []
    last = drive.events(held.ref)[-1]
    assert (last.type, last.data) == (EventType.CANCELED, {"reason": "no longer wanted"})
    (letter,) = drive.rows("failures")
    assert (letter["status"], letter["failure"]) == ("canceled", None)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.SUCCEEDED, Status.SUCCEEDED),
        (Outcome.FAILED, Status.FAILED),
        (Outcome.CANCELED, Status.CANCELED),
    ],
)
def test_an_outcome_that_ends_the_run_anyway_stands(
    steer: Driver, outcome: Outcome, status: Status
) -> None:
    held = steer.start()
    steer.cancel(held.ref, "too late")

    assert steer.finish(held, outcome, result=raw(1)).lost == ()

    record = steer.get(held.ref)
    assert record.status is status
    assert record.reason == ("too late" if status is Status.CANCELED else None)


def test_the_error_of_a_retry_is_not_the_reason_of_the_cancel(drive: Driver) -> None:
    held = drive.start()
    drive.cancel(held.ref)

    drive.finish(held, Outcome.RETRY, error=make_error("boom"))

    record = drive.get(held.ref)
    assert record.status is Status.CANCELED
    assert record.reason is None
    assert drive.events(held.ref)[-1].data is None
    assert record.attempts[0].error == make_error("boom")


@pytest.mark.parametrize(
    "outcome", [o for o in Outcome if o not in (Outcome.SUCCEEDED, Outcome.FAILED)]
)
@pytest.mark.parametrize("pauses", [False, True])
def test_an_end_says_for_how_long_its_worker_had_known(
    steer: Driver, outcome: Outcome, pauses: bool
) -> None:
    held = steer.start()
    (steer.pause if pauses else steer.cancel)(held.ref, "enough")

    assert steer.finish(held, outcome, heard=0.25).lost == ()

    ended = outcome is Outcome.CANCELED or not pauses
    asked, *others = steer.events(held.ref)[2:]
    assert asked.type is (EventType.PAUSE_REQUESTED if pauses else EventType.CANCEL_REQUESTED)
    if ended:
        reason = {} if pauses else {"reason": "enough"}
        assert others[0].data == {**reason, "heard": 0.25}
    elif outcome is not Outcome.CONTINUED:  # whose input is all that its event says
        assert (others[0].data or {})["heard"] == 0.25
        assert others[-1].data == {"reason": "enough"}
    (request,) = stop_requests(steer.events(held.ref))
    assert request.became is (EventType.CANCELED if ended else EventType.PAUSED)


def test_a_retry_under_a_cancel_still_counts(drive: Driver) -> None:
    held = drive.start()
    drive.cancel(held.ref)

    drive.finish(held, Outcome.RETRY, counts=True)

    assert drive.get(held.ref).failures == 1


@pytest.mark.parametrize("outcome", Outcome)
def test_an_attempt_tells_which_version_it_ran(drive: Driver, outcome: Outcome) -> None:
    plain, told = drive.start(), drive.start()
    drive.finish_all(
        [make_finish(plain, outcome), make_finish(told, outcome, version="0123456789ab")]
    )

    (attempt,) = drive.get(told.ref).attempts
    assert attempt.version == "0123456789ab"
    assert attempt.outcome is END_OF_ATTEMPT[outcome]
    assert drive.get(plain.ref).attempts[0].version is None
    assert drive.get(told.ref).status is drive.get(plain.ref).status
    assert drive.trail(told.ref) == drive.trail(plain.ref)


def test_a_result_comes_with_a_version_as_without(drive: Driver) -> None:
    held = drive.start()
    drive.finish(held, Outcome.SUCCEEDED, result=raw([1]), version="v")

    assert value_of(drive.get(held.ref).result) == [1]
