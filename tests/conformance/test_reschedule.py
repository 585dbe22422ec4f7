"""Reschedule: what waits is moved in time, what ended is reopened for a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import ABSENT, Driver, held_of, raw, ref, value_of
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Options, RunRef
from windlass.domain.states import Failure, Status
from windlass.errors import BadArguments, IllegalTransition, RunExpires, RunNotFound

WAITING = (Status.SCHEDULED, Status.QUEUED)
ENDED = (Status.FAILED, Status.CANCELED)
DAY = 86_400.0


@pytest.fixture(autouse=True)
def sound(drive: Driver) -> Any:
    """Whatever a test did, the history is one that may be."""
    yield
    assert violations(History.read(drive.tables)) == []


def _told(drive: Driver, run: RunRef) -> tuple[EventType, datetime, datetime]:
    """The last event: what it is, when it was, and the time it tells."""
    last = drive.events(run)[-1]
    assert last.data is not None
    assert list(last.data) == ["at"]
    return last.type, last.at, datetime.fromisoformat(last.data["at"])


# -- a run that waits --------------------------------------------------------------------------


@pytest.mark.parametrize("status", WAITING)
@pytest.mark.parametrize("by", ["at", "delay"])
def test_a_run_that_waits_is_moved_to_a_later_time(drive: Driver, status: Status, by: str) -> None:
    run = drive.bring(status, priority=5, tags=("a", "b"), key="k", input=raw({"n": 9}))
    drive.advance(1)
    due = drive.later(DAY)

    record = drive.reschedule(run, **({"at": due} if by == "at" else {"delay": DAY}))

    assert record == drive.get(run)
    assert (record.status, record.waiting_for) == (Status.SCHEDULED, "delay")
    assert (record.due_at, record.scheduled_for) == (due, due)
    assert (record.attempt, record.token, record.updated_at) == (0, 0, drive.now)
    assert (record.key, record.tags, record.priority) == ("k", ("a", "b"), 5)
    assert drive.positions(run) == ["timers"]
    assert _told(drive, run) == (EventType.RESCHEDULED, drive.now, due)
    assert drive.list(status=Status.SCHEDULED, tag="a") == [run.id]
    drive.advance(DAY - 1)
    assert drive.sweep(dispatch=True).dispatched == ()
    drive.register()
    assert drive.claim().claimed == ()
    drive.advance(1)
    assert drive.sweep(dispatch=True).dispatched == (run,)
    claimed = drive.take(run)
    assert (claimed.token, claimed.attempt, value_of(claimed.input)) == (1, 1, {"n": 9})
    assert drive.enqueue(drive.new(key="k", input=raw({"n": 9})))[0].id == run.id


@pytest.mark.parametrize("status", WAITING)
@pytest.mark.parametrize(
    "when",
    [
        lambda drive: {"delay": 0.0},
        lambda drive: {"at": drive.now},
        lambda drive: {"at": drive.later(-DAY)},
        lambda drive: {"at": datetime(1, 1, 1, tzinfo=UTC)},
        lambda drive: {"at": drive.later(-1).astimezone(timezone(timedelta(hours=14)))},
    ],
)
def test_a_time_that_has_come_makes_it_ready(
    drive: Driver, status: Status, when: Callable[[Driver], dict[str, Any]]
) -> None:
    run = drive.bring(status, priority=5)
    drive.advance(1)

    record = drive.reschedule(run, **when(drive))

    assert record == drive.get(run)
    assert (record.status, record.due_at, record.waiting_for) == (Status.QUEUED, None, None)
    assert record.scheduled_for == drive.now
    assert drive.positions(run) == ["ready"]
    (place,) = drive.rows("ready")
    assert (place["rank"], place["ready_at"], place["published_at"]) == (-5, drive.now, None)
    assert _told(drive, run) == (EventType.RESCHEDULED, drive.now, drive.now)
    drive.register()
    assert [claimed.id for claimed in drive.claim().claimed] == [run.id]


def test_a_run_may_be_moved_often(drive: Driver) -> None:
    run = drive.add(delay=60.0)
    for hours in (3, 1, 2):
        drive.reschedule(run, delay=hours * 3600.0)

    assert drive.get(run).due_at == drive.later(7200)
    assert len(drive.rows("timers")) == 1
    assert drive.trail(run) == [EventType.ENQUEUED] + [EventType.RESCHEDULED] * 3


@pytest.mark.parametrize("delay", [0.0, DAY])
@pytest.mark.parametrize("outcome", [Outcome.RETRY, Outcome.SNOOZED, Outcome.RELEASED])
def test_a_run_that_was_tried_keeps_its_counts(
    drive: Driver, outcome: Outcome, delay: float
) -> None:
    run = drive.start(options=Options(max_attempts=3)).ref
    drive.kill()
    drive.sweep(reap=True)
    held = drive.take(run)
    drive.finish(held, outcome)
    before = drive.get(run)

    record = drive.reschedule(run, delay=delay)

    assert (record.attempt, record.token) == (before.attempt, before.token) == (2, 2)
    assert (record.failures, record.crash_count) == (before.failures, 1)
    assert record.failures == (outcome is Outcome.RETRY)
    assert (record.options, len(record.attempts)) == (Options(max_attempts=3), 2)
    assert record.waiting_for == ("delay" if delay else None)
    drive.advance(delay)
    drive.sweep(dispatch=True)
    again = drive.take(run)
    assert (again.token, again.attempt, again.failures) == (3, 3, before.failures)
    assert drive.finish(held, Outcome.SUCCEEDED).lost == (held_of(held),)


def test_the_end_of_a_run_that_was_moved_is_recorded(drive: Driver) -> None:
    run = drive.bring(Status.QUEUED)
    due = drive.later(60)
    drive.reschedule(run, at=due)
    drive.advance(61)
    drive.sweep(dispatch=True)

    drive.finish(drive.take(run), Outcome.SUCCEEDED, result=raw("late"))

    record = drive.get(run)
    assert (record.status, value_of(record.result)) == (Status.SUCCEEDED, "late")
    assert record.scheduled_for == due
    assert drive.trail(run) == [
        EventType.ENQUEUED,
        EventType.RESCHEDULED,
        EventType.QUEUED,
        EventType.STARTED,
        EventType.SUCCEEDED,
    ]


# -- expiry ------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.0, 599.0])
@pytest.mark.parametrize("start", [0.0, 60.0])
def test_a_run_that_is_moved_still_expires(drive: Driver, start: float, delay: float) -> None:
    run = drive.add(expires_in=600.0, delay=start)
    expiry = drive.later(600)

    record = drive.reschedule(run, delay=delay)

    assert record.expires_at == expiry
    drive.advance(600)
    assert drive.sweep(expire=True).expired == 1
    assert drive.get(run).failure is Failure.EXPIRED


@pytest.mark.parametrize("start", [0.0, 60.0])
@pytest.mark.parametrize("delay", [600.0, 600.5, DAY])
def test_a_time_at_which_it_would_have_expired_is_refused(
    drive: Driver, start: float, delay: float
) -> None:
    run = drive.add(expires_in=600.0, delay=start)
    before, trail = drive.get(run), drive.trail(run)

    with pytest.raises(RunExpires) as caught:
        drive.reschedule(run, delay=delay)

    error = caught.value
    assert error.run == run.id
    assert datetime.fromisoformat(error.expires_at) == drive.later(600)
    assert datetime.fromisoformat(error.at) == drive.later(delay)
    assert error.expires_at.endswith("Z")
    assert (drive.get(run), drive.trail(run)) == (before, trail)


def test_a_run_whose_expiry_has_passed_is_not_moved(drive: Driver) -> None:
    run = drive.add(expires_in=600.0)
    drive.advance(600)

    with pytest.raises(RunExpires):
        drive.reschedule(run, delay=0.0)

    assert drive.sweep(expire=True).expired == 1


def test_a_run_that_expired_is_reopened_and_expires_no_more(drive: Driver) -> None:
    run = drive.add(expires_in=1.0)
    drive.advance(1)
    drive.sweep(expire=True)

    record = drive.reschedule(run, delay=DAY)

    assert (record.status, record.failure, record.expires_at) == (Status.SCHEDULED, None, None)
    drive.advance(DAY)
    assert drive.sweep(expire=True).expired == 0
    drive.sweep(dispatch=True)
    assert drive.take(run).attempt == 1


# -- a run that ended --------------------------------------------------------------------------


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize("delay", [0.0, DAY])
def test_a_run_that_ended_is_reopened_for_a_time(
    drive: Driver, status: Status, delay: float
) -> None:
    run = drive.bring(status, priority=5, key="k", tags=("a",), options=Options(max_attempts=2))
    drive.advance(1)
    due = drive.later(delay)

    record = drive.reschedule(run, delay=delay)

    assert record == drive.get(run)
    assert record.status is (Status.SCHEDULED if delay else Status.QUEUED)
    assert (record.due_at, record.scheduled_for) == (due if delay else None, due)
    assert (record.attempt, record.token) == (1, 1)
    assert (record.failures, record.crash_count) == (0, 0)
    assert (record.failure, record.error, record.reason, record.finished_at) == (None,) * 4
    assert (record.options, record.key, record.tags) == (Options(max_attempts=2), "k", ("a",))
    assert drive.rows("failures") == []
    assert drive.list(dead=True) == []
    assert _told(drive, run) == (EventType.RESCHEDULED, drive.now, due)
    assert drive.events(run)[-1].seq == 4
    drive.advance(delay)
    drive.sweep(dispatch=True)
    (place,) = drive.rows("ready")
    assert place["rank"] == -5
    again = drive.take(run)
    assert (again.token, again.attempt, again.failures) == (2, 2, 0)
    drive.finish(again, Outcome.FAILED)
    assert drive.list(dead=True) == [run.id]


def test_a_run_that_crashed_too_often_starts_at_zero(drive: Driver) -> None:
    run = drive.start().ref
    drive.kill()
    drive.sweep(reap=True, max_crashes=1)
    assert drive.get(run).failure is Failure.CRASHED

    assert drive.reschedule(run, delay=DAY).crash_count == 0


def test_a_discarded_run_is_reopened(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED)
    drive.call(drive.ops.discard("default", [run.id]))

    record = drive.reschedule(run, delay=DAY)

    assert (record.status, record.discarded_at) == (Status.SCHEDULED, None)
    assert drive.trail(run)[-2:] == [EventType.DISCARDED, EventType.RESCHEDULED]


def test_a_success_is_reopened_once_it_is_stale(drive: Driver) -> None:
    run = drive.bring(Status.SUCCEEDED)
    drive.tables.mark_stale(run, drive.now)

    record = drive.reschedule(run, delay=DAY)

    assert (record.status, record.stale_at) == (Status.SCHEDULED, None)
    assert value_of(record.result) is None


def test_the_old_token_is_worth_nothing(drive: Driver) -> None:
    held = drive.start()
    drive.finish(held, Outcome.FAILED)
    drive.reschedule(held.ref, delay=0.0)
    drive.take(held.ref)

    assert drive.finish(held, Outcome.SUCCEEDED).lost == (held_of(held),)


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.0, DAY])
@pytest.mark.parametrize("status", [Status.RUNNING, Status.SUCCEEDED])
def test_other_runs_are_not_moved(drive: Driver, status: Status, delay: float) -> None:
    run = drive.bring(status)
    before, trail = drive.get(run), drive.trail(run)

    with pytest.raises(IllegalTransition) as caught:
        drive.reschedule(run, delay=delay)

    error = caught.value
    assert (error.run, error.status, error.verb) == (run.id, status, "reschedule")
    assert (drive.get(run), drive.trail(run)) == (before, trail)


@pytest.mark.parametrize("ident", [ABSENT, "not-an-id", ""])
def test_an_unknown_run_cannot_be_moved(drive: Driver, ident: str) -> None:
    with pytest.raises(RunNotFound) as caught:
        drive.reschedule(ref(ident), delay=0.0)

    assert caught.value.run == ident


@pytest.mark.parametrize("status", [Status.QUEUED, Status.FAILED])
def test_another_tenants_run_cannot_be_moved(drive: Driver, status: Status) -> None:
    run = drive.bring(status, tenant="acme")

    with pytest.raises(RunNotFound):
        drive.reschedule(ref(run.id, "other"), delay=DAY)

    assert drive.get(run).status is status


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
WRONG: list[dict[str, Any]] = [
    {},
    {"at": NOON, "delay": 5.0},
    {"delay": -0.001},
    {"delay": math.nan},
    {"delay": math.inf},
    {"delay": 101 * 366 * DAY},
    {"at": datetime(9999, 12, 31, tzinfo=UTC)},
    {"at": datetime.max.replace(tzinfo=UTC)},
]


@pytest.mark.parametrize("when", WRONG, ids=str)
@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.CANCELED])
def test_what_is_no_time_is_refused(drive: Driver, status: Status, when: dict[str, Any]) -> None:
    run = drive.bring(status)
    before, trail = drive.get(run), drive.trail(run)

    with pytest.raises(BadArguments) as caught:
        drive.reschedule(run, **when)

    assert caught.value.job == "reschedule"
    assert (drive.get(run), drive.trail(run)) == (before, trail)


def test_the_last_time_that_is_one_is_taken(drive: Driver) -> None:
    run = drive.add()
    last = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)

    assert drive.reschedule(run, at=last).due_at == last
    assert _told(drive, run)[2] == last
    assert drive.reschedule(run, delay=100 * 365.25 * DAY).status is Status.SCHEDULED
