"""A run as the result of a Django task."""

import builtins
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from windlass.app import Windlass
from windlass.client import Run
from windlass.contrib.django.task_backend.names import (
    TASK_MAX_PRIORITY,
    TASK_MIN_PRIORITY,
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
)
from windlass.contrib.django.times import local
from windlass.domain.run import Attempt
from windlass.domain.states import Status
from windlass.errors import RunFailed

_STATUS = {
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELED: TaskResultStatus.FAILED,
}
"""Of all others it is READY: they wait, for whatever reason."""


def backend_of(run: Run, task: Task) -> str:
    """The alias of the backend that a run was enqueued through."""
    alias: str = run.input.get("backend") or task.backend
    return alias


def result_of(app: Windlass, run: Run, task: Task) -> TaskResult:
    """What Django's users see of a run of this task."""
    attempts = _attempts(app, run)
    workers = [attempt.worker for attempt in attempts]
    if run.status is Status.RUNNING and run.worker is not None:
        workers.append(run.worker)
    first = attempts[0].started_at if attempts else run.started_at
    result = TaskResult(
        task=_task_of(run, task),
        id=run.id,
        status=_STATUS.get(run.status, TaskResultStatus.READY),
        enqueued_at=local(run.created_at),
        started_at=local(first),
        last_attempted_at=local(run.started_at),
        finished_at=local(run.finished_at),
        args=run.input.get("args") or [],
        kwargs=run.input.get("kwargs") or {},
        backend=backend_of(run, task),
        errors=_errors(run, attempts),
        worker_ids=workers,
    )
    if run.status is Status.SUCCEEDED:
        amend(result, _return_value=run.raw_result)
    return result


def amend(result: TaskResult, **changes: Any) -> None:
    """Change a result in place, as Django's own backends do: it is frozen for its users alone."""
    for name, value in changes.items():
        object.__setattr__(result, name, value)


def describe_type(name: str) -> str:
    """The path of an exception's class, from which it can be imported."""
    return f"builtins.{name}" if hasattr(builtins, name) else name


def _task_of(run: Run, task: Task) -> Task:
    """The task with the options of this run."""
    later = run.scheduled_for if run.scheduled_for != run.created_at else None
    changes = {
        "priority": max(TASK_MIN_PRIORITY, min(TASK_MAX_PRIORITY, run.priority)),
        "queue_name": run.queue,
        "run_after": local(later),
        "backend": backend_of(run, task),
    }
    try:
        return replace(task, **changes)
    except InvalidTask:
        # An operator has moved the run to a queue that the backend does not name.
        return replace(task, **{**changes, "queue_name": task.queue_name})


def _attempts(app: Windlass, run: Run) -> Sequence[Attempt]:
    """All attempts that have ended, oldest first; a run itself has the latest hundred."""
    found = list(run.attempts)
    ended = run.attempt - (run.status is Status.RUNNING)
    while found and len(found) < ended:
        page = app.attempts(run.id, before=found[0].attempt)
        if not page:
            break
        found[:0] = reversed(page)
    return found


def _errors(run: Run, attempts: Sequence[Attempt]) -> list[TaskError]:
    told = [attempt.error for attempt in attempts if attempt.error is not None]
    errors = [
        TaskError(
            exception_class_path=describe_type(error.type),
            traceback=error.traceback or f"{error.type}: {error.message}\n",
        )
        for error in told
    ]
    if not errors and _STATUS.get(run.status) is TaskResultStatus.FAILED:
        # Canceled, expired or crashed: no handler has raised anything.
        ended = RunFailed(run.id, run.status, run.failure, run.error, run.reason)
        path = f"{RunFailed.__module__}.{RunFailed.__qualname__}"
        errors.append(TaskError(exception_class_path=path, traceback=f"{path}: {ended}\n"))
    return errors
