"""Looks at what is there, for operators."""

from collections.abc import Sequence

from windlass.domain.counts import By, Count, QueueAge
from windlass.domain.inspection import Demand, Overdue, Running, WorkerState
from windlass.domain.states import Status
from windlass.store.sqlite import workers
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import from_micros, from_micros_or_none, micros_of, to_id


def inspect_workers(tx: OpenTransaction, most: int) -> Sequence[WorkerState]:
    """Return all workers known, and what they hold."""
    now = from_micros(tx.now)
    found = []
    for info in workers.list_workers(tx):
        (busy,) = tx.fetch_one("count_held", (info.id,)) or (0,)
        running = tuple(_running(row) for row in tx.fetch("oldest_held", (info.id, most)))
        found.append(
            WorkerState(
                id=info.id,
                host=info.host,
                pid=info.pid,
                version=info.version,
                queues=info.queues,
                jobs=info.jobs,
                seats=info.seats,
                started_at=info.started_at or now,
                renewed_at=info.renewed_at,
                alive_until=info.alive_until or now,
                blocked_since=info.blocked_since,
                blocked_tenant=info.blocked_tenant,
                blocked_run=info.blocked_run,
                seen_at=now,
                busy=busy,
                running=running,
            )
        )
    return found


def _running(row: Row) -> Running:
    tenant, blob, job, queue, attempt, started_at = row
    return Running(
        tenant=tenant,
        id=to_id(blob),
        job=job,
        queue=queue,
        attempt=attempt,
        started_at=from_micros(started_at),
    )


def inspect_demand(tx: OpenTransaction, most: int) -> Sequence[Demand]:
    """Return what is ready, by queue and job."""
    return [
        Demand(
            queue=queue,
            job=job,
            waiting=waiting,
            oldest_at=from_micros(oldest),
            seen_at=from_micros(tx.now),
            paused=paused,
        )
        for (queue,) in list(tx.fetch("ready_queues"))
        for job, waiting, oldest, paused in tx.fetch("queue_demand", (queue, most))
    ]


def inspect_overdue(tx: OpenTransaction, late: float, most: int) -> Sequence[Overdue]:
    """Return runs that should no longer be running."""
    rows = tx.fetch("inspect_overdue", {"before": tx.now - micros_of(late), "most": most})
    return [
        Overdue(
            tenant=tenant,
            id=to_id(blob),
            job=job,
            worker=worker,
            started_at=from_micros(started_at),
            timeout=timeout,
            alive_until=from_micros_or_none(alive_until),
            seen_at=from_micros(tx.now),
        )
        for tenant, blob, job, worker, started_at, timeout, alive_until in rows
    ]


def count_runs(tx: OpenTransaction, tenant: str, by: By, most: int) -> Sequence[Count]:
    """Count all, and exactly: that reads each table, or an index of it, from end to end."""
    if by is not By.STATUS:
        rows = tx.fetch("count_by_queue" if by is By.QUEUE else "count_by_job", (tenant,))
        return [Count(name=name, status=Status(status), count=n) for name, status, n in rows]
    found = {Status(status): n for status, n in tx.fetch("count_by_status", {"tenant": tenant})}
    (runs,) = tx.fetch_one("count_records", {"tenant": tenant}) or (0,)
    found[Status.SUCCEEDED] = runs - sum(found.values())
    return [Count(name=status.value, status=status, count=n) for status, n in found.items() if n]


def queue_ages(tx: OpenTransaction, tenant: str, most: int) -> Sequence[QueueAge]:
    """Look at the head of each queue and priority."""
    now = from_micros(tx.now)
    rows = tx.fetch("queue_ages", {"tenant": tenant, "most": most})
    return [
        QueueAge(queue="", oldest_at=None, seen_at=now),
        *(QueueAge(queue=q, oldest_at=from_micros(at), seen_at=now) for q, at in rows),
    ]
