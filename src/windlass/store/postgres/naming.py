"""The schema in which everything of Windlass is, if it is to have another name than `windlass`.

The SQL files say `windlass` wherever they mean the schema, the channel of wake-ups, or the lock of
migrations. In another schema each of these has that schema's name instead. Our connections do it:
their cursors put the name into each statement, once for each text, and in the schema `windlass`
they are psycopg's own. So two applications in one database share nothing, and no file is a
template.

What a user says in `app.transaction()` is the user's own SQL and is left as it is. So is what the
server has written (:func:`execute_as_it_is`): it has the schema's name already, and there may be a
role that is called `windlass`.
"""

import re
from functools import cache
from typing import Any

import psycopg
from psycopg import sql

from windlass.errors import BadOption

DEFAULT_SCHEMA = "windlass"
# The setting by which tests move the clock is one for all, and is no schema's.
_NAME = re.compile(r"\bwindlass\b(?!\.fake_now\b)")
_ALLOWED = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SHARED = ("public", "information_schema")
# Words that PostgreSQL would not take for a name without quotes.
_RESERVED = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check
    collate collation column concurrently constraint create cross current_catalog current_date
    current_role current_schema current_time current_timestamp current_user default deferrable desc
    distinct do else end except false fetch for foreign freeze from full grant group having ilike in
    initially inner intersect into is isnull join lateral leading left like limit localtime
    localtimestamp natural not notnull null offset on only or order outer overlaps placing primary
    references returning right select session_user similar some symmetric system_user table
    tablesample then to trailing true union unique user using variadic verbose when where window
    with
    """.split()  # noqa: SIM905 - a hundred words are read more easily than a hundred lines
)


def check_schema(name: str, source: str = "argument") -> str:
    """Raise BadOption for what cannot be the name of a schema of our own."""
    if not _ALLOWED.fullmatch(name) or name.startswith("pg_"):
        why = (
            f"{name!r} is not a name such as 'shop': up to 63 small letters, digits and '_', "
            "not beginning with a digit or 'pg_'"
        )
        raise BadOption("schema", why, source)
    if name in _RESERVED:
        raise BadOption("schema", f"{name!r} is a word of SQL: name another one", source)
    if name in _SHARED:
        raise BadOption("schema", f"{name!r} is not for Windlass alone: name a new one", source)
    return name


@cache
def in_schema(text: str, schema: str) -> str:
    """A statement of our files, about another schema."""
    return text if schema == DEFAULT_SCHEMA else _NAME.sub(schema, text)


def settle_in(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], schema: str) -> None:
    """Have all statements of a connection be about this schema."""
    if schema == DEFAULT_SCHEMA:
        return
    if isinstance(conn, psycopg.AsyncConnection):
        conn.cursor_factory = _async_cursor(schema)
    else:
        conn.cursor_factory = _cursor(schema)


def execute_as_it_is(conn: psycopg.Connection[Any], statement: str) -> None:
    """Execute a statement that has the schema's name already."""
    with psycopg.Cursor(conn) as cursor:
        cursor.execute(statement.encode())


@cache
def _cursor(schema: str) -> type[psycopg.Cursor[Any]]:
    class SchemaCursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
            return super().execute(_translated(query, schema), *args, **kwargs)

    return SchemaCursor


@cache
def _async_cursor(schema: str) -> type[psycopg.AsyncCursor[Any]]:
    class AsyncSchemaCursor(psycopg.AsyncCursor[Any]):
        async def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
            return await super().execute(_translated(query, schema), *args, **kwargs)

    return AsyncSchemaCursor


def _translated(query: Any, schema: str) -> Any:
    if isinstance(query, str):
        return in_schema(query, schema)
    if isinstance(query, bytes):  # the text of a file
        return in_schema(query.decode(), schema).encode()
    assert isinstance(query, sql.Composable), "put together with names of its own"
    return query
