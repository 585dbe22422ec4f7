"""Migrations: numbered files once each, functions whenever their text changed.

All of it is one transaction under one lock: it happens wholly or not at all, and two who try at
once take turns. A migration that was applied must not change afterwards (its checksum is kept);
the functions are ``create or replace`` and may.
"""

import hashlib
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
        _apply_migrations(conn)
        _apply_routines(conn)
        conn.execute(_SQL["revoke_public"])
    return before, expected_version()


def _apply_migrations(conn: psycopg.Connection[Any]) -> None:
    applied: dict[int, str] = dict(conn.execute(_SQL["applied_migrations"]).fetchall())
    for script in load_migrations("postgres"):
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


def _apply_routines(conn: psycopg.Connection[Any]) -> None:
    applied: dict[str, str] = dict(conn.execute(_SQL["applied_routines"]).fetchall())
    for name, text in read_folder("postgres", "functions"):
        checksum = _checksum(text)
        if applied.get(name) != checksum:
            conn.execute(text.encode())
            conn.execute(_SQL["record_routine"], (name, checksum))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
