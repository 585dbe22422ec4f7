"""Django's tasks on Windlass, in a real project: Django's own from 6.0, else django-tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.embedding.django_project import LONG, databases, make_project, manage, working
from tests.embedding.task_suite import IMPORT, IN_TRANSACTIONS, SETTINGS, TASKS, TESTS
from windlass import Windlass

pytestmark = pytest.mark.timeout(LONG)

ELSEWHERE = """
import os
from orders.library import task


@task
def far(a):
    return a + 1


@task(executor="process")
def far_apart(a):
    return [a, os.getpid()]
"""
ENQUEUE = """
import json
from orders import elsewhere, tasks

made = [
    tasks.add.enqueue(1, b=2), tasks.aadd.enqueue(1, b=2), tasks.fail.enqueue(),
    elsewhere.far.enqueue(1), elsewhere.far_apart.enqueue(1),
]
print(json.dumps([result.id for result in made]))
"""
READ = """
import json
from orders.library import task_backends

results = [task_backends["default"].get_result(id) for id in {ids}]
print(json.dumps([[r.status, r._return_value, r.attempts, len(r.worker_ids)] for r in results]))
"""


def make_shop(folder: Path, settings: str, **files: str) -> Path:
    """A project with tasks, in a module where they are looked for and in another."""
    return make_project(
        folder, SETTINGS + settings, library=IMPORT, tasks=TASKS, elsewhere=ELSEWHERE, **files
    )


def shell(project: Path, code: str) -> list[list[object]]:
    """What a program in the project prints, in JSON."""
    found: list[list[object]] = json.loads(manage(project, "shell", "--verbosity", "0", "-c", code))
    return found


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_suite_of_tasks_passes(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    joined = store == "postgres"
    if joined:
        database = databases(request.getfixturevalue("pg_empty"))
        settings = f"{database}WINDLASS_DATABASE = 'default'\n"
    else:
        settings = f"WINDLASS_URL = 'sqlite:///{tmp_path}/windlass.db'\n"
    more = IN_TRANSACTIONS.replace("{joined}", str(joined))
    project = make_shop(tmp_path, settings, tests=TESTS, test_transactions=more)
    printed = manage(project, "test", "--noinput")
    assert "\nOK" in printed, printed


def test_worker_runs_tasks_of_any_module(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/windlass.db"
    project = make_shop(tmp_path, f"WINDLASS_URL = {url!r}\n")
    ids = shell(project, ENQUEUE)
    manage(project, "windlass_worker", "--drain")
    *others, apart = shell(project, READ.replace("{ids}", repr(ids)))
    assert others == [
        ["SUCCESSFUL", 3, 1, 1],
        ["SUCCESSFUL", 3, 1, 1],
        ["FAILED", None, 1, 1],
        ["SUCCESSFUL", 2, 1, 1],
    ]
    app = Windlass(url)
    run = app.get(str(ids[-1]))
    app.close()
    assert run.worker is not None
    _, process, _ = run.worker.split(":")
    assert apart[:1] == ["SUCCESSFUL"]
    argument, child = run.raw_result
    assert (argument, str(child) == process) == (1, False)


def test_worker_finds_a_task_that_is_enqueued_while_it_works(
    tmp_path: Path, pg_database: str
) -> None:
    settings = f"{databases(pg_database)}WINDLASS_DATABASE = 'default'\n"
    project = make_shop(tmp_path, settings)
    app = Windlass(pg_database)
    with working(project, "manage.py windlass_worker"):
        first, *_, far, _ = shell(project, ENQUEUE)
        assert app.result(str(first), timeout=LONG / 3) == 3
        assert app.result(str(far), timeout=LONG / 3) == 2
    app.close()


FOR_TASKS = "settings.py, for tasks"
PAGE_TESTS = """
from django.test import TestCase
from django.utils import timezone
from orders.checkout import check_out, invoice_of
from orders.tasks import charge, remind
from windlass import testing
from windlass.contrib.django.testing import windlass_in_test


class CheckoutTests(TestCase):
    def test_check_out(self):
        app = self.enterContext(windlass_in_test(start=timezone.now()))
        id = check_out(7)
        self.assertIsNone(invoice_of(id))
        check_out(7)
        runs = testing.drain(app).check().runs
        self.assertEqual(invoice_of(id), "invoice-7.pdf")
        self.assertEqual([run.job for run in runs].count("orders.tasks.charge"), 1)
        spec = app.jobs[charge.module_path].spec
        self.assertEqual((spec.max_attempts, spec.timeout, spec.retry.base), (8, 300, 10))
        testing.clock_of(app).advance("8d")
        (late, *_) = [remind.get_result(run.id) for run in testing.drain(app).check().runs]
        self.assertEqual(late.return_value, 1)
        app.schedule("orders.tasks.remind", cron="0 8 * * *", input={"args": [7]})
        drained = testing.drain(app, until="1d")
        self.assertEqual([run.job for run in drained.check().runs], ["orders.tasks.remind"])
"""


@pytest.mark.examples("docs/django.md", FOR_TASKS, "orders/tasks.py", "orders/checkout.py")
def test_tasks_of_the_page(tmp_path: Path, pg_empty: str, page: dict[str, str]) -> None:
    project = make_project(
        tmp_path,
        f"{SETTINGS}{page[FOR_TASKS]}{databases(pg_empty)}WINDLASS_DATABASE = 'default'\n",
        tasks=page["orders/tasks.py"],
        checkout=page["orders/checkout.py"],
        tests=PAGE_TESTS,
    )
    assert "\nOK" in manage(project, "test", "--noinput")


def test_project_with_nothing_but_tasks_elsewhere_has_a_worker(tmp_path: Path) -> None:
    settings = f"{SETTINGS}WINDLASS_URL = 'sqlite:///{tmp_path}/windlass.db'\n"
    project = make_project(tmp_path, settings, library=IMPORT, elsewhere=ELSEWHERE)
    assert "nothing left to do" in manage(project, "windlass_worker", "--drain")
