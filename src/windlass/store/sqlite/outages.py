"""Outages: what the marks of earlier sweeps say about workers whose time is over.

Every sweep leaves a mark. Between two marks there may be a gap: the file was locked, nobody was
there to sweep, the machine was asleep, or its clock was set ahead. Whatever it was, workers may not
have been able to renew, so they are spared for two thirds of a lease after it. The marks are in the
store: a process that has just started knows as much as any other.
"""

from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.values import micros_of


def note_sweep(tx: OpenTransaction) -> None:
    """Note that somebody sweeps now, unless that was noted of late. One statement writes."""
    ((shortest, longest),) = tx.fetch("lease_lengths")
    (last,) = tx.fetch("last_sweep", {"now": tx.now, "shortest": shortest})[0]
    if last is None or last <= tx.now - shortest // 12:
        tx.tick()
        tx.execute("note_sweep", (tx.now, shortest, longest))


def certain_until(tx: OpenTransaction) -> int:
    """The time up to which waiting runs may be ended.

    That is now, or the beginning of a gap that is not two thirds of a lease over.
    """
    ((shortest, _),) = tx.fetch("lease_lengths")
    (certain,) = tx.fetch("certain_until", {"now": tx.now, "shortest": shortest})[0]
    return tx.now if certain is None else int(certain)


def excused_workers(tx: OpenTransaction, every: float) -> frozenset[str]:
    """Return the workers whose time is over, but who may not have been able to renew."""
    bindings = {"now": tx.now, "every": micros_of(every)}
    return frozenset(worker for (worker,) in tx.fetch("excused_workers", bindings))
