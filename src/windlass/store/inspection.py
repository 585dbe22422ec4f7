"""What operators ask of a store: who works, what waits, what should have ended. Reads only."""

from collections.abc import Sequence
from typing import Protocol

from windlass.domain.inspection import Demand, Overdue, WorkerState
from windlass.store.calls import Call


class InspectionOperations(Protocol):
    """Looks at what is there, over all tenants; each costs a bounded amount."""

    def workers(self, most: int) -> Call[Sequence[WorkerState]]:
        """All workers known, dead ones not yet reaped included, the oldest first.

        What each holds is counted; the ``most`` that started first are named.
        """
        ...

    def demand(self, most: int) -> Call[Sequence[Demand]]:
        """What is ready, by queue and job, as found in the first ``most`` runs of each queue."""
        ...

    def overdue(self, late: float, most: int) -> Call[Sequence[Overdue]]:
        """Runs that have been running for ``late`` seconds longer than their timeout, and those
        whose worker has been dead for as long; at most ``most``, the oldest first."""
        ...
