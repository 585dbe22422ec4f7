"""Workers: who is alive, what they hold, and what is given back when they forget it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from windlass.domain.run import Blocked, Finish, Held, Ordered, RenewReply, WorkerInfo
from windlass.domain.states import Intent, Verb
from windlass.store.sqlite.finish import finish
from windlass.store.sqlite.moves import End, Moves
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.positions import Position, lease_of
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    from_micros_or_none,
    micros_of,
    to_id,
    to_json,
    to_json_or_none,
    to_texts,
)

_ALL = -1


def register(tx: OpenTransaction, worker: WorkerInfo, lease: float) -> datetime:
    """Make the worker known and alive; return the store's now."""
    tx.execute("name_worker", {"id": worker.id})
    tx.execute(
        "register",
        {
            "id": worker.id,
            "host": worker.host,
            "pid": worker.pid,
            "version": worker.version,
            "queues": to_json_or_none(worker.queues),
            "jobs": to_json(worker.jobs),
            "seats": worker.seats,
            "now": tx.now,
            "alive_until": tx.now + micros_of(lease),
        },
    )
    return from_micros(tx.now)


def renew(
    tx: OpenTransaction,
    worker: str,
    lease: float,
    held: Sequence[Held],
    settled: int,
    blocked: Blocked | None,
) -> RenewReply:
    """Keep the worker alive; give back what it does not know it has, or does not vouch for."""
    if not _keep_alive(tx, worker, lease, blocked):
        return RenewReply(now=from_micros(tx.now), alive=False, lost=tuple(held))
    found = _compare(tx, worker, held, settled)
    leases = [lease_of(row) for row in tx.fetch_many("get_lease", found.unclaimed)]
    give_back(tx, _unblamed(tx, leases, () if blocked is None else blocked.blamed))
    return found.reply(tx.now)


def renew_at_once(
    tx: OpenTransaction,
    worker: str,
    lease: float,
    held: Sequence[Held],
    settled: int,
    blocked: Blocked | None,
) -> Callable[[], RenewReply] | None:
    """As :func:`renew`, by one statement; None if leases are to be given back."""
    found = _compare(tx, worker, held, settled)
    if found.unclaimed:
        return None
    tx.tick()
    reply = found.reply(tx.now)
    if not _keep_alive(tx, worker, lease, blocked):
        reply = RenewReply(now=reply.now, alive=False, lost=tuple(held))
    return lambda: reply


def _keep_alive(tx: OpenTransaction, worker: str, lease: float, blocked: Blocked | None) -> bool:
    renewal = {
        "now": tx.now,
        "alive_until": tx.now + micros_of(lease),
        "seconds": None if blocked is None else micros_of(blocked.seconds),
        "tenant": None if blocked is None else blocked.tenant,
        "run": None if blocked is None else blocked.run,
        "worker": worker,
    }
    return tx.execute("renew_worker", renewal) > 0


class _Compared(NamedTuple):
    """A worker's leases beside what it says that it holds."""

    orders: tuple[Ordered, ...]
    lost: tuple[Held, ...]
    unclaimed: list[tuple[str, bytes]]

    def reply(self, now: int) -> RenewReply:
        """The answer to the worker."""
        return RenewReply(
            now=from_micros(now),
            alive=True,
            orders=self.orders,
            lost=self.lost,
            released=len(self.unclaimed),
        )


def _compare(tx: OpenTransaction, worker: str, held: Sequence[Held], settled: int) -> _Compared:
    named = {(item.tenant, blob_or_none(item.id), item.token): item for item in held}
    orders = []
    unclaimed = []
    for tenant, blob, token, claim_no, intent, reason in tx.fetch("worker_claims", (worker,)):
        if named.pop((tenant, blob, token), None) is None and claim_no <= settled:
            unclaimed.append((tenant, blob))
        elif intent is not None:
            orders.append(Ordered(tenant, to_id(blob), token, Intent(intent), reason))
    return _Compared(tuple(orders), tuple(named.values()), unclaimed)


def _unblamed(
    tx: OpenTransaction, leases: Sequence[Position], blamed: Sequence[Finish]
) -> list[Position]:
    """End those of the leases that are blamed, as it is said; return the others."""
    ends = {(end.tenant, blob_or_none(end.id), end.token): end for end in blamed}
    counted = [end for lease in leases if (end := ends.get(_name(lease))) is not None]
    if counted:
        finish(tx, counted)
    return [lease for lease in leases if _name(lease) not in ends]


def _name(lease: Position) -> tuple[str, bytes | None, int]:
    return lease.tenant, lease.id, lease.token


def retire(tx: OpenTransaction, worker: str) -> int:
    """Forget a worker that stops; return how many leases were given back."""
    (number,) = tx.fetch_one("worker_no", (worker,)) or (None,)
    leases = [lease_of(row) for row in tx.fetch("worker_leases", (number, _ALL))]
    give_back(tx, leases)
    tx.execute("delete_worker", (worker,))
    return len(leases)


def list_workers(tx: OpenTransaction) -> Sequence[WorkerInfo]:
    """Return all workers known."""
    return [_worker(row) for row in tx.fetch("list_workers")]


def give_back(tx: OpenTransaction, leases: Sequence[Position]) -> None:
    """Return runs to their queue as they were; one that is to be canceled ends instead."""
    moves = Moves(tx)
    for lease in leases:
        moves.add(lease, Verb.RELEASE, end=End(reason=lease.reason))
    moves.apply()


def _worker(row: Row) -> WorkerInfo:
    (
        ident, host, pid, version, queues, jobs, seats, started_at, renewed_at, alive_until,
        blocked_since, blocked_tenant, blocked_run,
    ) = row  # fmt: skip
    return WorkerInfo(
        id=ident,
        host=host,
        pid=pid,
        version=version,
        queues=None if queues is None else to_texts(queues),
        jobs=to_texts(jobs),
        seats=seats,
        started_at=from_micros(started_at),
        renewed_at=from_micros_or_none(renewed_at),
        alive_until=from_micros(alive_until),
        blocked_since=from_micros_or_none(blocked_since),
        blocked_tenant=blocked_tenant,
        blocked_run=blocked_run,
    )
