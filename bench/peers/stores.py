"""Where the peers keep their runs: fresh databases, files and an empty Redis, all of them private.

Each measurement has a store of its own, which is dropped right after it. So nobody measures beside
the vacuum, the checkpoint or the history of somebody else.
"""

import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg

from bench.peers.catalogue import Unavailable
from bench.places import private_server
from tests.fixtures.postgres import PostgresServer, PostgresUnavailable, free_port

POSTGRES, SQLITE, REDIS = "postgres", "sqlite", "redis"
REDIS_NAME = "Redis, in memory"
REDIS_SECONDS = 10

_numbers = count()


class Place(ABC):
    """Makes empty stores of one kind."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name

    @abstractmethod
    def fresh(self) -> AbstractContextManager[str]:
        """Give the URL of an empty store, and remove the store at the end."""


class Missing(Place):
    """A server that cannot be started: its peers are reported with the reason."""

    def __init__(self, kind: str, name: str, trouble: str) -> None:
        super().__init__(kind, name)
        self._trouble = trouble

    def fresh(self) -> AbstractContextManager[str]:
        """Raise Unavailable."""
        raise Unavailable(self._trouble)


class PostgresPlace(Place):
    """Databases of a server of our own."""

    def __init__(self, server: PostgresServer) -> None:
        with psycopg.connect(server.dsn()) as conn:
            super().__init__(POSTGRES, f"PostgreSQL {conn.info.server_version // 10_000}")
        self._server = server

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """Create a database."""
        name = f"race{next(_numbers)}"
        try:
            yield self._server.create_database(name)
        finally:
            self._server.drop_database(name)


class FilePlace(Place):
    """SQLite files in a temporary folder."""

    def __init__(self) -> None:
        super().__init__(SQLITE, "SQLite")

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """Name a file that is not there yet."""
        with tempfile.TemporaryDirectory(prefix="windlass-race-") as folder:
            yield f"sqlite:///{Path(folder) / 'race.db'}"


class RedisPlace(Place):
    """A Redis of our own that writes nothing to disk: what is quickest for its peers."""

    def __init__(self, port: int) -> None:
        super().__init__(REDIS, REDIS_NAME)
        self._port = port

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """Empty it."""
        self.command(b"FLUSHALL")
        yield f"redis://127.0.0.1:{self._port}/0"

    def command(self, text: bytes) -> bytes:
        """Send a command in Redis's inline form, which needs no client library."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=REDIS_SECONDS) as conn:
            conn.sendall(text + b"\r\n")
            return conn.recv(100)


@contextmanager
def places(kinds: Iterable[str], postgres: Iterable[str]) -> Iterator[list[Place]]:
    """Start the servers of these kinds. One that cannot be started is in the list, with why."""
    with ExitStack() as stack:
        found: list[Place] = []
        if POSTGRES in kinds:
            found += [_postgres(stack, which) for which in postgres]
        if SQLITE in kinds:
            found.append(FilePlace())
        if REDIS in kinds:
            found.append(_redis(stack))
        yield found


def _postgres(stack: ExitStack, which: str) -> Place:
    try:
        return PostgresPlace(stack.enter_context(private_server(which)))
    except PostgresUnavailable as error:
        return Missing(POSTGRES, f"PostgreSQL ({which})", str(error).partition("\n")[0])


def _redis(stack: ExitStack) -> Place:
    program = shutil.which("redis-server")
    if program is None:
        return Missing(
            REDIS, REDIS_NAME, "needs redis-server on the PATH: apt-get install redis-server"
        )
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-race-"))
    port = free_port()
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
         "--save", "", "--appendonly", "no"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    stack.callback(_stop, server)
    place = RedisPlace(port)
    deadline = time.monotonic() + REDIS_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError):
            if place.command(b"PING").startswith(b"+PONG"):
                return place
        time.sleep(0.05)
    return Missing(REDIS, REDIS_NAME, "redis-server was started but does not answer")


def _stop(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    server.wait()
