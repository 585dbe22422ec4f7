"""Connections of the caller's, of whichever driver: known by their class, used as they are.

None of these libraries is imported: who passes a connection has done that. A connection is known
by the names of its classes, so that subclasses are known too. Statements are written with ``%s``,
and everything travels as text in both directions: what drivers and their settings do to dates,
JSON or rows (a codec, a row factory, a time zone) then makes no difference.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from itertools import count
from typing import Any, NamedTuple

from windlass.errors import BadOption

Row = tuple[Any, ...]
Texts = Sequence[str | None]

SUPPORTED = (
    "a connection of psycopg (3 or 2), asyncpg, SQLAlchemy or Django to PostgreSQL, "
    "or what app.transaction() gives"
)
_PLACEHOLDER = re.compile("%s")


class Caller(NamedTuple):
    """How one kind of connection is spoken to: either it blocks, or it is awaited."""

    run: Callable[[Any, str, Texts], Sequence[Row]] | None
    arun: Callable[[Any, str, Texts], Awaitable[Sequence[Row]]] | None
    errors: tuple[str, str]
    """Module and name of what it raises when the server refuses a statement."""

    def error(self) -> type[BaseException]:
        """What it raises when the server refuses a statement."""
        module, name = self.errors
        found: type[BaseException] = getattr(import_module(module), name)
        return found


def recognise(connection: object) -> Caller:
    """How this connection is spoken to. Raises BadOption where it is none that we know."""
    for kind in type(connection).__mro__:
        found = _CALLERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if found is not None:
            return found
    why = f"{_name(connection)} is not a connection that Windlass can use: give {SUPPORTED}"
    raise BadOption("connection", why)


def blocking(connection: object) -> Caller:
    """The same for code that blocks."""
    caller = recognise(connection)
    if caller.run is None:
        why = f"{_name(connection)} is asynchronous: use aenqueue"
        raise BadOption(
            "connection", f"{why}, or begin it by `with`" if _is_ours(connection) else why
        )
    return caller


def awaited(connection: object) -> Caller:
    """The same for async code."""
    caller = recognise(connection)
    if caller.arun is None:
        raise BadOption("connection", f"{_name(connection)} blocks: {_async_way(connection)}")
    return caller


def _name(connection: object) -> str:
    if _is_ours(connection):
        return "this app.transaction()"
    kind = type(connection)
    return kind.__qualname__ if kind.__module__ == "builtins" else _full_name(kind)


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_ours(connection: object) -> bool:
    return type(connection).__module__.startswith("windlass.")


def _async_way(connection: object) -> str:
    """What to do in async code instead. Django has no connection for it."""
    if _is_ours(connection):
        return "use enqueue, or begin it by `async with`"
    if recognise(connection).errors == _DJANGO:
        return "use enqueue, in a function that async code calls through sync_to_async"
    return "use enqueue, or an asynchronous connection"


# -- psycopg ------------------------------------------------------------------------------------


def _psycopg(connection: Any, sql: str, texts: Texts) -> Sequence[Row]:
    # Not connection.execute: rows, and even placeholders, may be set to others there.
    psycopg = import_module("psycopg")
    with psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        rows: Sequence[Row] = cursor.execute(sql, texts).fetchall()
        return rows


async def _apsycopg(connection: Any, sql: str, texts: Texts) -> Sequence[Row]:
    psycopg = import_module("psycopg")
    async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute(sql, texts)
        rows: Sequence[Row] = await cursor.fetchall()
        return rows


def _psycopg2(connection: Any, sql: str, texts: Texts) -> Sequence[Row]:
    plain = import_module("psycopg2.extensions").cursor
    with connection.cursor(cursor_factory=plain) as cursor:
        cursor.execute(sql, texts)
        rows: Sequence[Row] = cursor.fetchall()
        return rows


def _ours(transaction: Any, sql: str, texts: Texts) -> Sequence[Row]:
    return _psycopg(transaction.connection, sql, texts)


async def _aours(transaction: Any, sql: str, texts: Texts) -> Sequence[Row]:
    return await _apsycopg(transaction.connection, sql, texts)


# -- asyncpg ------------------------------------------------------------------------------------


async def _asyncpg(connection: Any, sql: str, texts: Texts) -> Sequence[Row]:
    return [tuple(row) for row in await connection.fetch(_numbered(sql), *texts)]


def _numbered(sql: str) -> str:
    numbers = count(1)
    return _PLACEHOLDER.sub(lambda _: f"${next(numbers)}", sql)


# -- SQLAlchemy ---------------------------------------------------------------------------------


def _sqlalchemy(connection: Any, sql: str, texts: Texts) -> Sequence[Row]:
    result = connection.exec_driver_sql(_styled(connection.dialect, sql), tuple(texts))
    return [tuple(row) for row in result]


def _session(session: Any, sql: str, texts: Texts) -> Sequence[Row]:
    return _sqlalchemy(session.connection(), sql, texts)


async def _asqlalchemy(connection: Any, sql: str, texts: Texts) -> Sequence[Row]:
    result = await connection.exec_driver_sql(_styled(connection.dialect, sql), tuple(texts))
    return [tuple(row) for row in result]


async def _asession(session: Any, sql: str, texts: Texts) -> Sequence[Row]:
    return await _asqlalchemy(await session.connection(), sql, texts)


def _styled(dialect: Any, sql: str) -> str:
    """The statement in the style of the driver below."""
    _refuse_other("SQLAlchemy", dialect.name)
    return _numbered(sql) if dialect.paramstyle == "numeric_dollar" else sql


# -- Django -------------------------------------------------------------------------------------


def _django(connection: Any, sql: str, texts: Texts) -> Sequence[Row]:
    _refuse_other("Django", connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(sql, texts)
        rows: Sequence[Row] = cursor.fetchall()
        return rows


def _refuse_other(library: str, database: str) -> None:
    if database != "postgresql":
        why = f"this one of {library} leads to {database}, and the runs are in PostgreSQL"
        raise BadOption("connection", why)


_PSYCOPG = ("psycopg", "Error")
_ASYNCPG = ("asyncpg", "PostgresError")
_SQLALCHEMY = ("sqlalchemy.exc", "DBAPIError")
_DJANGO = ("django.db.utils", "Error")
_CALLERS = {
    ("windlass", "PostgresTransaction"): Caller(_ours, None, _PSYCOPG),
    ("windlass", "AsyncPostgresTransaction"): Caller(None, _aours, _PSYCOPG),
    ("psycopg", "Connection"): Caller(_psycopg, None, _PSYCOPG),
    ("psycopg", "AsyncConnection"): Caller(None, _apsycopg, _PSYCOPG),
    ("psycopg2", "connection"): Caller(_psycopg2, None, ("psycopg2", "Error")),
    # Not its Pool, which has the same methods: each statement would go its own way.
    ("asyncpg", "Connection"): Caller(None, _asyncpg, _ASYNCPG),
    ("asyncpg", "PoolConnectionProxy"): Caller(None, _asyncpg, _ASYNCPG),
    ("sqlalchemy", "Connection"): Caller(_sqlalchemy, None, _SQLALCHEMY),
    ("sqlalchemy", "Session"): Caller(_session, None, _SQLALCHEMY),
    ("sqlalchemy", "scoped_session"): Caller(_session, None, _SQLALCHEMY),
    ("sqlalchemy", "AsyncConnection"): Caller(None, _asqlalchemy, _SQLALCHEMY),
    ("sqlalchemy", "AsyncSession"): Caller(None, _asession, _SQLALCHEMY),
    ("sqlalchemy", "async_scoped_session"): Caller(None, _asession, _SQLALCHEMY),
    ("django", "ConnectionProxy"): Caller(_django, None, _DJANGO),
    ("django", "BaseDatabaseWrapper"): Caller(_django, None, _DJANGO),
}
