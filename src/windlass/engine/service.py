"""The one loop of the background services.

A service does a piece of work and says after how many seconds it wants to do the next; it may be
woken before that, by hand or by the news that it names in `wakes_on`. Whatever its work raises is
logged, and it tries again after a pause that grows while the trouble lasts. One error ends it: the
schema has outgrown this program, and no later try would do better.

A service is given what it works with (an :class:`Environment`). When a worker starts it, it also
gets to know the worker, as its :class:`ServiceHost`. It runs without one just as well.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum, auto
from typing import ClassVar

from windlass.engine.environment import Environment
from windlass.engine.hosts import ServiceHost
from windlass.engine.signals import Signal
from windlass.errors import SchemaMismatch, StoreUnavailable
from windlass.logs import steady_log

log = steady_log(__name__)

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class News(Enum):
    """What a worker hears of, and a service may want to be woken by."""

    STORE_CHANGED = auto()  # somebody wrote something: a run, a schedule, a cancel
    JOBS_STORED = auto()  # the store knows the jobs of this worker, and their schedules
    RUN_DUE = auto()  # a run that this worker sent back with a short delay
    CHILD_ENDED = auto()  # its parent may wait for it


class Service(ABC):
    """Start it, wake it, stop it; subclasses implement :meth:`work`."""

    wakes_on: ClassVar[Mapping[News, float]] = {}
    """The news that wake it, and the least seconds between two wake-ups by them."""

    def __init__(self, environment: Environment) -> None:
        self._store = environment.store
        self._sources = environment.sources
        self._transport = environment.transport
        self._options = environment.options
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.host: ServiceHost | None = None
        self.worked: Signal[float] = Signal()
        """A piece of work is done; the seconds until the next."""

    @abstractmethod
    async def work(self) -> float:
        """Do one piece of work; return the seconds until the next."""

    def wake(self) -> None:
        """Do the next piece of work now."""
        self._woken.set()

    def start(self, host: ServiceHost | None = None) -> None:
        """Begin, on the running loop; the host hears when it is over, by `stop` or an error."""
        self.host = host
        self._task = asyncio.get_running_loop().create_task(
            self._loop(), name=f"windlass-{type(self).__name__.lower()}"
        )
        self._task.add_done_callback(self._over if host is None else host.task_ended)

    async def stop(self) -> None:
        """End; a piece of work in progress is broken off.

        Raises what ended it before, if it has no host that was told.
        """
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and self.host is None:
                task.result()

    def runs_ready(self) -> None:
        """Let the host know that there may be something to claim."""
        if self.host is not None:
            self.host.runs_ready()

    async def _loop(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                delay = await self.work()
                pause = _FIRST_PAUSE
            except SchemaMismatch:
                raise
            except Exception as error:
                self._report(error)
                delay = pause * (0.5 + self._sources.jitter() / 2)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                self.worked.emit(delay)
            if delay > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._woken.wait()
            self._woken.clear()

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            extra = {"service": type(self).__name__, "error": str(error)}
            log.error("service cannot go on", extra=extra)

    def _report(self, error: Exception) -> None:
        if isinstance(error, StoreUnavailable):
            log.warning("store unavailable", extra={"service": type(self).__name__})
        else:
            log.error("service failed", exc_info=error, extra={"service": type(self).__name__})
