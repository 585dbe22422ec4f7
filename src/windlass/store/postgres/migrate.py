"""Migrations: numbered files once each, functions whenever the text of one has changed.

All of it is one transaction under one lock: it happens wholly or not at all, and two who try at
once take turns. A migration that was applied must not change afterwards (its checksum is kept);
the functions are ``create or replace`` and may.

Afterwards the schema has the functions of the files and no others: a changed list of arguments
would leave the old form beside the new one. Who was granted a function has it still, by its name.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import psycopg

from windlass.errors import SchemaMismatch, StoreError
from windlass.store.queries import load_migrations, load_queries, read_folder

_SQL = load_queries("postgres")


def expected_version() -> int:
    """The schema version that this program works with."""
    return load_migrations("postgres")[-1].version


def stored_version(conn: psycopg.Connection[Any]) -> int:
    """The schema version of a database; 0 where there is none."""
    row = conn.execute(_SQL["schema_exists"]).fetchone()
    if row is None or not row[0]:
        return 0
    found = conn.execute(_SQL["schema_version"]).fetchone()
    return int(found[0]) if found else 0


def check(found: int) -> None:
    """Refuse to work on another schema than ours."""
    expected = expected_version()
    if found != expected:
        raise SchemaMismatch(found or None, expected)


def migrate(conn: psycopg.Connection[Any]) -> tuple[int, int]:
    """Bring a database up to date; returns the versions before and after."""
    with conn.transaction():
        conn.execute(_SQL["lock_schema"])
        before = stored_version(conn)
        if before > expected_version():
            raise SchemaMismatch(before, expected_version())
        conn.execute(_SQL["create_bookkeeping"])
        granted = conn.execute(_SQL["granted"]).fetchall()
        if _apply_migrations(conn) or not _has_all_routines(conn):
            _apply_routines(conn)
            _execute_all(conn, conn.execute(_SQL["stale_functions"]).fetchall())
        conn.execute(_SQL["revoke_public"])
        for grant in granted:
            _execute_all(conn, conn.execute(_SQL["lost_grants"], grant).fetchall())
    return before, expected_version()


def _apply_migrations(conn: psycopg.Connection[Any]) -> bool:
    """Apply what is new; return whether anything was."""
    applied: dict[int, str] = dict(conn.execute(_SQL["applied_migrations"]).fetchall())
    scripts = load_migrations("postgres")
    for script in scripts:
        checksum = _checksum(script.text)
        known = applied.get(script.version)
        if known is None:
            conn.execute(script.text.encode())
            conn.execute(_SQL["record_migration"], (script.version, script.name, checksum))
        elif known != checksum:
            raise StoreError(
                f"Migration {script.version} ({script.name}) was changed after it was applied: "
                "restore the released file."
            )
    return any(script.version not in applied for script in scripts)


def _has_all_routines(conn: psycopg.Connection[Any]) -> bool:
    applied: dict[str, str] = dict(conn.execute(_SQL["applied_routines"]).fetchall())
    return applied == {name: _checksum(text) for name, text in _routines()}


def _apply_routines(conn: psycopg.Connection[Any]) -> None:
    """Apply all of them: which functions are still defined is known by who wrote them last."""
    conn.execute(_SQL["forget_routines"])
    for name, text in _routines():
        conn.execute(text.encode())
        conn.execute(_SQL["record_routine"], (name, _checksum(text)))


def _routines() -> Sequence[tuple[str, str]]:
    return read_folder("postgres", "functions")


def _execute_all(conn: psycopg.Connection[Any], statements: Sequence[tuple[str]]) -> None:
    for (statement,) in statements:
        conn.execute(statement.encode())


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
