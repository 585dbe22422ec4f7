"""The backend: Django's tasks as runs of Windlass."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.apps import apps
from django.core import checks
from django.db import connections

from windlass.app import Windlass
from windlass.client import Run
from windlass.client.filters import check_id
from windlass.contrib.django import get_app
from windlass.contrib.django.databases import AliasWindlass
from windlass.contrib.django.task_backend.jobs import OPTIONS, define_job, find_task
from windlass.contrib.django.task_backend.names import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    normalize_json,
    task_enqueued,
)
from windlass.contrib.django.task_backend.results import backend_of, result_of
from windlass.contrib.django.task_backend.task import WindlassTask, run_options
from windlass.contrib.django.times import instant
from windlass.domain.job import define_job as check_job
from windlass.domain.job import is_name
from windlass.errors import RunNotFound, UsageError

APP = "windlass.contrib.django"


class WindlassBackend(BaseTaskBackend):
    """Enqueues tasks as runs; `manage.py windlass_worker` runs them.

    The async methods are Django's: they call the blocking ones in the thread that has the
    connections, so that a task is enqueued in the transaction that this thread may have open.
    """

    task_class = WindlassTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task) -> None:
        """Raise InvalidTask for what could not be run."""
        super().validate_task(task)
        if not is_name(task.queue_name):
            raise InvalidTask(
                f"Queue {task.queue_name!r} has spaces, commas or control characters, or is too "
                "long: Windlass cannot use it."
            )
        if not is_name(task.module_path):
            raise InvalidTask(f"The path of {task.module_path[:50]}… has more than 200 characters.")
        if inspect.isgeneratorfunction(task.func) or inspect.isasyncgenfunction(task.func):
            raise InvalidTask(f"{task.module_path} is a generator: nothing would run it.")

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Make a run of a task: in the transaction that is open, if the store is in its database.

        With a key that is known, it is the run that has it.
        """
        self.validate_task(task)
        app = get_app()
        definition = self._definition(task)
        job = define_job(app, definition)
        options: dict[str, Any] = {
            "priority": task.priority,
            "queue": task.queue_name,
            **_own_options(task, definition),
        }
        if task.run_after is not None:
            options["at"] = instant(task.run_after)
        if (connection := _open_transaction(app)) is not None:
            options["connection"] = connection
        input = {"args": normalize_json(args), "kwargs": normalize_json(kwargs)}
        if self.alias != definition.backend:
            input["backend"] = self.alias
        run = job.using(**options).enqueue(**input)
        result = result_of(app, run, task if run.created else definition)
        if run.created:
            task_enqueued.send_robust(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """The result of a task that was enqueued through this backend. Raises
        TaskResultDoesNotExist."""
        app = get_app()
        try:
            run = _read(app, result_id)
        except RunNotFound:
            raise TaskResultDoesNotExist(result_id) from None
        task = find_task(run.job)
        if task is None or backend_of(run, task) != self.alias:
            raise TaskResultDoesNotExist(result_id)
        return result_of(app, run, task)

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """What is wrong with the settings of this backend."""
        yield from super().check(**kwargs)
        here = f"TASKS[{self.alias!r}]"
        if not apps.is_installed(APP):
            yield checks.Error(
                f"{here} needs {APP!r} in INSTALLED_APPS.", id="windlass.E001", obj=self.alias
            )
        for queue in sorted(map(str, self.queues)):
            if not is_name(queue):
                yield checks.Error(
                    f"{here}: Windlass cannot use the queue {queue!r}.",
                    hint="Leave out spaces, commas and control characters.",
                    id="windlass.E002",
                    obj=self.alias,
                )
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            yield checks.Error(
                f"{here}: there are no OPTIONS {', '.join(unknown)}.",
                hint=f"There are {', '.join(OPTIONS)}.",
                id="windlass.E003",
                obj=self.alias,
            )
        try:
            given = {name: self.options[name] for name in OPTIONS if name in self.options}
            check_job(lambda: None, name="checked", **given)
        except UsageError as error:
            yield checks.Error(f"{here}: {error}", id="windlass.E004", obj=self.alias)

    def _definition(self, task: Task) -> Task:
        """The task as its module has it, which is what a worker finds."""
        found = find_task(task.module_path)
        if found is None or found.func is not task.func:
            raise InvalidTask(
                f"A worker cannot import {task.module_path}: the variable that holds a task must "
                "have the name of its function."
            )
        return found


def _own_options(task: Task, definition: Task) -> dict[str, Any]:
    """What this run has of its own; what the job says anyway need not be stored with each run."""
    defined = run_options(definition)
    return {
        name: value
        for name, value in run_options(task).items()
        if name not in OPTIONS or defined.get(name) != value
    }


def _open_transaction(app: Windlass) -> object | None:
    """Django's connection to the database of the store, if this thread has a transaction there."""
    if not isinstance(app, AliasWindlass):
        return None
    connection = connections[app.alias]
    inside = connection.in_atomic_block or not connection.get_autocommit()
    return connection if inside else None


def _read(app: Windlass, id: str) -> Run:
    connection = _open_transaction(app)
    if connection is None:
        return app.get(id)
    from windlass.store.postgres.store import PostgresStore

    store = app.store
    assert isinstance(store, PostgresStore)
    # What was enqueued in the open transaction is seen in no other.
    records = store.read_joined(connection, app.scope.tenant, [check_id(id)])
    if not records:
        raise RunNotFound(id)
    return Run(app.scope, records[0])
