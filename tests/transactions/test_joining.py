"""A run that is enqueued in the caller's transaction exists if and only if that commits."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures.callers import CALLERS, Caller, make_app
from tests.transactions.conftest import joined, url_for
from windlass import KeyConflict, RunNotFound, Status, StoreError, UsageError, Windlass
from windlass.domain.run import Want, WorkerInfo

ROOT = Path(__file__).parents[2]


def orders(app: Windlass) -> list[int]:
    """What the caller's own table has, as others see it."""
    with app.transaction() as tx:
        return [n for (n,) in tx.execute("select n from orders order by n")]


def runs(app: Windlass) -> set[str]:
    """The runs that others see."""
    return {run.id for run in app.list()}


def claimed(app: Windlass) -> list[str]:
    """What a worker gets when it asks now."""
    ops = app.store.operations
    known = WorkerInfo(id="w", host="h", pid=1, version="1", queues=None, jobs=("send",), seats=9)
    app.store.run(ops.register(known, 30.0))
    reply = app.store.run(ops.cycle("w", 1, [], Want(limit=9, jobs=("send",))))
    return [run.id for run in reply.claimed]


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_transaction_that_is_over_refuses_everything(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    app = joined(make_app(url_for(request, store, tmp_path)))
    with app.transaction() as tx:
        pass
    job = app.jobs["send"].using(connection=tx)
    for late in (lambda: job.enqueue(n=1), lambda: tx.execute("insert into orders values (1)")):
        with pytest.raises(UsageError, match="This transaction is over"):
            late()
    with pytest.raises(UsageError, match="This transaction is over"), tx.savepoint():
        pass
    assert (app.list(), orders(app)) == ([], [])
    app.close()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_an_async_transaction_that_is_over_refuses_everything(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    app = joined(make_app(url_for(request, store, tmp_path)))
    with pytest.raises(ZeroDivisionError):
        async with app.transaction() as tx:
            raise ZeroDivisionError
    with pytest.raises(UsageError, match="This transaction is over"):
        await app.jobs["send"].using(connection=tx).aenqueue(n=1)
    with pytest.raises(UsageError, match="This transaction is over"):
        await tx.execute("insert into orders values (1)")
    assert (await app.alist(), orders(app)) == ([], [])
    await app.aclose()


def test_run_exists_once_the_transaction_commits(caller: Caller, look: Windlass) -> None:
    caller.begin()
    caller.execute("insert into orders values (1)")
    run = caller.enqueue(1, tags=["vip"], expires="1h", deadline="2h", priority=3, timeout="5s")
    assert (run.status, run.input, run.queue) == (Status.QUEUED, {"n": 1}, "mail")
    assert runs(look) == set()
    with pytest.raises(RunNotFound):
        look.get(run.id)
    assert look.run_events(run.id) == []
    if caller.store == "postgres":  # in a file nobody else can write, and so claim, meanwhile
        assert claimed(look) == []

    caller.commit()
    stored = look.get(run.id)
    for name in ("id", "job", "queue", "status", "priority", "input", "created_at", "tags",
                 "scheduled_for", "expires_at", "deadline_at", "options"):  # fmt: skip
        assert getattr(stored.record, name) == getattr(run.record, name), name
    assert [event.type for event in look.run_events(run.id)] == ["run.enqueued"]
    assert orders(look) == [1]
    assert claimed(look) == [run.id]


def test_nothing_is_left_of_a_rollback(caller: Caller, look: Windlass) -> None:
    caller.begin()
    caller.execute("insert into orders values (1)")
    run = caller.enqueue(1, key="k")
    caller.rollback()
    assert runs(look) == set()
    assert look.run_events(run.id) == []
    assert orders(look) == []
    # The key is free: it went with the run.
    caller.begin()
    again = caller.enqueue(1, key="k")
    caller.commit()
    assert runs(look) == {again.id} != {run.id}


def test_savepoint_undoes_its_part_alone(caller: Caller, look: Windlass) -> None:
    caller.begin()
    first = caller.enqueue(1)
    caller.savepoint()
    caller.execute("insert into orders values (2)")
    undone = caller.enqueue(2)
    caller.undo()
    last = caller.enqueue(3)
    caller.commit()
    assert runs(look) == {first.id, last.id}
    assert look.run_events(undone.id) == []
    assert orders(look) == []


def test_many_at_once_are_all_or_none(caller: Caller, look: Windlass) -> None:
    caller.begin()
    caller.enqueue_many(1, 2, 3)
    caller.rollback()
    caller.begin()
    made = caller.enqueue_many(4, 5, 6)
    assert runs(look) == set()
    caller.commit()
    assert runs(look) == {run.id for run in made}
    assert [run.input["n"] for run in made] == [4, 5, 6]


def test_key_answers_with_the_run_of_the_same_transaction(caller: Caller) -> None:
    caller.begin()
    first = caller.enqueue(1, key="order-1")
    # Not visible from any other connection; the handle was read through this one.
    second = caller.enqueue(1, key="order-1")
    caller.commit()
    assert (second.id, second.key, second.input) == (first.id, "order-1", {"n": 1})


def test_key_with_other_input_is_told_as_ever(caller: Caller, look: Windlass) -> None:
    known = look.jobs["send"].using(key="order-1").enqueue(n=1)
    caller.begin()
    with pytest.raises(KeyConflict) as caught:
        caller.enqueue(2, key="order-1")
    assert (caught.value.job, caught.value.key) == ("send", "order-1")
    assert caught.value.run == known.id
    caller.rollback()
    assert runs(look) == {known.id}


def test_delay_and_instant_are_kept(caller: Caller, look: Windlass) -> None:
    caller.begin()
    run = caller.enqueue(1, delay="1h")
    caller.commit()
    assert run.status is look.get(run.id).status is Status.SCHEDULED
    assert run.due_at == look.get(run.id).due_at


@pytest.mark.parametrize(
    "names",
    [
        [name for name, kind in CALLERS.items() if kind.store == "postgres"],
        # Only one at a time has the lock of a file.
        ["own-sqlite"],
        ["own-async-sqlite"],
    ],
)
def test_kill_before_the_commit_leaves_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, names: list[str]
) -> None:
    url = url_for(request, CALLERS[names[0]].store, tmp_path)
    app = joined(make_app(url))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.programs.transactor", url, *names],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        told = dict(process.stdout.readline().split() for _ in names)
        process.kill()  # while every transaction is open
    assert list(told) == names
    assert orders(app) == []  # in a file this waits for the lock that the dead one had
    assert runs(app) == set()
    assert [app.run_events(run) for run in told.values()] == [[]] * len(names)
    app.close()


def test_an_error_that_is_caught_does_not_undo_without_a_word(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """PostgreSQL has undone everything by then, and a commit would not say so."""
    app = joined(make_app(url_for(request, "postgres", tmp_path)))

    def careless() -> None:
        with app.transaction() as tx:
            tx.execute("insert into orders values (1)")
            with suppress(StoreError):
                tx.execute("insert into nowhere values (1)")

    with pytest.raises(UsageError, match="PostgreSQL has undone all of the transaction"):
        careless()
    with app.transaction() as tx:
        tx.execute("insert into orders values (2)")
        with suppress(StoreError), tx.savepoint():
            tx.execute("insert into nowhere values (1)")
    assert orders(app) == [2]
    app.close()
