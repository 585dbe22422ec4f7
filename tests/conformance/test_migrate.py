"""Migrations: from nothing, again, by several at once, refused, and never by halves."""

from __future__ import annotations

import multiprocessing
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conformance.kit import Driver
from tests.conformance.places import (
    KINDS,
    POSTGRES,
    Kind,
    Place,
    PostgresPlace,
    SqlitePlace,
    opened,
)
from tests.conformance.racers import migrate
from tests.conftest import Cluster
from tests.fixtures.postgres import create_database, drop_database
from windlass.domain.scheduling.rows import ScheduleRef
from windlass.errors import SchemaMismatch, StoreError
from windlass.sources import Sources
from windlass.store.interface import Store
from windlass.store.postgres.expected import expected
from windlass.store.postgres.routines import PROTOCOL
from windlass.store.queries import load_migrations

LATEST = load_migrations("postgres")[-1].version


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database without a schema."""
    kind: Kind = request.param
    if kind is not POSTGRES:
        yield SqlitePlace(tmp_path / "windlass.db")
        return
    cluster: Cluster = request.getfixturevalue("pg_cluster")
    name = f"wl_bare_{secrets.token_hex(6)}"
    yield PostgresPlace(create_database(cluster.dsn, name))
    drop_database(cluster.dsn, name)


def _works(place: Place, store: Store) -> None:
    sources = Sources.system()
    with opened(place) as tables:
        drive = Driver(store, store.run, sources, tables)
        assert drive.get(drive.add()).token == 0


def test_both_stores_have_the_same_versions() -> None:
    numbers = [[script[:2] for script in load_migrations(kind.name)] for kind in KINDS]

    assert numbers[0] == numbers[1]


def test_a_schema_is_made_from_nothing(bare: Place) -> None:
    with bare.open(Sources.system()) as store:
        assert store.schema_version() == (0, LATEST)
        assert store.migrate() == (0, LATEST, ())
        assert store.schema_version() == (LATEST, LATEST)
        _works(bare, store)


def test_migrating_again_changes_nothing(bare: Place) -> None:
    with bare.open(Sources.system()) as store, opened(bare) as tables:
        store.migrate()
        _works(bare, store)
        before = tables.rows("runs")

        assert store.migrate() == (LATEST, LATEST, ())
        assert store.migrate() == (LATEST, LATEST, ())
        assert tables.rows("runs") == before


def test_processes_may_migrate_at_once(bare: Place) -> None:
    spawn = multiprocessing.get_context("spawn")
    start, told = spawn.Barrier(2), spawn.Queue()
    children = [spawn.Process(target=migrate, args=(bare, start, told)) for _ in range(2)]
    for child in children:
        child.start()

    answers = [told.get(timeout=40) for _ in children]

    for child in children:
        child.join()
    assert {after for (_, after, _), _ in answers} == {LATEST}
    with opened(bare) as tables:
        assert {row["id"] for row in tables.rows("runs")} == {ident for _, ident in answers}


def test_a_newer_schema_is_refused(bare: Place) -> None:
    with bare.open(Sources.system()) as store, opened(bare) as tables:
        store.migrate()
        tables.set_version(LATEST + 1)
        store.close()

    with bare.open(Sources.system()) as store:
        for attempt in (store.migrate, lambda: store.run(store.operations.list_workers())):
            with pytest.raises(SchemaMismatch) as caught:
                attempt()
            assert (caught.value.found, caught.value.expected) == (LATEST + 1, LATEST)
        assert store.schema_version() == (LATEST + 1, LATEST)


async def test_a_newer_schema_is_refused_on_the_loop(bare: Place) -> None:
    with bare.open(Sources.system()) as store, opened(bare) as tables:
        store.migrate()
        tables.set_version(LATEST + 1)

    store = bare.open(Sources.system())
    with pytest.raises(SchemaMismatch):
        await store.arun(store.operations.list_workers())
    await store.aclose()


def test_a_migration_that_fails_leaves_nothing(bare: Place) -> None:
    with bare.open(Sources.system()) as store, opened(bare) as tables:
        tables.obstruct()

        with pytest.raises(StoreError):
            store.migrate()

        assert tables.present() == {"leases"}
        assert store.schema_version() == (0, LATEST)


# -- what PostgreSQL alone has: checksums, and functions that may change ------------------------


@pytest.fixture
def schema(pg_database: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to a database whose schema is up to date."""
    with psycopg.connect(pg_database, autocommit=True) as conn:
        yield conn


def test_without_a_schema_there_is_nothing_to_use(pg_cluster: Cluster) -> None:
    name = f"wl_bare_{secrets.token_hex(6)}"
    url = create_database(pg_cluster.dsn, name)
    with PostgresPlace(url).open(Sources.system()) as store:
        with pytest.raises(SchemaMismatch) as caught:
            store.run(store.operations.list_workers())
        assert caught.value.found is None
    drop_database(pg_cluster.dsn, name)


def test_a_migration_that_was_changed_afterwards_is_refused(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]]
) -> None:
    schema.execute("update windlass.migrations set checksum = 'other' where version = 1")

    with PostgresPlace(pg_database).open(Sources.system()) as store:
        with pytest.raises(StoreError, match="Migration 1"):
            store.migrate()
        store.run(store.operations.list_workers())


DAMAGE = {
    "windlass.retire(text)": "drop function windlass.retire",
    "windlass.cycle(text,bigint,text[],uuid[],bigint[],json[],json,integer,text[],text[],json,"
    "integer,text[],uuid[],bigint)": "alter function windlass.cycle security invoker",
    "windlass.succeed(text[],uuid[],bigint[],json[])": "alter function windlass.succeed reset all",
    "windlass.uuid7()": "create or replace function windlass.uuid7() returns uuid "
    "language sql as 'select null::uuid'",
    "windlass.register(text,double precision,text,integer,text,text[],text[],integer)":
    "alter function windlass.register stable",
    "windlass.backoff(json,integer)": "drop function windlass.backoff; create function "
    "windlass.backoff(p_other json, p_failures integer) returns text language sql as 'select null'",
    "windlass.json_text(anyelement)": "alter function windlass.json_text set timezone to 'CET'",
    "windlass.hidden()": "create function windlass.hidden() returns void language sql as ''",
    "windlass.needs_judging(text,boolean)": "create or replace function "
    "windlass.needs_judging(p_text text, p_alone boolean) returns boolean "
    "language sql immutable return false",
    "windlass.run_view": "alter view windlass.run_view reset (security_invoker)",
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_function_is_mended(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]], name: str
) -> None:
    with PostgresPlace(pg_database).open(Sources.system()) as store:
        assert store.outdated() == ()
        schema.execute(DAMAGE[name].encode())
        assert store.outdated() == (name,)

        assert store.migrate() == (LATEST, LATEST, (name,))

        assert store.outdated() == ()
        assert store.migrate() == (LATEST, LATEST, ())
        _works(PostgresPlace(pg_database), store)


def test_all_functions_may_be_gone(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]], role: str
) -> None:
    """And what was granted on the view is granted again."""
    schema.execute(f"grant select on windlass.run_view to {role}")
    schema.execute("drop function windlass.backoff; drop view windlass.run_view cascade")
    schema.execute("create view windlass.run_view as select 1 as n")
    schema.execute(f"grant select on windlass.run_view to {role}")
    with PostgresPlace(pg_database).open(Sources.system()) as store:
        mended = store.migrate().mended

        assert {"windlass.get_runs(text,uuid[])", "windlass.run_view"} <= set(mended)
        _works(PostgresPlace(pg_database), store)
    may = "select has_table_privilege(%s, 'windlass.run_view', 'select')"
    assert schema.execute(may, (role,)).fetchone() == (True,)


def test_functions_of_another_release_are_replaced(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]]
) -> None:
    schema.execute("update windlass.routines set checksum = 'older'")
    with PostgresPlace(pg_database).open(Sources.system()) as store:
        assert len(store.outdated()) > 50
        assert store.migrate() == (LATEST, LATEST, ())  # nobody has damaged anything
        assert store.outdated() == ()


@pytest.mark.parametrize(
    ("protocol", "remedy"), [(PROTOCOL - 1, "windlass migrate"), (PROTOCOL + 1, "upgrade Windlass")]
)
def test_functions_that_speak_otherwise_are_refused(
    pg_database: str,
    schema: psycopg.Connection[tuple[object, ...]],
    protocol: int,
    remedy: str,
) -> None:
    schema.execute("update windlass.routines set protocol = %s", (protocol,))
    with PostgresPlace(pg_database).open(Sources.system()) as store:
        with pytest.raises(SchemaMismatch, match=f"functions have version .*{remedy}"):
            store.run(store.operations.list_workers())
        if protocol > PROTOCOL:
            with pytest.raises(SchemaMismatch, match="upgrade Windlass"):
                store.migrate()
            return
        store.migrate()
        store.run(store.operations.list_workers())


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_function_that_is_gone_is_not_a_schema_that_is_gone(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]], face: str
) -> None:
    store = PostgresPlace(pg_database).open(Sources.system())
    schema.execute("drop function windlass.retire")
    call = store.operations.retire("nobody")
    with pytest.raises(SchemaMismatch) as caught:
        _ = store.run(call) if face == "sync" else await store.arun(call)
    await store.aclose()

    assert str(caught.value) == (
        "Functions in the store are missing, or not those of this Windlass (function "
        "windlass.retire(unknown) does not exist): run `windlass migrate`."
    )


def test_a_table_that_is_gone_is_named(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]]
) -> None:
    schema.execute("drop table windlass.schedule_slots")
    with (
        PostgresPlace(pg_database).open(Sources.system()) as store,
        pytest.raises(SchemaMismatch, match=r"relation .*schedule_slots.* `windlass doctor` names"),
    ):
        store.run(store.operations.list_slots(ScheduleRef(key="k"), None, 10))


@pytest.fixture
def role(schema: psycopg.Connection[tuple[object, ...]]) -> Iterator[str]:
    """A role without any right."""
    name = f"wl_role_{secrets.token_hex(6)}"
    schema.execute(f"create role {name}")
    yield name
    schema.execute(f"drop owned by {name}")
    schema.execute(f"drop role {name}")


def _may(schema: psycopg.Connection[tuple[object, ...]], role: str, right: str) -> set[str]:
    """The names of the functions on which a role has a right."""
    found = schema.execute(
        "select p.proname::text from pg_proc p where p.pronamespace = 'windlass'::regnamespace "
        "and has_function_privilege(%s, p.oid, %s)",
        (role, right),
    )
    return {str(name) for (name,) in found}


def test_rights_that_were_granted_outlive_a_migration(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]], role: str
) -> None:
    schema.execute(f"grant execute on function windlass.retire(text) to {role}")
    schema.execute("update windlass.routines set checksum = 'older'")

    with PostgresPlace(pg_database).open(Sources.system()) as store:
        store.migrate()

    assert _may(schema, role, "execute") == {"retire"}


OLDER_FORMS = """
drop function windlass.sweep(boolean, boolean, boolean, integer, integer, double precision,
                             boolean);
create function windlass.sweep(boolean, boolean, boolean, integer, integer, double precision)
  returns json language sql as 'select null::json';
update windlass.routines set checksum = 'older';
drop function windlass.cycle;
create function windlass.cycle() returns void language sql as '';
revoke all on all functions in schema windlass from public;
"""


def test_rights_outlive_a_migration_that_makes_functions_anew(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]], role: str
) -> None:
    """Of an older release, whose functions had other lists of arguments."""
    schema.execute(OLDER_FORMS)
    schema.execute(f"grant execute on function windlass.sweep, windlass.retire to {role}")
    schema.execute(f"grant execute on function windlass.cycle to {role} with grant option")

    with PostgresPlace(pg_database).open(Sources.system()) as store:
        store.migrate()

    assert _may(schema, role, "execute") == {"cycle", "sweep", "retire"}
    assert _may(schema, role, "execute with grant option") == {"cycle"}


def test_what_no_file_defines_is_dropped(
    pg_database: str, schema: psycopg.Connection[tuple[object, ...]]
) -> None:
    """A form of a function with another list of arguments, and one that has left the files."""
    functions = "select count(*) from pg_proc where pronamespace = 'windlass'::regnamespace"
    before = schema.execute(functions).fetchone()
    for name in ("retire(text, integer)", "left_the_files()"):
        schema.execute(f"create function windlass.{name} returns void language sql as ''")
    schema.execute("update windlass.routines set checksum = 'older'")

    with PostgresPlace(pg_database).open(Sources.system()) as store:
        store.migrate()

        assert store.run(store.operations.retire("nobody")) == 0
    assert schema.execute(functions).fetchone() == before


def test_the_files_say_what_a_database_has(
    schema: psycopg.Connection[tuple[object, ...]],
) -> None:
    """What doctor misses is read from their text."""
    columns = schema.execute(
        "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid "
        "where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'r' and a.attnum > 0"
    ).fetchall()
    indexes = schema.execute(
        "select relname from pg_class "
        "where relnamespace = 'windlass'::regnamespace and relkind = 'i'"
    )
    wanted = expected()

    assert {(t, c) for t, names in wanted.columns.items() for c in names} == {
        (table, column) for table, column in columns
    }
    assert set(wanted.indexes) == {name for (name,) in indexes.fetchall()}


def test_no_function_has_two_forms(schema: psycopg.Connection[tuple[object, ...]]) -> None:
    # A changed list of arguments would leave the old form beside the new one.
    twice = schema.execute(
        "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = 'windlass' group by p.proname having count(*) > 1"
    ).fetchall()

    assert twice == []
