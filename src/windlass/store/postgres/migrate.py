"""Migrations: numbered files once each, then the functions (see :mod:`.routines`).

All of it is one transaction under one lock: it happens wholly or not at all, and two who try at
once take turns. A migration that was applied must not change afterwards (its checksum is kept).

Whoever migrates lends the functions its rights. So it reads nothing of a schema that may be
somebody's trap (see :mod:`.owners`), and looks names up in ``pg_catalog`` alone.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from windlass.errors import SchemaMismatch, StoreError
from windlass.store.interface import Migration
from windlass.store.postgres import owners, routines
from windlass.store.queries import load_migrations, load_queries

_SQL = load_queries("postgres")


class State(NamedTuple):
    """What a database has: the version of its schema, 0 where there is none, and its protocol."""

    version: int = 0
    protocol: int | None = None


def expected_version() -> int:
    """The schema version that this program works with."""
    return load_migrations("postgres")[-1].version


def stored_state(conn: psycopg.Connection[Any]) -> State:
    """What a database has."""
    may_read = conn.execute(_SQL["may_read_state"]).fetchone()
    if may_read is None:
        return State()
    found = conn.execute(state_query(may_read=may_read[0])).fetchone()
    return State(*found) if found else State()


def state_query(*, may_read: bool) -> str:
    """The statement for the state: from its tables, or else from the function for clients."""
    return _SQL["read_state" if may_read else "ask_state"]


def check(found: State) -> None:
    """Refuse to work on another schema than ours."""
    expected = expected_version()
    if found.version != expected:
        raise SchemaMismatch(found.version or None, expected)
    if found.protocol != routines.PROTOCOL:
        raise SchemaMismatch(found.protocol, routines.PROTOCOL, "functions")


def migrate(conn: psycopg.Connection[Any], schema: str) -> Migration:
    """Bring a database up to date; `schema` is what the connection's statements are about."""
    conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    with conn.transaction():
        conn.execute(_SQL["settle"])
        conn.execute(_SQL["lock_schema"])
        owners.take_schema(conn, schema)
        before = stored_state(conn)
        _refuse_newer(before)
        conn.execute(_SQL["create_bookkeeping"])
        _apply_migrations(conn)
        mended = routines.bring_up_to_date(conn)
        conn.execute(_SQL["revoke_public"])
        owners.check_contents(conn, schema)  # again: somebody may have been allowed to, until now
    return Migration(before.version, expected_version(), tuple(mended))


def find_outdated(conn: psycopg.Connection[Any]) -> Sequence[str]:
    """What a migration would make anew, in a database of our version."""
    with conn.transaction():
        conn.execute(_SQL["settle"])
        return routines.find_outdated(conn)


def _refuse_newer(found: State) -> None:
    if found.version > expected_version():
        raise SchemaMismatch(found.version, expected_version())
    if found.protocol is not None and found.protocol > routines.PROTOCOL:
        raise SchemaMismatch(found.protocol, routines.PROTOCOL, "functions")


def _apply_migrations(conn: psycopg.Connection[Any]) -> None:
    applied: dict[int, str] = dict(conn.execute(_SQL["applied_migrations"]).fetchall())
    for script in load_migrations("postgres"):
        checksum = hashlib.sha256(script.text.encode()).hexdigest()
        known = applied.get(script.version)
        if known is None:
            conn.execute(script.text.encode())
            conn.execute(_SQL["record_migration"], (script.version, script.name, checksum))
        elif known != checksum:
            raise StoreError(
                f"Migration {script.version} ({script.name}) was changed after it was applied: "
                "restore the released file."
            )
