"""The store in one of Django's DATABASES, and in its test databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.embedding.django_project import LONG, databases, make_project, manage
from windlass import Windlass
from windlass.contrib.django.databases import _url
from windlass.store.postgres.target import Target

JOBS = """
from windlass.contrib.django import get_app

app = get_app()


@app.job
def add(a: int, b: int) -> int:
    return a + b


@app.job(executor="process")
def add_apart(a: int, b: int) -> int:
    return a + b
"""
TESTS = """
from django.db import connection
from django.test import SimpleTestCase, TestCase, TransactionTestCase
from orders.jobs import add, app


class First(TestCase):
    def test_runs_are_in_the_test_database(self):
        name = connection.settings_dict["NAME"]
        assert name.startswith("test_"), name
        assert app.store.place.endswith("/" + name), app.store.place
        run = add.enqueue(1, 2)
        assert app.get(run.id).status == "queued"


class Second(TransactionTestCase):
    async def test_runs_are_in_the_test_database(self):
        run = await add.aenqueue(1, 2)
        assert (await app.aget(run.id)).status == "queued"
        await app.aclose()


class Third(SimpleTestCase):
    def test_place_is_the_test_database_without_any_connection(self):
        assert "/test_" in app.store.place, app.store.place
"""
ALIAS = "WINDLASS_DATABASE = 'default'\n"


STEPS = """
from django.core.management import CommandError, call_command
from orders.jobs import add, add_apart

def check():
    try:
        call_command("windlass_migrate", check=True)
    except CommandError as error:
        print(error.returncode, error)

check()
call_command("migrate", run_syncdb=True, verbosity=0)
check()
call_command("windlass_migrate")
check()
add.enqueue(1, 2)
add_apart.enqueue(3, 4)
"""


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        (
            {"NAME": "shop", "USER": "ada", "PASSWORD": "p:/@?#% ä", "HOST": "db", "PORT": 6432},
            {
                "dbname": "shop",
                "user": "ada",
                "password": "p:/@?#% ä",
                "host": "db",
                "port": "6432",
            },
        ),
        (
            {"NAME": "my shop", "USER": "", "HOST": "/run/postgresql", "PORT": ""},
            {"dbname": "my shop", "host": "/run/postgresql"},
        ),
        (
            {
                "NAME": "shop",
                "USER": "ada",
                "OPTIONS": {
                    "sslmode": "verify-full",
                    "sslrootcert": "/etc/ssl/a b.crt",
                    "pool": True,
                    "isolation_level": 4,
                    "server_side_binding": True,
                    "options": "-c statement_timeout=5000",
                    "assume_role": "clerk",
                },
            },
            {
                "dbname": "shop",
                "user": "ada",
                "sslmode": "verify-full",
                "sslrootcert": "/etc/ssl/a b.crt",
                "options": "-c statement_timeout=5000 -c role=clerk",
            },
        ),
        ({"NAME": "", "OPTIONS": {"service": "shop"}}, {"service": "shop"}),
    ],
)
def test_database_of_django_is_read(database: dict[str, Any], expected: dict[str, str]) -> None:
    given = conninfo_to_dict(Target.parse(_url(database), 1.0).conninfo)
    ours = "client_encoding connect_timeout keepalives_idle keepalives_interval keepalives_count"
    for name in (*ours.split(), "tcp_user_timeout"):
        del given[name]
    assert given == expected


@pytest.mark.timeout(LONG)
def test_project_keeps_its_runs_in_a_database_of_its_own(tmp_path: Path, pg_empty: str) -> None:
    project = make_project(tmp_path, databases(pg_empty) + ALIAS, jobs=JOBS, tests=TESTS)
    lines = manage(project, "shell", "--verbosity", "0", "-c", STEPS).splitlines()
    # `migrate` leaves it alone: that is the operator's decision.
    assert [line[:36] for line in lines[:2]] == ["5 The store has no Windlass schema a"] * 2
    assert all(line.endswith(": run `python manage.py windlass_migrate`.") for line in lines[:2])
    assert ["schema 0 → " in lines[2], "up to date" in lines[3]] == [True, True]
    manage(project, "windlass_worker", "--drain")
    app = Windlass(pg_empty)
    assert [run.result for run in reversed(app.list())] == [3, 7]
    # Each of its processes has a copy of the test database.
    manage(project, "test", "--noinput", "--parallel", "2")
    assert len(app.list()) == 2
    app.close()
    with psycopg.connect(pg_empty) as conn:
        left = "select datname from pg_database where datname like 'test_' || %s || '%%'"
        assert conn.execute(left, [conn.info.dbname]).fetchall() == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (ALIAS, "'default' is a SQLite file"),
        ("WINDLASS_URL = f\"sqlite:///{BASE_DIR / 'db.sqlite3'}\"\n", "is the file of DATABASES"),
        ("WINDLASS_DATABASE = 'other'\n", "DATABASES has no 'other' (it has: default)"),
        (ALIAS + "WINDLASS_URL = 'sqlite:///w.db'\n", "Give one of WINDLASS_DATABASE and"),
    ],
    ids=["alias", "url", "unknown", "both"],
)
def test_store_that_cannot_be_is_refused(tmp_path: Path, settings: str, told: str) -> None:
    project = make_project(tmp_path, settings, jobs=JOBS)
    assert told in manage(project, "windlass_migrate", code=1).splitlines()[-1]


@pytest.mark.timeout(LONG)
def test_project_without_the_app_is_told_to_install_it(tmp_path: Path) -> None:
    removed = 'INSTALLED_APPS.remove("windlass.contrib.django")\n'
    project = make_project(tmp_path, removed)
    asked = "from windlass.contrib.django import get_app; get_app()"
    told = manage(project, "shell", "--verbosity", "0", "-c", asked, code=1)
    assert told.endswith(
        'Django does not know Windlass: add "windlass.contrib.django" to INSTALLED_APPS.\n'
    )
