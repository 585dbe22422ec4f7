"""Which function of this store does which operation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from windlass.store.operations import Call, Operation, Operations, implementations
from windlass.store.operations.declare import declared
from windlass.store.sqlite import (
    artifacts,
    control,
    enqueue,
    finish,
    firing,
    inspection,
    jobs,
    runs,
    schedules,
    sweep,
    workers,
)
from windlass.store.sqlite.transaction import Transaction

T = TypeVar("T")
Together = Callable[[Transaction, Sequence[Any]], Sequence[Any]]

_FUNCTIONS = implementations(
    Operations,
    *(runs, enqueue, control, workers, finish, sweep, jobs, schedules, firing),
    *(artifacts, inspection),
)
# Calls of these operations that wait together are done as one.
_TOGETHER: Mapping[Operation, Together] = {
    declared(Operations)["enqueue"]: enqueue.enqueue_together
}


class Merge(NamedTuple):
    """How a call may be done as one with others of its sort.

    ``together`` takes the arguments of all, each of them a list, and answers for each; if it
    raises, nothing was done, and they are run one by one.
    """

    together: Together
    argument: Sequence[Any]


class Bound(Generic[T]):
    """What does a call within a transaction, and how it may be done as one with others."""

    __slots__ = ("body", "merge")

    def __init__(self, body: Callable[[Transaction], T], merge: Merge | None = None) -> None:
        self.body = body
        self.merge = merge


def bind(call: Call[T]) -> Bound[T]:
    """Find the function that does a call, and give it the arguments."""
    function = _FUNCTIONS[call.operation]
    together = _TOGETHER.get(call.operation)
    return Bound(
        lambda tx: function(tx, *call.arguments, **call.keywords),
        None if together is None else Merge(together, call.arguments[0]),
    )
