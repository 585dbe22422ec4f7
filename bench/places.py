"""Where the benchmarks run: a fresh SQLite file, and databases of a PostgreSQL server.

The server is a private one with fsync on, of the tests' programs or of the system's, or one that
is running already.
"""

import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from tests.fixtures.postgres import (
    PostgresServer,
    PostgresUnavailable,
    create_database,
    drop_database,
    find_programs,
    system_programs,
)
from windlass import Windlass

WHEEL, SYSTEM, BOTH = "wheel", "system", "both"

_numbers = count()

SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "2GB", "max_connections": "100"}


class Place:
    """Makes empty stores of one kind."""

    def __init__(self, name: str, make: Callable[[str], str]) -> None:
        self.name = name
        self._make = make

    def url(self) -> str:
        """The URL of a new, empty store with our schema."""
        url = self._make(f"bench{next(_numbers)}")
        app = Windlass(url)
        app.migrate()
        app.close()
        return url


@contextmanager
def places(which: str, postgres: str) -> Iterator[list[Place]]:
    """The stores to measure."""
    with ExitStack() as stack:
        found = []
        if which in ("both", "sqlite"):
            found.append(Place("sqlite", _files(stack)))
        if which in ("both", "postgres"):
            found += _servers(stack, postgres)
        yield found


def _servers(stack: ExitStack, postgres: str) -> Iterator[Place]:
    if postgres not in (WHEEL, SYSTEM, BOTH):
        yield Place("postgres", _foreign(stack, postgres))
    if postgres in (WHEEL, BOTH):
        yield Place("postgres", _private(stack, WHEEL))
    if postgres == BOTH and system_programs() is None:
        print("No PostgreSQL under /usr/lib/postgresql: not measured.", file=sys.stderr)
    elif postgres in (SYSTEM, BOTH):
        yield Place("postgres (system)", _private(stack, SYSTEM))


def _files(stack: ExitStack) -> Callable[[str], str]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-bench-")))
    return lambda name: f"sqlite:///{folder / name}.db"


def private_server(which: str) -> PostgresServer:
    """Return a server of our own, to be started, of the tests' programs or of the system's."""
    programs = system_programs() if which == SYSTEM else find_programs()
    if programs is None:
        raise PostgresUnavailable("There is no PostgreSQL under /usr/lib/postgresql.")
    return PostgresServer(settings=SETTINGS, programs=programs)


def _private(stack: ExitStack, which: str) -> Callable[[str], str]:
    try:
        return stack.enter_context(private_server(which)).create_database
    except PostgresUnavailable as error:
        raise SystemExit(str(error)) from None


def _foreign(stack: ExitStack, dsn: str) -> Callable[[str], str]:
    """Databases on a server that is not ours: removed at the end."""
    mark = secrets.token_hex(4)

    def make(name: str) -> str:
        stack.callback(drop_database, dsn, f"{name}_{mark}")
        return create_database(dsn, f"{name}_{mark}")

    return make
