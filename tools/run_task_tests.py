"""Run the tests that Django has for its own task backends against Windlass' backend.

    python tools/run_task_tests.py django/tests/tasks          of a source tree of Django 6
    python tools/run_task_tests.py django-tasks/tests          of django-tasks, before Django 6

Django's dummy backend keeps what is enqueued, its immediate backend runs it at once. In their place
the tests get ours, which does the first by itself, and the second if a drain follows. Tests of
what only those two do are skipped; the reasons are below.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_SETTINGS = """
from pathlib import Path

HERE = Path(__file__).parent
SECRET_KEY = "of a test"
USE_TZ = True
ALLOWED_HOSTS = ["*"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["PACKAGE"]
if (HERE / "PACKAGE/settings.py").exists():
    from PACKAGE.settings import *
INSTALLED_APPS += ["windlass.contrib.django"]
WINDLASS_URL = f"sqlite:///{HERE / 'windlass.db'}"
TASKS = {"default": {"BACKEND": "tested.DummyBackend", "QUEUES": []}}
TEST_RUNNER = "tested.Runner"
"""
_TESTED = '''
from django.test import SimpleTestCase
from django.test.runner import DiscoverRunner
from django.test.utils import iter_test_cases

from windlass import testing
from windlass.contrib.django import get_app
from windlass.contrib.django.task_backend import WindlassBackend
from windlass.contrib.django.testing import windlass_in_test

IN_MEMORY = "it changes the results that the dummy backend has in memory"
NO_RESULTS = "the immediate backend has no results to be read later, ours has"
SKIPPED = {
    ("DummyBackendTestCase", "test_clear"): IN_MEMORY,
    ("DummyBackendTestCase", "test_refresh_result"): IN_MEMORY,
    ("DummyBackendTestCase", "test_refresh_result_async"): IN_MEMORY,
    ("ImmediateBackendTestCase", "test_cannot_get_result"): NO_RESULTS,
    ("ImmediateBackendTestCase", "test_cannot_refresh_result"): NO_RESULTS,
    ("ImmediateBackendTestCase", "test_get_result_from_different_request"): NO_RESULTS,
    ("ImmediateBackendTestCase", "test_cannot_pass_run_after"): "ours defers tasks",
    ("ImmediateBackendTestCase", "test_throws_keyboard_interrupt"): (
        "a task of the immediate backend runs in the process that enqueues it"
    ),
    ("DjangoCompatTestCase", "test_uses_lib_tasks_by_default"): "here TASKS is set",
}


class DummyBackend(WindlassBackend):
    @property
    def results(self):
        return [self.get_result(run.id) for run in reversed(get_app().list())]

    def clear(self):
        """Each test has an empty store."""


class ImmediateBackend(WindlassBackend):
    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        testing.drain(get_app())
        result.refresh()
        return result


class Runner(DiscoverRunner):
    def run_suite(self, suite, **kwargs):
        run = SimpleTestCase.run

        def run_in_store_of_its_own(test, result=None):
            reason = SKIPPED.get((type(test).__name__, test._testMethodName))
            if reason is not None:
                return result.addSkip(test, reason)
            with windlass_in_test():
                return run(test, result)

        SimpleTestCase.run = run_in_store_of_its_own
        for test in iter_test_cases(suite):
            type(test).available_apps = None  # ours is needed
        return super().run_suite(suite, **kwargs)
'''


def main(arguments: list[str]) -> int:
    """Copy the tests to a project of their own, and run them there."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    source = Path(arguments[0]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        shutil.copytree(source, project / source.name)
        (project / "settings.py").write_text(_SETTINGS.replace("PACKAGE", source.name))
        (project / "tested.py").write_text(_TESTED)
        for file in (project / source.name).rglob("test_*.py"):
            file.write_text(_with_our_backends(file.read_text()))
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": folder}
        command = [sys.executable, "-m", "django", "test", source.name, "--verbosity", "2"]
        return subprocess.run(command, cwd=project, env=environment, check=False).returncode


def _with_our_backends(text: str) -> str:
    for library in ("django.tasks", "django_tasks"):
        for kind in ("dummy", "immediate"):
            text = text.replace(f"{library}.backends.{kind}", "tested")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
