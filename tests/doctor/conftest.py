"""A durable server of the doctor's own, whose settings tests may spoil; and each store in turn."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.apps import STORES, url
from tests.fixtures.postgres import PostgresServer, prepare_template

__all__ = ["url"]


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A server that is durable, as users' are; the one that the tests share is not."""
    with PostgresServer({"max_prepared_transactions": "2"}) as made:
        prepare_template(made.create_database("wl_template"))
        yield made


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database on that server."""
    name = f"wl_{secrets.token_hex(6)}"
    yield server.create_database(name, "wl_template")
    server.drop_database(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a SQLite file may be."""
    return tmp_path / "windlass.db"


@pytest.fixture(params=STORES)
def durable(request: pytest.FixtureRequest, file: Path) -> str:
    """The URL of an empty store with whose settings nothing is wrong."""
    if request.param == "sqlite":
        return f"sqlite:///{file}"
    found: str = request.getfixturevalue("database")
    return found
