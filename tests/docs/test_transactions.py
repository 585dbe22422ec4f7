"""The examples of docs/transactions.md, each run as it is written."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.fixtures.apps import STORES
from tests.fixtures.pages import Examples, blocks
from windlass import Windlass

PAGE = "docs/transactions.md"
FIRST = "Enqueue in your own transaction"
NAMED = [block.name for block in blocks(PAGE) if block.name != FIRST]
NAMES = {
    "asyncpg": asyncpg,
    "psycopg": psycopg,
    "psycopg2": psycopg2,
    "create_engine": create_engine,
    "create_async_engine": create_async_engine,
    "Session": Session,
    "AsyncSession": AsyncSession,
    "text": text,
}
DJANGO = """
import sys
from urllib.parse import urlsplit
import django
from django.conf import settings
from windlass import Windlass

parts = urlsplit(sys.argv[1])
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "HOST": parts.hostname, "PORT": parts.port,
    "USER": parts.username, "PASSWORD": parts.password, "NAME": parts.path.lstrip("/"),
}})
django.setup()
app = Windlass(sys.argv[1])

@app.job
def send_confirmation(order_id: int) -> None: ...

"""


def prepared(url: str) -> tuple[Windlass, Any]:
    """An application with the job and the table of the page."""
    app = Windlass(url)

    @app.job
    def send_confirmation(order_id: int) -> None: ...

    with app.transaction() as tx:
        tx.execute("create table orders (id integer)")
    return app, send_confirmation


def check(app: Windlass) -> None:
    """One order, and its run."""
    (run,) = app.list()
    assert (run.job, run.input) == ("send_confirmation", {"order_id": 7})
    with app.transaction() as tx:
        assert tx.execute("select id from orders") == [(7,)]
    app.close()


@pytest.mark.parametrize(
    ("name", "store"),
    [
        pytest.param(name, store, marks=pytest.mark.examples(PAGE, name))
        for name in NAMED
        for store in STORES
        if (store == "postgres" and name != "django") or name.startswith("own")
    ],
)
def test_example_works(
    request: pytest.FixtureRequest, tmp_path: Path, examples: Examples, name: str, store: str
) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    if store == "postgres":
        url = request.getfixturevalue("pg_database")
    app, job = prepared(url)
    given = examples.run(name, **NAMES, app=app, send_confirmation=job, DSN=url)
    if inspect.iscoroutinefunction(given.get("place")):

        async def place() -> None:
            await given["place"]()
            await app.aclose()

        asyncio.run(place())
    check(app)


@pytest.mark.examples(PAGE, "django")
def test_example_of_django_works(examples: Examples, pg_database: str) -> None:
    app, _ = prepared(pg_database)
    program = DJANGO + examples["django"]
    command = [sys.executable, "-W", "error", "-c", program, pg_database]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    check(app)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("ends", ["commits", "rolls back"])
@pytest.mark.examples(PAGE, FIRST)
def test_every_way_to_enqueue_joins_the_transaction(
    request: pytest.FixtureRequest, tmp_path: Path, examples: Examples, store: str, ends: str
) -> None:
    url = f"sqlite:///{tmp_path}/w.db"
    if store == "postgres":
        url = request.getfixturevalue("pg_database")
    app, job = prepared(url)
    with suppress(KeyError), app.transaction() as tx:
        examples.run(FIRST, app=app, job=job, connection=tx)
        if ends == "rolls back":
            raise KeyError
    made = sorted(run.input["order_id"] for run in app.list())
    assert made == ([0, 1, 2, 7, 7] if ends == "commits" else [])
    app.close()


def test_page_has_an_example_for_each_driver() -> None:
    drivers = {name.partition(",")[0] for name in NAMED}
    assert drivers == {"own", "psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django"}
