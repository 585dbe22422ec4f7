"""Which function of this store does which operation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from windlass.store.operations import Call, Operation, Operations, implementations
from windlass.store.operations.declare import declared
from windlass.store.sqlite import (
    approvals,
    artifacts,
    audit,
    batches,
    bulk,
    changing,
    children,
    control,
    enqueue,
    feed,
    finish,
    firing,
    followers,
    inspection,
    jobs,
    listing,
    logs,
    pauses,
    retention,
    runs,
    schedules,
    signals,
    steps,
    sweep,
    units,
    workers,
)
from windlass.store.sqlite.open_transaction import AtOnce, OpenTransaction

T = TypeVar("T")
Together = Callable[[OpenTransaction, Sequence[Any]], Sequence[Any]]
TogetherAtOnce = Callable[[OpenTransaction, Sequence[Any]], Callable[[], Sequence[Any]] | None]

_FUNCTIONS = implementations(
    Operations,
    *(runs, listing, enqueue, control, bulk, workers, finish, sweep, jobs, schedules, firing),
    *(artifacts, inspection, feed, changing, steps, signals, approvals, children),
    *(followers, audit, batches, units, pauses, logs, retention),
)
_DECLARED = declared(Operations)
# Calls of these operations that wait together are done as one. The last function makes a list of
# the arguments of one call, whether they come by place or by name.
_TOGETHER: Mapping[Operation, tuple[Together, TogetherAtOnce, Callable[..., Sequence[Any]]]] = {
    _DECLARED["enqueue"]: (
        enqueue.enqueue_together,
        enqueue.enqueue_together_at_once,
        lambda runs, patient: runs,
    ),
    _DECLARED["record_steps"]: (
        steps.record_parts,
        lambda tx, parts: None,
        lambda held, steps: [(held, steps)],
    ),
}
# What does these operations by one statement, if it can.
_AT_ONCE: Mapping[Operation, Callable[..., Callable[[], Any] | None]] = {
    _DECLARED["enqueue"]: enqueue.enqueue_at_once,
    _DECLARED["cycle"]: finish.cycle_at_once,
    _DECLARED["renew"]: workers.renew_at_once,
    _DECLARED["sweep"]: sweep.sweep_at_once,
}


class Merge(NamedTuple):
    """How a call may be done as one with others of its sort.

    ``together`` takes the arguments of all, each of them a list, and answers for each; if it
    raises, nothing was done, and they are run one by one.
    """

    together: Together
    at_once: TogetherAtOnce
    argument: Sequence[Any]


class Bound(Generic[T]):
    """What does a call within a transaction, and how it may be done as one with others."""

    __slots__ = ("at_once", "body", "merge")

    def __init__(
        self,
        body: Callable[[OpenTransaction], T],
        merge: Merge | None = None,
        at_once: AtOnce[T] | None = None,
    ) -> None:
        self.body = body
        self.merge = merge
        self.at_once = at_once  # the same without a transaction


def bind(call: Call[T]) -> Bound[T]:
    """Find the function that does a call, and give it the arguments."""
    function = _FUNCTIONS[call.operation]
    together = _TOGETHER.get(call.operation)
    at_once = _AT_ONCE.get(call.operation)
    return Bound(
        lambda tx: function(tx, *call.arguments, **call.keywords),
        None if together is None else _merge(call, *together),
        at_once and (lambda tx: at_once(tx, *call.arguments, **call.keywords)),
    )


def _merge(
    call: Call[Any],
    together: Together,
    at_once: TogetherAtOnce,
    listed: Callable[..., Sequence[Any]],
) -> Merge:
    return Merge(together, at_once, listed(*call.arguments, **call.keywords))
