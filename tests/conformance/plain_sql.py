"""A client that has nothing of Windlass but what is in the database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.conformance.history import History, violations
from tests.conformance.places import Row, Tables


class Client:
    """A bare connection: nothing of Windlass but what is in the database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.conn = psycopg.connect(
            url, autocommit=True, row_factory=dict_row, prepare_threshold=None
        )

    def all(self, query: str, *arguments: object) -> Sequence[Row]:
        """The rows of a query."""
        cursor = self.conn.execute(query.encode(), arguments)
        return cursor.fetchall() if cursor.description else []

    def one(self, query: str, *arguments: object) -> Row:
        """The only row of a query."""
        (row,) = self.all(query, *arguments)
        return row

    def value(self, query: str, *arguments: object) -> Any:
        """The only value of a query."""
        (value,) = self.one(query, *arguments).values()
        return value

    def refused(self, query: str, *arguments: object) -> tuple[str, list[Any]]:
        """The SQLSTATE and the DETAIL of an error."""
        with pytest.raises(psycopg.Error) as caught:
            self.all(query, *arguments)
        error = caught.value
        return error.sqlstate or "", json.loads(error.diag.message_detail or "null")

    def status(self, run: object) -> str:
        """A run's status."""
        found = self.value("select status from windlass.get_runs('default', array[%s::uuid])", run)
        return str(found)


@contextmanager
def plain_client(client: Client, tables: Tables) -> Iterator[Client]:
    """Use a client of an empty database, in which one job is defined; judge what it leaves."""
    job = {
        "name": "greet", "queue": "mail", "priority": 3, "max_attempts": 3,
        "retry": {"kind": "fixed", "base": 60, "jitter": 0},
    }  # fmt: skip
    client.all("select windlass.sync_jobs(%s::json)", json.dumps([job]))
    yield client
    client.conn.rollback()
    client.conn.execute("discard all")
    assert violations(History.read(tables)) == []
