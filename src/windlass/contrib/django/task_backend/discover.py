"""The tasks of a project, found when Django starts: in the modules `tasks` of installed apps."""

from functools import partial
from types import ModuleType

from django.apps import apps
from django.utils.module_loading import autodiscover_modules, import_string

from windlass.app import Windlass
from windlass.contrib.django.task_backend.backend import WindlassBackend
from windlass.contrib.django.task_backend.jobs import define_found, define_job
from windlass.contrib.django.task_backend.names import Task, task_backends

MODULE = "tasks"


def is_used() -> bool:
    """Whether TASKS names our backend."""
    for backend in task_backends.settings.values():
        try:
            kind = import_string(backend["BACKEND"])
        except ImportError:
            continue  # Django says it better, when the backend is used
        if issubclass(kind, WindlassBackend):
            return True
    return False


def prepare(app: Windlass) -> None:
    """Define the tasks of installed apps as jobs, and let workers find others by their path."""
    app.jobs.finder = partial(define_found, app)
    autodiscover_modules(MODULE)
    for config in apps.get_app_configs():
        module = getattr(config.module, MODULE, None)
        if isinstance(module, ModuleType):
            _define_all(app, module)


def _define_all(app: Windlass, module: ModuleType) -> None:
    for found in list(vars(module).values()):
        if isinstance(found, Task) and isinstance(found.get_backend(), WindlassBackend):
            define_job(app, found)
