"""Which function of this store packs which operation into a statement."""

from typing import TypeVar

from windlass.store.operations import Call, Operations, implementations
from windlass.store.postgres import (
    artifacts,
    audit,
    batches,
    children,
    control,
    events,
    followers,
    inspection,
    jobs,
    logs,
    pauses,
    retention,
    runs,
    schedules,
    steps,
    workers,
)
from windlass.store.postgres.statement import Statement

T = TypeVar("T")

_FUNCTIONS = implementations(
    Operations,
    *(runs, control, workers, jobs, schedules, artifacts, inspection, steps, children),
    *(followers, audit, batches, pauses, logs, events, retention),
)


def bind(call: Call[T]) -> Statement[T]:
    """Make the statement of a call. Raises what its arguments are refused for."""
    statement: Statement[T] = _FUNCTIONS[call.operation](*call.arguments, **call.keywords)
    return statement
