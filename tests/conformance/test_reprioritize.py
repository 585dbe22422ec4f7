"""Another priority, or another queue, for a run that waits."""

from __future__ import annotations

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import ABSENT, Driver, ids, ref, requires
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import RunRef
from windlass.domain.states import Status
from windlass.errors import BadArguments, IllegalTransition, RunNotFound


def told(drive: Driver, run: RunRef) -> object:
    """What the last event has to say."""
    last = drive.events(run)[-1]
    assert (last.type, last.at) == (EventType.REPRIORITIZED, drive.now)
    return last.data


@pytest.mark.both_faces
def test_a_run_overtakes_the_others(drive: Driver) -> None:
    first, second, third = drive.add_many(3)
    drive.advance(5)

    record = drive.reprioritize(third, priority=9)

    assert (record.status, record.priority, record.queue) == (Status.QUEUED, 9, "main")
    assert record == drive.get(third)
    assert told(drive, third) == {"priority": 9, "queue": "main"}
    drive.register()
    assert ids(drive.claim(3).claimed) == ids([third, first, second])
    assert violations(History.read(drive.tables)) == []


def test_it_keeps_its_time(drive: Driver) -> None:
    """What became ready before stays before, in the new priority too."""
    old = drive.add(priority=0)
    drive.advance(5)
    new = drive.add(priority=1)
    drive.advance(5)

    drive.reprioritize(old, priority=1)

    (place,) = (row for row in drive.rows("ready") if row["id"] == old.id)
    assert place["ready_at"] == drive.later(-10)
    drive.register()
    assert ids(drive.claim(2).claimed) == ids([old, new])


def test_a_run_changes_its_queue(drive: Driver) -> None:
    run = drive.add(queue="main", priority=4)
    record = drive.reprioritize(run, queue="other")

    assert (record.queue, record.priority) == ("other", 4)
    assert told(drive, run) == {"priority": 4, "queue": "other"}
    drive.register()
    assert drive.claim(1, queues=("main",)).claimed == ()
    (claimed,) = drive.claim(1, queues=("other",)).claimed
    drive.finish(claimed, Outcome.FAILED)
    assert drive.rows("failures")[0]["queue"] == "other"
    assert drive.list(queue="other") == [run.id]


@pytest.mark.parametrize("why", ["delay", "backoff", "snooze"])
def test_a_run_that_waits_for_its_time_goes_on_waiting(drive: Driver, why: str) -> None:
    if why == "delay":
        run = drive.add(delay=60.0)
    else:
        claimed = drive.start()
        outcome = Outcome.RETRY if why == "backoff" else Outcome.SNOOZED
        drive.finish(claimed, outcome, delay=60.0)
        run = claimed.ref
    before = drive.get(run)
    drive.advance(5)

    record = drive.reprioritize(run, priority=2, queue="other")

    assert (record.status, record.priority, record.queue) == (Status.SCHEDULED, 2, "other")
    assert (record.due_at, record.waiting_for) == (before.due_at, before.waiting_for)
    drive.advance(60)
    drive.sweep(dispatch=True)
    (place,) = drive.rows("ready")
    assert (place["queue"], place["rank"]) == ("other", -2)
    assert violations(History.read(drive.tables)) == []


def test_a_run_whose_time_has_come_but_was_not_dispatched_waits_on(drive: Driver) -> None:
    run = drive.add(delay=5.0)
    drive.advance(10)
    assert drive.reprioritize(run, priority=1).status is Status.SCHEDULED
    drive.sweep(dispatch=True)
    assert drive.get(run).status is Status.QUEUED
    assert violations(History.read(drive.tables)) == []


def test_expiry_and_deadline_stay(drive: Driver) -> None:
    run = drive.add(expires_in=10.0, deadline_in=20.0)
    before = drive.get(run)
    after = drive.reprioritize(run, priority=1)
    assert (after.expires_at, after.deadline_at) == (before.expires_at, before.deadline_at)
    drive.advance(15)
    assert drive.sweep(expire=True).expired == 1


def test_repeating_it_changes_nothing_but_the_history(drive: Driver) -> None:
    run = drive.add()
    first = drive.reprioritize(run, priority=3)
    again = drive.reprioritize(run, priority=3)
    assert (again.priority, again.queue, again.status) == (first.priority, "main", Status.QUEUED)
    assert drive.trail(run)[1:] == [EventType.REPRIORITIZED] * 2


@pytest.mark.parametrize("status", [Status.RUNNING, Status.SUCCEEDED, Status.FAILED])
def test_what_does_not_wait_is_refused(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    with pytest.raises(IllegalTransition) as caught:
        drive.reprioritize(run, priority=1)
    assert (caught.value.status, caught.value.verb) == (status, "reprioritize")
    assert drive.get(run).priority == 0


def test_an_unknown_run_is_told(drive: Driver) -> None:
    for name in (ABSENT, "nobody"):
        with pytest.raises(RunNotFound, match=name):
            drive.reprioritize(ref(name), priority=1)


@requires("server")
def test_plain_sql_is_checked_as_python_is(drive: Driver) -> None:
    run = drive.add()
    with pytest.raises(BadArguments, match="priority"):
        drive.reprioritize(run, priority=40_000)
    with pytest.raises(BadArguments, match="queue"):
        drive.reprioritize(run, queue="no name")
