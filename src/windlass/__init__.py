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
    from windlass.client import Request, Run
    from windlass.context import Context, SyncContext
    from windlass.domain.counts import Count, Counts, QueueState
    from windlass.domain.event import AttemptOutcome, EventType
    from windlass.domain.inspection import WorkerState
    from windlass.domain.outcome import Cancel, Fail, Snooze
    from windlass.domain.policy import Fatal, Retry, RetryAfter
    from windlass.domain.states import Failure, Status
    from windlass.engine.options import WorkerOptions
    from windlass.engine.worker import Worker
    from windlass.errors import (
        BadArguments,
        BadDuration,
        BadOption,
        BadPayload,
        ConflictError,
        DuplicateJob,
        IllegalTransition,
        JobFileError,
        KeyConflict,
        LeaseLost,
        NotFound,
        PayloadTooLarge,
        ProcessDied,
        ResultTimeout,
        RunExpires,
        RunFailed,
        RunNotFound,
        ScheduleBusy,
        ScheduleNotFound,
        SchemaMismatch,
        StoreBusy,
        StoreError,
        StoreFull,
        StoreRefused,
        StoreUnavailable,
        UnknownJob,
        UsageError,
        WindlassError,
        WorkerDisrupted,
    )
    from windlass.job import Job
    from windlass.schedules import Schedule

__all__ = [
    "AttemptOutcome",
    "BadArguments",
    "BadDuration",
    "BadOption",
    "BadPayload",
    "Cancel",
    "ConflictError",
    "Context",
    "Count",
    "Counts",
    "DuplicateJob",
    "EventType",
    "Fail",
    "Failure",
    "Fatal",
    "IllegalTransition",
    "Job",
    "JobFileError",
    "KeyConflict",
    "LeaseLost",
    "NotFound",
    "PayloadTooLarge",
    "ProcessDied",
    "QueueState",
    "Request",
    "ResultTimeout",
    "Retry",
    "RetryAfter",
    "Run",
    "RunExpires",
    "RunFailed",
    "RunNotFound",
    "Schedule",
    "ScheduleBusy",
    "ScheduleNotFound",
    "SchemaMismatch",
    "Snooze",
    "Status",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreRefused",
    "StoreUnavailable",
    "SyncContext",
    "UnknownJob",
    "UsageError",
    "Windlass",
    "WindlassError",
    "Worker",
    "WorkerDisrupted",
    "WorkerOptions",
    "WorkerState",
]

_HOMES = {
    "windlass.app": "Windlass",
    "windlass.client": "Request Run",
    "windlass.context": "Context SyncContext",
    "windlass.domain.counts": "Count Counts QueueState",
    "windlass.domain.event": "AttemptOutcome EventType",
    "windlass.domain.inspection": "WorkerState",
    "windlass.domain.outcome": "Cancel Fail Snooze",
    "windlass.domain.policy": "Fatal Retry RetryAfter",
    "windlass.domain.states": "Failure Status",
    "windlass.engine.options": "WorkerOptions",
    "windlass.engine.worker": "Worker",
    "windlass.errors": """
        BadArguments BadDuration BadOption BadPayload ConflictError DuplicateJob IllegalTransition
        JobFileError KeyConflict LeaseLost NotFound PayloadTooLarge ProcessDied ResultTimeout
        RunExpires RunFailed RunNotFound ScheduleBusy ScheduleNotFound SchemaMismatch StoreError
        StoreBusy StoreFull StoreRefused StoreUnavailable UnknownJob UsageError WindlassError
        WorkerDisrupted
    """,
    "windlass.job": "Job",
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
