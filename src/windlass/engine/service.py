"""The one loop of the background services.

A service does a piece of work and says after how many seconds it wants to do the next; it may
be woken before that. Whatever its work raises is logged, and it tries again after a pause that
grows while the trouble lasts. One error ends it: the schema has outgrown this program, and no
later try would fare better.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable

from windlass.errors import SchemaMismatch, StoreUnavailable
from windlass.logs import steady_log
from windlass.sources import Sources

log = steady_log(__name__)

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Service(ABC):
    """Start it, wake it, stop it; subclasses implement :meth:`work`."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._watched = False

    @abstractmethod
    async def work(self) -> float:
        """Do one piece of work; return the seconds until the next."""

    def wake(self) -> None:
        """Do the next piece of work now."""
        self._woken.set()

    def start(self, ended: Callable[[asyncio.Task[None]], None] | None = None) -> None:
        """Begin, on the running loop; `ended` is called when it is over, by `stop` or an error."""
        self._task = asyncio.get_running_loop().create_task(
            self._loop(), name=f"windlass-{type(self).__name__.lower()}"
        )
        self._watched = ended is not None
        self._task.add_done_callback(ended or self._over)

    async def stop(self) -> None:
        """End; a piece of work in progress is broken off.

        Raises what ended it before, if nobody was told when it did.
        """
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and not self._watched:
                task.result()

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
