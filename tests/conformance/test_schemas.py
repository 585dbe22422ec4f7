"""Two applications in one database, each in a schema of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.apps import PATIENCE, opened, working
from windlass import BadOption, StoreError, Windlass
from windlass.store.postgres.naming import check_schema, in_schema
from windlass.store.queries import load_migrations, load_queries, read_folder

SHOP = "shop"


def define(app: Windlass) -> None:
    @app.job
    async def where(n: int = 0) -> list[object]:
        return [app.store.place, n]


@pytest.fixture
async def shop(pg_database: str) -> AsyncIterator[Windlass]:
    """An application in a schema of its own, in the database that has the other's."""
    async with opened(f"{pg_database}?schema={SHOP}") as app:
        app.migrate()
        define(app)
        yield app


@pytest.fixture
async def plain(pg_database: str) -> AsyncIterator[Windlass]:
    """An application in the schema `windlass`."""
    async with opened(pg_database) as app:
        define(app)
        yield app


async def test_each_sees_its_own_runs_and_works_on_them_alone(
    shop: Windlass, plain: Windlass
) -> None:
    async with working(shop), working(plain):
        there = await shop.aenqueue("where", {"n": 1}, key="k", tags=["t"])
        here = await plain.aenqueue("where", {"n": 2}, key="k", tags=["t"])
        assert there.id != here.id  # one key, in two schemas
        found = [await app.aresult(run.id, timeout=PATIENCE)
                 for app, run in ((shop, there), (plain, here))]  # fmt: skip
    assert found == [[shop.store.place, 1], [plain.store.place, 2]]
    assert [run.id for run in shop.list()] == [there.id]
    assert [run.id for run in plain.list()] == [here.id]
    assert shop.store.place == f"{plain.store.place}?schema={SHOP}"
    assert [event.type for event in shop.run_events(there.id)] != []


async def test_schedules_and_control_stay_apart(shop: Windlass, plain: Windlass) -> None:
    stored = await shop.schedules.aput("where", key="s", interval="1h")
    run = await shop.schedules.atrigger(stored.id)
    assert run is not None
    await run.acancel()
    assert (await run.arefresh()).status == "canceled"
    assert await plain.schedules.alist() == []
    assert plain.list() == []


def test_a_callers_transaction_enqueues_in_the_right_one(
    shop: Windlass, plain: Windlass, pg_database: str
) -> None:
    with psycopg.connect(pg_database) as conn:
        run = shop.jobs["where"].using(connection=conn).enqueue()
        many = shop.enqueue_many([("where", {"n": 1}), ("where", {"n": 2})], connection=conn)
        assert shop.list() == []
    with shop.transaction() as tx:
        own = shop.jobs["where"].using(connection=tx).enqueue()
        # The user's own SQL is left as it is.
        assert tx.execute("select 'windlass', count(*) from windlass.runs") == [("windlass", 0)]
    ids = {found.id for found in shop.list()}
    assert ids == {run.id, own.id, *(one.id for one in many)}
    assert plain.list() == []


async def test_wake_ups_of_one_do_not_wake_the_other(
    shop: Windlass, plain: Windlass, pg_database: str
) -> None:
    wakeups = await shop.store.listen()
    async with asyncio.timeout(PATIENCE):
        await wakeups.listening.wait()  # type: ignore[attr-defined]
    await wakeups.wait(0)  # it wakes itself when it begins to listen
    with psycopg.connect(pg_database, autocommit=True) as listener:
        listener.execute("listen windlass")
        listener.execute("listen shop")
        listener.execute("select pg_notify('shop', '')")
        assert await wakeups.wait(PATIENCE)
        await shop.store.anotify()
        with listener.transaction():
            shop.jobs["where"].using(connection=listener).enqueue()
        await plain.store.anotify()
        heard = [notify.channel for notify in listener.notifies(timeout=PATIENCE, stop_after=4)]
    assert heard == ["shop", "shop", "shop", "windlass"]
    await wakeups.close()


def test_migrations_do_not_wait_for_each_other(shop: Windlass, pg_database: str) -> None:
    with psycopg.connect(pg_database) as conn:
        conn.execute(load_queries("postgres")["lock_schema"])  # the other's migration
        done = threading.Thread(target=shop.migrate, daemon=True)
        done.start()
        done.join(PATIENCE)
        assert not done.is_alive()


def test_doctor_looks_at_the_schema_that_it_is_about(shop: Windlass, pg_database: str) -> None:
    with psycopg.connect(pg_database) as conn:
        conn.execute("drop index shop.runs_by_job")
        conn.commit()
    told = [
        finding
        for check in shop.store.checks()
        if check.name in ("tables", "functions")
        for finding in check.look(None)  # type: ignore[arg-type]
    ]
    advice = [finding.advice for finding in told if "runs_by_job" in finding.text]
    assert len(advice) == 1
    assert advice[0].startswith("Make it again: create index runs_by_job on shop.runs (")


@contextmanager
def role(admin: psycopg.Connection[object], name: str) -> Iterator[None]:
    admin.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
    try:
        yield
    finally:
        admin.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(name)))


def test_a_role_that_is_called_windlass_keeps_its_grants(shop: Windlass, pg_database: str) -> None:
    with ExitStack() as stack:
        admin = stack.enter_context(psycopg.connect(pg_database, autocommit=True))
        stack.enter_context(role(admin, "windlass"))
        # As after an upgrade that changes what a function returns: all are made anew, and what was
        # granted is granted again, by a statement that the server writes.
        admin.execute("drop function shop.uuid7()")
        made = "create function shop.uuid7() returns text language sql as 'select text $$x$$'"
        admin.execute(made)
        admin.execute("grant execute on function shop.uuid7() to windlass")
        shop.migrate()
        assert admin.execute(
            "select has_function_privilege('windlass', 'shop.uuid7()', 'execute'),"
            " pg_typeof(shop.uuid7())::text"
        ).fetchone() == (True, "uuid")


def test_a_schema_of_somebody_else_is_refused_by_its_name(shop: Windlass, pg_database: str) -> None:
    with psycopg.connect(pg_database, autocommit=True) as admin, role(admin, "somebody"):
        admin.execute("create schema theirs authorization somebody")
        other = Windlass(pg_database, schema="theirs")
        with pytest.raises(StoreError, match="The schema theirs belongs to somebody"):
            other.migrate()
        other.close()


async def test_the_setting_names_it_too(shop: Windlass, pg_database: str) -> None:
    async with opened(pg_database, schema=SHOP) as same:
        run = await shop.aenqueue("where")
        assert (await same.aget(run.id)).id == run.id
    with pytest.raises(BadOption, match="the URL says 'shop' and the setting 'mall'"):
        Windlass(f"{pg_database}?schema=shop", schema="mall")


@pytest.mark.parametrize(
    "name", ["", "Shop", "a-b", "a b", "1st", "pg_shop", "public", "x" * 64, "a;b", "é", "order"]
)
def test_names_that_cannot_be_a_schema_of_ours_are_refused(name: str) -> None:
    with pytest.raises(BadOption, match="schema"):
        check_schema(name)


def test_no_statement_speaks_of_another_schema() -> None:
    """Whatever is written in the files is about the schema that is named."""
    texts = [
        *load_queries("postgres").values(),
        *(text for _, text in read_folder("postgres", "functions")),
    ]
    texts += [script.text for script in load_migrations("postgres")]
    assert len(texts) > 200
    for text in texts:
        translated = in_schema(text, SHOP)
        rest = translated.replace("windlass.fake_now", "").replace("windlass_doctor", "")
        assert "windlass" not in rest
        assert "shop.fake_now" not in translated  # one setting for all: doctor looks for it
        assert in_schema(translated, SHOP) == translated


def test_the_schema_windlass_has_psycopgs_own_cursors(plain: Windlass, shop: Windlass) -> None:
    with plain.transaction() as ours, shop.transaction() as theirs:
        assert ours.connection.cursor_factory is psycopg.Cursor  # type: ignore[attr-defined]
        assert theirs.connection.cursor_factory is not psycopg.Cursor  # type: ignore[attr-defined]
