"""Whoever migrates lends the functions its rights: nobody else may have a hand in the schema."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.conformance.test_roles import Login, login
from tests.conftest import Cluster
from tests.faults.harness import eventually
from tests.fixtures.postgres import create_database, drop_database
from windlass.errors import StoreError
from windlass.sources import Sources
from windlass.store.interface import Migration
from windlass.store.postgres.store import PostgresStore

__all__ = ["login"]


def migrate(url: str) -> Migration:
    with PostgresStore(url, sources=Sources.system()) as store:
        return store.migrate()


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def value(url: str, statement: str) -> object:
    with psycopg.connect(url) as conn:
        row = conn.execute(statement.encode()).fetchone()
        return row and row[0]


@pytest.fixture
def bare(pg_cluster: Cluster) -> Iterator[str]:
    """A database without our schema."""
    name = f"wl_bare_{secrets.token_hex(6)}"
    yield create_database(pg_cluster.dsn, name)
    drop_database(pg_cluster.dsn, name)


@pytest.fixture
def mallory(bare: str, login: Login) -> Iterator[str]:
    """That database, for a plain role that may make schemas in it."""
    name = urlsplit(bare).path[1:]
    login.grant(bare, f"grant create on database {name} to {{}}")
    yield login.url(name)
    login.grant(bare, "drop owned by {} cascade")


TAKEOVER = """
create schema trap; grant usage on schema trap to public;
create function trap.times(numeric, integer) returns numeric language plpgsql as $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    execute 'alter role MALLORY superuser';
  end if;
  return pg_catalog.numeric_mul($1, $2::numeric);
end $$
"""


def takeover(role: str) -> str:
    """A function that makes its role a superuser if a superuser calls it."""
    return TAKEOVER.replace("MALLORY", role)


def is_superuser(url: str, role: str) -> bool:
    with psycopg.connect(url) as conn:
        found = conn.execute("select rolsuper from pg_roles where rolname = %s", (role,))
        return bool((found.fetchone() or (False,))[0])


def test_a_schema_that_somebody_else_made_is_refused(bare: str, mallory: str, login: Login) -> None:
    """An operator in it fits better than PostgreSQL's own, and windlass.uuid7 would call it."""
    execute(
        mallory,
        takeover(login.name),
        "create schema windlass",
        "create operator windlass.* (leftarg = numeric, rightarg = integer, function = trap.times)",
    )

    with pytest.raises(StoreError) as caught:
        migrate(bare)

    assert str(caught.value) == (
        f"The schema windlass belongs to {login.name}, whose code would run with the rights of "
        f"postgres: migrate as {login.name}, or drop the schema if it is not Windlass's."
    )
    assert value(bare, "select count(*) from pg_proc where prosecdef and proname = 'enqueue'") == 0
    assert not is_superuser(bare, login.name)


def test_nothing_is_read_of_a_schema_that_may_be_a_trap(
    bare: str, mallory: str, login: Login
) -> None:
    """A view runs its functions with the rights of whoever reads it."""
    execute(
        mallory,
        takeover(login.name),
        "create schema windlass; grant usage on schema windlass to public",
        "create view windlass.migrations as select trap.times(1.0, 1)::integer as version",
        "create view windlass.routines as select 1 as protocol",
        "grant select on windlass.migrations, windlass.routines to public",
    )

    with PostgresStore(bare, sources=Sources.system()) as store:
        assert store.schema_version()[0] == 0
        with pytest.raises(StoreError):
            store.migrate()

    assert not is_superuser(bare, login.name)


def test_names_are_looked_up_in_postgresqls_own_catalog(
    bare: str, mallory: str, login: Login
) -> None:
    """A function of the same name that fits better, in a schema where anybody may make things."""
    execute(bare, "grant create on schema public to public")
    execute(
        mallory,
        takeover(login.name),
        "create function public.hashtextextended(text, integer) returns bigint language sql "
        "as 'select trap.times(1.0, 1)::bigint'",
    )

    migrate(bare)

    assert not is_superuser(bare, login.name)


def test_a_schema_that_is_made_meanwhile_is_not_taken(
    bare: str, mallory: str, login: Login
) -> None:
    with psycopg.connect(mallory) as conn, ThreadPoolExecutor() as pool:
        conn.execute("create schema windlass")
        migrating = pool.submit(migrate, bare)
        waiting = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
            "and datname = current_database()"
        )
        eventually(lambda: value(bare, waiting) == 1, what="the migration waits for the schema")
        conn.commit()
        with pytest.raises(StoreError, match="schema"):
            migrating.result(timeout=30)

    assert value(bare, "select count(*) from pg_proc where proname = 'enqueue'") == 0


# -- what others have in a schema of ours ---------------------------------------------------------

THINGS = {
    "table": "create table windlass.x ()",
    "view": "create view windlass.x as select 1 as n",
    "sequence": "create sequence windlass.x",
    "function": "create function windlass.x() returns void language sql as ''",
    "function windlass.y()": "create procedure windlass.y() language sql as ''",
    "function windlass.z(integer)": "create aggregate windlass.z(integer) "
    "(sfunc = int4pl, stype = integer)",
    "operator": "create operator windlass.* (leftarg = numeric, rightarg = integer, "
    "function = trap.times)",
    "type": "create type windlass.x as enum ('a')",
    "type windlass.y": "create domain windlass.y as integer",
    "collation": "create collation windlass.x (locale = 'C')",
    "operator family": "create operator family windlass.x using btree",
    "text search dictionary": "create text search dictionary windlass.x (template = simple)",
    "default privileges": "alter default privileges in schema windlass grant select on tables "
    "to public",
}  # fmt: skip


@pytest.fixture
def clerk(pg_database: str, login: Login) -> Iterator[str]:
    """A database of ours, for a role that was allowed to create things in the schema."""
    name = urlsplit(pg_database).path[1:]
    login.grant(
        pg_database,
        "grant all on schema windlass to {}",
        "grant trigger on all tables in schema windlass to {}",
        f"grant create on database {name} to {{}}",
    )
    yield login.url(name)
    login.grant(pg_database, "drop owned by {} cascade")


@pytest.mark.parametrize("kind", THINGS)
def test_whatever_is_another_roles_is_refused(
    pg_database: str, clerk: str, login: Login, kind: str
) -> None:
    if kind == "operator family":  # which plain roles cannot make, but be given
        execute(pg_database, THINGS[kind])
        login.grant(pg_database, "alter operator family windlass.x using btree owner to {}")
    else:
        execute(clerk, takeover(login.name), THINGS[kind])

    with pytest.raises(StoreError) as caught:
        migrate(pg_database)

    assert str(caught.value).startswith(f"The {kind} ")
    assert str(caught.value).endswith(
        f" belongs to {login.name} and the schema windlass to postgres: drop it, or change its "
        "owner to postgres, and migrate again."
    )


def test_a_trigger_with_another_roles_function_is_refused(
    pg_database: str, clerk: str, login: Login
) -> None:
    execute(
        clerk,
        "create schema trap",
        "create function trap.see() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger see before insert on windlass.runs "
        "for each row execute function trap.see()",
    )

    with pytest.raises(StoreError, match=r"The trigger see on table windlass\.runs belongs to wl_"):
        migrate(pg_database)


@pytest.mark.parametrize("grantee", ["public", "clerk"])
def test_others_may_create_nothing_in_the_schema_after_a_migration(
    pg_database: str, login: Login, grantee: str
) -> None:
    to = "public" if grantee == "public" else login.name
    execute(pg_database, f"grant all on schema windlass to {to}")

    migrate(pg_database)

    may = "select has_schema_privilege('{}', 'windlass', '{}')"
    assert value(pg_database, may.format(login.name, "create")) is False
    assert value(pg_database, may.format(login.name, "usage")) is (grantee != "public")
    login.grant(pg_database, "drop owned by {}")


# -- a role for owning things ---------------------------------------------------------------------


@pytest.fixture
def owner(bare: str, login: Login) -> Iterator[str]:
    """A role that nobody logs in as, that may make a schema, and of which the login is a member."""
    name = f"wl_owner_{secrets.token_hex(6)}"
    execute(
        bare,
        f"create role {name} nologin",
        f"grant create on database {urlsplit(bare).path[1:]} to {name}",
        f"create schema windlass authorization {name}",
        f"grant {name} to {login.name}",
    )
    yield name
    execute(bare, f"drop owned by {name} cascade", f"drop role {name}")


OWNERS = (
    "select string_agg(distinct pg_get_userbyid(proowner), ',') from pg_proc "
    "where pronamespace = 'windlass'::regnamespace"
)


def test_a_member_migrates_as_the_owner(bare: str, login: Login, owner: str) -> None:
    url = login.url(urlsplit(bare).path[1:])

    migrate(url)
    migrate(url)

    assert value(bare, OWNERS) == owner


def test_an_owner_that_can_log_in_may_have_left_a_trap(bare: str, login: Login, owner: str) -> None:
    execute(bare, f"alter role {owner} login")

    with pytest.raises(StoreError, match=f"belongs to {owner}"):
        migrate(login.url(urlsplit(bare).path[1:]))


def test_a_superuser_names_the_owner_to_act_as(bare: str, owner: str) -> None:
    with pytest.raises(StoreError, match=f"belongs to {owner}"):
        migrate(bare)

    migrate(f"{bare}?options={quote(f'-c role={owner}')}")

    assert value(bare, OWNERS) == owner


def test_nobody_takes_an_owner_for_its_own_that_is_not(bare: str, login: Login, owner: str) -> None:
    execute(bare, sql.SQL("revoke {} from {}").format(
        sql.Identifier(owner), sql.Identifier(login.name)).as_string(None))  # fmt: skip

    with pytest.raises(StoreError, match=f"belongs to {owner}"):
        migrate(login.url(urlsplit(bare).path[1:]))
