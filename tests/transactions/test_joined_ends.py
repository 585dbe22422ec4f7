"""The end of a run in the transaction of each driver: it counts if and only if that commits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.fixtures.callers import AsyncCaller, AsyncOwn, Caller, Own
from tests.transactions.test_joined_steps import held_of, started
from windlass import LeaseLost, Status
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Finish, ProgressWrite


def end_of(run: Claimed, token: int | None = None) -> Finish:
    return Finish(
        tenant=run.tenant, id=run.id, token=token or run.token, outcome=Outcome.SUCCEEDED,
        result=msgspec.Raw(b'{"id": 7}'),
    )  # fmt: skip


def join(caller: Caller, end: Finish, told: ProgressWrite | None = None) -> None:
    store, connection = caller.app.store, caller.connection
    if isinstance(caller, AsyncCaller):
        caller.do(store.ajoin_finish(connection, end, told))
    else:
        store.join_finish(connection, end, told)


def orders(caller: Caller) -> int:
    with caller.app.transaction() as tx:
        return int(tx.execute("select count(*) from orders")[0][0])


def test_a_run_has_ended_if_the_transaction_commits(caller: Caller) -> None:
    run = started(caller)
    told = ProgressWrite(
        tenant=run.tenant, id=run.id, token=run.token, fraction=0.9, message="nearly", detail=None
    )
    for commits in (False, True):
        caller.begin()
        caller.execute("insert into orders values (7)")
        join(caller, end_of(run), told)
        (caller.commit if commits else caller.rollback)()
        found = caller.app.get(run.id)
        assert found.status is (Status.SUCCEEDED if commits else Status.RUNNING)
        assert found.progress == (0.9 if commits else None)
        assert orders(caller) == commits
    assert found.raw_result == {"id": 7}
    late = caller.app.store.operations.cycle("w", 0, [end_of(run)], None)
    assert list(caller.app.store.run(late).lost) == [held_of(run)]


def test_a_lost_lease_lets_nothing_be_committed(caller: Caller) -> None:
    run = started(caller)
    caller.begin()
    caller.execute("insert into orders values (7)")
    with pytest.raises(LeaseLost):
        join(caller, end_of(run, run.token + 1))
    failed: BaseException | None = None
    try:
        caller.commit()
    except Exception as error:  # noqa: BLE001 - each driver has its own
        failed = error
        if not isinstance(caller, (Own, AsyncOwn)):  # whose end has rolled back
            caller.rollback()

    assert caller.app.get(run.id).status is Status.RUNNING
    assert orders(caller) == 0, failed


def test_what_is_no_connection_is_refused(caller: Caller) -> None:
    run = started(caller)
    other: Any = object()
    with pytest.raises(Exception, match="connection"):
        caller.app.store.join_finish(other, end_of(run), None)
