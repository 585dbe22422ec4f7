"""Transactions on PostgreSQL: wake-ups that ride along, autocommit, isolation, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg import sql
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.fixtures.callers import CALLERS, Caller, make_app
from windlass import BadOption, KeyConflict, SchemaMismatch, StoreError, UsageError, Windlass
from windlass.store.postgres import hints, joining
from windlass.store.postgres.joining import Hints

ON_POSTGRES = [name for name, kind in CALLERS.items() if kind.store == "postgres"]
FOREIGN = [name for name in ON_POSTGRES if not name.startswith("own")]


@pytest.fixture
def app(pg_database: str) -> Iterator[Windlass]:
    made = make_app(pg_database)
    yield made
    made.close()


@pytest.fixture
def listener(pg_database: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Hears what workers hear."""
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute("listen windlass")
        yield connection


def heard(listener: psycopg.Connection[tuple[object, ...]]) -> int:
    """How many hints have come. What was sent before is there: a server answers in order."""
    found = len(list(listener.notifies(timeout=0)))
    listener.execute("select 1")
    return found + len(list(listener.notifies(timeout=0)))


@pytest.mark.parametrize("caller", FOREIGN, indirect=True)
def test_hint_comes_with_the_commit_and_only_then(
    caller: Caller, listener: psycopg.Connection[tuple[object, ...]]
) -> None:
    caller.begin()
    caller.enqueue(1)
    assert heard(listener) == 0
    caller.rollback()
    assert heard(listener) == 0
    caller.app.store._joining._hints = Hints()  # type: ignore[attr-defined]
    caller.begin()
    for n in range(3):
        caller.enqueue(n)
    assert heard(listener) == 0
    caller.commit()
    assert heard(listener) == 1


@pytest.mark.parametrize("caller", ["own", "own-async"], indirect=True)
def test_hint_comes_after_a_transaction_of_ours(
    caller: Caller, listener: psycopg.Connection[tuple[object, ...]]
) -> None:
    caller.begin()
    caller.enqueue(1)
    caller.rollback()
    assert heard(listener) == 0
    caller.begin()
    caller.enqueue(1)
    assert heard(listener) == 0
    caller.commit()
    assert heard(listener) == 1


def test_hints_are_few_and_per_queue(
    app: Windlass,
    pg_database: str,
    listener: psycopg.Connection[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joining, "HINT_SECONDS", 3600.0)
    with psycopg.connect(pg_database, autocommit=True) as connection:
        for n in range(40):
            app.jobs["send"].using(connection=connection).enqueue(n=n)
    assert heard(listener) == 1

    hints = Hints()
    assert hints.due(["a"])
    assert not hints.due(["a"])
    assert hints.due(["a", "b"])  # b has had none
    assert not hints.due(["b"])
    monkeypatch.setattr(joining, "HINT_SECONDS", 0.0)
    hints = Hints()
    assert hints.due(["a"])
    assert hints.due(["a"])  # its time is over


@pytest.mark.parametrize("face", ["sync", "async"])
def test_hints_outside_of_transactions_are_few(
    app: Windlass,
    listener: psycopg.Connection[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
    face: str,
) -> None:
    """A NOTIFY takes a lock of the whole server: one in 5 to 20 ms for each process is enough."""
    now = 1000.0
    stopwatch = SimpleNamespace(monotonic=lambda: now, sleep=time.sleep)
    monkeypatch.setattr(hints, "time", stopwatch)
    assert 0.005 <= hints._EVERY <= 0.02

    async def enqueue_on_a_loop() -> None:
        for n in range(10):
            await app.jobs["send"].aenqueue(n=n)
        await app.aclose()

    def burst() -> int:
        if face == "async":
            asyncio.run(enqueue_on_a_loop())
        else:
            for n in range(10):
                app.jobs["send"].enqueue(n=n)
        return heard(listener)

    assert burst() == 1
    now += hints._EVERY * 0.99
    assert burst() == 0
    now += hints._EVERY * 0.02
    assert burst() == 1
    assert burst() == 0


async def enqueued(app: Windlass, face: str) -> None:
    if face == "async":
        await app.jobs["send"].aenqueue(n=1)
    else:
        app.jobs["send"].enqueue(n=1)


def statements(database: str) -> Counter[str]:
    """What the sessions of other clients did last."""
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "select query from pg_stat_activity where datname = current_database()"
            " and backend_type = 'client backend' and pid <> pg_backend_pid()"
        ).fetchall()
    return Counter("hint" if "pg_notify" in str(query) else "other" for (query,) in rows)


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_single_enqueue_hints_with_its_commit(
    app: Windlass,
    pg_database: str,
    listener: psycopg.Connection[tuple[object, ...]],
    face: str,
) -> None:
    """Without a second call, for which its caller and the worker would wait."""
    await enqueued(app, face)
    assert heard(listener) == 1
    assert not statements(pg_database)["hint"]
    await app.aclose()


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_who_finds_another_about_to_hint_does_not_wait_for_it(
    app: Windlass,
    pg_database: str,
    listener: psycopg.Connection[tuple[object, ...]],
    face: str,
) -> None:
    """It hints after its own commit."""
    with psycopg.connect(pg_database) as other:
        other.execute("select pg_advisory_xact_lock(hashtextextended('windlass.hint', 0))")
        await asyncio.wait_for(enqueued(app, face), 5)
        assert heard(listener) == 1
        assert statements(pg_database)["hint"]
    await app.aclose()


def test_an_enqueue_that_is_refused_uses_up_no_hint(
    app: Windlass, pg_database: str, listener: psycopg.Connection[tuple[object, ...]]
) -> None:
    with psycopg.connect(pg_database, autocommit=True) as owner:
        owner.execute("alter table windlass.ready add constraint refused check (job <> 'send')")
        with pytest.raises(StoreError):
            app.jobs["send"].enqueue(n=1)
        owner.execute("alter table windlass.ready drop constraint refused")
    app.jobs["send"].enqueue(n=2)
    assert heard(listener) == 1


def test_existing_run_gives_no_hint(
    app: Windlass, pg_database: str, listener: psycopg.Connection[tuple[object, ...]]
) -> None:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        job = app.jobs["send"].using(connection=connection, key="k")
        job.enqueue(n=1)
        assert heard(listener) == 1
        app.store._joining._hints = Hints()  # type: ignore[attr-defined]
        job.enqueue(n=1)
        assert heard(listener) == 0


def test_autocommit_commits_the_run_at_once(app: Windlass, pg_database: str) -> None:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        run = app.jobs["send"].using(connection=connection).enqueue(n=1)
        assert run.refresh().status == "queued"


def test_by_name_in_the_callers_transaction(app: Windlass, pg_database: str) -> None:
    with psycopg.connect(pg_database) as connection:
        run = app.enqueue("send", {"n": 1}, connection=connection)
        assert app.list() == []
    assert app.get(run.id).input == {"n": 1}


def test_session_is_neither_read_nor_set(app: Windlass, pg_database: str) -> None:
    with psycopg.connect(pg_database) as connection:
        connection.execute("set search_path = nowhere")
        connection.execute("set timezone = 'Asia/Kathmandu'")
        connection.execute("set datestyle = 'German, DMY'")
        # The language of our functions brings settings of its own when it is first used.
        settings = "select name, setting from pg_settings where name not like 'plpgsql%' order by 1"
        before = connection.execute(settings).fetchall()
        run = app.jobs["send"].using(connection=connection, delay="1h").enqueue(n=1)
        assert connection.execute(settings).fetchall() == before
    assert app.get(run.id).due_at == run.due_at


def test_refused_key_has_aborted_the_transaction(app: Windlass, pg_database: str) -> None:
    app.jobs["send"].using(key="k").enqueue(n=1)
    with psycopg.connect(pg_database) as connection:
        with pytest.raises(KeyConflict):
            app.jobs["send"].using(key="k", connection=connection).enqueue(n=2)
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("select 1")
        connection.rollback()
        # In a savepoint, only what is in it.
        first = app.jobs["send"].using(connection=connection).enqueue(n=3)
        with pytest.raises(KeyConflict), connection.transaction():
            app.jobs["send"].using(key="k", connection=connection).enqueue(n=2)
    assert app.get(first.id).status == "queued"


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_key_of_an_open_transaction_is_waited_for(
    app: Windlass, pg_database: str, ends: str
) -> None:
    with psycopg.connect(pg_database) as connection, psycopg.connect(pg_database) as other:
        first = app.jobs["send"].using(key="k", connection=connection).enqueue(n=1)
        made: list[str] = []

        def wait() -> None:
            made.append(app.jobs["send"].using(key="k", connection=other).enqueue(n=1).id)

        thread = threading.Thread(target=wait)
        thread.start()
        with psycopg.connect(pg_database, autocommit=True) as watch:
            while not watch.execute(
                "select 1 from pg_stat_activity where wait_event_type = 'Lock' "
                "and datname = current_database()"
            ).fetchall():
                assert thread.is_alive()
        getattr(connection, ends)()
        thread.join(10)
    assert (made == [first.id]) is (ends == "commit")
    assert [run.id for run in app.list()] == made


def test_stricter_isolation_gets_the_drivers_own_error(app: Windlass, pg_database: str) -> None:
    with psycopg.connect(pg_database) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select 1")
        app.jobs["send"].using(key="k").enqueue(n=1)
        with pytest.raises(psycopg.errors.SerializationFailure):
            app.jobs["send"].using(key="k", connection=connection).enqueue(n=1)
        connection.rollback()


def test_database_without_our_schema_is_told(app: Windlass, pg_database: str) -> None:
    with psycopg.connect(pg_database) as connection:
        connection.execute("drop schema windlass cascade")
        told = "database of this connection has no Windlass schema: .*`windlass migrate` for this"
        with pytest.raises(SchemaMismatch, match=told):
            app.jobs["send"].using(connection=connection).enqueue(n=1)
        connection.rollback()


def test_a_caller_needs_no_right_but_to_enqueue(app: Windlass, pg_database: str) -> None:
    role = f"clerk_{pg_database.rpartition('_')[2]}"
    with psycopg.connect(pg_database) as connection:
        connection.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
        for grant in ("usage on schema windlass", "execute on function windlass.enqueue",
                      "execute on function windlass.get_runs",
                      "execute on function windlass.json_text"):  # fmt: skip
            connection.execute(
                sql.SQL("grant {} to {}").format(sql.SQL(grant), sql.Identifier(role))
            )
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        job = app.jobs["send"].using(connection=connection, key="k")
        assert job.enqueue(n=1).id == job.enqueue(n=1).id
        connection.rollback()


# -- what cannot be joined ------------------------------------------------------------------------


@pytest.mark.parametrize("thing", ["postgresql://", 7, object(), sqlalchemy])
def test_anything_else_is_refused_by_name(app: Windlass, thing: object) -> None:
    with pytest.raises(BadOption, match=r"psycopg .*asyncpg.*SQLAlchemy.*Django") as caught:
        app.jobs["send"].using(connection=thing).enqueue(n=1)
    assert caught.value.option == "connection"
    assert app.list() == []


@pytest.mark.parametrize("caller", ON_POSTGRES, indirect=True)
def test_wrong_face_is_refused(caller: Caller) -> None:
    caller.begin()
    job = caller.job.using(connection=caller.connection)
    blocks = "async" not in caller.name
    ways = {
        "own": "this app.transaction() blocks: use enqueue, or begin it by `async with`",
        "own-async": "this app.transaction() is asynchronous: use aenqueue, or begin it by `with`",
        "django": "DatabaseWrapper blocks: use enqueue, in a function that async code calls",
    }
    way = ways.get(caller.name, "blocks: use enqueue, or an" if blocks else "use aenqueue")
    with pytest.raises(BadOption, match=re.escape(way)):
        _ = asyncio.run(job.aenqueue(n=1)) if blocks else job.enqueue(n=1)
    caller.commit()
    assert caller.app.list() == []


async def test_pool_is_no_transaction(app: Windlass, pg_database: str) -> None:
    async with asyncpg.create_pool(pg_database, min_size=1, max_size=1) as pool:
        with pytest.raises(BadOption, match=r"asyncpg\.pool\.Pool is not a connection"):
            await app.jobs["send"].using(connection=pool).aenqueue(n=1)
        async with pool.acquire() as connection, connection.transaction():
            run = await app.jobs["send"].using(connection=connection).aenqueue(n=1)
    assert (await app.aget(run.id)).status == "queued"
    await app.aclose()


def test_subclasses_wraps_and_other_cursors_are_known(app: Windlass, pg_database: str) -> None:
    class OwnSession(Session):
        """As frameworks make them."""

    engine = sqlalchemy.create_engine(pg_database.replace("postgresql:", "postgresql+psycopg:"))
    session = scoped_session(sessionmaker(engine, class_=OwnSession))
    app.jobs["send"].using(connection=session).enqueue(n=1)
    session.commit()
    with OwnSession(engine) as own, own.begin():
        app.jobs["send"].using(connection=own).enqueue(n=2)
    session.remove()
    engine.dispose()
    # A cursor that takes $1 for a placeholder, and a pipeline that answers later.
    with psycopg.connect(pg_database, cursor_factory=psycopg.RawCursor) as connection:
        app.jobs["send"].using(connection=connection).enqueue(n=3)
        with connection.pipeline():
            app.jobs["send"].using(connection=connection).enqueue(n=4)
    assert sorted(run.input["n"] for run in app.list()) == [1, 2, 3, 4]


def test_other_databases_of_the_libraries_are_refused(app: Windlass) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(BadOption, match="leads to sqlite"):
        app.jobs["send"].using(connection=connection).enqueue(n=1)
    engine.dispose()


def test_requests_of_several_transactions_are_not_mixed(app: Windlass, pg_database: str) -> None:
    job = app.jobs["send"]
    with psycopg.connect(pg_database) as connection:
        with pytest.raises(BadOption, match="same one"):
            app.enqueue_many([job.request(n=1), job.using(connection=connection).request(n=2)])
        app.enqueue_many([job.using(connection=connection).request(n=n) for n in range(3)])
        assert app.list() == []
    assert len(app.list()) == 3


def test_errors_of_own_statements_are_the_stores(app: Windlass) -> None:
    with pytest.raises(StoreError, match="nowhere"), app.transaction() as tx:
        tx.execute("select * from nowhere")
    with pytest.raises(UsageError, match=r"tx\.savepoint"), app.transaction() as tx:
        tx.execute("commit")
    with app.transaction() as tx:
        assert tx.execute("select '100%'") == [("100%",)]
        assert tx.execute("select %s + 1", [1]) == [(2,)]


async def test_canceled_again_commits_nothing_that_was_to_be_undone(app: Windlass) -> None:
    undoing = asyncio.Event()

    async def hold() -> None:
        async with app.transaction() as tx:
            await tx.execute("create table orders (n integer)")
            with contextlib.suppress(asyncio.CancelledError):
                async with tx.savepoint():
                    await tx.execute("insert into orders values (1)")
                    undoing.set()
                    await asyncio.Event().wait()
            await tx.execute("insert into orders values (2)")

    task = asyncio.create_task(hold())
    await undoing.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(StoreError):
        await task
    async with app.transaction() as tx:
        assert await tx.execute("select to_regclass('orders')") == [(None,)]
    await app.aclose()


def test_key_of_a_run_whose_row_is_odd_is_answered_by_that_run(
    app: Windlass, pg_database: str
) -> None:
    """A release before, or SQL by hand, may have stored what does not decode."""
    run = app.jobs["send"].using(key="k").enqueue(n=1)
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute("update windlass.runs set options = '[]'")
    with app.transaction() as tx:
        assert app.jobs["send"].using(key="k", connection=tx).enqueue(n=1).id == run.id
