"""PostgreSQL: an answer that says no is an answer, and no reason to connect anew."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from tests.fixtures.apps import PATIENCE
from tests.fixtures.callers import make_app
from windlass import KeyConflict, RunNotFound, StoreError, Windlass
from windlass.store.postgres.connections import whole

WAITING = """
select pid from pg_stat_activity
 where wait_event_type = 'Lock' and datname = current_database()
"""
NOBODY = "01a1e10b-f770-7fd2-92f1-1ed5f62d63b8"
SESSIONS = """
select array_agg(pid order by pid) from pg_stat_activity
 where backend_type = 'client backend' and datname = current_database()
   and pid <> pg_backend_pid()
"""


@pytest.fixture
def app(pg_database: str) -> Iterator[Windlass]:
    made = make_app(pg_database)
    made.jobs["send"].using(key="k").enqueue(n=1)
    yield made
    made.close()


@pytest.fixture
def look(pg_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        yield connection


def sessions(look: psycopg.Connection[Any]) -> list[int]:
    ((found,),) = look.execute(SESSIONS).fetchall()
    return found or []


def refuse(app: Windlass) -> None:
    with pytest.raises(KeyConflict):
        app.jobs["send"].using(key="k").enqueue(n=2)
    with pytest.raises(RunNotFound):
        app.cancel(NOBODY)


async def arefuse(app: Windlass) -> None:
    with pytest.raises(KeyConflict):
        await app.jobs["send"].using(key="k").aenqueue(n=2)
    with pytest.raises(RunNotFound):
        await app.acancel(NOBODY)


async def test_a_refusal_costs_no_connection(app: Windlass, look: psycopg.Connection[Any]) -> None:
    refuse(app)
    await arefuse(app)
    before = sessions(look)
    assert len(before) == 2, "one of each face"
    for _ in range(3):
        refuse(app)
        await arefuse(app)
    assert sessions(look) == before
    await app.aclose()


async def left(look: psycopg.Connection[Any], session: int) -> None:
    """A session whose client has gone ends by itself."""
    async with asyncio.timeout(PATIENCE):
        while session in sessions(look):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("where", ["call", "transaction"])
async def test_a_server_that_takes_no_writes_is_not_kept(
    app: Windlass, look: psycopg.Connection[Any], where: str
) -> None:
    """It may be a standby by now, and the next connection lead to its successor."""
    (before,) = sessions(look)
    with app.transaction() as tx:
        tx.execute("set default_transaction_read_only = on")
    if where == "call":
        app.jobs["send"].enqueue(n=3)  # tried again, on another connection
    else:
        with suppress(StoreError), app.transaction() as tx:
            tx.execute("create table mine (n int)")
    await left(look, before)


@pytest.mark.parametrize("face", ["blocking", "async"])
async def test_what_a_transaction_raises_ends_its_session(
    app: Windlass, look: psycopg.Connection[Any], face: str
) -> None:
    """A rollback undoes no lock of the session's: kept, it would be held by nobody."""
    if face == "blocking":
        with suppress(LookupError), app.transaction() as tx:
            tx.execute("select pg_advisory_lock(7)")
            raise LookupError
    else:
        with suppress(LookupError):
            async with app.transaction() as atx:
                await atx.execute("select pg_advisory_lock(7)")
                raise LookupError
    look.execute("set statement_timeout = '30s'")
    look.execute("select pg_advisory_lock(7)")
    await app.aclose()


async def test_a_call_that_is_given_up_ends_its_session(
    app: Windlass, look: psycopg.Connection[Any], pg_database: str
) -> None:
    """Nobody has read its answer, and the next call must not get it."""
    run = app.list()[0]
    await run.arefresh()
    known = set(sessions(look))
    with psycopg.connect(pg_database) as other:
        other.execute("lock table windlass.runs in access exclusive mode")
        task = asyncio.create_task(run.arefresh())
        async with asyncio.timeout(PATIENCE):
            while not look.execute(WAITING).fetchall():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        ((session,),) = look.execute(WAITING).fetchall()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert session in known
    await left(look, session)
    await app.aclose()


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
async def test_a_connection_that_nobody_waits_for_any_more_is_closed(
    pg_database: str, again: bool
) -> None:
    """Canceled a second time when it is just made: a worker stops, and handlers cancel all."""
    made = await psycopg.AsyncConnection.connect(pg_database)
    begun, go = asyncio.Event(), asyncio.Event()

    async def connect() -> psycopg.AsyncConnection[Any]:
        begun.set()
        await go.wait()
        return made

    task = asyncio.create_task(whole(connect()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.sleep(0)
    if again:
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert made.closed


def test_an_application_that_is_dropped_leaves_no_session(
    pg_database: str, look: psycopg.Connection[Any]
) -> None:
    before = sessions(look)
    dropped = make_app(pg_database)
    dropped.jobs["send"].enqueue(n=1)
    assert len(sessions(look)) == len(before) + 1

    del dropped
    gc.collect()

    deadline = time.monotonic() + 10  # PostgreSQL ends a session when it hears that it is over
    while sessions(look) != before and time.monotonic() < deadline:
        look.execute("select pg_sleep(0.01)")
    assert sessions(look) == before
