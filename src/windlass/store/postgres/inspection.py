"""Looks at what is there, for operators: one statement each."""

from collections.abc import Sequence
from typing import TypeVar

from windlass.domain.inspection import Demand, Overdue, WorkerState
from windlass.store.interface import Call
from windlass.store.mending import read_row
from windlass.store.postgres.operations import Row, Statement
from windlass.store.queries import load_queries

T = TypeVar("T")


class PostgresInspection:
    """The operations of ``store.inspection``, on PostgreSQL."""

    def __init__(self) -> None:
        self._sql = load_queries("postgres")

    def workers(self, most: int) -> Call[Sequence[WorkerState]]:
        """All workers known."""
        return self._call("inspect_workers", (most,), WorkerState)

    def demand(self, most: int) -> Call[Sequence[Demand]]:
        """What is ready, by queue and job."""
        return self._call("inspect_demand", (most,), Demand)

    def overdue(self, late: float, most: int) -> Call[Sequence[Overdue]]:
        """Runs that should no longer be running."""
        return self._call("overdue", (late, most), Overdue)

    def _call(self, name: str, parameters: tuple[object, ...], kind: type[T]) -> Call[Sequence[T]]:
        def read(rows: Sequence[Row]) -> Sequence[T]:
            return [read_row(row[0], kind) for row in rows]

        return Statement(name, self._sql[name], parameters, read)
