"""Windlass: durable jobs for Python, from one SQLite file to a fleet on PostgreSQL.

>>> from windlass import Windlass
>>> app = Windlass("sqlite:///windlass.db")
"""

from windlass.app import Windlass
from windlass.client import Request, Run
from windlass.context import Context, SyncContext
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Cancel, Fail, Snooze
from windlass.domain.policy import Fatal, Retry, RetryAfter
from windlass.domain.states import Failure, Status
from windlass.engine.worker import Worker, WorkerOptions
from windlass.errors import (
    BadArguments,
    BadDuration,
    BadOption,
    BadPayload,
    ConflictError,
    DuplicateJob,
    IllegalTransition,
    KeyConflict,
    LeaseLost,
    NotFound,
    PayloadTooLarge,
    ResultTimeout,
    RunFailed,
    RunNotFound,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnknownJob,
    UsageError,
    WindlassError,
)
from windlass.job import Job

__all__ = [
    "AttemptOutcome",
    "BadArguments",
    "BadDuration",
    "BadOption",
    "BadPayload",
    "Cancel",
    "ConflictError",
    "Context",
    "DuplicateJob",
    "EventType",
    "Fail",
    "Failure",
    "Fatal",
    "IllegalTransition",
    "Job",
    "KeyConflict",
    "LeaseLost",
    "NotFound",
    "PayloadTooLarge",
    "Request",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Run",
    "RunFailed",
    "RunNotFound",
    "SchemaMismatch",
    "Snooze",
    "Status",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SyncContext",
    "UnknownJob",
    "UsageError",
    "Windlass",
    "WindlassError",
    "Worker",
    "WorkerOptions",
]
