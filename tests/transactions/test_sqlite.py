"""Transactions in a SQLite file: one lock, one SQLite, and no way to wait for oneself."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.fixtures.apps import PATIENCE, opened, working
from tests.fixtures.callers import Undone, make_app
from tests.transactions.conftest import joined
from windlass import BadOption, KeyConflict, StoreError, UsageError, Windlass
from windlass.store.sqlite.callers_transaction import SqliteTransaction
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.store import SqliteStore


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Windlass]:
    made = joined(make_app(f"sqlite:///{tmp_path}/windlass.db"))
    yield made
    made.close()


def test_python_module_sqlite3_is_refused_with_the_reason(app: Windlass) -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(BadOption, match=r"two copies of SQLite .* app\.transaction\(\)"):
        app.jobs["send"].using(connection=connection).enqueue(n=1)
    connection.close()


def test_transaction_of_another_file_is_refused(app: Windlass, tmp_path: Path) -> None:
    other = make_app(f"sqlite:///{tmp_path}/other.db")
    with other.transaction() as tx, pytest.raises(BadOption, match=r"other\.db"):
        app.jobs["send"].using(connection=tx).enqueue(n=1)
    other.close()


async def test_wrong_face_is_refused(app: Windlass) -> None:
    with app.transaction() as tx, pytest.raises(BadOption, match="use enqueue"):
        await app.jobs["send"].using(connection=tx).aenqueue(n=1)
    async with app.transaction() as atx:
        with pytest.raises(BadOption, match="use aenqueue"):
            app.jobs["send"].using(connection=atx).enqueue(n=1)
    await app.aclose()


def test_write_outside_the_transaction_does_not_wait_for_itself(app: Windlass) -> None:
    with app.transaction() as tx:
        with pytest.raises(UsageError, match="connection=tx"):
            app.jobs["send"].enqueue(n=1)
        with pytest.raises(UsageError, match=r"tx\.savepoint\(\)"), app.transaction():
            raise AssertionError("it was begun")
        app.jobs["send"].using(connection=tx).enqueue(n=2)
    app.jobs["send"].enqueue(n=3)
    assert [run.input["n"] for run in app.list()] == [3, 2]


async def test_async_write_outside_does_not_wait_for_itself(app: Windlass) -> None:
    async with app.transaction() as tx:
        with pytest.raises(UsageError, match="connection=tx"):
            await app.jobs["send"].aenqueue(n=1)
        run = await app.jobs["send"].using(connection=tx).aenqueue(n=2)
    assert [found.id for found in await app.alist()] == [run.id]
    await app.aclose()


async def test_write_that_would_join_others_does_not_wait_for_itself(app: Windlass) -> None:
    send = app.jobs["send"]
    async with app.transaction() as tx:
        # Somebody else's group waits for this very lock.
        other = asyncio.get_running_loop().create_task(send.aenqueue(n=1), context=_fresh())
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE / 2):
            with pytest.raises(UsageError, match="connection=tx"):
                await send.aenqueue(n=2)
        run = await send.using(connection=tx).aenqueue(n=3)
    await other
    assert {found.input["n"] for found in await app.alist()} == {1, 3}
    assert (await app.aget(run.id)).status == "queued"
    await app.aclose()


async def test_refusal_of_one_write_is_not_that_of_others(app: Windlass) -> None:
    send = app.jobs["send"]
    async with app.transaction():
        refused = asyncio.create_task(send.aenqueue(n=1))
        other = asyncio.get_running_loop().create_task(send.aenqueue(n=2), context=_fresh())
        with pytest.raises(UsageError, match="connection=tx"):
            await refused
    assert (await other).input == {"n": 2}
    await app.aclose()


def test_reads_go_on_beside_it(app: Windlass) -> None:
    run = app.jobs["send"].enqueue(n=1)
    with app.transaction() as tx:
        tx.execute("insert into orders values (1)")
        assert app.get(run.id).status == "queued"


async def test_first_async_read_does_not_wait_for_the_transaction_around_it(app: Windlass) -> None:
    """The first call opens the file, in the thread that writes; here the file is open already."""
    async with asyncio.timeout(15), app.transaction() as tx:
        await app.jobs["send"].using(connection=tx).aenqueue(n=1)
        assert await app.alist() == []
        assert await asyncio.create_task(app.alist()) == []
    assert len(await app.alist()) == 1
    await app.aclose()


@pytest.mark.parametrize("word", ["commit", "COMMIT", "end", "rollback", "begin immediate"])
def test_statements_cannot_end_it(app: Windlass, word: str) -> None:
    with app.transaction() as tx:
        tx.execute("insert into orders values (1)")
        with pytest.raises(UsageError, match=r"tx\.savepoint"):
            tx.execute(word)
        tx.execute("insert into orders values (2)")
    with app.transaction() as tx:
        assert tx.execute("select n from orders") == [(1,), (2,)]


def test_refused_statement_and_key_leave_the_rest(app: Windlass) -> None:
    app.jobs["send"].using(key="k").enqueue(n=1)
    with app.transaction() as tx:
        tx.execute("insert into orders values (?)", [1])
        with pytest.raises(StoreError, match="NOT NULL"):
            tx.execute("insert into orders values (:n)", {"n": None})
        with pytest.raises(KeyConflict):
            app.jobs["send"].using(key="k", connection=tx).enqueue(n=2)
        run = app.jobs["send"].using(connection=tx).enqueue(n=3)
    with app.transaction() as tx:
        assert tx.execute("select n from orders") == [(1,)]
    assert app.get(run.id).input == {"n": 3}


def test_it_is_over_at_its_end(app: Windlass) -> None:
    scope = app.transaction()
    with scope as tx:
        pass
    with pytest.raises(UsageError, match="over"):
        tx.execute("select 1")
    with pytest.raises(UsageError, match="over"):
        app.jobs["send"].using(connection=tx).enqueue(n=1)
    with pytest.raises(UsageError, match="used before"), scope:
        pass


def test_threads_take_turns(app: Windlass) -> None:
    def add(n: int) -> None:
        with app.transaction() as tx:
            (count,) = tx.execute("select count(*) from orders")[0]
            tx.execute("insert into orders values (?)", [count])
            app.jobs["send"].using(connection=tx).enqueue(n=n)

    threads = [threading.Thread(target=add, args=[n]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(run.input["n"] for run in app.list()) == list(range(8))
    with app.transaction() as tx:  # each has seen what those before it had written
        assert tx.execute("select n from orders order by n") == [(n,) for n in range(8)]


async def test_tasks_take_turns_and_the_loop_goes_on(app: Windlass) -> None:
    async def add(n: int) -> None:
        async with app.transaction() as tx:
            ((count,),) = await tx.execute("select count(*) from orders")
            await tx.execute("insert into orders values (?)", [count])
            await app.jobs["send"].using(connection=tx).aenqueue(n=n)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*[add(n) for n in range(20)])
    assert len(await app.alist()) == 20
    async with app.transaction() as tx:
        assert await tx.execute("select n from orders order by n") == [(n,) for n in range(20)]
    await app.aclose()


async def test_canceled_while_it_waits_leaves_the_lock_alone(app: Windlass) -> None:
    waiting = asyncio.Event()

    async def wait() -> None:
        waiting.set()
        async with app.transaction():
            raise AssertionError("the lock was another's")

    async with app.transaction() as tx:
        task = asyncio.get_running_loop().create_task(wait(), context=_fresh())
        await waiting.wait()
        await tx.execute("select 1")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with app.transaction() as tx:
        await tx.execute("insert into orders values (1)")
    await app.aclose()


async def test_canceled_as_it_gets_the_lock_lets_it_go(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, seen = threading.Event(), threading.Event()
    real = Connection.try_begin

    def slowly(connection: Connection) -> bool:
        got = real(connection)
        taken.set()
        seen.wait(PATIENCE)
        return got

    async def begin() -> None:
        async with app.transaction():
            raise AssertionError("nobody waits for it any more")

    monkeypatch.setattr(Connection, "try_begin", slowly)
    task = asyncio.create_task(begin())
    await asyncio.to_thread(taken.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.undo()
    seen.set()
    async with asyncio.timeout(PATIENCE), app.transaction() as tx:
        await tx.execute("insert into orders values (1)")
    await app.aclose()


async def test_canceled_inside_is_rolled_back(app: Windlass) -> None:
    inside = asyncio.Event()

    async def hold() -> None:
        async with app.transaction() as tx:
            await app.jobs["send"].using(connection=tx).aenqueue(n=1)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await app.alist() == []
    async with asyncio.timeout(PATIENCE), app.transaction():
        pass
    await app.aclose()


class Slow:
    """Statements of a caller's own, which take until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        real = Connection.execute

        def slowly(connection: Connection, sql: str, parameters: Any) -> Any:
            self.begun.set()
            self.go.wait(PATIENCE)
            return real(connection, sql, parameters)

        monkeypatch.setattr(Connection, "execute", slowly)

    async def cancel(self, task: asyncio.Task[Any], times: int) -> None:
        """Cancel a task in the midst of a statement, and again while it deals with that."""
        await asyncio.to_thread(self.begun.wait, PATIENCE)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        self.go.set()


def is_free(app: Windlass) -> bool:
    """Whether the file's write lock is nobody's."""
    assert isinstance(app.store, SqliteStore)
    connection = apsw.Connection(str(app.store.path))
    try:
        connection.execute("begin immediate")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_canceled_again_still_lets_the_lock_go(
    app: Windlass, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    free: list[bool] = []

    async def hold() -> None:
        try:
            async with app.transaction() as tx:
                await tx.execute("insert into orders values (1)")
        except asyncio.CancelledError:
            free.append(is_free(app))
            raise

    slow = Slow(monkeypatch)
    task = asyncio.create_task(hold())
    await slow.cancel(task, times)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert free == [True]
    async with app.transaction() as tx:
        assert await tx.execute("select * from orders") == []
    await app.aclose()


async def test_canceled_again_still_undoes_a_savepoint(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[BaseException] = []  # with its frames: none of them is left by being forgotten

    async def hold() -> None:
        async with app.transaction() as tx:
            try:
                async with tx.savepoint():
                    await tx.execute("insert into orders values (1)")
            except asyncio.CancelledError as error:
                kept.append(error)
            await tx.execute("insert into orders values (2)")

    slow = Slow(monkeypatch)
    task = asyncio.create_task(hold())
    await slow.cancel(task, 2)
    await task
    async with app.transaction() as tx:
        assert await tx.execute("select n from orders") == [(2,)]
    await app.aclose()


@pytest.mark.parametrize("times", [1, 2])
async def test_canceled_in_the_commit_is_committed_and_told(
    app: Windlass, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    begun, go, told = threading.Event(), threading.Event(), list[int]()
    real = Connection.commit

    def slowly(connection: Connection) -> None:
        begun.set()
        go.wait(PATIENCE)
        real(connection)

    async def tell() -> None:
        told.append(1)

    async def hold() -> None:
        async with app.transaction() as tx:
            await tx.execute("insert into orders values (1)")
            tx.after_commit(tell)
            monkeypatch.setattr(Connection, "commit", slowly)

    task = asyncio.create_task(hold())
    await asyncio.to_thread(begun.wait, PATIENCE)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == [1]
    async with app.transaction() as tx:
        assert await tx.execute("select n from orders") == [(1,)]
    await app.aclose()


async def test_savepoint_that_is_canceled_as_it_begins_is_left(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    real, savepoints = SqliteTransaction.savepoint, 0
    kept, left = list[BaseException](), list[int]()

    @contextlib.contextmanager
    def slowly(tx: SqliteTransaction) -> Iterator[None]:
        nonlocal savepoints
        with real(tx):
            savepoints += 1
            begun.set()
            go.wait(PATIENCE)
            try:
                yield
            finally:
                savepoints -= 1

    async def hold() -> None:
        async with app.transaction() as tx:
            await tx.execute("insert into orders values (1)")
            try:
                async with tx.savepoint():
                    raise AssertionError("nobody is to come here")
            except asyncio.CancelledError as error:
                kept.append(error)
            left.append(savepoints)
            await tx.execute("insert into orders values (2)")

    monkeypatch.setattr(SqliteTransaction, "savepoint", slowly)
    task = asyncio.create_task(hold())
    await asyncio.to_thread(begun.wait, PATIENCE)
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    await task
    assert left == [0]
    async with app.transaction() as tx:
        assert await tx.execute("select n from orders order by n") == [(1,), (2,)]
    await app.aclose()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_worker_starts_it_after_the_commit(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    if store == "postgres":
        url = request.getfixturevalue("pg_database")
    started: list[int] = []

    # A worker that is deaf to the hint would look again in an hour.
    async with opened(url, poll="1h") as app:

        @app.job
        async def note(n: int) -> None:
            started.append(n)

        async def ask(n: int) -> Any:
            return await note.using(connection=tx).aenqueue(n=n)

        async with working(app):
            first = await note.aenqueue(n=0)
            await app.aresult(first.id, timeout=PATIENCE)
            with contextlib.suppress(Undone):
                async with app.transaction() as tx:
                    await ask(1)
                    raise Undone
            async with app.transaction() as tx:
                run = await ask(2)
                assert started == [0]
            await app.aresult(run.id, timeout=PATIENCE)
    assert started == [0, 2]


def _fresh() -> Any:
    """A context that does not know of the transaction around it."""
    from contextvars import Context

    return Context()
