"""Schedules and their slots, on PostgreSQL: see `store/operations/schedules.py`."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from windlass.domain.scheduling.rows import (
    MOST_WAITING,
    ComingReply,
    Decision,
    DueReply,
    Fired,
    FireReply,
    Firing,
    NewSchedule,
    PutOutcome,
    ReleaseReply,
    ScheduleFilter,
    ScheduleRef,
    ScheduleRow,
    SlotOutcome,
    SlotRow,
    Stored,
    bad_id,
)
from windlass.store.mending import read_schedule
from windlass.store.postgres.ids import check_new, id_or_nobody, is_id
from windlass.store.postgres.statement import Row, Statement

_encode = msgspec.json.Encoder().encode
_slot = msgspec.json.Decoder(SlotRow).decode
_released = msgspec.json.Decoder(ReleaseReply).decode


def put_schedules(
    schedules: Sequence[NewSchedule], *, patient: bool
) -> Statement[Sequence[Stored]]:
    """Store schedules."""
    for schedule in schedules:
        if not is_id(schedule.id):
            raise bad_id(schedule)
    return Statement("put_schedules", (_encode(schedules).decode(),), _stored)


def get_schedule(ref: ScheduleRef) -> Statement[ScheduleRow | None]:
    """One schedule."""
    return Statement("get_schedule", _name(ref), _row_or_none)


def list_schedules(query: ScheduleFilter) -> Statement[Sequence[ScheduleRow]]:
    """A page of schedules."""
    before = None if query.before is None else id_or_nobody(query.before)
    parameters = (
        query.tenant,
        query.job,
        query.enabled,
        query.origin,
        before,
        query.limit,
    )
    return Statement(
        "list_schedules", parameters, lambda rows: [read_schedule(text) for (text,) in rows]
    )


def enable_schedule(
    ref: ScheduleRef, enabled: bool, next_slot: datetime | None, version: int | None
) -> Statement[ScheduleRow | None]:
    """Pause or resume."""
    parameters = (*_name(ref), enabled, next_slot, version)
    return Statement("enable_schedule", parameters, _row_or_none)


def delete_schedule(ref: ScheduleRef, limit: int) -> Statement[bool]:
    """Delete a schedule."""
    return Statement("delete_schedule", (*_name(ref), limit), lambda rows: bool(rows[0][0]))


def forget_slots(limit: int) -> Statement[bool]:
    """Delete what is left of the slots of schedules that were deleted."""
    return Statement("forget_slots", (limit,), lambda rows: bool(rows[0][0]))


def due_schedules(limit: int) -> Statement[DueReply]:
    """Schedules whose next slot has come."""
    return Statement("due_schedules", (limit,), lambda rows: _due(rows[0][0]))


def coming_schedules(after: ScheduleRef | None, limit: int) -> Statement[ComingReply]:
    """Schedules that have a next slot."""
    name = ("", id_or_nobody("")) if after is None else (after.tenant, id_or_nobody(after.id or ""))
    return Statement("coming_schedules", (*name, limit), lambda rows: _coming(rows[0][0]))


def fire_schedules(decisions: Sequence[Decision]) -> Statement[FireReply]:
    """Apply decisions."""
    check_new([firing.run for decision in decisions for firing in decision.slots])
    # What is no id names no schedule; as the others it keeps its place in the list.
    named = [msgspec.structs.replace(d, id=id_or_nobody(d.id)) for d in decisions]
    return Statement(
        "fire_schedules",
        (_encode(named).decode(), MOST_WAITING),
        lambda rows: _unpack_fire(decisions, rows[0][0]),
    )


def release_waiting(limit: int) -> Statement[ReleaseReply]:
    """Slots that wait become runs. Repeated, it goes on with the next ones."""
    return Statement("release_waiting", (limit,), lambda rows: _released(rows[0][0]))


def list_slots(
    ref: ScheduleRef, before: datetime | None, limit: int
) -> Statement[Sequence[SlotRow]]:
    """What became of a schedule's slots."""
    return Statement(
        "list_slots",
        (*_name(ref), before, limit),
        lambda rows: [_slot(text) for (text,) in rows],
    )


class _Page(msgspec.Struct):
    """Schedules as the store tells them, each to be read by itself."""

    now: datetime
    rows: tuple[msgspec.Raw, ...]
    next_slot: datetime | None = None
    more: bool = False
    waiting: bool = False


_page = msgspec.json.Decoder(_Page).decode


def _due(text: str) -> DueReply:
    page = _page(text)
    return DueReply(
        now=page.now,
        rows=tuple(map(read_schedule, page.rows)),
        next_slot=page.next_slot,
        more=page.more,
        waiting=page.waiting,
    )


def _coming(text: str) -> ComingReply:
    page = _page(text)
    return ComingReply(now=page.now, rows=tuple(map(read_schedule, page.rows)))


class _JudgedSlot(msgspec.Struct):
    n: int
    i: int
    outcome: SlotOutcome


class _Canceled(msgspec.Struct):
    n: int
    run: str


class _FireReply(msgspec.Struct):
    now: datetime
    held: list[int]
    slots: list[_JudgedSlot]
    canceled: list[_Canceled]


_reply = msgspec.json.Decoder(_FireReply).decode


def _name(ref: ScheduleRef) -> tuple[str, str | None, str | None]:
    """A schedule as the functions take it: by id, or else by key."""
    return ref.tenant, None if ref.id is None else id_or_nobody(ref.id), ref.key


def _row_or_none(rows: Sequence[Row]) -> ScheduleRow | None:
    return read_schedule(rows[0][0]) if rows and rows[0][0] is not None else None


def _stored(rows: Sequence[Row]) -> Sequence[Stored]:
    return [Stored(what=PutOutcome(what), row=read_schedule(text)) for what, text in rows]


def _unpack_fire(decisions: Sequence[Decision], text: str) -> FireReply:
    """Sort the outcomes of slots by the decisions they belong to."""
    reply = _reply(text)
    judged: dict[int, list[_JudgedSlot]] = {n: [] for n in reply.held}
    canceled: dict[int, list[str]] = {n: [] for n in reply.held}
    for slot in reply.slots:
        judged[slot.n].append(slot)
    for item in reply.canceled:
        canceled[item.n].append(item.run)
    results = [
        _fired(decision, judged[n], canceled[n], reply.now) if n in judged else Fired(lost=True)
        for n, decision in enumerate(decisions, start=1)
    ]
    return FireReply(now=reply.now, results=tuple(results))


def _fired(
    decision: Decision, judged: Sequence[_JudgedSlot], canceled: Sequence[str], now: datetime
) -> Fired:
    slots: dict[SlotOutcome, list[Firing]] = {outcome: [] for outcome in SlotOutcome}
    for item in judged:
        slots[item.outcome].append(decision.slots[item.i - 1])
    return Fired(
        fired=tuple(firing.fired_by(decision, now) for firing in slots[SlotOutcome.FIRED]),
        skipped=tuple(firing.slot for firing in slots[SlotOutcome.SKIPPED]),
        waiting=tuple(firing.slot for firing in slots[SlotOutcome.WAITING]),
        canceled=tuple(canceled),
    )
