"""Finish: the ends of attempts, valid only under the token of their lease.

A plain success, and nearly all ends are, is a row of one statement that also claims (at_once.sql).
For any other end the lease is read, the run is moved (``moves.py``), and the rows are written table
by table, in a transaction: there is one writer at a time, so what was read is still true when it is
written.
"""

from collections.abc import Callable, Sequence
from typing import Any

from windlass.domain.outcome import Outcome, reported
from windlass.domain.run import CycleReply, Finish, Held, ProgressWrite, Want
from windlass.domain.states import Intent, Verb
from windlass.errors import LeaseLost
from windlass.store.sqlite.claim import Claim
from windlass.store.sqlite.control import record_progress
from windlass.store.sqlite.moves import End, Moves
from windlass.store.sqlite.open_transaction import MOST_AT_ONCE, OpenTransaction, Row
from windlass.store.sqlite.positions import FOREVER, Position, lease_of
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    micros_of,
    raw_text,
    to_json,
    to_micros,
)

_LATER = (Verb.BACKOFF, Verb.SNOOZE)
_ASLEEP = (Verb.SLEEP, Verb.WAIT)
_CHARACTERS = 36  # of an id
_LONGEST = 8 * 1024  # bytes of a result that is handed over within a list of ends
_NO_CLAIM = (None,) * 9


def cycle(
    tx: OpenTransaction, worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
) -> CycleReply:
    """Record the ends of attempts, then claim more."""
    plain, others = _part(finishes)
    lost = finish(tx, others) if others else []
    claim = Claim.of(tx, worker, claim_no, want)
    _write(tx, _rows(tx, plain, claim))
    return _reply(tx, plain, lost, claim)


def cycle_at_once(
    tx: OpenTransaction, worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
) -> Callable[[], CycleReply] | None:
    """As :func:`cycle`, if one statement can write all of it; None: it cannot."""
    plain, others = _part(finishes)
    if others or (want is not None and want.ids is not None):
        return None
    claim = Claim.of(tx, worker, claim_no, want)
    rows = _rows(tx, plain, claim)
    if len(rows) > MOST_AT_ONCE:
        return None
    _write(tx, rows)
    return lambda: _reply(tx, plain, [], claim)


def _rows(tx: OpenTransaction, plain: Sequence[Finish], claim: Claim | None) -> list[Row]:
    """The rows of cycle_at_once: what succeeded, and the heads of queues to claim."""
    if claim is not None:
        claim.look(writes=bool(plain))
    tx.tick()
    rows = [*_success_rows(plain, tx.now), *(claim.heads() if claim is not None else ())]
    return [("begin", None, None, None, tx.now, *_NO_CLAIM), *rows] if rows else []


def _write(tx: OpenTransaction, rows: Sequence[Row]) -> None:
    for first in range(0, len(rows), MOST_AT_ONCE):
        tx.insert_at_once("cycle_at_once", rows[first : first + MOST_AT_ONCE])


def _reply(
    tx: OpenTransaction, plain: Sequence[Finish], lost: Sequence[Held], claim: Claim | None
) -> CycleReply:
    now = from_micros(tx.now)
    lost = (*lost, *_unmatched(tx, plain))
    if claim is None:
        return CycleReply(now=now, lost=lost)
    claim.take()
    return CycleReply(
        now=now,
        lost=lost,
        claimed=tuple(claim.claimed),
        marks=claim.marks,
        stops=claim.stops,
        queues=claim.queues,
        searched=claim.searched,  # little, but for the wait for Python's lock
        refused=claim.refused,
    )


def _part(finishes: Sequence[Finish]) -> tuple[Sequence[Finish], Sequence[Finish]]:
    """Split plain successes from ends that are to be decided one by one."""
    plain: list[Finish] = []
    others: list[Finish] = []
    for end in finishes:
        is_plain = (
            end.outcome is Outcome.SUCCEEDED
            and len(end.id) == _CHARACTERS
            and (end.result is None or len(end.result) <= _LONGEST)
        )
        (plain if is_plain else others).append(end)
    return plain, others


def _success_rows(plain: Sequence[Finish], now: int) -> list[Row]:
    """The rows of cycle_at_once for successes, one for each tenant and version."""
    ends: dict[tuple[str, str | None], list[str]] = {}
    for end in plain:
        result = "" if end.result is None else raw_text(end.result)
        of = end.tenant, end.version or None
        ends.setdefault(of, []).append(f"{end.id}{end.token:020d}{result}")
    return [("succeed", *of, to_json(texts), now, *_NO_CLAIM) for of, texts in ends.items()]


def _unmatched(tx: OpenTransaction, plain: Sequence[Finish]) -> list[Held]:
    """Those of the ends that were written whose lease is another's, or gone."""
    if not plain or tx.fetch("count_ended") == [(len(plain),)]:
        return []
    found = set(tx.fetch("ended"))
    lost = []
    for end in plain:
        name = (end.tenant, blob_or_none(end.id), end.token)
        if name in found:
            found.remove(name)  # the second end of a lease finds it gone
        else:
            lost.append(Held(end.tenant, end.id, end.token))
    return lost


def finish(tx: OpenTransaction, finishes: Sequence[Finish]) -> list[Held]:
    """Record the ends of attempts, any of them; return those whose lease is another's, or gone."""
    names = [(end.tenant, blob_or_none(end.id)) for end in finishes]
    found = tx.fetch_many("get_lease", [name for name in names if name[1] is not None])
    leases: dict[tuple[str, bytes | None], Position] = {
        (lease.tenant, lease.id): lease for lease in map(lease_of, found)
    }
    lost = []
    moves = Moves(tx)
    for end, name in zip(finishes, names, strict=True):
        lease = leases.get(name)
        if lease is None or lease.token != end.token:
            lost.append(Held(end.tenant, end.id, end.token))
            continue
        del leases[name]  # the second end of a lease finds it gone
        _decide(tx, moves, lease, end)
    moves.apply()
    return lost


def join_finish(tx: OpenTransaction, end: Finish, told: ProgressWrite | None) -> None:
    """Record an end in the caller's transaction, after what was told last. Raises LeaseLost."""
    if told is not None:
        record_progress(tx, [told])
    if finish(tx, [end]):
        raise LeaseLost(end.id, end.token)


def _decide(tx: OpenTransaction, moves: Moves, lease: Position, end: Finish) -> None:
    """Move a run whose attempt ended as the worker says."""
    verb = reported(end.outcome, end.failure)
    at: int | None = None
    data: dict[str, Any] | None = None
    if verb in _ASLEEP:
        at = _wakes_at(tx, lease, end)
        data = {"for": end.waits}
        if at < FOREVER:
            data["until"] = from_micros(at)
    if verb in _LATER:
        delay = max(0.0, end.delay or 0.0)
        at = tx.now + micros_of(delay)
        data = {"delay": delay}
    if end.heard is not None:
        data = {**(data or {}), "heard": max(0.0, end.heard)}
    known = End(
        failure=end.failure,
        reason=_reason(lease, end),
        result=None if end.result is None else raw_text(end.result),
        error=end.error,
        counts=end.counts,
        timed_out=end.timed_out,
        version=end.version,
    )
    moves.add(lease, verb, at=at, end=known, data=data, waits=end.waits)


def _wakes_at(tx: OpenTransaction, lease: Position, end: Finish) -> int:
    """When a run that sleeps or waits goes on: now, if what it waits for has come already."""
    for path in end.waits:
        if tx.fetch_one("answered_wait", (lease.tenant, lease.id, path)) is not None:
            return tx.now
    return FOREVER if end.until is None else to_micros(end.until)


def _reason(lease: Position, end: Finish) -> str | None:
    """Why a run was canceled: as the operator said, or the handler that ended it so."""
    if lease.wanted is Intent.CANCEL and lease.reason is not None:
        return lease.reason
    if end.outcome is Outcome.CANCELED:
        return None if end.error is None else end.error.message
    return lease.reason
