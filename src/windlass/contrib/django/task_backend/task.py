"""A Django task with the options of a Windlass job.

    @task(retry=Retry.exponential(base="10s"), max_attempts=8, timeout="5m")
    def charge(order: int) -> None: ...

    charge.using(key=f"charge-{order}", tags=["payments"]).enqueue(order)

`retry` and `executor` belong to the task: its worker finds them where it imports it. The others can
also be given to one run, by `using`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from windlass.client.requests import PLAIN
from windlass.contrib.django.task_backend.names import InvalidTask, Task
from windlass.domain.policy import Retry
from windlass.duration import Duration
from windlass.errors import UsageError


class TaskOptions(TypedDict, total=False):
    """What `using` takes. The first four are Django's own."""

    priority: int | None
    queue_name: str | None
    run_after: datetime | None
    backend: str | None
    max_attempts: int | None
    timeout: Duration | None
    key: str | None
    key_ttl: Duration | None
    unique: Literal["live"] | None
    tags: Iterable[str] | None
    expires: Duration | datetime | None
    deadline: Duration | datetime | None
    trace: str | None
    metadata: Mapping[str, Any] | None


RUN_OPTIONS = tuple(
    name
    for name in TaskOptions.__annotations__
    if name not in ("priority", "queue_name", "run_after", "backend")
)
"""Ours, that one run may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindlassTask(Task):
    """What `@task` makes for this backend.

    Tasks are equal if their function and Django's own options are: the task of a result is made
    anew, and not all of our options can be read back from its run.
    """

    retry: Retry | None = field(default=None, compare=False)
    """When a failed attempt is repeated. Without it and without `max_attempts`, never."""
    executor: Literal["process"] | None = field(default=None, compare=False)
    """`"process"`: in a child process of the worker, which can be killed."""
    max_attempts: int | None = field(default=None, compare=False)
    timeout: Duration | None = field(default=None, compare=False)
    key: str | None = field(default=None, compare=False)
    key_ttl: Duration | None = field(default=None, compare=False)
    unique: Literal["live"] | None = field(default=None, compare=False)
    tags: Iterable[str] | None = field(default=None, compare=False)
    expires: Duration | datetime | None = field(default=None, compare=False)
    deadline: Duration | datetime | None = field(default=None, compare=False)
    trace: str | None = field(default=None, compare=False)
    metadata: Mapping[str, Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Refuse what could not be enqueued. Raises InvalidTask."""
        Task.__post_init__(self)
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise InvalidTask(f"retry must be a Retry, not {self.retry!r}.")
        try:
            PLAIN.with_(**run_options(self))
        except UsageError as error:
            raise InvalidTask(str(error)) from error

    def using(self, **options: Unpack[TaskOptions]) -> "WindlassTask":
        """The same task with other options."""
        for name in options:
            if name not in TaskOptions.__annotations__:
                known = ", ".join(TaskOptions.__annotations__)
                raise TypeError(f"using() takes no {name}; it takes {known}.")
        given: dict[str, Any] = {name: o for name, o in options.items() if o is not None}
        return replace(self, **given)


def run_options(task: Task) -> dict[str, Any]:
    """Those of our options that a task has."""
    if not isinstance(task, WindlassTask):
        return {}
    given = {name: getattr(task, name) for name in RUN_OPTIONS}
    return {name: value for name, value in given.items() if value is not None}
