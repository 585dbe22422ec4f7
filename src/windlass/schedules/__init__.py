"""Schedules as an application has them: `app.schedule`, `app.schedules`."""

from windlass.schedules.schedules import Schedules
from windlass.schedules.view import Schedule

__all__ = ["Schedule", "Schedules"]
