"""What operators ask of a store: who works, what waits, what should have ended."""

from collections.abc import Sequence

from windlass.domain.counts import By, Count, QueueAge
from windlass.domain.inspection import Demand, Overdue, WorkerState
from windlass.store.operations.declare import scan


class InspectionOperations:
    """Looks at what is there, over all tenants; each costs a bounded amount."""

    @scan()
    def inspect_workers(self, most: int) -> Sequence[WorkerState]:
        """All workers known, dead ones not yet reaped included, the oldest first.

        What each holds is counted; the ``most`` that started first are named.
        """

    @scan()
    def inspect_demand(self, most: int) -> Sequence[Demand]:
        """What is ready, by queue and job, as found in the first ``most`` runs of each queue."""

    @scan()
    def inspect_overdue(self, late: float, most: int) -> Sequence[Overdue]:
        """Runs that have been running for ``late`` seconds longer than their timeout, and those
        whose worker has been dead for as long; at most ``most``, the oldest first."""

    @scan()
    def count_runs(self, tenant: str, by: By, most: int) -> Sequence[Count]:
        """How many runs of a tenant there are, by status and name; names without runs are left out.

        Rows beyond ``most`` of a status may be estimated. Succeeded runs are counted by status
        only, not by queue or job.
        """

    @scan()
    def queue_ages(self, tenant: str, most: int) -> Sequence[QueueAge]:
        """Since when the oldest ready run of each queue has been ready, by queue.

        The first row has no queue, only the time of the look. The first ``most`` runs of each
        priority are looked through for one of the tenant.
        """
