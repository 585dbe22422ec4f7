"""Overlap: what becomes of a slot while an earlier run of its schedule is live."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.conformance.desk import Desk, minute
from tests.conformance.history import History, violations
from tests.conformance.kit import Driver
from tests.conformance.test_fire import by_hand
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import RunRef
from windlass.domain.scheduling.rows import MOST_WAITING, Fired, Overlap, ScheduleFilter
from windlass.domain.states import Intent, Status

SKIPPED = EventType.SCHEDULE_SKIPPED


@pytest.fixture
def desk(drive: Driver) -> Desk:
    """The schedules of an empty database."""
    return Desk(drive)


def _queued(desk: Desk, run: RunRef) -> object:
    return None


def _running(desk: Desk, run: RunRef) -> object:
    return desk.drive.take(run)


def _retrying(desk: Desk, run: RunRef) -> object:
    return desk.drive.finish(desk.drive.take(run), Outcome.RETRY)


def _snoozed(desk: Desk, run: RunRef) -> object:
    return desk.drive.finish(desk.drive.take(run), Outcome.SNOOZED)


def _crashed(desk: Desk, run: RunRef) -> object:
    desk.drive.take(run, "dying")
    desk.drive.kill("dying")
    return desk.drive.sweep(reap=True)


def _reopened(desk: Desk, run: RunRef) -> object:
    desk.drive.finish(desk.drive.take(run), Outcome.FAILED)
    _forget(desk)
    return desk.drive.retry(run)


def _moved(desk: Desk, run: RunRef) -> object:
    return desk.drive.reschedule(run, delay=3600.0)


def _reopened_for_later(desk: Desk, run: RunRef) -> object:
    desk.drive.finish(desk.drive.take(run), Outcome.FAILED)
    _forget(desk)
    return desk.drive.reschedule(run, delay=3600.0)


def _forget(desk: Desk) -> None:
    """Let somebody look, so that what has ended is no longer among what may be live."""
    (row,) = desk.call(desk.ops.list_schedules(ScheduleFilter()))
    desk.fire(row, 0, expected_slot=row.next_slot, next_slot=row.next_slot)
    assert desk.drive.rows("schedule_live") == []


LIVE: Sequence[Callable[[Desk, RunRef], object]] = (
    _queued, _running, _retrying, _snoozed, _crashed, _reopened, _moved, _reopened_for_later,
)  # fmt: skip


def _succeeded(desk: Desk, run: RunRef) -> object:
    return desk.drive.finish(desk.drive.take(run), Outcome.SUCCEEDED)


def _failed(desk: Desk, run: RunRef) -> object:
    return desk.drive.finish(desk.drive.take(run), Outcome.FAILED)


def _canceled(desk: Desk, run: RunRef) -> object:
    return desk.drive.cancel(run)


ENDED: Sequence[Callable[[Desk, RunRef], object]] = (_succeeded, _failed, _canceled)


def slots_of(fired: Fired) -> dict[str, int]:
    """How many slots became what."""
    return {
        name: len(getattr(fired, name))
        for name in ("fired", "skipped", "waiting", "canceled")
        if getattr(fired, name)
    }


def assert_sound(desk: Desk) -> None:
    """Nothing is wrong with any history."""
    assert violations(History.read(desk.drive.tables)) == []


# -- what is live --------------------------------------------------------------------------------


@pytest.mark.parametrize("bring", LIVE)
def test_every_run_that_has_not_ended_is_live(
    desk: Desk, bring: Callable[[Desk, RunRef], object]
) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    bring(desk, desk.start(row))

    assert slots_of(desk.fire(row)) == {"skipped": 1}
    assert_sound(desk)


@pytest.mark.parametrize("end", ENDED)
def test_a_run_that_has_ended_is_not(desk: Desk, end: Callable[[Desk, RunRef], object]) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    end(desk, desk.start(row))

    assert slots_of(desk.fire(row)) == {"fired": 1}
    assert_sound(desk)


def test_a_run_that_is_spread_is_live(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    desk.start(row, run={"at": desk.drive.later(600)})

    assert slots_of(desk.fire(row)) == {"skipped": 1}


def test_other_runs_of_the_job_do_not_count(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    desk.drive.add()
    desk.fire(desk.put())

    assert slots_of(desk.fire(row)) == {"fired": 1}


def test_a_change_of_policy_counts_what_was_started_before(desk: Desk) -> None:
    row = desk.put()
    runs = [RunRef("default", made.run) for made in desk.fire(row, 8).fired]
    for run in runs[:5]:
        _succeeded(desk, run)
    (stored,) = desk.store(desk.new(id=row.id, overlap=Overlap.SKIP, next_slot=minute(8)))
    assert stored.row.overlap is Overlap.SKIP

    assert slots_of(desk.fire(row)) == {"skipped": 1}
    for run in runs[5:]:
        _succeeded(desk, run)
    assert slots_of(desk.fire(row)) == {"fired": 1}
    assert_sound(desk)


def test_a_run_of_a_deleted_schedule_can_be_retried(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    run = desk.start(row)
    _failed(desk, run)
    desk.call(desk.ops.delete_schedule(row.ref))

    assert desk.drive.retry(run).status is Status.QUEUED
    assert_sound(desk)


def test_a_run_of_a_deleted_schedule_can_be_rescheduled(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    run = desk.start(row)
    _failed(desk, run)
    desk.call(desk.ops.delete_schedule(row.ref))

    assert desk.drive.reschedule(run, delay=60.0).status is Status.SCHEDULED
    assert_sound(desk)


def test_a_run_that_is_moved_is_still_that_of_its_slot(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    run = desk.start(row)
    rows = desk.drive.rows("schedule_live"), desk.slots(row)

    record = desk.drive.reschedule(run, delay=3600.0)

    assert (record.schedule, record.slot) == (row.id, minute(0))
    assert (desk.drive.rows("schedule_live"), desk.slots(row)) == rows


# -- allow, skip ---------------------------------------------------------------------------------


def test_allow_fires_whatever_is_live(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.ALLOW)
    desk.fire(row)

    assert slots_of(desk.fire(row, 2)) == {"fired": 2}


@pytest.mark.both_faces
def test_a_skipped_slot_is_recorded_counted_and_told(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    run = desk.start(row)

    fired = desk.fire(row, 2)

    assert (fired.skipped, fired.fired) == ((minute(1), minute(2)), ())
    after = desk.get(row)
    assert (after.fired, after.skipped, after.next_slot) == (1, 2, minute(3))
    assert desk.outcomes(row) == ["fired", "skipped", "skipped"]
    assert [(event.type, event.data) for event in desk.events(row)][1:] == [
        (SKIPPED, {"slot": "2020-02-29T12:01:00Z", "why": "overlap"}),
        (SKIPPED, {"slot": "2020-02-29T12:02:00Z", "why": "overlap"}),
    ]
    _succeeded(desk, run)
    assert slots_of(desk.fire(row)) == {"fired": 1}
    assert_sound(desk)


def test_of_several_slots_at_once_skip_fires_the_first(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)

    assert slots_of(desk.fire(row, 3, missed_count=4)) == {"fired": 1, "skipped": 2}
    assert desk.trail(row)[1:] == [EventType.SCHEDULE_MISSED, SKIPPED, SKIPPED]
    assert_sound(desk)


# -- cancel_running ------------------------------------------------------------------------------


@pytest.mark.both_faces
def test_cancel_running_ends_what_is_live_and_fires(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.CANCEL_RUNNING)
    waits = desk.start(row)

    first = desk.fire(row)

    assert first.canceled == (waits.id,)
    record = desk.drive.get(waits)
    assert record.status is Status.CANCELED
    assert record.reason == "a later slot of its schedule has come"
    running = RunRef("default", first.fired[0].run)
    desk.drive.take(running)
    second = desk.fire(row)
    assert second.canceled == (running.id,)
    assert desk.drive.get(running).intent is Intent.CANCEL
    assert desk.drive.trail(running)[-1] is EventType.CANCEL_REQUESTED
    assert desk.outcomes(row) == ["fired"] * 3
    assert_sound(desk)


def test_cancel_running_asks_once_of_a_run_that_takes_its_time(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.CANCEL_RUNNING)
    slow = desk.drive.take(desk.start(row))
    for _ in range(3):
        desk.fire(row)

    trail = desk.drive.trail(slow.ref)
    assert trail.count(EventType.CANCEL_REQUESTED) == 1
    desk.drive.finish(slow, Outcome.CANCELED)
    assert desk.drive.get(slow.ref).status is Status.CANCELED
    assert len(desk.fire(row).canceled) == 1, "the one before, and no more"
    assert_sound(desk)


def test_of_several_slots_at_once_cancel_running_keeps_the_last(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.CANCEL_RUNNING)
    before = desk.start(row)

    fired = desk.fire(row, 3)

    runs = [made.run for made in fired.fired]
    assert sorted(fired.canceled) == sorted([before.id, *runs[:2]])
    assert [desk.drive.get(RunRef("default", run)).status for run in runs] == [
        Status.CANCELED, Status.CANCELED, Status.QUEUED,
    ]  # fmt: skip
    assert_sound(desk)


def test_a_retry_that_waits_is_canceled_too(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.CANCEL_RUNNING)
    run = desk.start(row)
    _retrying(desk, run)

    assert desk.fire(row).canceled == (run.id,)
    assert desk.drive.get(run).status is Status.CANCELED
    assert_sound(desk)


def test_a_decision_may_have_a_policy_of_its_own(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    run = desk.start(row)

    assert slots_of(desk.fire(row, overlap=Overlap.ALLOW)) == {"fired": 1}
    assert slots_of(by_hand(desk, row, 9)) == {"skipped": 1}
    canceled = by_hand(desk, row, 10, overlap=Overlap.CANCEL_RUNNING).canceled
    assert run.id in canceled
    assert len(canceled) == 2


# -- queue ---------------------------------------------------------------------------------------


@pytest.mark.both_faces
def test_a_slot_that_waits_gets_its_run_when_the_earlier_one_has_ended(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)
    run = desk.start(row)

    fired = desk.fire(row, 2, run={"priority": 3, "tags": ("t",)})

    assert fired.waiting == (minute(1), minute(2))
    assert desk.outcomes(row) == ["fired", "waiting", "waiting"]
    assert desk.slots(row)[0].run is None
    assert desk.release().fired == ()
    _succeeded(desk, run)
    desk.drive.advance(60)
    (made,) = desk.release().fired
    assert (made.schedule, made.slot, made.status) == (row.id, minute(1), Status.QUEUED)
    assert desk.outcomes(row) == ["fired", "fired", "waiting"]
    record = desk.drive.get(RunRef("default", made.run))
    assert (record.slot, record.priority, record.tags) == (minute(1), 3, ("t",))
    assert (record.created_at, record.scheduled_for) == (desk.drive.now, minute(1))
    assert desk.release().fired == ()
    assert desk.get(row).fired == 2
    assert_sound(desk)


def test_of_several_slots_at_once_queue_fires_the_first(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)

    assert slots_of(desk.fire(row, 3)) == {"fired": 1, "waiting": 2}


def test_a_new_slot_waits_behind_those_that_wait(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)
    run = desk.start(row)
    desk.fire(row)
    _succeeded(desk, run)

    assert slots_of(desk.fire(row)) == {"waiting": 1}, "nothing is live, but another is first"
    order = []
    while made := desk.release().fired:
        order += [one.slot for one in made]
        _succeeded(desk, RunRef("default", made[0].run))
    assert order == [minute(1), minute(2)]
    assert slots_of(desk.fire(row)) == {"fired": 1}
    assert_sound(desk)


def test_a_retry_that_waits_keeps_the_others_waiting(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)
    run = desk.start(row)
    desk.fire(row)

    _retrying(desk, run)
    assert desk.release().fired == ()
    desk.drive.advance(60)
    desk.drive.sweep(dispatch=True)
    assert desk.release().fired == ()
    _failed(desk, run)
    assert len(desk.release().fired) == 1


def test_only_so_many_wait_and_the_rest_are_skipped(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)

    first = desk.fire(row, MOST_WAITING)
    second = desk.fire(row, 3)

    assert slots_of(first) == {"fired": 1, "waiting": MOST_WAITING - 1}
    assert slots_of(second) == {"waiting": 1, "skipped": 2}
    assert second.waiting == (minute(MOST_WAITING),)
    event = desk.events(row)[-1]
    assert (event.type, event.data) == (
        SKIPPED,
        {"slot": minute(MOST_WAITING + 2).isoformat().replace("+00:00", "Z"), "why": "full"},
    )
    assert_sound(desk)


def test_what_waits_of_a_paused_schedule_waits_for_its_resume(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)
    run = desk.start(row)
    desk.fire(row)
    _succeeded(desk, run)

    desk.call(desk.ops.enable_schedule(row.ref, False))
    assert desk.release().fired == ()
    desk.call(desk.ops.enable_schedule(row.ref, True, minute(9)))
    assert [made.slot for made in desk.release().fired] == [minute(1)]


def test_a_release_serves_all_schedules_that_are_free(desk: Desk) -> None:
    rows = [desk.put(overlap=Overlap.QUEUE) for _ in range(5)]
    runs = [desk.start(row) for row in rows]
    for row in rows:
        desk.fire(row)
    for run in runs[2:]:
        _succeeded(desk, run)

    some, rest = desk.release(2), desk.release(2)

    assert (len(some.fired), some.more) == (2, True)
    assert (len(rest.fired), rest.more) == (1, False)
    assert {made.schedule for made in (*some.fired, *rest.fired)} == {row.id for row in rows[2:]}
    assert_sound(desk)


def test_waiting_slots_of_a_schedule_that_is_changed_are_not_lost(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)
    run = desk.start(row)
    desk.fire(row)
    desk.store(desk.new(id=row.id, overlap=Overlap.ALLOW, next_slot=minute(5)))
    _succeeded(desk, run)

    assert [made.slot for made in desk.release().fired] == [minute(1)]


def test_a_slot_that_waits_is_not_fired_by_hand(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)
    desk.fire(row, 2)

    assert by_hand(desk, row, 1, overlap=Overlap.ALLOW) == Fired()
    assert desk.outcomes(row) == ["fired", "waiting"]
