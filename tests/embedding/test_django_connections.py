"""Handlers in a Django project find connections that work, whoever runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.embedding.django_project import LONG, WORKERS, databases, make_project, manage, working
from windlass import Request, Windlass

JOBS = """
from asgiref.sync import sync_to_async
from django.db import connection
from windlass.contrib.django import get_app

app = get_app()


def ask():
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return cursor.fetchone()[0]


@app.job(max_attempts=1)
def in_thread() -> int:
    return ask()


@app.job(max_attempts=1)
async def on_loop() -> int:
    return await sync_to_async(ask)()


@app.job(max_attempts=1, executor="process")
def in_child() -> int:
    return ask()


@app.job(max_attempts=1, executor="process")
async def on_childs_loop() -> int:
    return await sync_to_async(ask)()


@app.job(max_attempts=1)
def leave_transaction_open() -> None:
    from django.db import transaction

    transaction.atomic().__enter__()
    ask()


@app.job(max_attempts=1)
async def list_slowly() -> list[int]:
    from django.contrib.auth.models import User

    found = []
    async for user in User.objects.order_by("id").aiterator(chunk_size=1):
        found.append(user.id)
        await app.aresult((await on_loop.aenqueue()).id, timeout="20s")
    return found
"""
pytestmark = pytest.mark.timeout(LONG)

ALL = ("in_thread", "on_loop", "in_child", "on_childs_loop")


@pytest.fixture
def project(tmp_path: Path, pg_database: str) -> Path:
    """A project that keeps its connections for ever, and does not ask Django to check them."""
    options = {"OPTIONS": {"application_name": "shop"}, "CONN_MAX_AGE": None}
    settings = databases(pg_database, **options) + f"WINDLASS_URL = {pg_database!r}\n"
    return make_project(tmp_path, settings, jobs=JOBS)


def results(app: Windlass, *jobs: str) -> list[Any]:
    made = app.enqueue_many([Request.of_nothing(job) for job in jobs])
    return [app.result(run.id, timeout=LONG / 3) for run in made]


# Other tests use the same server at the same time.
OURS = "from pg_stat_activity where application_name = 'shop' and datname = current_database()"


def sessions(url: str) -> list[int]:
    """The sessions of the project's handlers."""
    with psycopg.connect(url) as conn:
        query = f"select pid {OURS}"
        return [pid for (pid,) in conn.execute(query).fetchall()]


def end_sessions(url: str) -> int:
    """End the sessions of the project's handlers; returns how many there were."""
    with psycopg.connect(url) as conn:
        query = f"select count(pg_terminate_backend(pid, 10000)) {OURS}"
        row = conn.execute(query).fetchone()
        assert row is not None
        return int(row[0])


@pytest.mark.parametrize("worker", WORKERS)
def test_handlers_work_after_their_sessions_were_ended(
    project: Path, pg_database: str, worker: str
) -> None:
    app = Windlass(pg_database)
    with working(project, worker):
        before = results(app, *ALL)
        # Threads and child processes keep theirs, as CONN_MAX_AGE says.
        assert results(app, "in_thread") == before[:1]
        assert end_sessions(pg_database) >= 2
        after = results(app, *ALL)
    assert not set(before) & set(after)
    app.close()


def test_handlers_leave_no_session_behind_that_others_cannot_use(
    project: Path, pg_database: str
) -> None:
    app = Windlass(pg_database)
    with working(project, "manage.py windlass_worker"):
        results(app, "leave_transaction_open")
        (mine,) = results(app, "in_thread")
        assert sessions(pg_database) == [mine]
        results(app, "on_loop", "on_childs_loop")
        assert sessions(pg_database) == [mine]
    app.close()


def test_async_handlers_do_not_close_each_others_connections(
    tmp_path: Path, pg_database: str
) -> None:
    """One reads row by row, while others come and go on a CONN_MAX_AGE of 0."""
    settings = databases(pg_database) + f"WINDLASS_URL = {pg_database!r}\n"
    project = make_project(tmp_path, settings, jobs=JOBS)
    manage(project, "migrate", "--run-syncdb", "--verbosity", "0")
    users = "User.objects.bulk_create(User(username=str(n)) for n in range(3))"
    manage(project, "shell", "-c", f"from django.contrib.auth.models import User; {users}")
    app = Windlass(pg_database)
    with working(project, "manage.py windlass_worker"):
        assert results(app, "list_slowly") == [[1, 2, 3]]
    app.close()
