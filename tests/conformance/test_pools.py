"""PostgreSQL: an application that hands in its own connection pool."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psycopg
import psycopg_pool
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, NullConnectionPool

from tests.conformance.kit import Driver
from tests.conformance.places import PostgresPlace, opened
from tests.conformance.test_faces import (
    test_a_refusal_leaves_the_store_usable,
    test_every_operation_works,
)
from tests.conformance.test_kept_connections import NOBODY, WAITING
from tests.faults.harness import ROOT
from tests.fixtures.apps import PATIENCE, QUICK, at_rest, working
from windlass import (
    BadOption,
    KeyConflict,
    RunNotFound,
    StoreUnavailable,
    UsageError,
    Windlass,
    guard,
)
from windlass.sources import Sources
from windlass.store.interface import Call
from windlass.store.postgres.lent import home_of
from windlass.store.postgres.target import Target

# Run with the fixture `drive` of this module: every operation on borrowed connections.
__all__ = ["test_a_refusal_leaves_the_store_usable", "test_every_operation_works"]

ODD: dict[str, Any] = {"row_factory": dict_row, "prepare_threshold": 0}
"""How an owner may have its connections; none of our business."""


SMALL: dict[str, Any] = {"min_size": 1, "max_size": 1, "kwargs": ODD, "timeout": PATIENCE}


def sync_pool(url: str, **options: Any) -> ConnectionPool[Any]:
    return ConnectionPool(url, **(SMALL | {"open": True} | options))


def async_pool(url: str, **options: Any) -> AsyncConnectionPool[Any]:
    return AsyncConnectionPool(url, **(SMALL | {"open": False} | options))


def app_on(pool: Any, url: str | None = None, **settings: Any) -> Windlass:
    app = Windlass(url, pool=pool, **(QUICK | settings))

    @app.job(queue="mail")
    async def send(n: int) -> int:
        return n

    return app


@dataclass
class Pooled:
    """An application on a pool with one connection, and someone who watches its sessions."""

    app: Windlass
    pool: Any
    look: psycopg.Connection[Any]
    face: str
    url: str
    known: list[int] = field(default_factory=list)

    async def enqueue(self, n: int = 1, **options: Any) -> Any:
        job = self.app.jobs["send"].using(**options)
        return job.enqueue(n=n) if self.face == "sync" else await job.aenqueue(n=n)

    async def cancel(self, run: str) -> Any:
        return self.app.cancel(run) if self.face == "sync" else await self.app.acancel(run)

    async def retry(self, run: str) -> Any:
        return self.app.retry(run) if self.face == "sync" else await self.app.aretry(run)

    async def owners(self) -> Any:
        """The pool's only connection, in its owner's hands."""
        return self.pool.getconn() if self.face == "sync" else await self.pool.getconn()

    async def put_back(self, connection: Any) -> None:
        returned = self.pool.putconn(connection)
        if self.face == "async":
            await returned

    async def session(self) -> int:
        """The process of the server behind that connection."""
        connection = await self.owners()
        await self.put_back(connection)
        pid: int = connection.info.backend_pid
        return pid

    def sessions(self) -> int:
        """How many connections there are to the database."""
        query = """
        select count(*) from pg_stat_activity
         where backend_type = 'client backend' and datname = current_database()
           and pid <> pg_backend_pid()
        """
        ((number,),) = self.look.execute(query).fetchall()
        return int(number)

    def borrowed(self) -> int:
        """How often the pool was asked for a connection."""
        return int(self.pool.get_stats().get("requests_num", 0))


@contextmanager
def watching(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as look:
        yield look


@pytest.fixture(params=["sync", "async"])
async def pooled(request: pytest.FixtureRequest, each_pg_database: str) -> AsyncIterator[Pooled]:
    url, face = each_pg_database, request.param
    pool: Any = sync_pool(url) if face == "sync" else async_pool(url)
    if face == "async":
        await pool.open()
    app = app_on(pool)
    with watching(url) as look:
        yield Pooled(app, pool, look, face, url)
    await app.aclose()
    closed = pool.close()
    if face == "async":
        await closed


@pytest.fixture(params=["sync", "async"])
def drive(request: pytest.FixtureRequest, each_pg_database: str) -> Iterator[Driver]:
    """A driver on the tests' clock, on connections that a pool lends."""
    loop = asyncio.new_event_loop()
    pool: Any
    if request.param == "sync":
        pool = sync_pool(each_pg_database)
    else:
        pool = async_pool(each_pg_database)
        loop.run_until_complete(pool.open())
    sources = Sources.manual()
    app = Windlass(pool=pool, sources=sources)

    def on_loop(call: Call[Any]) -> Any:
        return loop.run_until_complete(app.store.arun(call))

    with opened(PostgresPlace(each_pg_database)) as tables:
        face = app.store.run if request.param == "sync" else on_loop
        yield Driver(app.store, face, sources, tables)
        assert pool.get_stats()["requests_num"] > 10
    loop.run_until_complete(app.aclose())
    closed = pool.close()
    if request.param == "async":
        loop.run_until_complete(closed)
    loop.close()


# -- borrowing -------------------------------------------------------------------------------------


async def test_calls_open_no_connection_of_their_own(pooled: Pooled) -> None:
    first = await pooled.session()
    run = await pooled.enqueue(n=1)
    await pooled.cancel(run.id)
    found = pooled.app.list() if pooled.face == "sync" else await pooled.app.alist()

    assert [(one.id, one.status) for one in found] == [(run.id, "canceled")]
    assert (pooled.sessions(), await pooled.session()) == (1, first)


async def test_the_owners_connection_is_as_before(pooled: Pooled) -> None:
    owner = await pooled.owners()
    notices: list[str] = []
    owner.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    shout = "do $$ begin raise notice 'hello'; end $$"

    async def use() -> Any:
        """Statements that the owner's settings make prepared ones, on dictionaries."""
        if pooled.face == "sync":
            owner.execute(shout)
            return owner.execute("select 7 as n").fetchone()
        await owner.execute(shout)
        return await (await owner.execute("select 7 as n")).fetchone()

    assert await use() == {"n": 7}
    await pooled.put_back(owner)
    for n in range(3):
        await pooled.enqueue(n=n)
    assert await pooled.owners() is owner
    assert owner.info.transaction_status is TransactionStatus.IDLE
    assert owner.autocommit is False
    assert await use() == {"n": 7}
    assert notices == ["hello", "hello"]
    await pooled.put_back(owner)


async def test_a_refusal_costs_no_connection(pooled: Pooled) -> None:
    first = await pooled.session()
    await pooled.enqueue(n=1, key="k")
    with pytest.raises(KeyConflict):
        await pooled.enqueue(n=2, key="k")
    with pytest.raises(RunNotFound):
        await pooled.cancel(NOBODY)
    assert await pooled.session() == first


async def test_a_transaction_borrows_too(pooled: Pooled) -> None:
    first = await pooled.session()
    app, job = pooled.app, pooled.app.jobs["send"]
    with suppress(LookupError):
        if pooled.face == "sync":
            with app.transaction() as tx:
                job.using(connection=tx).enqueue(n=1)
                raise LookupError
        async with app.transaction() as atx:
            await job.using(connection=atx).aenqueue(n=1)
            raise LookupError
    if pooled.face == "sync":
        with app.transaction() as tx:
            job.using(connection=tx).enqueue(n=2)
    else:
        async with app.transaction() as atx:
            await job.using(connection=atx).aenqueue(n=2)

    assert (pooled.sessions(), await pooled.session()) == (1, first)
    assert [run.input for run in await app.alist()] == [{"n": 2}]


async def test_calls_are_read_committed_whatever_the_pool_says(each_pg_database: str) -> None:
    kwargs = ODD | {"options": "-c default_transaction_isolation=serializable"}
    pool, apool = (
        sync_pool(each_pg_database, kwargs=kwargs),
        async_pool(each_pg_database, kwargs=kwargs),
    )
    await apool.open()
    app = app_on([pool, apool])
    with watching(each_pg_database) as look:
        look.execute("create table seen (level text)")
        look.execute("""
            create function note() returns trigger language plpgsql as $$
            begin
              insert into public.seen values (current_setting('transaction_isolation'));
              return null;
            end $$;
            create trigger note after insert on windlass.runs execute function note();
        """)
        app.jobs["send"].enqueue(n=1)
        app.jobs["send"].enqueue(n=2)  # known by now
        await app.jobs["send"].aenqueue(n=3)
        await app.jobs["send"].aenqueue(n=4)
        assert look.execute("select level from seen").fetchall() == [("read committed",)] * 4
    await app.aclose()
    pool.close()
    await apool.close()


def test_a_pool_that_keeps_nothing_lends_too(each_pg_database: str) -> None:
    with NullConnectionPool(each_pg_database, max_size=1, open=True) as pool:
        app = app_on(pool)
        assert app.get(app.jobs["send"].enqueue(n=1).id).status == "queued"
        app.close()


# -- connections that break, and calls that end early ----------------------------------------------


async def test_a_lost_connection_is_replaced_before_the_call(pooled: Pooled) -> None:
    """One that may not be repeated must not be sent on a session that has ended."""
    run = await pooled.enqueue(n=1)
    await pooled.cancel(run.id)
    first = await pooled.session()
    pooled.look.execute("select pg_terminate_backend(%s, 30000)", (first,))

    assert (await pooled.retry(run.id)).status == "queued"
    assert await pooled.session() != first


async def test_a_canceled_call_leaves_the_pool_whole(each_pg_database: str) -> None:
    pool = async_pool(each_pg_database)
    await pool.open()
    app = app_on(pool)
    run = await app.jobs["send"].aenqueue(n=1)
    with watching(each_pg_database) as look:
        with psycopg.connect(each_pg_database) as other:
            other.execute("lock table windlass.runs in access exclusive mode")
            task = asyncio.create_task(run.arefresh())
            async with asyncio.timeout(PATIENCE):
                while not (waiting := look.execute(WAITING).fetchall()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            await app.aclose()  # waits for connections that are on their way back
            # While the lock is still held: the server works for nobody any more.
            async with asyncio.timeout(PATIENCE):
                while look.execute(WAITING).fetchall():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        owner = await pool.getconn()
        assert owner.info.backend_pid not in [pid for (pid,) in waiting]
        await pool.putconn(owner)
    await run.arefresh()
    assert pool.get_stats()["pool_available"] == 1
    await app.aclose()
    await pool.close()


async def test_whoever_is_canceled_while_giving_back_takes_nothing_away(
    each_pg_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = async_pool(each_pg_database)
    await pool.open()
    app = app_on(pool)
    going, go = asyncio.Event(), asyncio.Event()
    really = pool.putconn

    async def slowly(connection: Any) -> None:
        going.set()
        await go.wait()
        await really(connection)

    monkeypatch.setattr(pool, "putconn", slowly)
    task = asyncio.create_task(app.alist())
    await going.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    go.set()
    await app.aclose()
    assert task.cancelled()
    assert pool.get_stats()["pool_available"] == 1
    await pool.close()


# -- a pool that is used up ------------------------------------------------------------------------


async def test_a_pool_that_is_used_up_is_named(pooled: Pooled) -> None:
    pooled.pool.timeout = 0.05
    owner = await pooled.owners()
    with pytest.raises(StoreUnavailable, match=rf"'{pooled.pool.name}' has no free connection"):
        await pooled.enqueue(n=1)
    await pooled.put_back(owner)
    await pooled.enqueue(n=2)
    assert pooled.sessions() == 1


async def test_a_hint_waits_for_no_connection(pooled: Pooled) -> None:
    """The runs are stored by then, and workers poll."""
    owner = await pooled.owners()
    if pooled.face == "sync":
        pooled.app.store.notify()
    else:
        await pooled.app.store.anotify()
    await pooled.put_back(owner)
    assert pooled.pool.get_stats()["requests_errors"] == 1


async def test_a_worker_needs_nothing_of_the_pool(pooled: Pooled) -> None:
    """Handlers may use it up: leases are renewed, and ends recorded, all the same."""
    run = await pooled.enqueue(n=7)
    owner = await pooled.owners()
    before = pooled.borrowed()
    async with working(pooled.app) as worker:
        with worker.signals.renewed.heard() as renewed, worker.signals.recorded.heard() as ended:
            await ended.next()
            for _ in range(2):
                assert (await renewed.next()).alive
        assert pooled.borrowed() == before
    await pooled.put_back(owner)
    found = await pooled.app.aget(run.id)
    assert (found.status, found.result, found.attempt) == ("succeeded", 7, 1)


async def test_an_enqueue_through_the_pool_wakes_workers_here(pooled: Pooled) -> None:
    async with working(pooled.app, poll="1h") as worker:
        with worker.signals.recorded.heard() as ended:
            await pooled.enqueue(n=1)
            await ended.next()
            await at_rest(worker)  # it has looked, and found nothing
            await pooled.enqueue(n=2)
            await ended.next()


async def test_psycopg_pool_still_has_what_tells_the_loop_of_a_pool() -> None:
    """It has no public name. A release without it must fail here, and not in an enqueue."""
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(min_size=0, max_size=1, open=False)
    why = f"psycopg_pool {psycopg_pool.__version__}: home_of needs another way to tell the loop"
    assert isinstance(getattr(pool, "_workers", None), list), why
    assert home_of(pool) is None, why
    await pool.open()  # connects to nothing: it keeps none
    try:
        assert home_of(pool) is asyncio.get_running_loop(), why
    finally:
        await pool.close()
    assert home_of(pool) is None, why


# -- where a pool cannot lend ----------------------------------------------------------------------


async def test_closing_the_application_leaves_the_pool_open(pooled: Pooled) -> None:
    await pooled.enqueue(n=1)
    pooled.app.close()
    await pooled.app.aclose()
    assert not pooled.pool.closed
    first = await pooled.session()
    await pooled.enqueue(n=2)
    assert await pooled.session() == first


async def test_without_an_open_pool_connections_are_our_own(each_pg_database: str) -> None:
    """Commands import an application whose pool the web server would open."""
    pool, apool = sync_pool(each_pg_database, open=False), async_pool(each_pg_database)
    app = app_on([pool, apool])
    app.jobs["send"].enqueue(n=1)
    await app.jobs["send"].aenqueue(n=2)
    await apool.open()
    with pool:
        app.jobs["send"].enqueue(n=3)
        await app.jobs["send"].aenqueue(n=4)
        assert all(p.get_stats()["requests_num"] for p in (pool, apool)), "and hints"
    await apool.close()
    app.jobs["send"].enqueue(n=5)
    assert len(await app.alist()) == 5
    await app.aclose()


async def test_other_event_loops_have_connections_of_their_own(each_pg_database: str) -> None:
    async with async_pool(each_pg_database) as pool:
        app = app_on(pool)

        async def elsewhere() -> None:
            await app.jobs["send"].aenqueue(n=1)
            async with app.transaction() as tx:
                await app.jobs["send"].using(connection=tx).aenqueue(n=2)
            await app.aclose()

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert "requests_num" not in pool.get_stats()
        assert len(await app.alist()) == 2
        assert pool.get_stats()["requests_num"] == 1
        await app.aclose()


async def test_the_face_without_a_pool_works_on_its_own(pooled: Pooled) -> None:
    await pooled.enqueue(n=1)
    before = pooled.borrowed()
    job = pooled.app.jobs["send"]
    await job.aenqueue(n=2) if pooled.face == "sync" else job.enqueue(n=2)
    assert pooled.borrowed() == before
    assert pooled.sessions() == 2


FORKING = """
import os, sys
from psycopg_pool import ConnectionPool
from windlass import UsageError, Windlass
when, url = sys.argv[1:]
pool = ConnectionPool(url, min_size=1, max_size=1, open=False)
app = Windlass(pool=pool)

@app.job
def work(n: int): ...

if when != "after":
    pool.open(wait=True)
if when == "used":
    work.enqueue(n=0)
child = os.fork()
if child == 0:
    if when == "after":
        pool.open()
        work.enqueue(n=1)
        assert pool.get_stats()["requests_num"] == 1
        pool.close()
        os._exit(0)
    try:
        work.enqueue(n=1)
    except UsageError as error:
        assert "open the pool after the fork" in str(error), error
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
work.enqueue(n=2)
app.close()
pool.close()
"""


@pytest.mark.parametrize("when", ["used", "opened", "after"])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_pool_of_the_parent_process_is_refused(each_pg_database: str, when: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, when]
    subprocess.run([*command, each_pg_database], cwd=ROOT, check=True, timeout=50)


# -- what may be given -----------------------------------------------------------------------------


def test_the_url_is_the_pools() -> None:
    kwargs = {
        "password": "p@s/s #&=ä",
        "dbname": "shop",
        "autocommit": True,
        "row_factory": dict_row,
    }
    pool = ConnectionPool("host=db port=5433 user=ada", kwargs=kwargs, open=False)
    app = Windlass(pool=pool, schema="mine")
    target = Target.parse(app.settings.url, 10.0, app.settings.schema)

    assert app.store.place == "postgresql://ada@db:5433/shop?schema=mine"
    found = conninfo_to_dict(target.conninfo)
    assert {name: found[name] for name in ("host", "port", "user", "password", "dbname")} == {
        "host": "db", "port": "5433", "user": "ada", "password": "p@s/s #&=ä", "dbname": "shop",
    }  # fmt: skip


def test_the_pool_counts_more_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_URL", "sqlite:///elsewhere.db")
    app = Windlass(pool=ConnectionPool("postgresql://ada@db/shop", open=False))
    assert app.store.place == "postgresql://ada@db/shop"


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_pool_of_another_database_is_refused(
    each_pg_database: str, pg_database: str, face: str
) -> None:
    other = urlsplit(each_pg_database)._replace(path="/postgres").geturl()
    with ExitStack() as stack:
        pool: Any = sync_pool(other) if face == "sync" else async_pool(other)
        if face == "sync":
            stack.enter_context(pool)
        else:
            await pool.open()
        app = app_on(pool, each_pg_database)
        with pytest.raises(UsageError, match="leads to the database 'postgres'"):
            app.list() if face == "sync" else await app.alist()
        begin = app.transaction()
        with pytest.raises(UsageError, match="leads to the database 'postgres'"):
            begin.__enter__() if face == "sync" else await begin.__aenter__()
        await app.aclose()
        if face == "async":
            await pool.close()


def test_a_url_of_the_same_database_may_say_more(each_pg_database: str) -> None:
    with sync_pool(lambda: each_pg_database) as pool:  # type: ignore[arg-type]
        app = app_on(pool, f"{each_pg_database}?prepare=off")
        before = pool.get_stats().get("requests_num", 0)
        app.jobs["send"].enqueue(n=1)
        assert pool.get_stats()["requests_num"] > before
        app.close()


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (object(), "of psycopg_pool"),
        ([], "of psycopg_pool"),
        ([ConnectionPool(open=False), ConnectionPool(open=False)], "or one of each"),
        (ConnectionPool(lambda: "host=x", open=False), "give `url` too"),
        (ConnectionPool("host=x", kwargs={"shape": "round"}, open=False), "give `url` too"),
        (ConnectionPool("nonsense secret", open=False), "give `url` too"),
    ],
    ids=["object", "none", "twice", "function", "unknown", "unreadable"],
)
def test_what_cannot_be_a_pool_is_refused(pool: Any, said: str) -> None:
    with pytest.raises(BadOption, match=said) as refused:
        Windlass(pool=pool)
    assert "secret" not in str(refused.value)


def test_a_pool_is_for_postgresql() -> None:
    pool = ConnectionPool("host=x", open=False)
    with pytest.raises(BadOption, match="it is for PostgreSQL, and the store is sqlite"):
        Windlass("sqlite:///some.db", pool=pool)
    with closing(Windlass("sqlite:///some.db")) as other, pytest.raises(BadOption, match="one of"):
        Windlass(pool=pool, store=other.store)


async def test_tests_do_not_borrow_from_a_real_pool(pooled: Pooled) -> None:
    before = guard.begin(every_store=False)
    try:
        with pytest.raises(UsageError, match="is not a test store"):
            await pooled.enqueue(n=1)
    finally:
        guard.end(before)
    assert pooled.borrowed() == 0
