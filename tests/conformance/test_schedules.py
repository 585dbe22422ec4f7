"""Schedules: stored, found, changed, paused, deleted; what is due."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

from tests.conformance.desk import MINUTE, Desk, by_key, minute
from tests.conformance.history import History, violations
from tests.conformance.kit import ABSENT, Driver, raw, value_of
from windlass.domain.event import EventType
from windlass.domain.run import RunRef
from windlass.domain.scheduling.rows import (
    Overlap,
    PutOutcome,
    ScheduleFilter,
    ScheduleOptions,
    ScheduleOrigin,
    ScheduleRef,
    ScheduleRow,
)
from windlass.errors import BadArguments
from windlass.schedules.deleting import delete_wholly
from windlass.store.flow import run_flow
from windlass.store.operations.declare import declared
from windlass.store.operations.schedules import ScheduleOperations

CREATED, CHANGED = EventType.SCHEDULE_CREATED, EventType.SCHEDULE_CHANGED


@pytest.fixture
def desk(drive: Driver) -> Desk:
    """The schedules of an empty database."""
    return Desk(drive)


@pytest.mark.both_faces
def test_every_operation_works(desk: Desk) -> None:
    asked = set()

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            asked.add(name)
            return getattr(desk.ops, name)

    ops, call = cast("ScheduleOperations", Recorder()), desk.call
    (stored,) = call(ops.put_schedules([desk.new(key="k", overlap=Overlap.QUEUE)]))
    row = stored.row
    assert call(ops.get_schedule(by_key("k"))) == row
    assert call(ops.list_schedules(ScheduleFilter())) == [row]
    assert call(ops.due_schedules(10)).rows == (row,)
    assert call(ops.coming_schedules(None, 10)).rows == (row,)
    (fired,) = call(ops.fire_schedules([desk.decide(row, 2)])).results
    (made,) = fired.fired
    desk.drive.cancel(RunRef("default", made.run))
    assert len(call(ops.release_waiting(10)).fired) == 1
    assert len(call(ops.list_slots(row.ref, None, 10))) == 2
    assert call(ops.enable_schedule(row.ref, False)) is not None
    assert call(ops.delete_schedule(row.ref, limit=1))
    assert call(ops.forget_slots(10)) is False

    assert asked == set(declared(ScheduleOperations))


# -- put -----------------------------------------------------------------------------------------


@pytest.mark.both_faces
def test_what_is_put_is_found(desk: Desk) -> None:
    options = ScheduleOptions(
        queue="slow",
        priority=-3,
        tags=("a", "ü"),
        max_attempts=2,
        timeout=1.5,
        expires=60.0,
        deadline=90.0,
    )
    new = desk.new(
        key="digest:7", rule=raw({"cron": "0 3 * * *"}), input=raw({"to": "Zoë"}),
        options=options, overlap=Overlap.SKIP, origin=ScheduleOrigin.CODE,
    )  # fmt: skip

    (stored,) = desk.store(new)

    row = stored.row
    assert stored.what is PutOutcome.CREATED
    assert (row.id, row.key, row.job, row.tenant) == (new.id, "digest:7", new.job, "default")
    assert value_of(row.rule) == {"cron": "0 3 * * *"}
    assert value_of(row.input) == {"to": "Zoë"}
    assert (row.options, row.overlap, row.origin) == (options, Overlap.SKIP, ScheduleOrigin.CODE)
    assert (row.enabled, row.version, row.next_slot, row.last_slot) == (True, 1, minute(0), None)
    assert (row.fired, row.missed, row.skipped) == (0, 0, 0)
    assert row.created_at == row.updated_at == desk.drive.now
    assert desk.call(desk.ops.get_schedule(row.ref)) == row
    assert desk.call(desk.ops.get_schedule(by_key("digest:7"))) == row
    assert [(event.type, event.data) for event in desk.events(row)] == [(CREATED, {"job": "greet"})]


def test_inputs_are_kept_whatever_they_are(desk: Desk) -> None:
    values: list[object] = [None, [], 0, "", {"deep": [{"x": None}]}]
    for value in values:
        assert value_of(desk.put(input=raw(value)).input) == value


def test_what_is_unknown_is_not_found(desk: Desk) -> None:
    desk.put(key="k")

    for ref in (ScheduleRef(id=ABSENT), ScheduleRef(id="nobody"), by_key("other"), ScheduleRef()):
        assert desk.call(desk.ops.get_schedule(ref)) is None
        assert desk.call(desk.ops.enable_schedule(ref, False)) is None
        assert desk.call(desk.ops.delete_schedule(ref)) is False
        assert desk.call(desk.ops.list_slots(ref, None, 10)) == []


def test_an_id_that_is_none_is_refused(desk: Desk) -> None:
    with pytest.raises(BadArguments, match="not a UUID"):
        desk.store(desk.new(id="tuesday"))


def test_the_same_definition_again_changes_nothing(desk: Desk) -> None:
    new = desk.new(key="k", rule=raw({"a": 1, "b": [1.0, "x"]}))
    (first,) = desk.store(new)
    desk.fire(first.row)
    before = desk.get(first.row)
    desk.drive.advance(60)

    again = msgspec.structs.replace(
        new,
        id=desk.drive.sources.new_id(),
        rule=msgspec.Raw(b'{"b": [1.0, "x"],  "a": 1}'),
        next_slot=minute(9),
    )
    (stored,) = desk.store(again)

    assert (stored.what, stored.row) == (PutOutcome.UNCHANGED, before)
    assert desk.trail(before) == [CREATED]


@pytest.mark.parametrize(
    "change",
    [
        {"job": "other"},
        {"rule": raw({"every": 61})},
        {"input": raw({"n": 2})},
        {"options": ScheduleOptions(priority=1)},
        {"overlap": Overlap.QUEUE},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_definition_is_a_new_version(desk: Desk, change: dict[str, object]) -> None:
    new = desk.new(key="k")
    (first,) = desk.store(new)
    desk.fire(first.row)
    desk.drive.advance(60)

    (stored,) = desk.store(msgspec.structs.replace(new, next_slot=minute(30), **change))

    row = stored.row
    assert stored.what is PutOutcome.CHANGED
    assert (row.id, row.version, row.next_slot) == (first.row.id, 2, minute(30))
    assert (row.fired, row.last_slot) == (1, minute(0))
    assert row.created_at < row.updated_at == desk.drive.now
    assert {name: getattr(row, name) for name in change} == change
    assert [(event.type, event.data) for event in desk.events(row)][1:] == [
        (CHANGED, {"version": 2})
    ]


def test_one_without_a_key_is_known_by_its_id_and_can_get_one(desk: Desk) -> None:
    new = desk.new()
    desk.store(new)

    (renamed,) = desk.store(msgspec.structs.replace(new, key="k"))
    (kept,) = desk.store(new)

    assert (renamed.what, renamed.row.key, renamed.row.id) == (PutOutcome.CHANGED, "k", new.id)
    assert (kept.what, kept.row.key) == (PutOutcome.UNCHANGED, "k")


def test_a_key_of_another_is_not_taken_over(desk: Desk) -> None:
    one, two = desk.put(key="one"), desk.put(key="two")

    (stored,) = desk.store(desk.new(id=two.id, key="one", job="other"))

    assert (stored.what, stored.row) == (PutOutcome.TAKEN, one)
    assert [desk.get(row) for row in (one, two)] == [one, two]


def test_code_may_take_over_what_was_made_at_run_time(desk: Desk) -> None:
    new = desk.new(key="k")
    desk.store(new)

    (stored,) = desk.store(
        msgspec.structs.replace(new, origin=ScheduleOrigin.CODE, next_slot=minute(9))
    )

    assert (stored.what, stored.row.origin) == (PutOutcome.UNCHANGED, ScheduleOrigin.CODE)
    assert (stored.row.version, stored.row.next_slot) == (1, minute(0))


def test_several_are_answered_in_their_order(desk: Desk) -> None:
    known = desk.put(key="b")

    stored = desk.store(
        desk.new(key="c"), desk.new(key="b"), desk.new(key="a"), desk.new(key="c", job="other"),
        desk.new(),
    )  # fmt: skip

    created, same, changed = PutOutcome.CREATED, PutOutcome.UNCHANGED, PutOutcome.CHANGED
    assert [item.what for item in stored] == [created, same, created, changed, created]
    assert [item.row.key for item in stored] == ["c", "b", "a", "c", None]
    assert stored[1].row == known
    assert stored[3].row.id == stored[0].row.id


def test_none_is_fine(desk: Desk) -> None:
    assert desk.store() == []
    assert desk.apply() == ()


# -- pause and resume ----------------------------------------------------------------------------


@pytest.mark.both_faces
def test_pause_clears_the_next_slot_and_resume_sets_it(desk: Desk) -> None:
    row = desk.put(key="k")
    desk.drive.advance(5)

    paused = desk.call(desk.ops.enable_schedule(by_key("k"), False, minute(5)))
    again = desk.call(desk.ops.enable_schedule(row.ref, False))
    desk.drive.advance(5)
    resumed = desk.call(desk.ops.enable_schedule(row.ref, True, minute(7)))
    kept = desk.call(desk.ops.enable_schedule(row.ref, True, minute(8)))

    assert paused is not None
    assert resumed is not None
    assert (paused.enabled, paused.next_slot, paused.version) == (False, None, 1)
    assert again == paused
    assert (resumed.enabled, resumed.next_slot) == (True, minute(7))
    assert resumed.updated_at == desk.drive.now
    assert kept == resumed
    assert desk.trail(row) == [
        CREATED, EventType.SCHEDULE_PAUSED, EventType.SCHEDULE_RESUMED,
    ]  # fmt: skip


def test_a_resume_for_another_version_changes_nothing(desk: Desk) -> None:
    row = desk.put(enabled=False)
    assert row.next_slot is None
    desk.store(desk.new(id=row.id, job="other"))

    stale = desk.call(desk.ops.enable_schedule(row.ref, True, minute(7), version=1))
    fresh = desk.call(desk.ops.enable_schedule(row.ref, True, minute(8), version=2))

    assert stale is not None
    assert fresh is not None
    assert (stale.enabled, stale.version) == (False, 2)
    assert (fresh.enabled, fresh.next_slot) == (True, minute(8))


def test_a_paused_one_stays_so_when_it_is_put_again(desk: Desk) -> None:
    new = desk.new(key="k")
    (first,) = desk.store(new)
    desk.call(desk.ops.enable_schedule(first.row.ref, False))

    (same,) = desk.store(new)
    (changed,) = desk.store(msgspec.structs.replace(new, job="other", next_slot=minute(3)))

    assert (same.what, same.row.enabled) == (PutOutcome.UNCHANGED, False)
    assert (changed.row.enabled, changed.row.next_slot, changed.row.version) == (False, None, 2)
    assert desk.due().rows == ()


# -- delete --------------------------------------------------------------------------------------


@pytest.mark.both_faces
def test_delete_takes_the_slots_and_leaves_the_runs(desk: Desk) -> None:
    row, other = desk.put(key="k", overlap=Overlap.QUEUE), desk.put()
    run = desk.start(row)
    desk.fire(row, 2)
    desk.fire(other)

    assert desk.call(desk.ops.delete_schedule(by_key("k"))) is True
    assert desk.call(desk.ops.delete_schedule(by_key("k"))) is False

    assert desk.call(desk.ops.get_schedule(row.ref)) is None
    assert desk.drive.get(run).schedule == row.id
    assert desk.release().fired == ()
    assert desk.trail(row) == [CREATED, EventType.SCHEDULE_DELETED]
    assert len(desk.slots(other)) == 1
    assert len(desk.drive.rows("schedule_live")) == 1
    assert violations(History.read(desk.drive.tables)) == []


def test_an_id_that_was_deleted_can_be_used_again(desk: Desk) -> None:
    new = desk.new(key="k")
    (first,) = desk.store(new)
    desk.fire(first.row)
    desk.call(desk.ops.delete_schedule(first.row.ref))

    (again,) = desk.store(new)
    desk.fire(again.row)

    assert (again.what, again.row.version, again.row.fired) == (PutOutcome.CREATED, 1, 0)
    assert desk.trail(again.row) == [CREATED, EventType.SCHEDULE_DELETED, CREATED]
    assert desk.outcomes(again.row) == ["fired"]


def _deleted_in_part(desk: Desk, **fields: Any) -> ScheduleRow:
    """A schedule that is deleted, while three of its five slots are not."""
    row = desk.put(**fields)
    desk.fire(row, 4, missed=(minute(-1),), missed_count=1)
    assert desk.call(desk.ops.delete_schedule(row.ref, limit=2)) is True
    return row


@pytest.mark.both_faces
def test_a_long_record_is_deleted_piece_by_piece(desk: Desk) -> None:
    row, other = _deleted_in_part(desk), desk.put()
    desk.fire(other, 2)

    left = [len(desk.drive.rows("schedule_slots", schedule=row.id))]
    while desk.call(desk.ops.forget_slots(2)):
        left.append(len(desk.drive.rows("schedule_slots", schedule=row.id)))

    assert left == [3, 1]
    assert desk.call(desk.ops.get_schedule(row.ref)) is None
    assert desk.outcomes(other) == ["fired"] * 2
    assert desk.drive.rows("schedule_gone") == []
    assert desk.call(desk.ops.forget_slots()) is False
    assert violations(History.read(desk.drive.tables)) == []


def test_a_schedule_that_is_deleted_has_no_slots_to_show(desk: Desk) -> None:
    row = _deleted_in_part(desk)

    assert desk.slots(row) == []
    assert desk.call(desk.ops.delete_schedule(row.ref)) is False


def test_what_waits_is_deleted_at_once(desk: Desk) -> None:
    row = _deleted_in_part(desk, overlap=Overlap.QUEUE)

    assert "waiting" not in [slot["outcome"] for slot in desk.drive.rows("schedule_slots")]
    assert desk.due().waiting is False
    assert desk.call(desk.ops.get_schedule(row.ref)) is None


def test_an_id_that_is_used_again_has_no_slots_of_before(desk: Desk) -> None:
    row = _deleted_in_part(desk)

    (again,) = desk.store(desk.new(id=row.id))

    assert desk.slots(again.row) == []
    assert len(desk.fire(again.row, 4).fired) == 4
    assert desk.call(desk.ops.forget_slots()) is False
    assert desk.outcomes(again.row) == ["fired"] * 4


def test_who_deletes_next_goes_on_with_what_another_has_left(desk: Desk) -> None:
    left, row = _deleted_in_part(desk), desk.put()

    run_flow(desk.drive.store, delete_wholly(desk.drive.store, row.ref))

    assert desk.drive.rows("schedule_slots", schedule=left.id) == []
    assert desk.drive.rows("schedule_gone") == []
    assert desk.call(desk.ops.get_schedule(row.ref)) is None


# -- reads ---------------------------------------------------------------------------------------


def test_a_listing_is_newest_first_filtered_and_paged(desk: Desk) -> None:
    rows = [
        desk.put(job=job, origin=origin, enabled=enabled)
        for job, origin, enabled in (
            ("a", ScheduleOrigin.CODE, True), ("b", ScheduleOrigin.CODE, False),
            ("a", ScheduleOrigin.RUNTIME, False), ("b", ScheduleOrigin.RUNTIME, True),
        )
    ]  # fmt: skip
    names = [row.id for row in rows][::-1]

    assert desk.list() == names
    assert desk.list(limit=2) == names[:2]
    assert desk.list(limit=2, before=names[1]) == names[2:]
    assert desk.list(before="nobody") == []
    assert desk.list(job="a") == [rows[2].id, rows[0].id]
    assert desk.list(enabled=False) == [rows[2].id, rows[1].id]
    assert desk.list(origin=ScheduleOrigin.CODE, enabled=True) == [rows[0].id]
    assert desk.list(tenant="acme") == []


def test_slots_are_told_newest_first_in_pages(desk: Desk) -> None:
    row = desk.put(key="k")
    desk.fire(row, 5)

    first = desk.slots(row, limit=2)

    assert [slot.slot for slot in first] == [minute(4), minute(3)]
    assert {slot.at for slot in first} == {desk.drive.now}
    rest = desk.call(desk.ops.list_slots(by_key("k"), first[-1].slot, 10))
    assert [slot.slot for slot in rest] == [minute(2), minute(1), minute(0)]


# -- due -----------------------------------------------------------------------------------------


@pytest.mark.both_faces
def test_due_is_what_has_come_by_the_stores_clock(desk: Desk) -> None:
    now = desk.drive.now
    late, just = desk.put(next_slot=now - MINUTE), desk.put(next_slot=now)
    desk.put(next_slot=now + timedelta(microseconds=1))
    desk.put(next_slot=None)
    desk.put(enabled=False)

    reply = desk.due()

    assert reply.rows == (late, just)
    assert (reply.now, reply.next_slot) == (now, now + timedelta(microseconds=1))
    assert (reply.more, reply.waiting) == (False, False)


def test_due_tells_when_there_is_nothing(desk: Desk) -> None:
    reply = desk.due()

    assert (reply.rows, reply.next_slot, reply.more) == ((), None, False)


def test_due_is_limited_and_changes_nothing(desk: Desk) -> None:
    rows = [desk.put(next_slot=minute(n)) for n in (3, 1, 2)]

    for _ in range(2):
        reply = desk.due(2)
        assert reply.rows == (rows[1], rows[2])
        assert reply.more


def test_due_tells_of_slots_that_wait(desk: Desk) -> None:
    row = desk.put(overlap=Overlap.QUEUE)
    desk.fire(row, 2, next_slot=None)

    reply = desk.due()

    assert (reply.rows, reply.waiting) == ((), True)


# -- tenants -------------------------------------------------------------------------------------


def test_tenants_do_not_see_each_other(desk: Desk) -> None:
    ident = desk.drive.sources.new_id()
    ours, theirs = (
        desk.put(id=ident, key="k", tenant=tenant, overlap=Overlap.SKIP)
        for tenant in ("default", "acme")
    )
    assert _ref(theirs) != _ref(ours)

    desk.fire(ours)
    assert desk.fire(theirs).skipped == (), "another tenant's run is none of its own"
    desk.call(desk.ops.enable_schedule(by_key("k", "acme"), False))
    assert desk.get(ours).enabled
    assert desk.list(tenant="acme") == [ident]
    desk.call(desk.ops.delete_schedule(theirs.ref))

    assert len(desk.slots(ours)) == 1
    assert {row["tenant"] for row in desk.drive.rows("runs")} == {"default", "acme"}
    assert violations(History.read(desk.drive.tables)) == []


def _ref(row: ScheduleRow) -> tuple[str, str]:
    return row.tenant, row.id
