"""The parts of a worker, each to be run by itself.

`windlass worker` has all of them. A process that has only one is for those who keep them apart:
many workers without services, and two small processes that dispatch and reap, say. Nothing is a
singleton; run as many of each as you like.

    service = parts.dispatcher(app)
    service.start()             # on the running loop
    ...
    await service.stop()
"""

from windlass.app import Windlass
from windlass.engine.scheduler import Scheduler
from windlass.engine.service import Service
from windlass.engine.sweeper import Sweeper

__all__ = ["Scheduler", "Service", "Sweeper", "dispatcher", "reaper", "scheduler"]


def dispatcher(app: Windlass) -> Sweeper:
    """Moves runs whose time has come to their queues, and ends those that have expired."""
    return _sweeper(app, dispatch=True, reap=False)


def reaper(app: Windlass) -> Sweeper:
    """Takes runs back from workers that are dead."""
    return _sweeper(app, dispatch=False, reap=True)


def scheduler(app: Windlass) -> Scheduler:
    """Makes runs of the slots of stored schedules, also of jobs that are defined elsewhere."""
    return Scheduler(app.store, app.sources, app.transport, poll=app.settings.poll)


def _sweeper(app: Windlass, *, dispatch: bool, reap: bool) -> Sweeper:
    settings = app.settings
    return Sweeper(
        app.store,
        app.sources,
        app.transport,
        sweep=settings.sweep,
        poll=settings.poll,
        max_crashes=settings.max_crashes,
        dispatch=dispatch,
        reap=reap,
    )
