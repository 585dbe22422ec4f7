"""How the checks ask: by the names of statements, whether or not our schema is there."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from windlass.store.postgres.connections import SyncPool
from windlass.store.postgres.database_errors import of_statement
from windlass.store.postgres.naming import settle_in
from windlass.store.postgres.patient import PatientConnection
from windlass.store.postgres.target import Target
from windlass.store.queries import load_queries

Row = tuple[Any, ...]


class Asking:
    """Asks a server. A check that hangs keeps its connection; the next one gets another."""

    def __init__(self, pool: SyncPool) -> None:
        self._pool = pool
        self._sql = load_queries("postgres")

    @property
    def schema(self) -> str:
        """The schema that is looked at."""
        return self._pool.schema

    def rows(self, name: str, *parameters: object) -> Sequence[Row]:
        """The answer to one statement. Raises StoreError."""
        with told(name), self._pool.connection() as conn:
            return conn.execute(self._sql[name], parameters).fetchall()

    @contextmanager
    def settled(self) -> Iterator["Settled"]:
        """Several statements in a transaction in which names mean what PostgreSQL means by them."""
        with told("a look at the schema"), self._pool.connection() as conn, conn.transaction():
            conn.execute(self._sql["settle"])
            yield Settled(conn, self._sql)

    def row(self, name: str, *parameters: object) -> Row:
        """The only row of an answer."""
        return self.rows(name, *parameters)[0]


class Settled:
    """Asks within such a transaction."""

    def __init__(self, conn: PatientConnection, sql: Mapping[str, str]) -> None:
        self._conn = conn
        self._sql = sql

    def rows(self, name: str) -> Sequence[Row]:
        """The answer to one statement."""
        return self._conn.execute(self._sql[name]).fetchall()


def connect(conninfo: str, target: Target) -> PatientConnection:
    """A connection of one's own, which prepares nothing by itself."""
    conn = PatientConnection.connect(conninfo, autocommit=True, prepare_threshold=None)
    conn.stall = target.stall
    settle_in(conn, target.schema)
    return conn


@contextmanager
def told(name: str) -> Iterator[None]:
    """Raise what went wrong as an error of ours."""
    try:
        yield
    except psycopg.Error as problem:
        raise of_statement(problem, name) from problem
