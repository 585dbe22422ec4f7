"""A newer Windlass: one more migration, which it does to the end, or waits in the midst of.

`python -m tests.faults.programs.migrator URL wait|go`
"""

import sys
from typing import Any

import apsw

from windlass import Windlass
from windlass.store.postgres import migrate as postgres
from windlass.store.queries import Script, load_migrations
from windlass.store.sqlite import migrate as sqlite

url, mode = sys.argv[1:]


def halfway(*_: Any) -> int:
    """Say so, and wait for the end."""
    if mode == "wait":
        sys.stdout.write("half-way\n")
        sys.stdout.flush()
        sys.stdin.read()
    return 1


def newer(dialect: str) -> list[Script]:
    """The migrations, and one more."""
    known = load_migrations(dialect)
    schema, wait = ("windlass.", "") if dialect == "postgres" else ("", "select halfway();")
    text = f"create table {schema}half (x integer); {wait} alter table {schema}runs add note text"
    return [*known, Script(known[-1].version + 1, "later", text)]


if url.startswith("sqlite"):
    apsw.connection_hooks.append(lambda found: found.create_scalar_function("halfway", halfway))
    found = newer("sqlite")
    sqlite.migrations = lambda: found  # type: ignore[assignment]
else:
    apply = postgres._apply_migrations

    def and_wait(conn: Any) -> None:
        apply(conn)
        halfway()

    postgres.load_migrations = newer  # type: ignore[attr-defined]
    postgres._apply_migrations = and_wait
before, after, _ = Windlass(url).migrate()
sys.stdout.write(f"{before} {after}\n")
