"""Slots become runs: decisions are compared, judged by what is live, and written table by table.

There is one writer at a time, so what was read of a schedule is still true when it is advanced.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.domain.event import EventType
from windlass.domain.run import NewRun, RunRef
from windlass.domain.scheduling.rows import (
    MOST_WAITING,
    Decision,
    Fired,
    FiredRun,
    FireReply,
    Firing,
    Overlap,
    ReleaseReply,
    SlotOutcome,
)
from windlass.store.sqlite.control import stop_run
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.schedules import Kept
from windlass.store.sqlite.slots import Slot, SlotRuns
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    new_blob,
    to_id,
    to_json,
    to_micros,
)

REASON = "a later slot of its schedule has come"
_ALL = -1
# Where overlap is allowed nobody asks what is live; a few are pruned all the same, more than
# are added, so that a change of policy finds few.
_SOME = 4


class _PendingRun(NewRun, frozen=True, kw_only=True):
    """The run of a slot that waits. msgspec can write Raw or None, but not read it."""

    metadata: Any = None


_pending_run = msgspec.json.Decoder(_PendingRun).decode


def _new_run(pending: str) -> NewRun:
    run = _pending_run(pending)
    if run.metadata is None:
        return run
    return msgspec.structs.replace(run, metadata=msgspec.Raw(msgspec.json.encode(run.metadata)))


class _Held(NamedTuple):
    """A decision whose schedule is as it expects."""

    decision: Decision
    kept: Kept

    @property
    def overlap(self) -> Overlap:
        return self.decision.overlap or Overlap(self.kept.overlap)

    @property
    def name(self) -> tuple[str, bytes]:
        return self.kept.tenant, self.kept.id


class _Judged(NamedTuple):
    """A slot that is new, and what becomes of it.

    ``again``: it was recorded with this very run before. The reply to that call was lost: it is
    told once more, and nothing is written.
    """

    firing: Firing
    slot: int
    outcome: SlotOutcome
    again: bool = False


def fire_schedules(tx: OpenTransaction, decisions: Sequence[Decision]) -> FireReply:
    """Apply decisions, each wholly or not at all."""
    held = list(_hold(tx, decisions))
    _prune(
        tx,
        [
            (*one.name, _SOME if one.overlap is Overlap.ALLOW else _ALL)
            for one in held
            if one is not None
        ],
    )
    judged = [None if one is None else (one, _judge(tx, one)) for one in held]
    pages = _Pages(tx)
    for item in judged:
        if item is not None:
            pages.add(item[0], _new(item[1]))
    pages.write()
    results = [Fired(lost=True) if item is None else _answer(tx, *item) for item in judged]
    return FireReply(now=from_micros(tx.now), results=tuple(results))


def release_waiting(tx: OpenTransaction, limit: int) -> ReleaseReply:
    """Give the oldest waiting slot of each schedule without a live run its run."""
    names = tx.fetch("free_schedules", (limit,))
    _prune(tx, [(*name, _ALL) for name in names])
    runs = SlotRuns(tx)
    slots, fired = [], []
    for tenant, schedule in names:
        for slot, pending in tx.fetch("first_waiting", (tenant, schedule)):
            run = _new_run(pending)
            answer = runs.add(run, Slot(schedule, slot))
            outcome = SlotOutcome.FIRED
            blob = new_blob(run.id, run.job)
            slots.append((tenant, schedule, slot, outcome, blob, tx.now, None))
            fired.append(
                FiredRun(
                    tenant=tenant,
                    schedule=to_id(schedule),
                    slot=from_micros(slot),
                    run=run.id,
                    status=answer.status,
                )
            )
    tx.execute_many("put_slot", slots)
    tx.execute_many("count_fired", names)
    runs.write()
    return ReleaseReply(now=from_micros(tx.now), fired=tuple(fired), more=len(names) >= limit)


def _hold(tx: OpenTransaction, decisions: Sequence[Decision]) -> Iterator[_Held | None]:
    """Yield the decisions that count. Of two for one schedule, that is the first at most."""
    seen = set()
    for decision in decisions:
        name = (decision.tenant, blob_or_none(decision.id))
        row = None if name in seen else tx.fetch_one("get_schedule", name)
        seen.add(name)
        kept = None if row is None else Kept._make(row)
        yield _Held(decision, kept) if kept and _is_expected(kept, decision) else None


def _is_expected(kept: Kept, decision: Decision) -> bool:
    if not decision.advance:
        return True
    return (
        bool(kept.enabled)
        and kept.version == decision.version
        and decision.expected_slot is not None
        and kept.next_slot == to_micros(decision.expected_slot)
    )


def _prune(tx: OpenTransaction, names: Sequence[Row]) -> None:
    """Forget runs that have ended; what is left is live. Of each schedule, the oldest so many."""
    tx.execute_many("delete_live", tx.fetch_many("ended_live", names))


def _judge(tx: OpenTransaction, held: _Held) -> list[_Judged]:
    """Say what becomes of each slot that is new, by what is live and what waits."""
    overlap, judged = held.overlap, []
    waiting = tx.fetch("count_waiting", held.name)[0][0] if overlap is Overlap.QUEUE else 0
    limited = overlap in (Overlap.SKIP, Overlap.QUEUE)
    busy = limited and (waiting > 0 or bool(tx.fetch("list_live", held.name)))
    for firing in held.decision.slots:
        slot = to_micros(firing.slot)
        known = tx.fetch_one("get_slot", (*held.name, slot))
        if known and (held.decision.advance or known[0] in ("fired", "waiting")):
            if not held.decision.advance and _is_run(firing.run, *known[1:]):
                judged.append(_Judged(firing, slot, SlotOutcome(known[0]), again=True))
            continue
        if not busy:
            outcome = SlotOutcome.FIRED
            busy = limited
        elif overlap is Overlap.QUEUE and waiting < MOST_WAITING:
            outcome = SlotOutcome.WAITING
            waiting += 1
        else:
            outcome = SlotOutcome.SKIPPED
        judged.append(_Judged(firing, slot, outcome))
    return judged


def _is_run(run: NewRun, recorded: bytes | None, pending: str | None) -> bool:
    """Whether a slot was recorded with this run, made or still waiting to be."""
    if pending is not None:
        return _new_run(pending).id == run.id
    return recorded == blob_or_none(run.id)


def _new(judged: Sequence[_Judged]) -> list[_Judged]:
    return [item for item in judged if not item.again]


def _answer(tx: OpenTransaction, held: _Held, judged: Sequence[_Judged]) -> Fired:
    """Say what became of a decision that is written, and cancel what is in its way."""
    now = from_micros(tx.now)
    slots: dict[SlotOutcome, list[Firing]] = {outcome: [] for outcome in SlotOutcome}
    for item in judged:
        slots[item.outcome].append(item.firing)
    return Fired(
        fired=tuple(firing.fired_by(held.decision, now) for firing in slots[SlotOutcome.FIRED]),
        skipped=tuple(firing.slot for firing in slots[SlotOutcome.SKIPPED]),
        waiting=tuple(firing.slot for firing in slots[SlotOutcome.WAITING]),
        canceled=tuple(_cancel_earlier(tx, held, _new(judged))),
    )


def _cancel_earlier(tx: OpenTransaction, held: _Held, judged: Sequence[_Judged]) -> Iterator[str]:
    """Ask for the end of what is live, all but the last slot that fired."""
    if held.overlap is not Overlap.CANCEL_RUNNING or not judged:
        return
    for slot, blob in tx.fetch("list_live", held.name):
        if slot != judged[-1].slot:
            run = RunRef(held.kept.tenant, to_id(blob))
            stop_run(tx, run, REASON)
            yield run.id


def _latest(kept: Kept, decision: Decision, judged: Sequence[_Judged]) -> int | None:
    """The latest slot that is decided, whatever became of it."""
    slots = [item.slot for item in judged] + [to_micros(slot) for slot in decision.missed]
    known = [] if kept.last_slot is None else [kept.last_slot]
    return max(slots + known, default=None)


class _Pages:
    """The rows of one call, written table by table."""

    def __init__(self, tx: OpenTransaction) -> None:
        self._tx = tx
        self._runs = SlotRuns(tx)
        self._slots: list[Row] = []
        self._missed: list[Row] = []
        self._schedules: list[Row] = []
        self._events: list[Row] = []

    def add(self, held: _Held, judged: Sequence[_Judged]) -> None:
        """Take in a decision and what becomes of its slots."""
        decision, kept, name = held.decision, held.kept, held.name
        seq = kept.seq
        if decision.missed_count:
            seq += 1
            self._miss(held, seq)
        count = dict.fromkeys(SlotOutcome, 0)
        for firing, slot, outcome, _ in judged:
            count[outcome] += 1
            self._slots.append((*name, slot, outcome, *self._write_slot(held, firing, outcome)))
            if outcome is SlotOutcome.SKIPPED:
                seq += 1
                why = "full" if held.overlap is Overlap.QUEUE else "overlap"
                data = to_json({"slot": from_micros(slot), "why": why})
                self._add_event(name, seq, EventType.SCHEDULE_SKIPPED, data)
        next_slot, last_slot = kept.next_slot, kept.last_slot
        if decision.advance:
            next_slot = None if decision.next_slot is None else to_micros(decision.next_slot)
            last_slot = _latest(kept, decision, judged)
        self._schedules.append(
            (next_slot, last_slot, count[SlotOutcome.FIRED],
             decision.missed_count, count[SlotOutcome.SKIPPED], seq, *name)
        )  # fmt: skip

    def write(self) -> None:
        """Write the rows."""
        for statement, rows in (
            ("put_slot", self._slots),
            ("miss_slot", self._missed),
            ("advance_schedule", self._schedules),
            ("insert_event", self._events),
        ):
            self._tx.execute_many(statement, rows)
        self._runs.write()

    def _write_slot(self, held: _Held, firing: Firing, outcome: SlotOutcome) -> Row:
        now = self._tx.now
        if outcome is SlotOutcome.FIRED:
            self._runs.add(firing.run, Slot(held.kept.id, to_micros(firing.slot)))
            return new_blob(firing.run.id, firing.run.job), now, None
        return None, now, to_json(firing.run) if outcome is SlotOutcome.WAITING else None

    def _miss(self, held: _Held, seq: int) -> None:
        slots = [to_micros(slot) for slot in held.decision.missed]
        self._missed += [(*held.name, slot, self._tx.now) for slot in slots]
        data: dict[str, object] = {
            "slots": [from_micros(slot) for slot in slots],
            "count": held.decision.missed_count,
        }
        if held.decision.missed_at_least:
            data["at_least"] = True
        self._add_event(held.name, seq, EventType.SCHEDULE_MISSED, to_json(data))

    def _add_event(self, name: tuple[str, bytes], seq: int, event: EventType, data: str) -> None:
        self._events.append((*name, seq, event, self._tx.now, 0, data))
