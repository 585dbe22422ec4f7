"""Another input, other tags, other times for a run that waits."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from windlass.domain.changes import Changes, difference
from windlass.domain.run import Options, RunRecord, RunRef
from windlass.domain.states import Status, Verb, advance
from windlass.duration import MAX_SECONDS
from windlass.errors import BadArguments, InputInUse
from windlass.store.sqlite.audit import note_audit
from windlass.store.sqlite.moves import Moves
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.places import iso, record_now, refuse_too_late, waiting_place
from windlass.store.sqlite.values import (
    micros_of,
    raw_text,
    to_blob,
    to_json,
    to_micros,
    to_raw,
)

Told = dict[str, Any]
"""What an event says of the changes, by their names."""


def change(
    tx: OpenTransaction, run: RunRef, changes: Changes, *, by: str | None = None
) -> RunRecord:
    """Change a run that waits; it stays in its place."""
    _check(changes)
    given = msgspec.structs.asdict(changes)
    changed = sorted(name for name, value in given.items() if value is not UNSET)
    note_audit(tx, run, "change", by, detail={"changed": changed})
    place = waiting_place(tx, run)
    before = record_now(tx, run)
    if place is None:
        advance(before.status, Verb.CHANGE, run=run.id)
        raise AssertionError("a run that does not wait cannot be changed")
    times = _chosen_times(tx.now, changes)
    over = min((at for at in times.values() if at is not None), default=None)
    # What waits for a signal, or is paused, may go on at any time.
    waits = place.status in (Status.WAITING, Status.PAUSED)
    refuse_too_late(run, over, tx.now if waits else max(tx.now, place.at or tx.now))
    told: Told = {}
    if changes.input is not UNSET:
        told["input"] = edit_input(tx, run, changes.input)
    if changes.tags is not UNSET:
        told["tags"] = _edit_tags(tx, before, changes.tags)
    if changes.timeout is not UNSET:
        told["timeout"] = _edit_timeout(tx, before, changes.timeout)
    for name, at in times.items():
        known: datetime | None = getattr(before, name)
        told[name] = difference(
            None if known is None else iso(to_micros(known)), None if at is None else iso(at)
        )
        tx.execute(f"change_{name}", (at, run.tenant, place.id))
    place = place._replace(
        expires_at=times.get("expires_at", place.expires_at),
        deadline_at=times.get("deadline_at", place.deadline_at),
    )
    moves = Moves(tx)
    moves.add(place, Verb.CHANGE, data={name: said for name, said in told.items() if said})
    moves.apply()
    return record_now(tx, run)


def edit_input(tx: OpenTransaction, run: RunRef, input: msgspec.Raw) -> Told | None:
    """Replace a run's input; return what its event says of it.

    The one place where that is done. A run that has recorded steps keeps its input: a replay would
    find what was made with another one. Its key still answers for the input that it was enqueued
    with.
    """
    name = (run.tenant, to_blob(run.id))
    if tx.fetch_one("any_step", name) is not None:
        raise InputInUse(run.id)
    ((known,),) = tx.fetch("get_input", name)
    tx.execute("change_input", (raw_text(input), *name))
    return difference(to_raw(known), input)


def _edit_tags(tx: OpenTransaction, before: RunRecord, tags: tuple[str, ...]) -> Told | None:
    name = (before.tenant, to_blob(before.id))
    wanted = tuple(dict.fromkeys(tags))
    for tag in before.tags:
        tx.execute("delete_tag", (before.tenant, tag, name[1]))
    tx.execute_many("enqueue_tag", [(before.tenant, tag, name[1]) for tag in wanted])
    tx.execute("change_tags", (to_json(wanted) if wanted else None, *name))
    return difference(before.tags, wanted)


def _edit_timeout(tx: OpenTransaction, before: RunRecord, timeout: float | None) -> Told | None:
    known = before.options or Options()
    options = msgspec.structs.replace(known, timeout=timeout)
    text = None if options == Options() else to_json(options)
    tx.execute("change_options", (text, before.tenant, to_blob(before.id)))
    if known.timeout == timeout:
        return None  # 30 is 30.0
    return difference(known.timeout, timeout)


def _chosen_times(now: int, changes: Changes) -> dict[str, int | None]:
    """The expiry and the deadline, as far as they change; None: there is to be none."""
    times: dict[str, int | None] = {}
    for name in ("expires", "deadline"):
        length: float | UnsetType = getattr(changes, f"{name}_in")
        at: datetime | UnsetType | None = getattr(changes, f"{name}_at")
        if length is not UNSET:
            times[f"{name}_at"] = now + micros_of(length)
        elif at is not UNSET:
            times[f"{name}_at"] = None if at is None else to_micros(at)
    return times


def _check(changes: Changes) -> None:
    """What PostgreSQL's function refuses, and the client would never ask for."""
    for name in ("expires", "deadline"):
        length: float | UnsetType = getattr(changes, f"{name}_in")
        if length is UNSET:
            continue
        if getattr(changes, f"{name}_at") is not UNSET:
            why = f"was given {name}_in, which excludes {name}_at: give one of them"
            raise BadArguments("change", why, f"{name}_in")
        if not 0 <= length <= MAX_SECONDS:  # which also refuses NaN
            why = f"was given {name}_in, which is not a number of seconds from 0 to 100 years"
            raise BadArguments("change", why, f"{name}_in")
