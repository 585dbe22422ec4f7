"""Where a run is that an operator asks something of, and when it would be over there."""

import msgspec

from windlass.domain.run import RunRecord, RunRef
from windlass.domain.states import Verb, advance
from windlass.errors import RunExpires, RunNotFound
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.positions import Position, lease_of, ready_of, timer_of
from windlass.store.sqlite.runs import get_run
from windlass.store.sqlite.values import from_micros, to_blob


def waiting_place(tx: OpenTransaction, run: RunRef) -> Position | None:
    """Where a run waits; None if it does not."""
    name = (run.tenant, to_blob(run.id))
    row = tx.fetch_one("get_ready", name)
    if row is not None:
        return ready_of(row)
    row = tx.fetch_one("get_timer", name)
    return None if row is None else timer_of(row)


def live_place(tx: OpenTransaction, run: RunRef, verb: Verb) -> Position:
    """Where a run is. Raises RunNotFound, and IllegalTransition if the verb is not for it."""
    place = waiting_place(tx, run)
    if place is None:
        row = tx.fetch_one("get_lease", (run.tenant, to_blob(run.id)))
        place = None if row is None else lease_of(row)
    status = record_now(tx, run).status if place is None else place.status
    advance(status, verb, run=run.id)
    assert place is not None, "a run that has not ended is somewhere"
    return place


def record_now(tx: OpenTransaction, run: RunRef) -> RunRecord:
    """The run as it is now. Raises RunNotFound."""
    record = get_run(tx, run)
    if record is None:
        raise RunNotFound(run.id)
    return record


def refuse_too_late(run: RunRef, over: int | None, start: int) -> None:
    """Raise RunExpires if a run would be over, by its expiry or its deadline, when it may start."""
    if over is not None and over <= start:
        raise RunExpires(run.id, iso(over), iso(start))


def iso(micros: int) -> str:
    """An instant as events have it."""
    return str(msgspec.to_builtins(from_micros(micros)))
