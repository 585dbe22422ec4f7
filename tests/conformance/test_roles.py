"""The rights that docs/protocol.md tells of, and roles at work that have no others."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Cluster
from tests.fixtures.apps import PATIENCE, opened, working
from tests.fixtures.postgres import drop_database, with_database
from windlass import Retry, Status
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore


class Login:
    """A role that may connect, and has no right beside those that a test gives it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.name = f"wl_login_{secrets.token_hex(6)}"
        self.password = secrets.token_hex(8)

    def url(self, database: str) -> str:
        """A database's URL, as this role."""
        parts = urlsplit(with_database(self._cluster.dsn, database))
        _, _, host = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{self.name}:{self.password}@{host}").geturl()

    def grant(self, url: str, *commands: str) -> None:
        """Run commands of the database's owner, in which {} is the role."""
        with psycopg.connect(url, autocommit=True) as conn:
            for command in commands:
                conn.execute(sql.SQL(command).format(sql.Identifier(self.name)))


@pytest.fixture
def login(pg_cluster: Cluster) -> Iterator[Login]:
    """A role of the test's own."""
    made = Login(pg_cluster)
    create = "create role {} login nosuperuser nocreatedb nocreaterole password "
    with psycopg.connect(pg_cluster.dsn, autocommit=True) as conn:
        name, password = sql.Identifier(made.name), sql.Literal(made.password)
        conn.execute(sql.SQL(create).format(name) + password)
        yield made
        conn.execute(sql.SQL("drop owned by {}").format(name))
        conn.execute(sql.SQL("drop role {}").format(name))


async def _work(url: str) -> None:
    """Run jobs, and look at them."""
    async with opened(url) as app:

        @app.job
        async def greet(name: str) -> str:
            return f"Hello, {name}"

        @app.job(retry=Retry.never())
        async def fail() -> None:
            raise ValueError

        async with working(app), asyncio.timeout(PATIENCE):
            run = await greet.aenqueue(name="Ada")
            failed = await fail.aenqueue()
            assert await app.aresult(run.id) == "Hello, Ada"
            await failed.await_end()
            assert [worker.alive for worker in await app.aworkers()] == [True]
        assert [event.type for event in await run.aevents()] == [
            "run.enqueued", "run.started", "run.succeeded",
        ]  # fmt: skip
        assert len(await app.alist()) == 2
        assert (await failed.aretry()).status is Status.QUEUED
        assert (await failed.acancel()).status is Status.CANCELED


def test_the_owner_of_a_database_needs_no_other_right(pg_cluster: Cluster, login: Login) -> None:
    database = f"wl_owned_{secrets.token_hex(6)}"
    with psycopg.connect(pg_cluster.dsn, autocommit=True) as conn:
        owner = sql.Identifier(login.name)
        create = sql.SQL("create database {} owner {} template template0")
        conn.execute(create.format(sql.Identifier(database), owner))
    try:
        with PostgresStore(login.url(database), sources=Sources.system()) as store:
            store.migrate()
            store.migrate()  # and again, as at the next release
        asyncio.run(_work(login.url(database)))
    finally:
        drop_database(pg_cluster.dsn, database)


def test_python_needs_to_call_functions_and_no_other_right(pg_database: str, login: Login) -> None:
    login.grant(
        pg_database,
        "grant usage on schema windlass to {}",
        "grant execute on all functions in schema windlass to {}",
    )

    asyncio.run(_work(login.url(urlsplit(pg_database).path[1:])))

    login.grant(pg_database, "drop owned by {}")
