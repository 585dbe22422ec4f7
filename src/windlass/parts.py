"""The parts of a worker, each to be run by itself.

`windlass worker` has all of them. A process that has only one is for those who keep them apart:
many workers without services, and two small processes that dispatch and reap, say. Nothing is a
singleton; run as many of each as you like.

    service = parts.dispatcher(app)
    service.start()             # on the running loop
    ...
    await service.stop()
"""

from collections.abc import Sequence

from windlass.app import Windlass
from windlass.engine.environment import environment_of
from windlass.engine.scheduler import Scheduler
from windlass.engine.service import Service
from windlass.engine.services import make_services
from windlass.engine.sweeper import Sweeper

__all__ = ["Scheduler", "Service", "Sweeper", "dispatcher", "reaper", "scheduler", "services"]


def services(app: Windlass) -> Sequence[Service]:
    """All services of a worker, without the worker."""
    return make_services(environment_of(app.ground, app.settings))


def dispatcher(app: Windlass) -> Sweeper:
    """Moves runs whose time has come to their queues, and ends those that have expired."""
    return Sweeper(environment_of(app.ground, app.settings), reap=False)


def reaper(app: Windlass) -> Sweeper:
    """Takes runs back from workers that are dead."""
    return Sweeper(environment_of(app.ground, app.settings), dispatch=False)


def scheduler(app: Windlass) -> Scheduler:
    """Makes runs of the slots of stored schedules, also of jobs that are defined elsewhere."""
    return Scheduler(environment_of(app.ground, app.settings))
