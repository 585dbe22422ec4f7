"""Settings of a session that change how values are written, read or judged.

They come from the role, the database, the URL or, behind a pooler, from whoever had the connection
before. What an application sees, and what is stored, must be the same under each of them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import ExecStatus

from tests.conftest import Cluster
from tests.doctor.kit import checkup
from tests.faults.harness import eventually
from tests.faults.pooler import Pooler
from tests.fixtures.apps import PATIENCE, opened, reached, working
from tests.fixtures.callers import CALLERS, make_app
from tests.fixtures.postgres import create_database, drop_database
from windlass import Context, Retry, Status, StoreError, StoreUnavailable, Windlass
from windlass.files.stored import StoredJob
from windlass.store.postgres.store import PostgresStore
from windlass.store.queries import load_queries

# A third of a second and an hour, to the last digit: 15 digits do not tell them from others.
FINE = 1 / 3
FINER = 3600.0000000000005
LONG_AGO = datetime(1, 1, 1, 3, tzinfo=UTC)  # in New York still the year before, and LMT
NEWER = {"transaction_timeout": 170000, "idle_session_timeout": 140000}

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "DateStyle SQL": {"datestyle": "SQL, DMY"},
    "DateStyle German": {"datestyle": "German"},
    "TimeZone": {"timezone": "America/New_York", "intervalstyle": "sql_standard"},
    "numbers": {"extra_float_digits": "-15", "bytea_output": "escape", "array_nulls": "off"},
    "serializable": {
        "default_transaction_isolation": "serializable",
        "default_transaction_deferrable": "on",
    },
    "repeatable read": {"default_transaction_isolation": "repeatable read"},
    "search_path of none": {"search_path": "''"},
    "search_path in reverse": {"search_path": "public, windlass, pg_catalog"},
    "timeouts": {
        "statement_timeout": "5s",
        "lock_timeout": "2s",
        "transaction_timeout": "5s",
        "idle_session_timeout": "200ms",
        "idle_in_transaction_session_timeout": "5s",
    },
    "strings": {
        "standard_conforming_strings": "off",
        "escape_string_warning": "off",
        "backslash_quote": "off",
    },
    "plans": {
        "plan_cache_mode": "force_custom_plan",
        "enable_indexscan": "off",
        "enable_nestloop": "off",
    },
    "client_encoding": {"client_encoding": "LATIN1"},
    "others": {
        "row_security": "off",
        "client_min_messages": "debug1",
        "xmloption": "document",
        "lc_monetary": "C",
        "lc_numeric": "C",
        "lc_time": "C",
        "session_replication_role": "replica",
        "check_function_bodies": "off",
        "plpgsql.extra_errors": "all",
        "transform_null_equals": "on",
        "quote_all_identifiers": "on",
    },
}
SETS = list(SETTINGS)


@contextmanager
def having(url: str, settings: Mapping[str, str]) -> Iterator[str]:
    """The database with settings of its own, which every session begins with."""
    name = sql.Identifier(urlsplit(url).path[1:])
    plain = f"{url}?options={quote('-c default_transaction_read_only=off')}"
    with psycopg.connect(plain, autocommit=True) as conn:
        version = conn.info.server_version
        for setting, value in settings.items():
            if version >= NEWER.get(setting, 0):
                change = sql.SQL("alter database {} set {} to ").format(name, sql.SQL(setting))
                exact = setting in ("search_path", "datestyle")  # lists, which quotes would join
                conn.execute(change + (sql.SQL(value) if exact else sql.Literal(value)))
    yield url


@pytest.fixture(params=SETS)
def strange(request: pytest.FixtureRequest, pg_database: str) -> Iterator[str]:
    """A database whose sessions begin with one of the sets of settings."""
    with having(pg_database, SETTINGS[request.param]) as url:
        yield url


def define(app: Windlass) -> None:
    """Jobs that succeed, fail once, and wait."""

    @app.job(timeout=FINER, max_attempts=3)
    async def greet(ctx: Context, name: str = "you") -> dict[str, Any]:
        await ctx.progress(FINE, "on its way")
        return {"name": name, "third": FINE, "slot": ctx.slot is not None}

    @app.job
    async def nothing() -> None: ...

    @app.job(retry=Retry.fixed(FINE / 100, jitter=0))
    async def stumble(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("☃ 'quoted' \\ back")
        return ctx.attempt


async def work(app: Windlass) -> Mapping[str, object]:
    """What an application does in its life, and what it sees of it."""
    begun = app.sources.now()
    greet = app.jobs["greet"]
    later = begun + timedelta(days=400, microseconds=123456)
    async with working(app), asyncio.timeout(PATIENCE):
        one = await greet.using(key="k", tags=["a,b", 'c"d\\e', "NULL"]).aenqueue(name="Ada ☃ \\ '")
        again = await greet.using(key="k", tags=["a,b"]).aenqueue(name="Ada ☃ \\ '")
        nothing = app.jobs["nothing"]
        plain = await app.aenqueue_many(
            [greet.request(name=str(n)) if n % 2 else nothing.request() for n in range(20)]
        )
        many = await app.aenqueue_many(
            [greet.using(at=later, timeout=FINER).request(), greet.using(delay="1h").request()]
        )
        stumbled = await app.jobs["stumble"].aenqueue()
        late = await greet.using(expires=LONG_AGO).aenqueue()
        plan = await app.schedules.aput("greet", key="p", once=later, input={"name": "plan"})
        fired = await app.schedules.atrigger("p")
        assert fired is not None
        results = [await app.aresult(run.id) for run in (one, *plain, stumbled, fired)]
        await reached(app, late.id, Status.FAILED)
        moved = await many[1].areschedule(at=later)
        canceled = await moved.acancel("no more")
        retried = await canceled.aretry()
        assert await app.aresult(retried.id)
        (worker,) = await app.aworkers()
        stumbling = await app.aget(stumbled.id)
        kept = await app.aget(many[0].id)
        seen = await app.aget(late.id)
        return {
            "results": results,
            "repeated": again.id == one.id,
            "tags": (await app.aget(one.id)).tags,
            "times": [
                timedelta() <= moment - begun < timedelta(seconds=PATIENCE)
                for moment in (one.created_at, one.scheduled_for, plain[0].created_at,
                               stumbling.started_at, stumbling.finished_at, worker.started_at)
                if moment is not None
            ],
            "later": [run.scheduled_for == later for run in (many[0], kept, moved)],
            "options": kept.record.options,
            "late": (seen.failure, seen.expires_at),
            "events": [
                (event.type, event.data) for event in await stumbling.aevents()
            ],
            "error": stumbling.attempts[0].error and stumbling.attempts[0].error.message,
            "version": kept.record.trace,
            "plan": (plan.next_slot == later, plan.input, (await app.schedules.aget("p")).fired),
            "slots": len(await app.schedules.aslots("p")),
            "progress": (await app.aget(one.id)).progress,
            "listed": len(await app.alist(limit=100)),
            "old": len(await app.alist(created_to=begun)),
            "job": definition(await app.jobs.alook_up("greet")),
            "alive": worker.alive,
        }  # fmt: skip


def definition(job: StoredJob | None) -> Mapping[str, object]:
    """All but its times."""
    assert job is not None
    assert job.created_at == job.updated_at
    return {k: v for k, v in job.to_dict().items() if not k.endswith("_at")}


def live(url: str) -> Mapping[str, object]:
    """Let an application do all of that, and look after it."""

    async def run() -> Mapping[str, object]:
        async with opened(url) as app:
            define(app)
            return await work(app)

    return asyncio.run(run())


@pytest.fixture(scope="module")
def expected(pg_cluster: Cluster) -> Mapping[str, object]:
    """The same without any setting."""
    name = f"wl_plain_{secrets.token_hex(6)}"
    seen = live(create_database(pg_cluster.dsn, name, pg_cluster.template))
    drop_database(pg_cluster.dsn, name)
    return seen


def test_an_application_works_directly(strange: str, expected: Mapping[str, object]) -> None:
    assert live(strange) == expected
    report = checkup(strange)
    assert [f for f in report.findings if not f.made] == []


def test_an_application_works_through_a_pooler(
    request: pytest.FixtureRequest, strange: str, expected: Mapping[str, object]
) -> None:
    with Pooler(strange) as pooler:
        if "client_encoding" in request.node.name:  # which this one does not pass on
            with pytest.raises(StoreError, match="although UTF8 was asked for"):
                Windlass(pooler.url).list()
            return
        assert live(pooler.url) == expected
        checkup(pooler.url)


# -- what is not the same -------------------------------------------------------------------------


async def aenqueue(app: Windlass, n: int) -> None:
    """On a loop that leaves nothing open."""
    await app.jobs["send"].aenqueue(n=n)
    await app.aclose()


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_calls_read_what_is_committed_and_the_callers_statements_as_they_like(
    pg_database: str, level: str
) -> None:
    with having(pg_database, {"default_transaction_isolation": level}) as url:
        seen = "select current_setting('transaction_isolation')"
        app = make_app(url)
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("create table public.seen (level text)")
            conn.execute(
                "create function public.see() returns trigger language plpgsql as "
                f"$$ begin insert into public.seen {seen}; return new; end $$"
            )
            conn.execute(
                "create trigger see before insert on windlass.runs "
                "for each row execute function public.see()"
            )
            app.jobs["send"].enqueue(n=1)
            asyncio.run(aenqueue(app, n=2))
            with app.transaction() as tx:
                assert tx.execute(seen) == [(level,)]
            assert (
                conn.execute("select level from public.seen").fetchall()
                == [("read committed",)] * 2
            )
        app.close()


def test_a_session_that_the_server_has_ended_costs_no_call(pg_database: str) -> None:
    """Not even one that must not be repeated: it never reached the server."""
    app = make_app(pg_database)
    run = app.jobs["send"].enqueue(n=1).cancel()
    app.close()
    with having(pg_database, {"idle_session_timeout": "50ms"}) as url:
        app = make_app(url)
        app.list()
        with psycopg.connect(f"{url}?options={quote('-c idle_session_timeout=0')}") as conn:
            conn.autocommit = True
            others = (
                "select 1 from pg_stat_activity where datname = current_database() "
                "and pid <> pg_backend_pid()"
            )
            eventually(lambda: not conn.execute(others).fetchall(), what="the session has ended")

        assert app.retry(run.id).status is Status.QUEUED
        app.close()


def test_a_database_that_is_read_only_stays_so(pg_database: str) -> None:
    """Whoever set that meant it: it is named, and not gone round."""
    with having(pg_database, {"default_transaction_read_only": "on"}) as url:
        app = make_app(url)
        store = PostgresStore(url, sources=app.sources, patience=0.0)
        with pytest.raises(StoreUnavailable, match="takes no writes"):
            store.run(store.operations.retire("nobody"))
        assert app.list() == []
        store.close()
        app.close()


# -- the rule behind it ---------------------------------------------------------------------------

PLAIN = {"text", "bool", "int4", "int8", "oid", "name", "void", "float8"}


def test_no_statement_has_the_driver_convert_what_settings_change(pg_database: str) -> None:
    """Times, intervals, documents, arrays: all of these come as text that we have chosen."""
    found = {}
    with psycopg.connect(pg_database, autocommit=True) as conn:
        types = conn.execute("select oid, typname::text from pg_type").fetchall()
        kinds: dict[Any, Any] = dict(types)
        for name, text in load_queries("postgres").items():
            statement = text.replace("%s", "null").replace("%%", "%")
            if ";" in statement or not statement.lower().startswith("select"):
                continue
            prepared = conn.pgconn.prepare(b"", statement.encode())
            assert prepared.status == ExecStatus.COMMAND_OK, (name, prepared.error_message)
            described = conn.pgconn.describe_prepared(b"")
            found[name] = {kinds[described.ftype(n)] for n in range(described.nfields)}

    assert len(found) > 50
    assert {name: kinds - PLAIN for name, kinds in found.items() if kinds - PLAIN} == {}


DRIVERS = ("psycopg", "psycopg2", "asyncpg", "own")


def test_a_caller_enqueues_in_a_transaction_of_its_own(strange: str) -> None:
    for driver in DRIVERS:
        app = make_app(strange)
        caller = CALLERS[driver](app, strange)
        caller.begin()
        before = app.sources.now()
        one = caller.enqueue(1, key=driver, tags=["a,b"])
        again = caller.enqueue(1, key=driver, tags=["a,b"])
        many = caller.enqueue_many(2, 3)
        caller.commit()

        assert again.id == one.id
        assert again.created_at == app.get(one.id).created_at
        assert {run.id for run in app.list(limit=3)} == {one.id, *(run.id for run in many)}
        assert all(
            timedelta(seconds=-1) < run.created_at - before < timedelta(seconds=PATIENCE)
            and run.created_at.utcoffset() == timedelta()
            for run in (one, again, *many)
        )
        caller.close()
        app.close()
