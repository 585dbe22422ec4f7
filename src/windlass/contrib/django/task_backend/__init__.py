"""Django's tasks on Windlass.

    TASKS = {"default": {"BACKEND": "windlass.contrib.django.task_backend.WindlassBackend"}}

`django.tasks` where Django has it (6.0), else the package `django-tasks`.
"""

from windlass.contrib.django.task_backend.backend import WindlassBackend
from windlass.contrib.django.task_backend.task import WindlassTask

__all__ = ["WindlassBackend", "WindlassTask"]
