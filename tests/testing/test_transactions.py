"""An application inside the transaction of a test: seen there, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import psycopg2
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from windlass import Context, Job, SchemaMismatch, UsageError, Windlass
from windlass.contrib.starlette import lifespan
from windlass.testing import (
    adrain,
    assert_enqueued,
    clock_of,
    drain,
    in_transaction,
    isolated,
    refute_enqueued,
)


@pytest.fixture
def greet() -> Job[Any, Any, Any]:
    """A job of an application whose own store does not exist."""
    app = Windlass("postgresql://nobody@nowhere.invalid/none")

    @app.job
    def step(name: str) -> str:
        return f"Hello, {name}"

    @app.job
    async def greet(ctx: Context, name: str) -> str:
        await step.aenqueue(name)
        return f"{name} will be greeted"

    return greet


@contextmanager
def rolled_back(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url) as connection:
        yield connection
        connection.rollback()


def committed(url: str) -> int:
    """How many runs there are for everybody to see."""
    app = Windlass(url)
    try:
        return len(app.list())
    finally:
        app.close()


def test_runs_are_seen_inside_and_rolled_back(greet: Job[Any, Any, Any], pg_database: str) -> None:
    for _ in range(2):
        with rolled_back(pg_database) as connection, in_transaction(greet.app, connection) as app:
            assert clock_of(app).now().year == 2030
            with connection.transaction():
                greet.using(connection=connection).enqueue("Ada")
            greet.enqueue("Grace")
            assert_enqueued(greet, count=2)
            results = [run.result for run in drain(app).check().runs]
            assert results[:2] == ["Ada will be greeted", "Grace will be greeted"]
            assert set(results[2:]) == {"Hello, Ada", "Hello, Grace"}
    assert committed(pg_database) == 0


async def test_async_connection(greet: Job[Any, Any, Any], pg_database: str) -> None:
    async with await psycopg.AsyncConnection.connect(pg_database) as connection:
        with in_transaction(greet.app, connection) as app:
            async with connection.transaction():
                await greet.using(connection=connection).aenqueue("Ada")
            assert_enqueued(greet, count=1)
            (await adrain(app)).check()
            newest, _ = await app.alist()
            assert newest.result == "Hello, Ada"
        await connection.rollback()
    assert committed(pg_database) == 0


def test_savepoint_that_is_undone_takes_its_runs_along(
    greet: Job[Any, Any, Any], pg_database: str
) -> None:
    with rolled_back(pg_database) as connection, in_transaction(greet.app, connection):
        with connection.transaction(force_rollback=True):
            greet.using(connection=connection).enqueue("Ada")
            assert_enqueued(greet)
        refute_enqueued(greet)


def test_transaction_that_was_ended_is_told(greet: Job[Any, Any, Any], pg_database: str) -> None:
    with rolled_back(pg_database) as connection, in_transaction(greet.app, connection):
        connection.commit()
        with pytest.raises(UsageError, match=r"transaction has ended.*create_savepoint"):
            greet.enqueue("Ada")
    assert committed(pg_database) == 0


def test_another_transaction_is_not_overlooked(greet: Job[Any, Any, Any], pg_database: str) -> None:
    with (
        rolled_back(pg_database) as connection,
        rolled_back(pg_database) as other,
        in_transaction(greet.app, connection),
    ):
        greet.using(connection=other).enqueue("Ada")
        with pytest.raises(UsageError, match="in a transaction that is still open"):
            refute_enqueued(greet)


def test_database_in_use_is_refused(greet: Job[Any, Any, Any], pg_database: str) -> None:
    store = Windlass(pg_database)
    store.jobs.add(greet)
    store.store.run(store.store.operations.sync_jobs([greet.spec.row("default")]))
    store.enqueue("greet", {"name": "Ada"})
    with (
        rolled_back(pg_database) as connection,
        pytest.raises(UsageError, match="has runs already: give tests a database of their own"),
        in_transaction(greet.app, connection),
    ):
        pass
    store.close()
    assert committed(pg_database) == 1


def test_database_without_schema_is_told(greet: Job[Any, Any, Any], pg_database: str) -> None:
    with rolled_back(pg_database) as connection:
        connection.execute("drop schema windlass cascade")
        with (
            pytest.raises(SchemaMismatch, match="windlass migrate"),
            in_transaction(greet.app, connection),
        ):
            pass


def test_other_drivers_are_refused(greet: Job[Any, Any, Any], pg_database: str) -> None:
    connection = psycopg2.connect(pg_database)
    with (
        pytest.raises(UsageError, match="need psycopg 3, and this connection is of psycopg2"),
        in_transaction(greet.app, connection),
    ):
        pass
    connection.close()


def test_lifespan_runs_no_worker_in_tests() -> None:
    with isolated() as app:

        @app.job
        def job() -> None: ...

        with TestClient(Starlette(lifespan=lifespan(app, poll="10ms"))):
            run = job.enqueue()
            assert app.workers() == []
        assert run.refresh().status == "queued"
        drain(app).check()
