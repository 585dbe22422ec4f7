"""A step in the transaction of each driver: recorded if and only if that commits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.fixtures.callers import AsyncCaller, AsyncOwn, Caller, Own
from windlass import LeaseLost
from windlass.domain.run import Claimed, Held, Want, WorkerInfo
from windlass.domain.step import Step, StepKind, StepState, StepWrite

PAID = StepWrite(
    path="pay",
    kind=StepKind.STEP,
    state=StepState.DONE,
    value=msgspec.Raw(b'{"id": 7}'),
    input="[7]",
)


def started(caller: Caller) -> Claimed:
    """A run that a worker holds."""
    app, operations = caller.app, caller.app.store.operations
    app.store.run(operations.sync_jobs([spec.row("default") for spec in app.jobs.specs()]))
    run = app.jobs["send"].enqueue(n=1)
    worker = WorkerInfo(id="w", host="h", pid=1, version="1", queues=None, jobs=("send",), seats=1)
    app.store.run(operations.register(worker, 3600.0))
    reply = app.store.run(operations.cycle("w", 1, (), Want(limit=1, jobs=("send",))))
    (claimed,) = reply.claimed
    assert claimed.id == run.id
    return claimed


def join(caller: Caller, held: Held, write: StepWrite | None = None) -> Step | None:
    store, connection = caller.app.store, caller.connection
    if isinstance(caller, AsyncCaller):
        return caller.do(store.ajoin_step(connection, held, "pay", write))
    return store.join_step(connection, held, "pay", write)


def held_of(run: Claimed) -> Held:
    return Held(run.tenant, run.id, run.token)


def recorded(caller: Caller, run: Claimed) -> list[str]:
    steps = caller.app.store.run(
        caller.app.store.operations.list_steps(run.tenant, run.id, None, 10)
    )
    return [step.path for step in steps]


@pytest.mark.parametrize("commits", [True, False])
def test_a_step_is_recorded_if_the_transaction_commits(caller: Caller, commits: bool) -> None:
    run = started(caller)
    caller.begin()

    before = join(caller, held_of(run))
    caller.execute("insert into orders values (7)")
    step = join(caller, held_of(run), PAID)
    again = join(caller, held_of(run))
    (caller.commit if commits else caller.rollback)()

    assert before is None
    assert step is not None
    assert (step.path, step.state, step.input) == ("pay", StepState.DONE, "[7]")
    assert again is not None
    assert msgspec.json.decode(again.value or b"") == {"id": 7}
    assert recorded(caller, run) == (["pay"] if commits else [])


def test_a_lost_lease_lets_nothing_be_committed(caller: Caller) -> None:
    run = started(caller)
    stale = Held(run.tenant, run.id, run.token + 1)
    caller.begin()
    caller.execute("insert into orders values (7)")

    with pytest.raises(LeaseLost):
        join(caller, stale, PAID)
    failed: BaseException | None = None
    try:
        caller.commit()
    except Exception as error:  # noqa: BLE001 - each driver has its own
        failed = error
        if not isinstance(caller, (Own, AsyncOwn)):  # whose end has rolled back
            caller.rollback()

    assert recorded(caller, run) == []
    with caller.app.transaction() as tx:
        assert tx.execute("select count(*) from orders")[0][0] == 0, failed


def test_what_is_no_connection_is_refused(caller: Caller) -> None:
    run = started(caller)
    other: Any = object()
    with pytest.raises(Exception, match="connection"):
        caller.app.store.join_step(other, held_of(run), "pay", None)
