"""Windlass: durable jobs for Python, from one SQLite file to a fleet on PostgreSQL.

>>> from windlass import Windlass
>>> app = Windlass("sqlite:///windlass.db")

The names are imported when first used: `windlass --help`, and a program that needs one of them,
need not wait for all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.batch_job import BatchJob
    from windlass.client import BulkResult, Request, Run, Selection
    from windlass.context import Context, SyncContext
    from windlass.domain.approval import Approval, ApprovalRequest, OpenApproval
    from windlass.domain.artifact import Artifact
    from windlass.domain.audit import AuditEntry
    from windlass.domain.batch import BatchCounts, FailedUnit
    from windlass.domain.counts import Count, Counts, QueueState
    from windlass.domain.envelope import Event
    from windlass.domain.event import AttemptOutcome, EventType
    from windlass.domain.failed import FailedRun
    from windlass.domain.inspection import WorkerState
    from windlass.domain.outcome import Cancel, ContinueAs, Fail, Snooze
    from windlass.domain.pause import PauseKind, WorkPause
    from windlass.domain.phase import PhaseState, PhaseStatus
    from windlass.domain.pipeline import phase
    from windlass.domain.policy import Fatal, Retry, RetryAfter
    from windlass.domain.progress import Units
    from windlass.domain.retention import Retention
    from windlass.domain.runlog import LogLine
    from windlass.domain.states import Failure, Status
    from windlass.domain.step import Generation, Signal, Step, StepKind, StepState
    from windlass.domain.stopping import StopRequest
    from windlass.durable.children_faces import Child, SyncChild
    from windlass.engine.options import WorkerOptions
    from windlass.engine.worker import Worker
    from windlass.errors import (
        AmbiguousRun,
        ApprovalClosed,
        ApprovalNotFound,
        ArtifactDamaged,
        ArtifactNotFound,
        ArtifactTooLarge,
        BadArguments,
        BadDuration,
        BadOption,
        BadPayload,
        BadToken,
        BatchFailed,
        ChildFailed,
        ChildrenFailed,
        ConflictError,
        DuplicateJob,
        EndNotCommitted,
        IllegalTransition,
        InputInUse,
        JobFileError,
        KeyConflict,
        KeyTaken,
        LeaseLost,
        ListenerTooSlow,
        Nondeterminism,
        NotFound,
        PayloadTooLarge,
        PlaceUnavailable,
        ProcessDied,
        ResultMismatch,
        ResultTimeout,
        RunExpires,
        RunFailed,
        RunNotFound,
        ScheduleBusy,
        ScheduleNotFound,
        SchemaMismatch,
        StepFailed,
        StepNotRecorded,
        StoreBusy,
        StoreError,
        StoreFull,
        StoreRefused,
        StoreUnavailable,
        TooLate,
        TooManySteps,
        UnknownJob,
        UsageError,
        WaitTimeout,
        WindlassError,
        WorkerDisrupted,
    )
    from windlass.job import Job
    from windlass.router import Router
    from windlass.schedules import Schedule

__all__ = [
    "AmbiguousRun",
    "Approval",
    "ApprovalClosed",
    "ApprovalNotFound",
    "ApprovalRequest",
    "Artifact",
    "ArtifactDamaged",
    "ArtifactNotFound",
    "ArtifactTooLarge",
    "AttemptOutcome",
    "AuditEntry",
    "BadArguments",
    "BadDuration",
    "BadOption",
    "BadPayload",
    "BadToken",
    "BatchCounts",
    "BatchFailed",
    "BatchJob",
    "BulkResult",
    "Cancel",
    "Child",
    "ChildFailed",
    "ChildrenFailed",
    "ConflictError",
    "Context",
    "ContinueAs",
    "Count",
    "Counts",
    "DuplicateJob",
    "EndNotCommitted",
    "Event",
    "EventType",
    "Fail",
    "FailedRun",
    "FailedUnit",
    "Failure",
    "Fatal",
    "Generation",
    "IllegalTransition",
    "InputInUse",
    "Job",
    "JobFileError",
    "KeyConflict",
    "KeyTaken",
    "LeaseLost",
    "ListenerTooSlow",
    "LogLine",
    "Nondeterminism",
    "NotFound",
    "OpenApproval",
    "PauseKind",
    "PayloadTooLarge",
    "PhaseState",
    "PhaseStatus",
    "PlaceUnavailable",
    "ProcessDied",
    "QueueState",
    "Request",
    "ResultMismatch",
    "ResultTimeout",
    "Retention",
    "Retry",
    "RetryAfter",
    "Router",
    "Run",
    "RunExpires",
    "RunFailed",
    "RunNotFound",
    "Schedule",
    "ScheduleBusy",
    "ScheduleNotFound",
    "SchemaMismatch",
    "Selection",
    "Signal",
    "Snooze",
    "Status",
    "Step",
    "StepFailed",
    "StepKind",
    "StepNotRecorded",
    "StepState",
    "StopRequest",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreRefused",
    "StoreUnavailable",
    "SyncChild",
    "SyncContext",
    "TooLate",
    "TooManySteps",
    "Units",
    "UnknownJob",
    "UsageError",
    "WaitTimeout",
    "Windlass",
    "WindlassError",
    "WorkPause",
    "Worker",
    "WorkerDisrupted",
    "WorkerOptions",
    "WorkerState",
    "phase",
]

_HOMES = {
    "windlass.app": "Windlass",
    "windlass.client": "BulkResult Request Run Selection",
    "windlass.context": "Context SyncContext",
    "windlass.domain.approval": "Approval ApprovalRequest OpenApproval",
    "windlass.domain.artifact": "Artifact",
    "windlass.domain.audit": "AuditEntry",
    "windlass.domain.counts": "Count Counts QueueState",
    "windlass.domain.envelope": "Event",
    "windlass.domain.event": "AttemptOutcome EventType",
    "windlass.domain.failed": "FailedRun",
    "windlass.domain.inspection": "WorkerState",
    "windlass.domain.pause": "PauseKind WorkPause",
    "windlass.domain.outcome": "Cancel ContinueAs Fail Snooze",
    "windlass.domain.phase": "PhaseState PhaseStatus",
    "windlass.batch_job": "BatchJob",
    "windlass.domain.batch": "BatchCounts FailedUnit",
    "windlass.domain.pipeline": "phase",
    "windlass.domain.policy": "Fatal Retry RetryAfter",
    "windlass.domain.retention": "Retention",
    "windlass.domain.progress": "Units",
    "windlass.domain.runlog": "LogLine",
    "windlass.domain.states": "Failure Status",
    "windlass.domain.step": "Generation Signal Step StepKind StepState",
    "windlass.domain.stopping": "StopRequest",
    "windlass.durable.children_faces": "Child SyncChild",
    "windlass.engine.options": "WorkerOptions",
    "windlass.engine.worker": "Worker",
    "windlass.errors": """
        AmbiguousRun BadArguments BadDuration BadOption BadPayload ConflictError DuplicateJob
        EndNotCommitted IllegalTransition JobFileError KeyConflict KeyTaken LeaseLost
        ListenerTooSlow NotFound PayloadTooLarge
        ProcessDied ResultMismatch ResultTimeout RunExpires RunFailed RunNotFound ScheduleBusy
        ScheduleNotFound SchemaMismatch StoreError StoreBusy StoreFull StoreRefused
        StoreUnavailable UnknownJob UsageError WindlassError WorkerDisrupted
        BatchFailed ChildFailed ChildrenFailed
        StepFailed WaitTimeout Nondeterminism TooManySteps TooLate InputInUse
        StepNotRecorded
        ApprovalClosed ApprovalNotFound BadToken
        ArtifactDamaged ArtifactNotFound ArtifactTooLarge PlaceUnavailable
    """,
    "windlass.job": "Job",
    "windlass.router": "Router",
    "windlass.schedules": "Schedule",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
