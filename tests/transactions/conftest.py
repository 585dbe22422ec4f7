"""A caller of each driver, on an empty store with a table of the caller's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.callers import CALLERS, TABLE, Caller, make_app
from windlass import Windlass


def url_for(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if store == "sqlite":
        return f"sqlite:///{tmp_path}/windlass.db"
    found: str = request.getfixturevalue("pg_database")
    return found


def joined(app: Windlass) -> Windlass:
    """The application, with the table of orders in its database."""
    with app.transaction() as tx:
        tx.execute(TABLE)
    return app


@pytest.fixture(params=CALLERS)
def caller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Caller]:
    """Each of them, connected and with nothing begun."""
    kind = CALLERS[request.param]
    url = url_for(request, kind.store, tmp_path)
    made = kind(joined(make_app(url)), url)
    yield made
    made.close()
    made.app.close()


@pytest.fixture
def look(caller: Caller) -> Iterator[Windlass]:
    """Another application on the same store: what it sees is committed."""
    app = make_app(caller.url)
    yield app
    app.close()
