"""Sweep: due timers become ready, what waited too long ends, dead workers' runs go back."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from windlass.domain.blame import after_lost_worker
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.run import RunRef, SweepReply
from windlass.domain.states import Failure, Status, Verb, advance, under_intent
from windlass.store.sqlite.moves import Lease, Moves, lease_of, position_of
from windlass.store.sqlite.outages import excused_workers, note_sweep
from windlass.store.sqlite.transaction import Transaction
from windlass.store.sqlite.values import from_micros, from_micros_or_none, micros_of, to_id


def sweep(
    tx: Transaction,
    *,
    dispatch: bool,
    expire: bool,
    reap: bool,
    max_crashes: int,
    limit: int,
    every: float,
    spare: bool,
) -> SweepReply:
    """Do what was asked for, at most ``limit`` runs of each."""
    certain = note_sweep(tx)
    # What is due and expired at once must not be queued first: it has ended.
    expired = _expire(tx, certain if spare else tx.now, limit) if expire else 0
    overrun = _overrun(tx, certain if spare else tx.now, limit) if expire else 0
    dispatched = _dispatch(tx, limit) if dispatch else ()
    excused = excused_workers(tx, every) if reap and spare else frozenset()
    reaped = _reap(tx, excused, max_crashes, limit) if reap else _Reaped()
    next_due = tx.fetch_one("next_due", (tx.now,)) if dispatch else None
    return SweepReply(
        now=from_micros(tx.now),
        dispatched=dispatched,
        expired=expired,
        overrun=overrun,
        reaped=reaped.back,
        crashed=reaped.crashed,
        workers=tuple(reaped.workers),
        spared=len(excused),
        next_due=from_micros_or_none(next_due[0]) if next_due else None,
        more=limit in (expired, overrun, len(dispatched)) or reaped.more,
    )


def unpublished(tx: Transaction, older_than: float, limit: int) -> Sequence[RunRef]:
    """Mark as published, and return, ready runs that were not published of late."""
    rows = tx.fetch("unpublished", (tx.now - micros_of(older_than), limit))
    tx.execute_many("mark_published", [(tx.now, *row) for row in rows])
    return [RunRef(tenant, to_id(blob)) for tenant, blob in rows]


def _dispatch(tx: Transaction, limit: int) -> tuple[RunRef, ...]:
    moves = Moves(tx)
    refs = []
    for row in tx.fetch("due_timers", (tx.now, limit)):
        place = position_of(row)
        advance(Status.SCHEDULED, Verb.DUE)
        moves.leave("timer", place)
        moves.to_ready(place, EventType.QUEUED)
        refs.append(RunRef(place.tenant, to_id(place.id)))
    moves.apply()
    return tuple(refs)


def _expire(tx: Transaction, until: int, limit: int) -> int:
    return _end_waiting(tx, "expired", until, limit, Failure.EXPIRED)


def _overrun(tx: Transaction, until: int, limit: int) -> int:
    """End what was not done by its deadline: what waits, and what its worker did not end."""
    waiting = _end_waiting(tx, "overrun", until, limit, Failure.DEADLINE)
    moves = Moves(tx)
    leases = [lease_of(row) for row in tx.fetch("overrun_leases", (until, limit - waiting))]
    for lease in leases:
        moves.end_attempt(lease, AttemptOutcome.TIMEOUT)
        moves.fail(lease, Failure.DEADLINE, failures=lease.failures + 1)
    moves.apply()
    return waiting + len(leases)


def _end_waiting(tx: Transaction, why: str, until: int, limit: int, failure: Failure) -> int:
    moves = Moves(tx)
    waiting = [
        (table, position_of(row))
        for table, name in (("ready", f"{why}_ready"), ("timer", f"{why}_timers"))
        for row in tx.fetch(name, (until, limit))
    ][:limit]
    for table, place in waiting:
        moves.leave(table, place)
        moves.fail(place, failure)
    moves.apply()
    return len(waiting)


@dataclass(slots=True)
class _Reaped:
    back: int = 0
    crashed: int = 0
    workers: list[str] = field(default_factory=list)
    more: bool = False


def _reap(tx: Transaction, excused: Collection[str], max_crashes: int, limit: int) -> _Reaped:
    """Take the leases of dead workers; a lease without a worker's row is dead as well.

    The row of a worker that is visited goes at once, also where the limit leaves some of its
    leases for the next sweep: it must not be revived by a renewal in between. Who is not visited
    stays registered: what the next sweep takes from it must count as its only run, if it is.
    """
    reaped = _Reaped()
    leases: list[tuple[Lease, bool]] = []
    # One without a row of its own may have been reaped in part: nobody knows how many it held.
    holders = [
        *(
            (worker, True)
            for (worker,) in tx.fetch("dead_workers", (tx.now, limit + len(excused)))
            if worker not in excused
        ),
        *((worker, False) for (worker,) in tx.fetch("lost_workers")),
    ]
    for worker, registered in holders:
        if len(leases) >= limit:
            break
        found = tx.fetch("worker_leases", (worker, max(2, limit - len(leases))))
        alone = registered and len(found) == 1
        leases += [(lease_of(row), alone) for row in found[: limit - len(leases)]]
        if registered:
            reaped.workers.append(worker)
    reaped.more = len(leases) >= limit
    tx.execute_many("delete_worker", [(worker,) for worker in reaped.workers])
    moves = Moves(tx)
    for lease, alone in leases:
        verb = after_lost_worker(lease.crash_count + 1, alone=alone, max_crashes=max_crashes)
        _take_back(moves, lease, verb, reaped)
    moves.apply()
    return reaped


def _take_back(moves: Moves, lease: Lease, verb: Verb, reaped: _Reaped) -> None:
    crashes = lease.crash_count + 1
    moves.end_attempt(lease, AttemptOutcome.CRASHED)
    status = advance(Status.RUNNING, under_intent(verb, lease.wanted))
    if status is Status.CANCELED:
        moves.cancel(lease, lease.reason, crash_count=crashes)
    elif status is Status.FAILED:
        moves.fail(lease, Failure.CRASHED, crash_count=crashes)
        reaped.crashed += 1
    else:
        moves.to_ready(lease, EventType.CRASHED, crash_count=crashes)
        reaped.back += 1
