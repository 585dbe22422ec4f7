"""Databases for a while, such as those of tests: made beside the one that a URL names."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from windlass.errors import StoreUnavailable, UsageError
from windlass.store.postgres.database_errors import one_line
from windlass.store.postgres.target import Target

PREFIX = "windlass_test_"
_STALL = 30.0
_LOOK = 0.002
_LOOKS = 250


def create_database(server: str, template: str | None = None) -> str:
    """Make a database, a copy of another one if `template` is its URL; returns its URL."""
    name = f"{PREFIX}{secrets.token_hex(6)}"
    source = "template0" if template is None else _name(template)
    with _connected(server) as conn:
        conn.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(source)
            )
        )
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def drop_database(server: str, url: str) -> None:
    """Drop a database that `create_database` made, and end the sessions that still use it."""
    name = _name(url)
    if not name.startswith(PREFIX):
        raise UsageError(f"The database {name!r} was not made for tests and is not dropped.")
    with _connected(server) as conn:
        end_sessions(conn, name)
        conn.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )


def end_sessions(conn: psycopg.Connection[Any], name: str) -> None:
    """End the sessions that use a database, and wait for half a second at most until they are gone.

    `drop database with (force)` ends them too, but then it looks every 100 ms only. It does so even
    for a connection that was closed the moment before, and most tests end with one.
    """
    for _ in range(_LOOKS):
        found = conn.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where datname = %s and backend_type = 'client backend'",
            (name,),
        ).fetchone()
        if found == (0,):
            return
        time.sleep(_LOOK)


def _name(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


@contextmanager
def _connected(server: str) -> Iterator[psycopg.Connection[Any]]:
    try:
        with psycopg.connect(Target.parse(server, _STALL).conninfo, autocommit=True) as conn:
            yield conn
    except psycopg.errors.InsufficientPrivilege as error:
        raise UsageError(
            f"The server for tests refuses: {one_line(error)}; its user needs CREATEDB."
        ) from error
    except psycopg.OperationalError as error:
        raise StoreUnavailable(
            f"The server for tests cannot be reached: {one_line(error)}"
        ) from error
