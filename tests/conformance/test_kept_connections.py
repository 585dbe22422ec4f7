"""PostgreSQL: an answer that says no is an answer, and no reason to connect anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from tests.fixtures.callers import make_app
from windlass import KeyConflict, RunNotFound, StoreError, Windlass

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
def look(pg_database: str) -> Iterator[psycopg.Connection[tuple[list[int] | None]]]:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        yield connection


def sessions(look: psycopg.Connection[tuple[list[int] | None]]) -> list[int]:
    ((found,),) = look.execute(SESSIONS).fetchall()
    return found or []


def refuse(app: Windlass) -> None:
    with pytest.raises(KeyConflict):
        app.jobs["send"].using(key="k").enqueue(n=2)
    with pytest.raises(RunNotFound):
        app.cancel(NOBODY)
    with suppress(LookupError), app.transaction() as tx:
        tx.execute("select 1")
        raise LookupError


async def arefuse(app: Windlass) -> None:
    with pytest.raises(KeyConflict):
        await app.jobs["send"].using(key="k").aenqueue(n=2)
    with pytest.raises(RunNotFound):
        await app.acancel(NOBODY)


async def test_a_refusal_costs_no_connection(
    app: Windlass, look: psycopg.Connection[tuple[list[int] | None]]
) -> None:
    refuse(app)
    await arefuse(app)
    before = sessions(look)
    assert len(before) == 2, "one of each face"
    for _ in range(3):
        refuse(app)
        await arefuse(app)
    assert sessions(look) == before
    await app.aclose()


@pytest.mark.parametrize("where", ["call", "transaction"])
def test_a_server_that_takes_no_writes_is_not_kept(
    app: Windlass, look: psycopg.Connection[tuple[list[int] | None]], where: str
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
    app.list()
    assert before not in sessions(look)
