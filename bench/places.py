"""Where the benchmarks run: fresh SQLite files, and fresh databases of a PostgreSQL server.

The server is a private one with fsync on, of the tests' programs or of the system's, or one that
is running already. Each measurement has a store of its own, which is removed right after it: nobody
is measured beside the vacuum or the checkpoint of somebody else.
"""

import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path

import psycopg

from tests.fixtures.postgres import (
    PostgresServer,
    PostgresUnavailable,
    create_database,
    drop_database,
    find_programs,
    system_programs,
)
from windlass import Windlass

SQLITE = "SQLite"
WHEEL, SYSTEM, BOTH = "wheel", "system", "both"

_numbers = count()


class Place:
    """Makes empty stores of one kind."""

    def __init__(self, name: str, make: Callable[[str], AbstractContextManager[str]]) -> None:
        self.name = name
        self._make = make

    @property
    def is_file(self) -> bool:
        """Whether it is SQLite."""
        return self.name == SQLITE

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """Give the URL of a new, empty store with our schema, and remove the store at the end."""
        with self._make(f"bench{next(_numbers)}") as url:
            app = Windlass(url)
            app.migrate()
            app.close()
            yield url


@contextmanager
def places(which: str, postgres: str) -> Iterator[list[Place]]:
    """The stores to measure."""
    with ExitStack() as stack:
        found = []
        if which in ("both", "sqlite"):
            found.append(Place(SQLITE, _file))
        if which in ("both", "postgres"):
            found += _servers(stack, postgres)
        yield found


def _servers(stack: ExitStack, postgres: str) -> Iterator[Place]:
    if postgres not in (WHEEL, SYSTEM, BOTH):
        yield Place(_name(postgres), _foreign(postgres))
    if postgres in (WHEEL, BOTH):
        yield _private(stack, WHEEL)
    if postgres == BOTH and system_programs() is None:
        print("No PostgreSQL under /usr/lib/postgresql: not measured.", file=sys.stderr)
    elif postgres in (SYSTEM, BOTH):
        yield _private(stack, SYSTEM)


@contextmanager
def _file(name: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        yield f"sqlite:///{Path(folder) / name}.db"


def private_server(which: str) -> PostgresServer:
    """Return a server of our own with PostgreSQL's default settings, to be started: of the tests'
    programs or of the system's."""
    programs = system_programs() if which == SYSTEM else find_programs()
    if programs is None:
        raise PostgresUnavailable("There is no PostgreSQL under /usr/lib/postgresql.")
    return PostgresServer(programs=programs)


def _private(stack: ExitStack, which: str) -> Place:
    try:
        server = stack.enter_context(private_server(which))
    except PostgresUnavailable as error:
        raise SystemExit(str(error)) from None

    @contextmanager
    def make(name: str) -> Iterator[str]:
        yield server.create_database(name)
        server.drop_database(name)

    return Place(_name(server.dsn()), make)


def _foreign(dsn: str) -> Callable[[str], AbstractContextManager[str]]:
    """Databases on a server that is not ours."""
    mark = secrets.token_hex(4)

    @contextmanager
    def make(name: str) -> Iterator[str]:
        url = create_database(dsn, f"{name}_{mark}")
        try:
            yield url
        finally:
            drop_database(dsn, f"{name}_{mark}")

    return make


def _name(dsn: str) -> str:
    with psycopg.connect(dsn) as conn:
        return f"PostgreSQL {conn.info.server_version // 10_000}"
