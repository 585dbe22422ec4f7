"""The Django app: it holds the project's application and finds its jobs."""

from functools import cached_property

from django.apps import AppConfig
from django.conf import settings
from django.utils.module_loading import autodiscover_modules

from windlass.app import Windlass
from windlass.cli.loading import load


class WindlassConfig(AppConfig):
    """`windlass.contrib.django` in INSTALLED_APPS."""

    name = "windlass.contrib.django"
    label = "windlass"
    verbose_name = "Windlass"

    @cached_property
    def windlass(self) -> Windlass:
        """The application: the one that WINDLASS_APP names, else a new one for WINDLASS_URL."""
        named = getattr(settings, "WINDLASS_APP", None)
        app = load(named) if named else Windlass(getattr(settings, "WINDLASS_URL", None))
        # Jobs import models, which a worker's child process can only after Django is set up.
        app.jobs.first = ("windlass.contrib.django.project",)
        return app

    def ready(self) -> None:
        """Import the jobs of all installed apps."""
        autodiscover_modules("jobs")
