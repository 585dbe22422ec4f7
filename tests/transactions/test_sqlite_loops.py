"""A transaction in a SQLite file that is open on a loop, and blocking calls on that loop's thread.

They would wait for the file's lock on the very thread that has to let it go.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE
from tests.fixtures.callers import make_app
from tests.transactions.conftest import joined
from windlass import UsageError, Windlass
from windlass.store.sqlite.callers_transaction import SqliteTransaction
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.store import SqliteStore

REFUSED = r"inside app\.transaction\(\).*aenqueue"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass]:
    # Where a test fails it waits for the lock until this has passed.
    defaults = SqliteStore.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "busy_seconds", 5.0)
    made = joined(make_app(f"sqlite:///{tmp_path}/windlass.db"))
    yield made
    made.close()


@asynccontextmanager
async def held(app: Windlass) -> Any:
    """A transaction of another task on this loop."""
    inside, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with app.transaction() as tx:
            await tx.execute("insert into orders values (1)")
            inside.set()
            await leave.wait()

    task = asyncio.get_running_loop().create_task(hold(), context=Context())
    await inside.wait()
    try:
        yield
    finally:
        leave.set()
        await task


async def orders(app: Windlass) -> int:
    """How many there are."""
    async with app.transaction() as tx:
        ((count,),) = await tx.execute("select count(*) from orders")
    return int(count)


async def test_blocking_write_does_not_wait_for_another_task_of_its_loop(app: Windlass) -> None:
    send = app.jobs["send"]
    async with held(app):
        with pytest.raises(UsageError, match=REFUSED):
            send.enqueue(n=1)
        waiting = asyncio.create_task(send.aenqueue(n=2))  # which has somewhere to wait
        await asyncio.sleep(0)
        assert app.list() == []
    await waiting
    send.enqueue(n=3)
    assert {run.input["n"] for run in app.list()} == {2, 3}
    assert await orders(app) == 1
    await app.aclose()


async def test_blocking_transaction_does_not_wait_for_another_task_of_its_loop(
    app: Windlass,
) -> None:
    async with held(app):
        with pytest.raises(UsageError, match=REFUSED), app.transaction():
            raise AssertionError("it was begun")
    with app.transaction() as tx:
        tx.execute("insert into orders values (2)")
    assert await orders(app) == 2
    await app.aclose()


async def test_another_application_on_the_file_does_not_wait_either(app: Windlass) -> None:
    other = make_app(app.store.place)
    async with held(app):
        with pytest.raises(UsageError, match=REFUSED):
            other.jobs["send"].enqueue(n=1)
    other.jobs["send"].enqueue(n=2)
    other.close()
    await app.aclose()


async def test_blocking_write_does_not_wait_for_a_task_that_blocks_and_awaits(
    app: Windlass,
) -> None:
    """A plain `with` on the loop, which its task leaves by awaiting, is as bad."""
    inside, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        with app.transaction():
            inside.set()
            await leave.wait()

    task = asyncio.get_running_loop().create_task(hold(), context=Context())
    await inside.wait()
    with pytest.raises(UsageError, match=REFUSED):
        app.jobs["send"].enqueue(n=1)
    leave.set()
    await task
    app.jobs["send"].enqueue(n=2)
    await app.aclose()


async def test_blocking_write_does_not_wait_for_a_task_that_is_about_to_get_the_lock(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread has it already, and the task is not told yet."""
    got, real = threading.Event(), Connection.try_begin

    def told(connection: Connection) -> bool:
        answer = real(connection)
        got.set()
        return answer

    async def hold() -> None:
        async with app.transaction() as tx:
            await tx.execute("insert into orders values (1)")

    monkeypatch.setattr(Connection, "try_begin", told)
    task = asyncio.get_running_loop().create_task(hold(), context=Context())
    await asyncio.sleep(0)
    assert got.wait(PATIENCE)  # on the loop, so that the task hears nothing
    with pytest.raises(UsageError, match=REFUSED):
        app.jobs["send"].enqueue(n=1)
    await task
    app.jobs["send"].enqueue(n=2)
    await app.aclose()


async def test_blocking_write_waits_for_a_transaction_that_ends_without_its_thread(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that is on its way is the executor's."""
    begun, go, real = threading.Event(), threading.Event(), SqliteTransaction.end

    def slowly(tx: SqliteTransaction, error: BaseException | None) -> None:
        begun.set()
        go.wait(PATIENCE)
        real(tx, error)

    async def hold() -> None:
        async with app.transaction() as tx:
            await tx.execute("insert into orders values (1)")
            monkeypatch.setattr(SqliteTransaction, "end", slowly)

    task = asyncio.get_running_loop().create_task(hold(), context=Context())
    await asyncio.to_thread(begun.wait, PATIENCE)
    timer = threading.Timer(0.02, go.set)
    timer.start()
    app.jobs["send"].enqueue(n=1)
    timer.join()
    await task
    assert [run.input["n"] for run in app.list()] == [1]
    await app.aclose()


async def test_blocking_write_of_another_thread_waits(app: Windlass) -> None:
    ended: list[Any] = []

    def enqueue() -> None:
        ended.append(app.jobs["send"].enqueue(n=1))

    def begin() -> None:
        with app.transaction() as tx:
            ended.append(app.jobs["send"].using(connection=tx).enqueue(n=2))

    threads = [threading.Thread(target=target) for target in (enqueue, begin)]
    async with held(app):
        for thread in threads:
            thread.start()
        await asyncio.to_thread(threads[0].join, 0.05)
        assert ended == []
    for thread in threads:
        await asyncio.to_thread(thread.join, PATIENCE)
    assert {run.input["n"] for run in ended} == {1, 2}
    await app.aclose()


def test_blocking_write_waits_for_a_transaction_that_another_thread_ends(app: Windlass) -> None:
    """Web frameworks enter and leave a dependency in whichever threads of their pool are free."""
    scope = app.transaction()
    Context().run(scope.__enter__)
    other = threading.Timer(0.02, scope.__exit__, [None, None, None])
    other.start()
    app.jobs["send"].enqueue(n=1)
    other.join()
    assert [run.input["n"] for run in app.list()] == [1]


async def test_transaction_that_was_canceled_holds_up_nothing(app: Windlass) -> None:
    for _ in range(3):
        inside = asyncio.Event()

        async def hold(inside: asyncio.Event = inside) -> None:
            async with app.transaction():
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.get_running_loop().create_task(hold(), context=Context())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        app.jobs["send"].enqueue(n=1)
    await app.aclose()
