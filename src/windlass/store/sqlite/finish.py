"""Finish: the ends of attempts, valid only under the token of their lease.

The leases are read, each run is moved (``moves.py``), and the rows are written table by table.
There is one writer at a time, so what was read is still true when it is written.
"""

from collections.abc import Sequence

from windlass.domain.effects import reported
from windlass.domain.outcome import Outcome
from windlass.domain.run import CycleReply, Finish, Held, Want
from windlass.domain.states import Verb
from windlass.store.sqlite.claim import Claim
from windlass.store.sqlite.moves import End, Moves, Place, lease_of
from windlass.store.sqlite.transaction import Row, Transaction
from windlass.store.sqlite.values import blob_or_none, from_micros, hex_list, micros_of, raw_text

_LATER = (Verb.BACKOFF, Verb.SNOOZE)
_TOKEN = 8  # where the statements that read leases have it
_WORTH_A_SCAN = 4

_Name = tuple[str, bytes | None]
_Success = tuple[Finish, Row]


def cycle(
    tx: Transaction, worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
) -> CycleReply:
    """Record the ends of attempts, then claim more."""
    lost = finish(tx, finishes) if finishes else ()
    now = from_micros(tx.now)
    if want is None or want.limit <= 0:
        return CycleReply(now=now, lost=tuple(lost))
    if tx.fetch_one("alive_worker", (worker, tx.now)) is None:
        return CycleReply(now=now, lost=tuple(lost), refused=True)
    claim = Claim(tx, worker, claim_no, want)
    claim.take()
    return CycleReply(
        now=now,
        lost=tuple(lost),
        claimed=tuple(claim.claimed),
        marks=claim.marks,
        stops=claim.stops,
        queues=claim.queues,  # an index without dead entries: the search takes no time
    )


def finish(tx: Transaction, finishes: Sequence[Finish]) -> Sequence[Held]:
    """Record the ends of attempts; return those whose lease is another's, or gone."""
    names = [(end.tenant, blob_or_none(end.id)) for end in finishes]
    rows, all_between = _read_leases(tx, names)
    leases = {(row[0], row[1]): row for row in rows}
    lost = []
    succeeded: dict[str, list[_Success]] = {}
    moves = Moves(tx)
    for end, name in zip(finishes, names, strict=True):
        row = leases.get(name)
        if row is None or row[_TOKEN] != end.token:
            lost.append(Held(end.tenant, end.id, end.token))
            continue
        del leases[name]  # the second end of a lease finds it gone
        if end.outcome is Outcome.SUCCEEDED and end.version is None:
            succeeded.setdefault(end.tenant, []).append((end, row))
        else:
            _decide(moves, lease_of(row), end, tx.now)
    for tenant, ends in succeeded.items():
        _succeed(tx, tenant, ends, as_range=all_between and len(ends) == len(rows))
    moves.apply()
    return lost


def _read_leases(tx: Transaction, names: Sequence[_Name]) -> tuple[list[Row], bool]:
    """Return the leases of these runs; true: and all others between the first and the last.

    The leases of a claim are neighbours, and so are those of a batch of ends: one scan from
    the first to the last finds them, unless too many others lie between.
    """
    blobs = [blob for _, blob in names if blob is not None]
    tenant = names[0][0]
    if len(blobs) >= _WORTH_A_SCAN and all(name[0] == tenant for name in names):
        limit = 2 * len(blobs)
        rows = tx.fetch("get_leases", (tenant, min(blobs), max(blobs), limit))
        if len(rows) < limit:
            return rows, True
    return tx.fetch_many("get_lease", [name for name in names if name[1] is not None]), False


def _succeed(tx: Transaction, tenant: str, ends: Sequence[_Success], *, as_range: bool) -> None:
    """Record successes; ``as_range``: no other lease lies between the first and the last."""
    now = tx.now
    blobs = [row[1] for _, row in ends]
    if as_range:
        first, last = min(blobs), max(blobs)
        tx.execute("succeed_runs_range", (now, tenant, first, last))
        tx.execute("succeed_attempts_range", (now, tenant, first, last))
        tx.execute("succeed_events_range", (now, tenant, first, last))
        tx.execute("delete_leases_range", (tenant, first, last))
    else:
        ids = hex_list(blobs)
        tx.execute("succeed_runs", (now, tenant, ids))
        tx.execute("succeed_attempts", (now, ids, tenant))
        tx.execute("succeed_events", (now, ids, tenant))
        tx.execute("delete_leases", (tenant, ids))
    results = [
        (raw_text(end.result), tenant, row[1]) for end, row in ends if end.result is not None
    ]
    if results:
        tx.execute_many("put_result", results)


def _decide(moves: Moves, lease: Place, end: Finish, now: int) -> None:
    """Move a run whose attempt ended as the worker says."""
    verb = reported(end.outcome, end.failure)
    at = data = None
    if verb in _LATER:
        delay = max(0.0, end.delay or 0.0)
        at = now + micros_of(delay)
        data = {"delay": delay}
    known = End(
        failure=end.failure,
        reason=_reason(lease, end),
        result=None if end.result is None else raw_text(end.result),
        error=end.error,
        counts=end.counts,
        timed_out=end.timed_out,
        version=end.version,
    )
    moves.add(lease, verb, at=at, end=known, data=data)


def _reason(lease: Place, end: Finish) -> str | None:
    """Why a run was canceled: as the operator said, or the handler that ended it so."""
    if lease.reason is None and end.outcome is Outcome.CANCELED and end.error is not None:
        return end.error.message
    return lease.reason
