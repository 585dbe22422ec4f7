"""Looks at what is there, on PostgreSQL: see `store/operations/inspection.py`."""

from collections.abc import Sequence

from windlass.domain.counts import By, Count, QueueAge
from windlass.domain.inspection import Demand, Overdue, WorkerState
from windlass.store.postgres.statement import Statement, every


def inspect_workers(most: int) -> Statement[Sequence[WorkerState]]:
    """All workers known."""
    return Statement("inspect_workers", (most,), every(WorkerState))


def inspect_demand(most: int) -> Statement[Sequence[Demand]]:
    """What is ready, by queue and job."""
    return Statement("inspect_demand", (most,), every(Demand))


def inspect_overdue(late: float, most: int) -> Statement[Sequence[Overdue]]:
    """Runs that should no longer be running."""
    return Statement("inspect_overdue", (late, most), every(Overdue))


def count_runs(tenant: str, by: By, most: int) -> Statement[Sequence[Count]]:
    """How many runs there are."""
    return Statement("count_runs", (tenant, by, most), every(Count))


def queue_ages(tenant: str, most: int) -> Statement[Sequence[QueueAge]]:
    """Since when the oldest of each queue has been ready."""
    return Statement("queue_ages", (tenant, most), every(QueueAge))
