"""Signals: what is sent to runs, kept in order until a step that waits for it takes it."""

from collections.abc import Sequence

import msgspec

from windlass.domain.event import EventType
from windlass.domain.run import RunRef
from windlass.domain.states import Status, Verb
from windlass.domain.step import Signal
from windlass.store.sqlite.audit import note_audit
from windlass.store.sqlite.moves import Moves
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.places import live_place
from windlass.store.sqlite.positions import Position
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    raw_text,
    to_json,
    to_raw,
    to_texts,
)

_NEXT_SEQ = {
    Status.RUNNING: "take_seqs",
    Status.QUEUED: "next_seq_ready",
    Status.SCHEDULED: "next_seq_timer",
    Status.WAITING: "next_seq_timer",
    Status.PAUSED: "next_seq_timer",
}


def signal(
    tx: OpenTransaction,
    run: RunRef,
    name: str,
    payload: msgspec.Raw,
    key: str | None,
    *,
    by: str | None = None,
) -> Signal:
    """Send a signal to a run, and make it ready if it waits for that."""
    place = live_place(tx, run, Verb.SIGNAL)
    if key is not None:
        known = tx.fetch_one("signal_of_key", (place.tenant, place.id, name, key))
        if known is not None:
            return _signal(known, created=False)
    note_audit(tx, run, "signal", by, detail={"name": name})
    return _signal(send(tx, place, name, raw_text(payload), key))


def send(tx: OpenTransaction, place: Position, name: str, payload: str, key: str | None) -> Row:
    """Send a signal to a run that is there; returns its row."""
    place = place._replace(seq=place.seq + 1)
    row = (place.seq, name, tx.now, payload, key, None)
    tx.execute("insert_signal", (place.tenant, place.id, place.seq, name, key, payload, tx.now))
    tx.execute(_NEXT_SEQ[place.status], (place.seq, place.tenant, place.id))
    told = to_json({"name": name, "number": place.seq})
    tx.execute(
        "insert_event",
        (place.tenant, place.id, place.seq, EventType.SIGNALED, tx.now, place.attempt, told),
    )
    if _waits_for(tx, place, name):
        moves = Moves(tx)
        moves.add(place, Verb.DUE)
        moves.apply()
    return row


def list_signals(
    tx: OpenTransaction, tenant: str, run: str, after: int, limit: int
) -> Sequence[Signal]:
    """Return the signals that were sent to a run, in order."""
    rows = tx.fetch("list_signals", (tenant, blob_or_none(run), after, limit))
    return [_signal(row) for row in rows]


def _waits_for(tx: OpenTransaction, place: Position, name: str) -> bool:
    if place.status is not Status.WAITING:
        return False
    return any(
        tx.fetch_one("waits_for_signal", (place.tenant, place.id, path, name)) is not None
        for path in to_texts(place.waits)
    )


def _signal(row: Row, *, created: bool = True) -> Signal:
    number, name, at, payload, key, taken_by = row
    return Signal(
        number=number,
        name=name,
        at=from_micros(at),
        payload=to_raw(payload),
        key=key,
        taken_by=taken_by,
        created=created,
    )
