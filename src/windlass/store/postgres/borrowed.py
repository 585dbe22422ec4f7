"""A store inside a session of somebody else's: for tests that never commit.

A test in a transaction sees what it has enqueued there, and nobody else does. So the store must
work in that very session: every call becomes a savepoint of the test's transaction, and is rolled
back with it.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from windlass.errors import UsageError
from windlass.sources import Sources
from windlass.store.operations import Call
from windlass.store.postgres.connections import SyncPool
from windlass.store.postgres.naming import settle_in
from windlass.store.postgres.patient import PatientConnection
from windlass.store.postgres.store import PostgresStore
from windlass.store.postgres.target import Target
from windlass.store.postgres.views import view_of
from windlass.store.queries import load_queries

T = TypeVar("T")

_SQL = load_queries("postgres")


class InThread(Protocol):
    """Calls a function in the thread that has the session."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


class BorrowedStore(PostgresStore):
    """All durable state, seen and changed through one session, in its open transaction."""

    def __init__(
        self, url: str, *, sources: Sources, session: Callable[[], object], in_thread: InThread
    ) -> None:
        """`session` returns the connection of psycopg 3 (sync or async) that is lent at the moment.

        Calls block, also on an async one: nobody else uses the session meanwhile.
        """
        super().__init__(url, sources=sources)
        self._sync = _BorrowedPool(self._target, session)
        self._in_thread = in_thread

    async def arun(self, call: Call[T]) -> T:
        """Run a call in the session's thread."""
        return await self._in_thread(partial(self._run, call))

    def notify(self) -> None:
        """Nobody else sees what there is to be seen."""

    async def anotify(self) -> None:
        """Nobody else sees what there is to be seen."""

    def refuse_filled(self) -> None:
        """Raise UsageError if there are runs: the database is in use, or a test left them."""
        with self._sync.connection() as conn:
            self._check(conn, again=False)
            (filled,) = conn.execute(_SQL["filled"]).fetchone() or (False,)
        if filled:
            raise UsageError(
                f"{self.place} has runs already: give tests a database of their own; if this is "
                "one, a test has committed instead of rolling back, so delete what it has left."
            )

    def clear(self) -> None:
        """Delete all runs and schedules, in the session's transaction."""
        with self._sync.connection() as conn:
            _clear(conn, self._target.schema)


def url_of_session(session: object) -> str:
    """Where a connection of psycopg 3 leads, without a password."""
    known = _psycopg(session).info.get_parameters()
    names = ("host", "port", "user", "dbname")
    return "postgresql:///?" + "&".join(f"{n}={quote(known[n], '')}" for n in names if n in known)


def clear_database(url: str) -> None:
    """Delete all runs and schedules of a store for tests."""
    target = Target.parse(url, 10.0)
    with psycopg.connect(target.conninfo) as conn:
        settle_in(conn, target.schema)
        _clear(conn, target.schema)


def _clear(conn: psycopg.Connection[Any], schema: str) -> None:
    tables = [sql.Identifier(schema, name) for (name,) in conn.execute(_SQL["contents"])]
    conn.execute(sql.SQL("; ").join(sql.SQL("delete from {}").format(table) for table in tables))


class _BorrowedPool(SyncPool):
    def __init__(self, target: Target, session: Callable[[], object]) -> None:
        super().__init__(target)
        self._session = session
        self._begun = False  # drivers begin with the first statement

    @contextmanager
    def connection(self, within: float | None = None) -> Iterator[PatientConnection]:
        view = view_of(_psycopg(self._session()), self.schema)
        if view.info.transaction_status is TransactionStatus.IDLE:
            if self._begun:  # a call would begin, and commit, a transaction of its own
                raise UsageError(
                    "The test's transaction has ended, because the code under test has committed "
                    "or rolled it back: give that code savepoints, such as SQLAlchemy's "
                    "join_transaction_mode='create_savepoint'."
                )
            view.execute(_SQL["begin_lazily"])
        self._begun = True
        yield view


def _psycopg(session: object) -> "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]":
    if not isinstance(session, psycopg.Connection | psycopg.AsyncConnection):
        library = type(session).__module__.partition(".")[0]
        raise UsageError(
            f"Tests inside a transaction need psycopg 3, and this connection is of {library}."
        )
    return session
