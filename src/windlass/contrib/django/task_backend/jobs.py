"""Tasks as jobs: one for each task, named by the path of its function.

The input of a run is `{"args": […], "kwargs": {…}}`, and `"backend"` if it was enqueued through
another one than the task names. So a task can also be enqueued or scheduled by its name.
"""

from collections.abc import Callable
from functools import partial, reduce
from importlib import import_module
from typing import Any

from windlass.app import Windlass
from windlass.contrib.django.task_backend.attempt import TaskAttempt
from windlass.contrib.django.task_backend.names import InvalidTask, Task
from windlass.contrib.django.task_backend.task import WindlassTask
from windlass.domain.policy import Retry
from windlass.domain.reflection import is_coroutine_handler
from windlass.errors import BadOption, DuplicateJob
from windlass.files.registry import AnyJob

OPTIONS = ("max_attempts", "retry", "timeout")
"""What a backend's OPTIONS may say, for all tasks that do not say otherwise."""


def find_task(path: str) -> Task | None:
    """The task that a path leads to; imports its module. Raises whatever that raises."""
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    # A function may be in a class, so not only the last part may be a name inside the module.
    for length in range(len(parts) - 1, 0, -1):
        module = _module(".".join(parts[:length]))
        if module is not None:
            found = reduce(partial(_member, default=None), parts[length:], module)
            return found if isinstance(found, Task) and found.module_path == path else None
    return None


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise  # it is there, and lacks another module


def _member(holder: object, name: str, default: object) -> Any:
    return getattr(holder, name, default)


def define_job(app: Windlass, task: Task) -> AnyJob:
    """The job of a task; defined now, unless it was before. Raises InvalidTask."""
    known = app.jobs.get(task.module_path)
    if known is not None:
        return known
    options = _job_options(app, task)
    handler = _handler(task, options["retry"] or Retry())
    try:
        return app.job(name=task.module_path, **options)(handler)
    except DuplicateJob:  # by another thread, just now
        return app.jobs[task.module_path]
    except BadOption as error:
        raise InvalidTask(str(error)) from error


def define_found(app: Windlass, path: str) -> None:
    """Define the job of the task that a path leads to, if it leads to one."""
    task = find_task(path)
    if task is not None:
        define_job(app, task)


def _job_options(app: Windlass, task: Task) -> dict[str, Any]:
    options = {name: task.get_backend().options.get(name) for name in OPTIONS}
    if isinstance(task, WindlassTask):
        own = {name: getattr(task, name) for name in (*OPTIONS, "executor")}
        options.update((name, value) for name, value in own.items() if value is not None)
    if options["max_attempts"] is None:
        # Django repeats nothing by itself. Who names a policy wants it to be used.
        options["max_attempts"] = 1 if options["retry"] is None else app.settings.max_attempts
    return {**options, "queue": task.queue_name, "priority": task.priority}


def _handler(task: Task, retry: Retry) -> Callable[..., Any]:
    kind = _async_handler if is_coroutine_handler(task.func) else _sync_handler
    handler = kind(partial(TaskAttempt, task, retry))
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(handler, name, getattr(task.func, name))
    return handler


def _sync_handler(attempt: Callable[..., TaskAttempt]) -> Callable[..., Any]:
    def handle(
        ctx: Any,
        args: list[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        backend: str | None = None,
    ) -> Any:
        return attempt(ctx, args or [], kwargs or {}, backend).run()

    return handle


def _async_handler(attempt: Callable[..., TaskAttempt]) -> Callable[..., Any]:
    async def handle(
        ctx: Any,
        args: list[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        backend: str | None = None,
    ) -> Any:
        return await attempt(ctx, args or [], kwargs or {}, backend).arun()

    return handle
