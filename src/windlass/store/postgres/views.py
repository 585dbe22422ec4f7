"""Views: connections of ours on a session that somebody else has opened.

How the owner wants its rows, parameters and JSON does not matter to a view, and what is done
through it leaves the owner's connection as it was. Nothing is prepared: both would give their
statements the same names.
"""

from typing import Any, TypeVar

import psycopg

from windlass.store.postgres.naming import settle_in
from windlass.store.postgres.patient import PatientAsyncConnection, PatientConnection

V = TypeVar("V", "View", "AsyncView")


class View(PatientConnection):
    """A blocking connection on somebody else's session."""

    def __del__(self, _: object = None) -> None:
        """Leave the session to its owner."""


class AsyncView(PatientAsyncConnection):
    """The asynchronous twin."""

    def __del__(self, _: object = None) -> None:
        """Leave the session to its owner."""


def view_of(
    connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]", schema: str
) -> View:
    """A blocking view, also of an async connection that nobody else uses meanwhile."""
    return _settled(View, connection, schema)


def async_view_of(connection: "psycopg.AsyncConnection[Any]", schema: str) -> AsyncView:
    """The asynchronous twin."""
    return _settled(AsyncView, connection, schema)


def _settled(
    kind: type[V],
    connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]",
    schema: str,
) -> V:
    pgconn = connection.pgconn
    handlers = pgconn.notice_handler, pgconn.notify_handler
    view = kind(pgconn)
    # A new connection object puts its own in their place: the owner would hear of nothing more.
    pgconn.notice_handler, pgconn.notify_handler = handlers
    view.prepare_threshold = None
    settle_in(view, schema)
    return view
