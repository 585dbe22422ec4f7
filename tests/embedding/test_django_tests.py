"""The recipe for tests of a Django project, run by Django's own test runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.embedding.django_project import LONG, databases, make_project, manage
from windlass import Windlass, guard

PAGE = "docs/django.md"
TESTED = ("orders/jobs.py", "orders/tests.py")
ELSEWHERE = "orders/views.py, if the runs are elsewhere"
MORE = """

class MoreTests(TestCase):
    def setUp(self):
        self.app = self.enterContext(windlass_in_test())

    def test_database_error_of_a_handler_spoils_nothing(self):
        from django.db import connection
        from orders.more_jobs import break_something
        break_something.enqueue()
        (run,) = testing.drain(self.app).failed
        assert "syntax" in run.error.message, run.error
        assert User.objects.count() == 0

    def test_clock_can_be_moved(self):
        count_users.using(delay="30d").enqueue()
        assert not testing.drain(self.app).runs
        testing.clock_of(self.app).advance("30d")
        assert testing.drain(self.app).succeeded

    def test_resources_of_handlers(self):
        from orders.more_jobs import use_resource, ause_resource
        use_resource.enqueue(); ause_resource.enqueue()
        assert [run.result for run in testing.drain(self.app).check().runs] == [7, 7]

    def test_job_by_hand(self):
        User.objects.create(username="ada")
        self.assertEqual(testing.run_job(count_users, "a"), 1)
"""
MORE_JOBS = """
from django.db import connection
from orders.jobs import app


@app.resource
async def seven():
    yield 7


@app.job(max_attempts=1)
def break_something() -> None:
    with connection.cursor() as cursor:
        cursor.execute("no sql at all")


@app.job
def use_resource(ctx) -> int:
    return ctx.resources.seven


@app.job
async def ause_resource(ctx) -> int:
    return ctx.resources.seven
"""


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize(
    "store",
    [
        pytest.param("sqlite", marks=pytest.mark.examples(PAGE, *TESTED, ELSEWHERE)),
        pytest.param("url", marks=pytest.mark.examples(PAGE, *TESTED, ELSEWHERE)),
        pytest.param("postgres", marks=pytest.mark.examples(PAGE, *TESTED, "orders/views.py")),
    ],
)
def test_tests_of_the_page_pass(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    page: dict[str, str],
    store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_session(monkeypatch)
    pg_empty = request.getfixturevalue("pg_empty") if store != "sqlite" else ""
    settings = {
        "sqlite": f"WINDLASS_URL = 'sqlite:///{tmp_path}/windlass.db'\n",
        "url": databases(pg_empty or "//") + f"WINDLASS_URL = 'sqlite:///{tmp_path}/windlass.db'\n",
        "postgres": databases(pg_empty or "//") + "WINDLASS_DATABASE = 'default'\n",
    }
    project = make_project(
        tmp_path,
        settings[store],
        jobs=page["orders/jobs.py"],
        tests=page["orders/tests.py"] + MORE,
        views=page["orders/views.py" if store == "postgres" else ELSEWHERE],
        more_jobs=MORE_JOBS,
    )
    manage(project, "test", "--noinput")
    if store == "postgres":
        manage(project, "windlass_migrate")
        app = Windlass(pg_empty)
        assert app.list() == []
        app.close()
    else:
        assert not (tmp_path / "windlass.db").exists()


FORGETFUL = """
import subprocess, sys
from django.test import TestCase
from orders.jobs import app, count_users
from windlass import UsageError, testing
from windlass.contrib.django.testing import windlass_in_test


class ForgetfulTests(TestCase):
    def test_store_in_use_is_refused(self):
        with self.assertRaisesRegex(UsageError, r"is not a test store: call `self.enterContext"):
            count_users.enqueue()
        with self.assertRaisesRegex(UsageError, "is not a test store"):
            testing.refute_enqueued(count_users)

    def test_programs_of_a_test_refuse_it_too(self):
        with windlass_in_test():
            count_users.enqueue()
            program = "from windlass import Windlass; Windlass(sys.argv[1]).list()"
            command = [sys.executable, "-c", f"import sys; {program}", "sqlite:///windlass.db"]
            done = subprocess.run(command, capture_output=True, text=True)
            assert "is not a test store" in done.stderr, done

    def test_somebody_means_it(self):
        with testing.real_store(app):
            count_users.enqueue("x")
        with self.assertRaisesRegex(UsageError, "is not a test store"):
            count_users.enqueue("y")
"""
ON_ALIAS = r"""
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from orders.jobs import app, count_users
from windlass import UsageError, testing


class AliasTests(TransactionTestCase):
    def test_alias_leads_to_the_test_database(self):
        assert count_users.enqueue().refresh().status == "queued"

    def test_what_is_committed_is_seen(self):
        with transaction.atomic():
            count_users.using(connection=connection).enqueue("c")
        testing.assert_enqueued(count_users, args={"prefix": "c"}, count=1)


class ForgetfulTests(TestCase):
    def test_run_in_the_transaction_of_the_test_is_not_overlooked(self):
        count_users.using(connection=connection).enqueue()
        unseen = r"still open, .*: call `self.enterContext\(windlass_in_test\(\)\)` in setUp"
        with self.assertRaisesRegex(UsageError, unseen):
            testing.refute_enqueued(count_users)
        with self.assertRaisesRegex(UsageError, unseen):
            testing.assert_enqueued(count_users)

    def test_drain_says_what_to_do_in_django(self):
        with self.assertRaisesRegex(UsageError, "real clock, .*enterContext"):
            testing.drain(app)
"""


def without_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """This suite may open every store; a project's tests may not."""
    monkeypatch.delenv(guard.VARIABLE)


@pytest.mark.timeout(LONG)
def test_store_in_use_is_refused(
    tmp_path: Path, page: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_session(monkeypatch)
    url = f"sqlite:///{tmp_path}/windlass.db"
    jobs = page["orders/jobs.py"]
    project = make_project(tmp_path, f"WINDLASS_URL = {url!r}\n", jobs=jobs, tests=FORGETFUL)
    manage(project, "test", "--noinput")
    app = Windlass(url)
    assert [run.input for run in app.list()] == [{"prefix": "x"}]
    app.close()


@pytest.mark.timeout(LONG)
def test_test_database_of_an_alias_is_a_test_store(
    tmp_path: Path, page: dict[str, str], pg_empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_session(monkeypatch)
    settings = databases(pg_empty) + "WINDLASS_DATABASE = 'default'\n"
    jobs = page["orders/jobs.py"]
    project = make_project(tmp_path, settings, jobs=jobs, tests=ON_ALIAS)
    manage(project, "test", "--noinput")
    manage(project, "windlass_migrate")
    app = Windlass(pg_empty)
    assert app.list() == []
    app.close()
