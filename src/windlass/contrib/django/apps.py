"""The Django app: it holds the project's application and finds its jobs."""

from functools import cached_property
from importlib.util import find_spec
from typing import Any

from django import VERSION
from django.apps import AppConfig
from django.conf import settings
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from windlass.app import Windlass
from windlass.cli.loading import load
from windlass.contrib.django.databases import AliasWindlass, refuse_shared_file
from windlass.contrib.django.fresh import FreshConnections
from windlass.contrib.django.test_databases import TestDatabases
from windlass.domain.origin import ModuleMember
from windlass.errors import UsageError

PROJECT = "windlass.contrib.django.project"


class WindlassConfig(AppConfig):
    """`windlass.contrib.django` in INSTALLED_APPS."""

    name = "windlass.contrib.django"
    label = "windlass"
    verbose_name = "Windlass"

    @cached_property
    def windlass(self) -> Windlass:
        """The application: the one that WINDLASS_APP names, else a new one for WINDLASS_DATABASE or
        WINDLASS_URL."""
        app = _make_app()
        refuse_shared_file(app)
        # Jobs import models, which a worker's child process can only after Django is set up.
        app.jobs.first = (PROJECT,)
        app.jobs.place = ModuleMember(PROJECT, "app")
        app.middleware.around.append(FreshConnections())
        return app

    def ready(self) -> None:
        """Import the jobs of all installed apps."""
        autodiscover_modules("jobs")
        if getattr(settings, "TASKS", None) and (VERSION >= (6, 0) or find_spec("django_tasks")):
            from windlass.contrib.django.task_backend.discover import is_used, prepare

            if is_used():
                prepare(self.windlass)
        if getattr(settings, "WINDLASS_APP", None):
            _ = self.windlass  # whoever runs it by its own name needs what is added here too
        if isinstance(alias := getattr(settings, "WINDLASS_DATABASE", None), str):
            _ = self.windlass  # now, while the alias leads to the database that is in use
            self._tests = TestDatabases(alias, lambda: self.windlass)
            post_migrate.connect(self._prepare_test_database)
            connection_created.connect(self._let_go_of_test_database)

    def _prepare_test_database(self, using: str, **_: Any) -> None:
        self._tests.prepare(using)

    def _let_go_of_test_database(self, connection: Any, **_: Any) -> None:
        if connection.alias == NO_DB_ALIAS:
            self._tests.let_go()


def _make_app() -> Windlass:
    names = ("WINDLASS_APP", "WINDLASS_DATABASE", "WINDLASS_URL")
    given = {name: value for name in names if (value := getattr(settings, name, None))}
    if len(given) > 1:
        raise UsageError(f"Give one of {' and '.join(given)}: each names the store.")
    if "WINDLASS_APP" in given:
        return load(given["WINDLASS_APP"])
    if "WINDLASS_DATABASE" in given:
        return AliasWindlass(given["WINDLASS_DATABASE"])
    return Windlass(given.get("WINDLASS_URL"))
