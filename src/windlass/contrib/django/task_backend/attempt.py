"""One attempt of a task: the call of its function, with Django's signals and its context."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.app import Windlass
from windlass.client import Run
from windlass.context import Context, SyncContext
from windlass.contrib.django import get_app
from windlass.contrib.django.task_backend.names import (
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from windlass.contrib.django.task_backend.results import amend, describe_type, result_of
from windlass.contrib.django.times import local
from windlass.domain.outcome import (
    Cancel,
    Fail,
    Outcome,
    Snooze,
    decide_failure,
    describe_error,
)
from windlass.domain.policy import Fatal, Retry
from windlass.errors import StoreError

_AGAIN = Snooze("5s")
"""If the store cannot be asked about the run: that is no failure of the task."""


class UnfitResult(Fatal, TypeError):
    """What a task returned cannot be stored. It is not repeated: the work itself is done."""


class TaskAttempt:
    """One attempt; `run` and `arun` do the same for sync and async functions."""

    def __init__(
        self,
        task: Task,
        retry: Retry,
        ctx: Context | SyncContext,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        backend: str | None,
    ) -> None:
        self._task = task
        self._retry = retry
        self._ctx = ctx
        self._args = args
        self._kwargs = kwargs
        self._sender = type(task_backends[backend or task.backend])
        self._app: Windlass = get_app()

    def run(self) -> Any:
        """Call a sync function."""
        try:
            result = self._begun(self._app.get(self._ctx.run_id))
        except StoreError:
            return _AGAIN
        task_started.send_robust(self._sender, task_result=result)
        try:
            value = self._concluded(self._task.func(*self._before(result), **self._kwargs))
        except BaseException as error:
            if self._fails(result, error):
                task_finished.send_robust(self._sender, task_result=result)
            raise
        if self._succeeds(result, value):
            task_finished.send_robust(self._sender, task_result=result)
        return value

    async def arun(self) -> Any:
        """Call an async function."""
        try:
            result = self._begun(await self._app.aget(self._ctx.run_id))
        except StoreError:
            return _AGAIN
        await task_started.asend_robust(self._sender, task_result=result)
        try:
            value = self._concluded(await self._task.func(*self._before(result), **self._kwargs))
        except BaseException as error:
            if self._fails(result, error):
                await task_finished.asend_robust(self._sender, task_result=result)
            raise
        if self._succeeds(result, value):
            await task_finished.asend_robust(self._sender, task_result=result)
        return value

    def _begun(self, run: Run) -> TaskResult:
        return result_of(self._app, run, self._task)

    def _before(self, result: TaskResult) -> Sequence[Any]:
        """The positional arguments, the context among them if the task takes one."""
        context = (TaskContext(task_result=result),) if self._task.takes_context else ()
        return (*context, *self._args)

    def _concluded(self, value: object) -> object:
        """What Windlass is to make of a return value, in the types of JSON."""
        if isinstance(value, Fail):
            raise value.as_error()
        if isinstance(value, (Snooze, Cancel)):
            return value
        try:
            return normalize_json(value)
        except (TypeError, ValueError) as error:
            if self._ctx.is_last_attempt:
                raise
            raise UnfitResult(str(error)) from error

    def _succeeds(self, result: TaskResult, value: object) -> bool:
        """Whether the task has succeeded; if so, its result says it."""
        if isinstance(value, (Snooze, Cancel)):
            return False
        amend(
            result,
            status=TaskResultStatus.SUCCESSFUL,
            finished_at=local(self._app.sources.clock.now()),
            _return_value=value,
        )
        return True

    def _fails(self, result: TaskResult, error: BaseException) -> bool:
        """Whether the task fails for good by this error; if so, its result says it."""
        if isinstance(error, asyncio.CancelledError):
            return False  # the worker decides what becomes of an attempt that it stops
        verdict = decide_failure(
            self._retry,
            error,
            failures_before=self._ctx.failures,
            max_attempts=self._ctx.max_attempts,
            timed_out=False,
            random=0.0,
        )
        if verdict.outcome is not Outcome.FAILED:
            return False
        told = describe_error(error)
        path = describe_type(told.type)
        result.errors.append(TaskError(exception_class_path=path, traceback=told.traceback))
        amend(
            result,
            status=TaskResultStatus.FAILED,
            finished_at=local(self._app.sources.clock.now()),
        )
        return True
