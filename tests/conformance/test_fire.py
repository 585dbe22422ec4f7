"""Fire: decisions become runs, once per slot, if the schedule is still as they expect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.conformance.desk import MINUTE, Desk, minute
from tests.conformance.history import History, violations
from tests.conformance.kit import ABSENT, JOB, Driver, raw, value_of
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Options, RunRef
from windlass.domain.scheduling.rows import Decision, Fired, Firing, Overlap, ScheduleRow
from windlass.domain.states import Status
from windlass.errors import BadArguments

LOST = Fired(lost=True)


@pytest.fixture
def desk(drive: Driver) -> Desk:
    """The schedules of an empty database."""
    return Desk(drive)


@pytest.mark.both_faces
def test_a_slot_makes_a_run_and_the_schedule_moves_on(desk: Desk) -> None:
    row = desk.put()

    fired = desk.fire(row)

    (made,) = fired.fired
    assert (made.tenant, made.schedule, made.slot) == ("default", row.id, minute(0))
    assert made.status is Status.QUEUED
    after = desk.get(row)
    assert (after.next_slot, after.last_slot) == (minute(1), minute(0))
    assert (after.fired, after.missed, after.skipped) == (1, 0, 0)
    assert (after.version, after.updated_at) == (row.version, row.updated_at)
    (slot,) = desk.slots(row)
    assert (slot.slot, slot.outcome, slot.run, slot.at) == (
        minute(0), "fired", made.run, desk.drive.now,
    )  # fmt: skip
    assert desk.trail(row) == [EventType.SCHEDULE_CREATED]


def test_the_run_is_as_decided_and_knows_its_slot(desk: Desk) -> None:
    row = desk.put()
    options = Options(max_attempts=2, timeout=3.0)

    run = desk.start(
        row,
        run={
            "priority": 4, "queue": "slow", "tags": ("a", "b", "a"), "options": options,
            "job_version": "v7", "trace": "00-1", "expires_in": 90.0,
            "deadline_in": 120.0, "input": raw(None),
        },
    )  # fmt: skip

    record = desk.drive.get(run)
    assert (record.schedule, record.slot) == (row.id, minute(0))
    assert (record.job, record.queue, record.priority, record.key) == (JOB, "slow", 4, None)
    assert (record.tags, record.options, record.trace) == (("a", "b", "a"), options, "00-1")
    assert value_of(record.input) is None
    assert (record.created_at, record.scheduled_for) == (desk.drive.now, minute(0))
    assert record.expires_at == desk.drive.later(90)
    assert record.deadline_at == desk.drive.later(120)
    assert desk.drive.list(tag="b") == [run.id]
    (event,) = desk.drive.events(run)
    assert (event.type, event.data) == (
        EventType.ENQUEUED, {"schedule": row.id, "slot": "2020-02-29T12:00:00Z"},
    )  # fmt: skip
    claimed = desk.drive.take(run)
    assert (claimed.schedule, claimed.slot) == (row.id, minute(0))


def test_a_run_without_a_schedule_has_no_slot(desk: Desk) -> None:
    run = desk.drive.add()

    assert (desk.drive.get(run).schedule, desk.drive.get(run).slot) == (None, None)
    claimed = desk.drive.take(run)
    assert (claimed.schedule, claimed.slot) == (None, None)


def test_the_head_of_a_queue_knows_its_slot_too(desk: Desk) -> None:
    row = desk.put()
    desk.fire(row)
    desk.drive.register()

    (claimed,) = desk.drive.claim().claimed

    assert (claimed.schedule, claimed.slot) == (row.id, minute(0))


def test_a_run_that_is_spread_waits_for_its_time(desk: Desk) -> None:
    row = desk.put(next_slot=desk.drive.now)
    at = desk.drive.later(7.25)

    (made,) = desk.fire(row, run={"at": at}).fired

    assert made.status is Status.SCHEDULED
    run = RunRef("default", made.run)
    record = desk.drive.get(run)
    assert (record.status, record.due_at, record.scheduled_for) == (Status.SCHEDULED, at, at)
    (event,) = desk.drive.events(run)
    assert event.data is not None
    assert event.data["why"] == "delay"
    assert event.data["slot"] == row.next_slot.isoformat().replace("+00:00", "Z")  # type: ignore[union-attr]
    desk.drive.advance(8)
    assert [ref.id for ref in desk.drive.sweep(dispatch=True).dispatched] == [made.run]


def test_a_time_that_has_passed_is_at_once(desk: Desk) -> None:
    row = desk.put()

    (made,) = desk.fire(row, run={"at": minute(0) + timedelta(seconds=3)}).fired

    assert made.status is Status.QUEUED
    assert desk.drive.get(RunRef("default", made.run)).scheduled_for == minute(0) + timedelta(
        seconds=3
    )


def test_several_slots_fire_in_order(desk: Desk) -> None:
    row = desk.put()

    fired = desk.fire(row, 3)

    assert [made.slot for made in fired.fired] == [minute(0), minute(1), minute(2)]
    assert desk.outcomes(row) == ["fired"] * 3
    after = desk.get(row)
    assert (after.fired, after.last_slot, after.next_slot) == (3, minute(2), minute(3))


def test_nothing_may_be_left_to_come(desk: Desk) -> None:
    row = desk.put()

    desk.fire(row, next_slot=None)

    after = desk.get(row)
    assert (after.enabled, after.next_slot) == (True, None)
    assert desk.due().next_slot is None


def test_microseconds_are_kept(desk: Desk) -> None:
    odd = minute(0) + timedelta(microseconds=123_456)
    row = desk.put(next_slot=odd)

    run = desk.start(row)

    assert desk.drive.get(run).slot == odd
    (event,) = desk.drive.events(run)
    assert event.data is not None
    assert event.data["slot"] == "2020-02-29T12:00:00.123456Z"


# -- missed --------------------------------------------------------------------------------------


def test_missed_slots_are_recorded_counted_and_told(desk: Desk) -> None:
    row = desk.put()

    desk.fire(
        row, 0, next_slot=minute(9), missed=(minute(7), minute(8)), missed_count=9
    )  # fmt: skip

    after = desk.get(row)
    assert (after.fired, after.missed, after.next_slot) == (0, 9, minute(9))
    assert after.last_slot == minute(8), "it is decided, though nothing fired"
    assert desk.outcomes(row) == ["missed", "missed"]
    assert desk.slots(row)[0].run is None
    event = desk.events(row)[-1]
    assert (event.type, event.data, event.attempt) == (
        EventType.SCHEDULE_MISSED,
        {"slots": ["2020-02-29T12:07:00Z", "2020-02-29T12:08:00Z"], "count": 9},
        0,
    )


def test_more_may_be_missed_than_were_counted(desk: Desk) -> None:
    row = desk.put()

    desk.fire(row, 0, missed_count=1_000, missed_at_least=True)

    assert desk.events(row)[-1].data == {"slots": [], "count": 1_000, "at_least": True}
    assert desk.get(row).missed == 1_000


def test_some_may_be_missed_and_the_latest_fire(desk: Desk) -> None:
    row = desk.put()
    latest = Firing(slot=minute(2), run=desk.run(row))

    fired = desk.fire(
        row, slots=(latest,), next_slot=minute(3), missed=(minute(0), minute(1)), missed_count=2
    )

    assert [made.slot for made in fired.fired] == [minute(2)]
    assert desk.outcomes(row) == ["missed", "missed", "fired"]
    assert desk.get(row).last_slot == minute(2)
    assert violations(History.read(desk.drive.tables)) == []


# -- compare and set -----------------------------------------------------------------------------


def _pause(desk: Desk, row: ScheduleRow) -> object:
    return desk.call(desk.ops.enable_schedule(row.ref, False))


def _change(desk: Desk, row: ScheduleRow) -> object:
    return desk.store(desk.new(id=row.id, job="other"))


def _delete(desk: Desk, row: ScheduleRow) -> object:
    return desk.call(desk.ops.delete_schedule(row.ref))


@pytest.mark.parametrize("meanwhile", [Desk.fire, _pause, _change, _delete])
def test_a_decision_counts_only_if_the_schedule_is_as_it_was(
    desk: Desk, meanwhile: Callable[[Desk, ScheduleRow], object]
) -> None:
    row, other = desk.put(), desk.put()
    (first, second) = desk.due().rows
    decisions = [desk.decide(first), desk.decide(second)]
    meanwhile(desk, row)
    runs = len(desk.drive.rows("runs"))

    lost, won = desk.apply(*decisions)

    assert lost == LOST
    assert [made.slot for made in won.fired] == [minute(0)]
    assert len(desk.drive.rows("runs")) == runs + 1
    assert desk.get(other).next_slot == minute(1)
    assert violations(History.read(desk.drive.tables)) == []


def test_a_paused_and_resumed_schedule_is_judged_by_its_slot(desk: Desk) -> None:
    row = desk.put()
    decision = desk.decide(row)
    _pause(desk, row)
    desk.call(desk.ops.enable_schedule(row.ref, True, minute(5)))

    assert desk.apply(decision) == (LOST,)


def test_a_decision_that_is_repeated_is_lost_and_does_nothing(desk: Desk) -> None:
    decision = desk.decide(desk.put())

    first, again = desk.apply(decision), desk.apply(decision)

    assert len(first[0].fired) == 1
    assert again == (LOST,)
    assert len(desk.drive.rows("runs")) == 1


def test_of_two_decisions_for_one_schedule_the_first_counts(desk: Desk) -> None:
    row = desk.put()
    one = desk.decide(row)
    two = desk.decide(msgspec.structs.replace(row, next_slot=minute(1)))

    first, second = desk.apply(one, two)

    assert (len(first.fired), second) == (1, LOST)
    assert desk.get(row).next_slot == minute(1)


def test_an_unknown_schedule_is_lost(desk: Desk) -> None:
    row = desk.put()
    unknown = [msgspec.structs.replace(row, id=ident) for ident in (ABSENT, "nobody")]

    results = desk.apply(desk.decide(unknown[0]), desk.decide(row), desk.decide(unknown[1]))

    assert [result.lost for result in results] == [True, False, True]


def test_no_clock_takes_part(desk: Desk) -> None:
    """A scheduler whose clock runs ahead or behind decides as it sees it: the slot counts once."""
    row = desk.put(next_slot=desk.drive.now + timedelta(days=1))
    early = desk.decide(row)
    late = desk.decide(row)

    assert len(desk.apply(early)[0].fired) == 1
    desk.drive.advance(2 * 86_400)
    assert desk.apply(late) == (LOST,)
    assert len(desk.drive.rows("runs")) == 1


def test_a_slot_that_was_recorded_is_passed_over(desk: Desk) -> None:
    """As after a change of the rule whose first slot has already had its run."""
    row = desk.put()
    desk.fire(row, 2)
    desk.store(desk.new(id=row.id, job="other", next_slot=minute(1)))

    fired = desk.fire(row, 2)

    assert [made.slot for made in fired.fired] == [minute(2)]
    assert desk.outcomes(row) == ["fired"] * 3
    assert desk.get(row).fired == 3
    assert violations(History.read(desk.drive.tables)) == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"slots": (1, 0)}, "in order"),
        ({"slots": (1, 1)}, "each once"),
        ({"missed": (minute(0),)}, "missed_count"),
        ({"run": {"key": "k"}}, "neither key nor delay"),
        ({"run": {"delay": 1.0}}, "neither key nor delay"),
        ({"run": {"tenant": "acme"}}, "same tenant"),
    ],
)
def test_decisions_that_make_no_sense_are_refused(
    desk: Desk, fields: dict[str, Any], why: str
) -> None:
    row = desk.put()
    firings = [Firing(slot=minute(n), run=desk.run(row)) for n in fields.get("slots", ())]

    with pytest.raises(ValueError, match=why):
        desk.decide(row, **(fields | ({"slots": tuple(firings)} if firings else {})))


def test_a_run_whose_id_is_none_is_refused_and_nothing_is_done(desk: Desk) -> None:
    row = desk.put()
    bad = msgspec.structs.replace(desk.run(row), id="tuesday")

    with pytest.raises(BadArguments, match="not a UUID"):
        desk.fire(row, slots=(Firing(slot=minute(0), run=bad),))

    assert desk.get(row) == row
    assert desk.drive.rows("schedule_slots") == []


# -- by hand -------------------------------------------------------------------------------------


def by_hand(desk: Desk, row: ScheduleRow, *slots: int, **fields: Any) -> Fired:
    """Give slots a run without moving the schedule."""
    firings = tuple(Firing(slot=minute(n), run=desk.run(row)) for n in slots)
    (fired,) = desk.apply(
        Decision(tenant=row.tenant, id=row.id, slots=firings, advance=False, **fields)
    )
    return fired


def test_a_trigger_leaves_the_schedule_where_it_is(desk: Desk) -> None:
    row = desk.put()
    _change(desk, row)
    before = desk.get(row)

    fired = by_hand(desk, row, -5)

    assert [made.slot for made in fired.fired] == [minute(-5)]
    after = desk.get(row)
    assert (after.next_slot, after.last_slot) == (before.next_slot, None)
    assert after.fired == 1
    assert violations(History.read(desk.drive.tables)) == []


def test_a_paused_schedule_can_be_triggered(desk: Desk) -> None:
    row = desk.put(enabled=False)

    assert len(by_hand(desk, row, 0).fired) == 1
    assert desk.get(row).next_slot is None


def test_what_is_deleted_cannot_be_triggered(desk: Desk) -> None:
    row = desk.put()
    _delete(desk, row)

    assert by_hand(desk, row, 0) == LOST
    assert desk.drive.rows("runs") == []


def test_a_backfill_makes_good_what_was_missed_or_skipped_and_no_more(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.SKIP)
    desk.fire(row, 2, missed=(minute(-1),), missed_count=1)
    assert desk.outcomes(row) == ["missed", "fired", "skipped"]

    fired = by_hand(desk, row, -2, -1, 0, 1, overlap=Overlap.ALLOW)
    again = by_hand(desk, row, -2, -1, 0, 1, overlap=Overlap.ALLOW)

    assert [made.slot for made in fired.fired] == [minute(-2), minute(-1), minute(1)]
    assert again == Fired()
    assert desk.outcomes(row) == ["fired"] * 4
    after = desk.get(row)
    assert (after.fired, after.missed, after.skipped) == (4, 1, 1), "what happened, happened"
    assert violations(History.read(desk.drive.tables)) == []


@pytest.mark.parametrize("overlap", list(Overlap))
def test_a_decision_by_hand_that_is_repeated_is_answered_as_it_was(
    desk: Desk, overlap: Overlap
) -> None:
    """The reply was lost, the store repeats the call: neither runs nor counts are made twice."""
    row = desk.put(overlap=overlap)
    earlier = desk.start(row)
    if overlap is not Overlap.CANCEL_RUNNING:
        desk.drive.cancel(earlier)
    firings = tuple(Firing(slot=minute(n), run=desk.run(row)) for n in (7, 8, 9))
    decision = Decision(tenant=row.tenant, id=row.id, slots=firings, advance=False)
    (first,) = desk.apply(decision)
    tables = ("runs", "schedules", "schedule_slots", "ready", "events")
    before = [desk.drive.rows(table) for table in tables]

    (again,) = desk.apply(decision)

    assert (again.fired, again.waiting) == (first.fired, first.waiting)
    if overlap is Overlap.SKIP:  # a slot that was skipped is not one that was made
        assert again.skipped == first.skipped == (minute(8), minute(9))
    else:
        assert [desk.drive.rows(table) for table in tables] == before
    assert again.canceled == ()
    assert len(desk.drive.rows("runs")) == 1 + len(first.fired)
    assert violations(History.read(desk.drive.tables)) == []


def test_a_slot_that_waited_and_has_its_run_by_now_is_told_as_fired(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)
    earlier = desk.start(row)
    firing = Firing(slot=minute(7), run=desk.run(row))
    decision = Decision(tenant=row.tenant, id=row.id, slots=(firing,), advance=False)
    assert desk.apply(decision)[0].waiting == (minute(7),)
    desk.drive.cancel(earlier)
    desk.release()

    (again,) = desk.apply(decision)

    assert [made.run for made in again.fired] == [firing.run.id]
    assert len(desk.drive.rows("runs")) == 2


def test_a_backfilled_slot_is_not_fired_again_when_it_comes(desk: Desk) -> None:
    row = desk.put()
    by_hand(desk, row, 0)

    fired = desk.fire(row)

    assert fired == Fired()
    after = desk.get(row)
    assert (after.next_slot, after.fired) == (minute(1), 1)


# -- what follows --------------------------------------------------------------------------------


def test_the_end_of_a_run_touches_no_schedule(desk: Desk) -> None:
    row = desk.put()
    run = desk.start(row)
    tables = ("schedules", "schedule_slots", "schedule_live")
    before = [desk.drive.rows(table) for table in tables]

    desk.drive.finish(desk.drive.take(run), Outcome.SUCCEEDED)

    assert [desk.drive.rows(table) for table in tables] == before
    assert desk.drive.get(run).slot == minute(0)


def test_what_has_ended_is_forgotten_as_the_schedule_goes_on(desk: Desk) -> None:
    row = desk.put()
    for _ in range(6):
        desk.drive.finish(desk.drive.take(desk.start(row)), Outcome.SUCCEEDED)

    assert len(desk.drive.rows("schedule_live")) == 1


def test_many_schedules_fire_in_one_call(desk: Desk) -> None:
    overlaps = list(Overlap)
    rows = [
        item.row for item in desk.store(*(desk.new(overlap=overlaps[n % 4]) for n in range(200)))
    ]

    results = desk.apply(*(desk.decide(row, 2, missed_count=n % 2) for n, row in enumerate(rows)))

    for row, result in zip(rows, results, strict=True):
        number = {Overlap.ALLOW: 2, Overlap.SKIP: 1, Overlap.QUEUE: 1, Overlap.CANCEL_RUNNING: 2}
        assert len(result.fired) == number[row.overlap]
        assert {made.schedule for made in result.fired} == {row.id}
        assert result.skipped == ((minute(1),) if row.overlap is Overlap.SKIP else ())
        assert result.waiting == ((minute(1),) if row.overlap is Overlap.QUEUE else ())
    assert desk.due().next_slot is None
    assert {row.next_slot for row in desk.due(500).rows} == {minute(0) + 2 * MINUTE}
    assert violations(History.read(desk.drive.tables)) == []
