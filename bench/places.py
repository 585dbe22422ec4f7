"""Where the benchmarks run: a fresh SQLite file, a private PostgreSQL server with fsync on."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.fixtures.postgres import PostgresServer
from windlass import Windlass

_numbers = count()

SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "2GB", "max_connections": "100"}


class Place:
    """Makes empty stores of one kind."""

    def __init__(self, name: str, folder: Path, server: PostgresServer | None) -> None:
        self.name = name
        self._folder = folder
        self._server = server

    def url(self) -> str:
        """The URL of a new, empty store with our schema."""
        number = next(_numbers)
        if self._server is None:
            url = f"sqlite:///{self._folder / f'bench{number}.db'}"
        else:
            url = self._server.create_database(f"bench{number}")
        app = Windlass(url)
        app.migrate()
        app.close()
        return url


@contextmanager
def places(which: str) -> Iterator[list[Place]]:
    """The stores to measure."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-bench-"))
    server = PostgresServer(settings=SETTINGS) if which in ("both", "postgres") else None
    try:
        found = []
        if which in ("both", "sqlite"):
            found.append(Place("sqlite", folder, None))
        if server is not None:
            server.start()
            found.append(Place("postgres", folder, server))
        yield found
    finally:
        if server is not None:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)
