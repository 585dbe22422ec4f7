"""Sweep: due timers become ready, what waited too long ends, dead workers' runs go back."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from windlass.domain.blame import after_lost_worker
from windlass.domain.run import RunRef, SweepReply
from windlass.domain.states import Status, Verb
from windlass.store.sqlite.children import Tended, tend
from windlass.store.sqlite.moves import End, Moves
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.outages import certain_until, excused_workers, note_sweep
from windlass.store.sqlite.positions import Position, lease_of, ready_of, timer_of
from windlass.store.sqlite.values import from_micros, from_micros_or_none, micros_of, to_id


def sweep(
    tx: OpenTransaction,
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
    note_sweep(tx)
    certain = certain_until(tx)
    # What is due and expired at once must not be queued first: it has ended.
    expired = _expire(tx, certain if spare else tx.now, limit) if expire else 0
    overrun = _overrun(tx, certain if spare else tx.now, limit) if expire else 0
    dispatched = _dispatch(tx, limit) if dispatch else ()
    excused = excused_workers(tx, every) if reap and spare else frozenset()
    reaped = _reap(tx, excused, max_crashes, limit) if reap else _Reaped()
    tended = tend(tx, limit) if dispatch else Tended()
    next_due = tx.fetch_one("next_due", (tx.now,)) if dispatch else None
    return SweepReply(
        now=from_micros(tx.now),
        dispatched=(*dispatched, *tended.ready),
        expired=expired,
        overrun=overrun,
        reaped=reaped.back,
        crashed=reaped.crashed,
        workers=tuple(reaped.workers),
        spared=len(excused),
        asked=tended.asked,
        next_due=from_micros_or_none(next_due[0]) if next_due else None,
        more=limit in (expired, overrun, len(dispatched)) or reaped.more or tended.more,
    )


def sweep_at_once(
    tx: OpenTransaction, *, dispatch: bool, expire: bool, reap: bool, **_: object
) -> Callable[[], SweepReply] | None:
    """As :func:`sweep`, if there is nothing to do but to leave a mark; None: there may be."""
    due = [name for name, asked in (
        ("due_timers", dispatch), ("wakes", dispatch), ("expired_ready", expire),
        ("expired_timers", expire), ("overrun_ready", expire), ("overrun_timers", expire),
        ("overrun_leases", expire), ("dead_workers", reap),
    ) if asked]  # fmt: skip
    if any(tx.fetch(name, (tx.now, 1)) for name in due):
        return None
    if reap and tx.fetch("lost_workers"):
        return None
    next_due = tx.fetch_one("next_due", (tx.now,)) if dispatch else None
    note_sweep(tx)
    reply = SweepReply(
        now=from_micros(tx.now), next_due=from_micros_or_none(next_due[0]) if next_due else None
    )
    return lambda: reply


def unpublished(tx: OpenTransaction, older_than: float, limit: int) -> Sequence[RunRef]:
    """Mark as published, and return, ready runs that were not published of late."""
    rows = tx.fetch("unpublished", (tx.now - micros_of(older_than), limit))
    tx.execute_many("mark_published", [(tx.now, *row) for row in rows])
    return [RunRef(tenant, to_id(blob)) for tenant, blob in rows]


def _dispatch(tx: OpenTransaction, limit: int) -> tuple[RunRef, ...]:
    moves = Moves(tx)
    refs = []
    for row in tx.fetch("due_timers", (tx.now, limit)):
        place = timer_of(row)
        moves.add(place, Verb.DUE)
        refs.append(RunRef(place.tenant, to_id(place.id)))
    moves.apply()
    return tuple(refs)


def _expire(tx: OpenTransaction, until: int, limit: int) -> int:
    """End what has not started in time."""
    late = _waiting(tx, "expired", until, limit)
    _move_all(tx, late, Verb.EXPIRE)
    return len(late)


def _overrun(tx: OpenTransaction, until: int, limit: int) -> int:
    """End what was not done by its deadline: what waits, and what its worker did not end."""
    late = _waiting(tx, "overrun", until, limit)
    late += [lease_of(row) for row in tx.fetch("overrun_leases", (until, limit - len(late)))]
    _move_all(tx, late, Verb.OVERRUN)
    return len(late)


def _waiting(tx: OpenTransaction, why: str, until: int, limit: int) -> list[Position]:
    ready = [ready_of(row) for row in tx.fetch(f"{why}_ready", (until, limit))]
    timers = [timer_of(row) for row in tx.fetch(f"{why}_timers", (until, limit))]
    return [*ready, *timers][:limit]


def _move_all(tx: OpenTransaction, places: Sequence[Position], verb: Verb) -> None:
    moves = Moves(tx)
    for place in places:
        # An attempt that the store ends because its time is over counts as a failure.
        moves.add(place, verb, end=End(counts=place.status is Status.RUNNING))
    moves.apply()


@dataclass(slots=True)
class _Reaped:
    back: int = 0
    crashed: int = 0
    workers: list[str] = field(default_factory=list)
    more: bool = False


def _reap(tx: OpenTransaction, excused: Collection[str], max_crashes: int, limit: int) -> _Reaped:
    """Take the leases of dead workers; a lease without a worker's row is dead as well.

    The row of a worker that is visited goes at once, also where the limit leaves some of its
    leases for the next sweep: it must not be revived by a renewal in between. Who is not visited
    stays registered: what the next sweep takes from it must count as its only run, if it is.
    """
    reaped = _Reaped()
    leases: list[tuple[Position, bool]] = []
    # One without a row of its own may have been reaped in part: nobody knows how many it held.
    holders = [
        *(
            (worker, number)
            for worker, number in tx.fetch("dead_workers", (tx.now, limit + len(excused)))
            if worker not in excused
        ),
        *((None, number) for (number,) in tx.fetch("lost_workers")),
    ]
    for worker, number in holders:
        if len(leases) >= limit:
            break
        found = tx.fetch("worker_leases", (number, max(2, limit - len(leases))))
        alone = worker is not None and len(found) == 1
        leases += [(lease_of(row), alone) for row in found[: limit - len(leases)]]
        if worker is not None:
            reaped.workers.append(worker)
    reaped.more = len(leases) >= limit
    tx.execute_many("delete_worker", [(worker,) for worker in reaped.workers])
    moves = Moves(tx)
    for lease, alone in leases:
        verb = after_lost_worker(lease.crash_count + 1, alone=alone, max_crashes=max_crashes)
        status = moves.add(lease, verb, end=End(reason=lease.reason))
        reaped.crashed += status is Status.FAILED
        reaped.back += status is Status.QUEUED
    moves.apply()
    return reaped
