"""A transaction of the caller's on a connection of ours: ``with app.transaction() as tx``.

The connection is lent from the pool for as long as the transaction lasts. It waits for the
caller's statements as long as they take: what must not stall are calls that a worker's lease
depends on, not these. Afterwards it is back in the pool, and others use it: a transaction that is
over refuses everything, or a late statement would commit by itself or join a stranger's work.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg
from psycopg.pq import TransactionStatus

from windlass.store.callers_transaction import Parameters, Rows, ended_by_itself, over, undone
from windlass.store.postgres.connections import (
    AsyncPool,
    SyncPool,
)
from windlass.store.postgres.database_errors import of_statement
from windlass.store.postgres.patient import PatientAsyncConnection, PatientConnection


class PostgresTransaction:
    """One open transaction, in blocking code. Placeholders are psycopg's: ``%s``."""

    def __init__(self, connection: PatientConnection) -> None:
        self._connection = connection
        self._actions: list[Callable[[], None]] = []
        self.over = False

    @property
    def connection(self) -> PatientConnection:
        """The connection. Raises UsageError if the transaction is over."""
        if self.over:
            raise over()
        return self._connection

    def execute(self, sql: str, parameters: Parameters = ()) -> Rows:
        """Run a statement on tables of your own; return its rows."""
        try:
            with psycopg.Cursor(self.connection) as cursor:
                # None, not nothing: a % in a statement without parameters is a %.
                cursor.execute(sql, parameters or None)
                rows = [] if cursor.description is None else cursor.fetchall()
        except psycopg.Error as error:
            raise of_statement(error) from error
        _check(self.connection)
        return rows

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is done inside if it raises, and nothing else."""
        with self.connection.transaction():
            yield

    def after_commit(self, action: Callable[[], None]) -> None:
        """Do something when, and only if, the transaction has been committed."""
        self._actions.append(action)

    def committed(self) -> None:
        """Do what was to be done then."""
        for action in self._actions:
            action()


class AsyncPostgresTransaction:
    """The asynchronous twin."""

    def __init__(self, connection: PatientAsyncConnection) -> None:
        self._connection = connection
        self._actions: list[Callable[[], Awaitable[None]]] = []
        self.over = False

    @property
    def connection(self) -> PatientAsyncConnection:
        """The connection. Raises UsageError if the transaction is over."""
        if self.over:
            raise over()
        return self._connection

    async def execute(self, sql: str, parameters: Parameters = ()) -> Rows:
        """Run a statement on tables of your own; return its rows."""
        try:
            async with psycopg.AsyncCursor(self.connection) as cursor:
                await cursor.execute(sql, parameters or None)
                rows = [] if cursor.description is None else await cursor.fetchall()
        except psycopg.Error as error:
            raise of_statement(error) from error
        _check(self.connection)
        return rows

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Undo what is done inside if it raises, and nothing else."""
        async with self.connection.transaction():
            yield

    def after_commit(self, action: Callable[[], Awaitable[None]]) -> None:
        """Do something when, and only if, the transaction has been committed."""
        self._actions.append(action)

    async def committed(self) -> None:
        """Do what was to be done then."""
        for action in self._actions:
            await action()


@contextmanager
def begin(pool: SyncPool) -> Iterator[PostgresTransaction]:
    """Open a transaction; it is committed at the end, rolled back if anything is raised."""
    try:
        with pool.connection() as connection, _unhurried(connection), connection.transaction():
            transaction = PostgresTransaction(connection)
            try:
                yield transaction
                _check_whole(connection)
            finally:
                transaction.over = True
    except psycopg.Error as error:
        raise of_statement(error) from error
    transaction.committed()


@asynccontextmanager
async def abegin(pool: AsyncPool) -> AsyncIterator[AsyncPostgresTransaction]:
    """As :func:`begin`, on the loop."""
    try:
        async with pool.connection() as connection:
            with _unhurried(connection):
                async with connection.transaction():
                    transaction = AsyncPostgresTransaction(connection)
                    try:
                        yield transaction
                        _check_whole(connection)
                    finally:
                        transaction.over = True
    except psycopg.Error as error:
        raise of_statement(error) from error
    await transaction.committed()


@contextmanager
def _unhurried(connection: PatientConnection | PatientAsyncConnection) -> Iterator[None]:
    stall, connection.stall = connection.stall, None
    try:
        yield
    finally:
        connection.stall = stall


def _check_whole(connection: PatientConnection | PatientAsyncConnection) -> None:
    """A commit would undo everything without a word where a statement has failed."""
    if connection.info.transaction_status is TransactionStatus.INERROR:
        raise undone()


def _check(connection: PatientConnection | PatientAsyncConnection) -> None:
    if connection.info.transaction_status is TransactionStatus.IDLE:
        raise ended_by_itself()
