"""Every operation of a store, declared once: its arguments, its answer, and how it is to be run.

A method of `Operations` touches no database. It returns a `Call`, which names the operation and
carries the arguments; a store runs it. Each store implements an operation by a function of the same
name (`store/sqlite`, `store/postgres`), and is refused if one is missing.
"""

from windlass.store.operations.artifacts import ArtifactOperations
from windlass.store.operations.audit import AuditOperations
from windlass.store.operations.batches import BatchOperations
from windlass.store.operations.children import ChildOperations
from windlass.store.operations.control import ControlOperations
from windlass.store.operations.declare import Access, Call, Operation, implementations
from windlass.store.operations.events import EventOperations
from windlass.store.operations.followers import FollowerOperations
from windlass.store.operations.inspection import InspectionOperations
from windlass.store.operations.jobs import JobOperations
from windlass.store.operations.logs import LogOperations
from windlass.store.operations.pauses import PauseOperations
from windlass.store.operations.retention import RetentionOperations
from windlass.store.operations.runs import RunOperations
from windlass.store.operations.schedules import ScheduleOperations
from windlass.store.operations.steps import StepOperations
from windlass.store.operations.workers import WorkerOperations

__all__ = ["Access", "Call", "Operation", "Operations", "implementations"]


class Operations(
    RunOperations,
    ControlOperations,
    WorkerOperations,
    StepOperations,
    ChildOperations,
    BatchOperations,
    FollowerOperations,
    JobOperations,
    ScheduleOperations,
    ArtifactOperations,
    InspectionOperations,
    AuditOperations,
    PauseOperations,
    LogOperations,
    EventOperations,
    RetentionOperations,
):
    """All of them."""
