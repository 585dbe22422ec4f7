"""Schedules: their definitions, whether they are enabled, and the record of their slots."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from windlass.codec import canonical_hash
from windlass.domain.event import EventType
from windlass.domain.scheduling.rows import (
    ComingReply,
    DueReply,
    NewSchedule,
    Overlap,
    PutOutcome,
    ScheduleFilter,
    ScheduleOptions,
    ScheduleOrigin,
    ScheduleRef,
    ScheduleRow,
    SlotOutcome,
    SlotRow,
    Stored,
    bad_id,
)
from windlass.store.mending import readable
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import (
    EVER,
    MOST_LISTED,
    PAST_LAST_ID,
    blob_or_none,
    from_micros,
    from_micros_or_none,
    raw_text,
    to_id,
    to_json,
    to_json_or_none,
    to_micros,
    to_raw,
)

_ALL = -1

_options = msgspec.json.Decoder(ScheduleOptions).decode


class Kept(NamedTuple):
    """A row of the table, as the statements read it."""

    tenant: str
    id: bytes
    key: str | None
    job: str
    rule: str
    input: str
    options: str
    overlap: str
    enabled: int
    origin: str
    next_slot: int | None
    last_slot: int | None
    fired: int
    missed: int
    skipped: int
    version: int
    seq: int
    created_at: int
    updated_at: int


def put_schedules(
    tx: OpenTransaction, schedules: Sequence[NewSchedule], *, patient: bool
) -> Sequence[Stored]:
    """Store schedules, found by key or, without one, by id."""
    return [_put(tx, schedule) for schedule in schedules]


def get_schedule(tx: OpenTransaction, ref: ScheduleRef) -> ScheduleRow | None:
    """Return one schedule."""
    kept = find(tx, ref)
    return None if kept is None else _row(kept)


def list_schedules(tx: OpenTransaction, query: ScheduleFilter) -> Sequence[ScheduleRow]:
    """Return a page of schedules, newest id first."""
    below = PAST_LAST_ID if query.before is None else blob_or_none(query.before)
    if below is None:
        return []
    bindings = {
        "tenant": query.tenant,
        "below": below,
        "job": query.job,
        "enabled": query.enabled,
        "origin": query.origin,
        "limit": min(query.limit, MOST_LISTED),
    }
    return [_row(Kept._make(row)) for row in tx.fetch("list_schedules", bindings)]


def enable_schedule(
    tx: OpenTransaction,
    ref: ScheduleRef,
    enabled: bool,
    next_slot: datetime | None,
    version: int | None,
) -> ScheduleRow | None:
    """Pause or resume a schedule, if it is not so already and has this version."""
    kept = find(tx, ref)
    if kept is None:
        return None
    if kept.enabled == enabled or version not in (None, kept.version):
        return _row(kept)
    slot = None if next_slot is None or not enabled else to_micros(next_slot)
    name = (kept.tenant, kept.id)
    tx.execute("enable_schedule", (enabled, slot, kept.seq + 1, tx.now, *name))
    event = EventType.SCHEDULE_RESUMED if enabled else EventType.SCHEDULE_PAUSED
    add_event(tx, name, kept.seq + 1, event)
    return get_schedule(tx, ref)


def delete_schedule(tx: OpenTransaction, ref: ScheduleRef, limit: int) -> bool:
    """Delete a schedule with so many of its slots; return whether it was there."""
    kept = find(tx, ref)
    if kept is None:
        return False
    name = (kept.tenant, kept.id)
    tx.execute("delete_waiting", name)
    if _drop_slots(tx, name, limit):
        tx.execute("add_gone", name)
    for statement in ("delete_all_live", "delete_schedule"):
        tx.execute(statement, name)
    add_event(tx, name, kept.seq + 1, EventType.SCHEDULE_DELETED)
    return True


def forget_slots(tx: OpenTransaction, limit: int) -> bool:
    """Go on with the slots of a schedule that was deleted; return whether there may be more."""
    name = tx.fetch_one("first_gone")
    if name is None:
        return False
    if _drop_slots(tx, name, limit):
        return True
    tx.execute("delete_gone", name)
    return tx.fetch_one("first_gone") is not None


def _drop_slots(tx: OpenTransaction, name: Row, limit: int) -> bool:
    """Delete the oldest slots of a schedule; return whether any are left."""
    tx.execute("delete_slots", (*name, limit))
    return tx.fetch_one("any_slot", name) is not None


def due_schedules(tx: OpenTransaction, limit: int) -> DueReply:
    """Return the schedules whose next slot has come, the longest overdue first."""
    rows = [_row(Kept._make(row)) for row in tx.fetch("due_schedules", (tx.now, limit))]
    following = tx.fetch_one("next_schedule", (tx.now,))
    return DueReply(
        now=from_micros(tx.now),
        rows=tuple(rows),
        next_slot=from_micros_or_none(following[0]) if following else None,
        more=len(rows) >= limit,
        waiting=tx.fetch_one("any_waiting") is not None,
    )


def coming_schedules(tx: OpenTransaction, after: ScheduleRef | None, limit: int) -> ComingReply:
    """Return the enabled schedules that have a next slot, in the order of their names."""
    name = ("", b"") if after is None else (after.tenant, blob_or_none(after.id or "") or b"")
    rows = tx.fetch("coming_schedules", (*name, limit))
    return ComingReply(now=from_micros(tx.now), rows=tuple(_row(Kept._make(row)) for row in rows))


def list_slots(
    tx: OpenTransaction, ref: ScheduleRef, before: datetime | None, limit: int
) -> Sequence[SlotRow]:
    """Return what became of a schedule's slots, newest first."""
    kept = find(tx, ref)
    if kept is None:
        return []
    end = EVER if before is None else to_micros(before)
    rows = tx.fetch("list_slots", (kept.tenant, kept.id, end, min(limit, MOST_LISTED)))
    return [
        SlotRow(
            slot=from_micros(slot),
            outcome=SlotOutcome(outcome),
            at=from_micros(at),
            run=None if run is None else to_id(run),
        )
        for slot, outcome, at, run in rows
    ]


def find(tx: OpenTransaction, ref: ScheduleRef) -> Kept | None:
    """Return the row of a schedule, by id or, where there is none, by key."""
    if ref.id is not None:
        row = tx.fetch_one("get_schedule", (ref.tenant, blob_or_none(ref.id)))
    else:
        row = tx.fetch_one("get_schedule_by_key", (ref.tenant, ref.key))
    return None if row is None else Kept._make(row)


def add_event(
    tx: OpenTransaction,
    name: tuple[str, bytes],
    seq: int,
    event: EventType,
    data: dict[str, Any] | None = None,
) -> None:
    """Append an event of a schedule."""
    tx.execute("insert_event", (*name, seq, event, tx.now, 0, to_json_or_none(data)))


def _put(tx: OpenTransaction, new: NewSchedule) -> Stored:
    blob = blob_or_none(new.id)
    if blob is None:
        raise bad_id(new)
    by_id = ScheduleRef(tenant=new.tenant, id=new.id)
    named = None if new.key is None else find(tx, ScheduleRef(tenant=new.tenant, key=new.key))
    same_id = find(tx, by_id)
    if named is not None and same_id is not None and named.id != same_id.id:
        return Stored(what=PutOutcome.TAKEN, row=_row(named))
    kept = named or same_id
    if kept is None:
        _insert(tx, new, blob)
        return Stored(what=PutOutcome.CREATED, row=_found(tx, new.tenant, blob))
    same = _is_same(kept, new)
    if not same or kept.origin != new.origin:
        _update(tx, kept, new, changed=not same)
    what = PutOutcome.UNCHANGED if same else PutOutcome.CHANGED
    return Stored(what=what, row=_found(tx, kept.tenant, kept.id))


def _insert(tx: OpenTransaction, new: NewSchedule, blob: bytes) -> None:
    (last,) = tx.fetch_one("last_seq", (new.tenant, blob)) or (None,)
    seq = 1 + (last or 0)
    next_slot = None if new.next_slot is None or not new.enabled else to_micros(new.next_slot)
    tx.execute(
        "insert_schedule",
        (new.tenant, blob, new.key, new.job, raw_text(new.rule), raw_text(new.input),
         to_json(new.options), new.overlap, new.enabled, new.origin, next_slot, seq, tx.now),
    )  # fmt: skip
    add_event(tx, (new.tenant, blob), seq, EventType.SCHEDULE_CREATED, {"job": new.job})
    if tx.fetch_one("get_gone", (new.tenant, blob)):
        # What is left of one that had this id and was deleted is not this one's.
        _drop_slots(tx, (new.tenant, blob), _ALL)
        tx.execute("delete_gone", (new.tenant, blob))


def _update(tx: OpenTransaction, kept: Kept, new: NewSchedule, *, changed: bool) -> None:
    next_slot = kept.next_slot
    if changed and kept.enabled:
        next_slot = None if new.next_slot is None else to_micros(new.next_slot)
    version, seq = kept.version + changed, kept.seq + changed
    tx.execute(
        "update_schedule",
        (new.key or kept.key, new.job, raw_text(new.rule), raw_text(new.input),
         to_json(new.options), new.overlap, new.origin, next_slot, version, seq, tx.now,
         kept.tenant, kept.id),
    )  # fmt: skip
    if changed:
        name = (kept.tenant, kept.id)
        add_event(tx, name, seq, EventType.SCHEDULE_CHANGED, {"version": version})


def _is_same(kept: Kept, new: NewSchedule) -> bool:
    """Whether a definition is the one that is stored, however its JSON is spelled."""
    if (kept.job, kept.overlap) != (new.job, new.overlap) or new.key not in (None, kept.key):
        return False
    if kept.next_slot is not None and to_micros(from_micros(kept.next_slot)) != kept.next_slot:
        return False  # no time: it must be stored anew
    return all(
        ours == theirs or canonical_hash(ours) == canonical_hash(theirs)
        for ours, theirs in (
            (kept.rule, raw_text(new.rule)),
            (kept.input, raw_text(new.input)),
            (kept.options, to_json(new.options)),
        )
    )


def _found(tx: OpenTransaction, tenant: str, blob: bytes) -> ScheduleRow:
    (row,) = tx.fetch("get_schedule", (tenant, blob))
    return _row(Kept._make(row))


def _row(kept: Kept) -> ScheduleRow:
    options, flaw = readable("options", _options, kept.options)
    next_slot = from_micros_or_none(kept.next_slot)
    if next_slot is not None and to_micros(next_slot) != kept.next_slot:
        flaw = flaw or "its stored next_slot is no time"
    return ScheduleRow(
        tenant=kept.tenant,
        id=to_id(kept.id),
        key=kept.key,
        job=kept.job,
        rule=to_raw(kept.rule),
        input=to_raw(kept.input),
        options=options or ScheduleOptions(),
        overlap=Overlap(kept.overlap),
        enabled=bool(kept.enabled),
        origin=ScheduleOrigin(kept.origin),
        next_slot=next_slot,
        last_slot=from_micros_or_none(kept.last_slot),
        fired=kept.fired,
        missed=kept.missed,
        skipped=kept.skipped,
        version=kept.version,
        created_at=from_micros(kept.created_at),
        updated_at=from_micros(kept.updated_at),
        flaw=flaw,
    )
