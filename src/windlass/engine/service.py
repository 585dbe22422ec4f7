"""The one loop of the background services.

A service does a piece of work and says after how many seconds it wants to do the next; it may
be woken before that. A service never ends by an error: whatever its work raises is logged, and
it tries again after a pause that grows while the trouble lasts.
"""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod

from windlass.errors import StoreUnavailable
from windlass.sources import Sources

log = logging.getLogger(__name__)

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Service(ABC):
    """Start it, wake it, stop it; subclasses implement :meth:`work`."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def work(self) -> float:
        """Do one piece of work; return the seconds until the next."""

    def failed(self, error: Exception) -> None:  # noqa: B027 - most need not hear of it
        """Hear of an error of :meth:`work`, after it was logged."""

    def wake(self) -> None:
        """Do the next piece of work now."""
        self._woken.set()

    def start(self) -> None:
        """Begin, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(
            self._loop(), name=f"windlass-{type(self).__name__.lower()}"
        )

    async def stop(self) -> None:
        """End; a piece of work in progress is broken off."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _loop(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                delay = await self.work()
                pause = _FIRST_PAUSE
            except Exception as error:
                self._report(error)
                self.failed(error)
                delay = pause * (0.5 + self._sources.jitter() / 2)
                pause = min(pause * 2, _LONGEST_PAUSE)
            if delay > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._woken.wait()
            self._woken.clear()

    def _report(self, error: Exception) -> None:
        if isinstance(error, StoreUnavailable):
            log.warning("store unavailable", extra={"service": type(self).__name__})
        else:
            log.error("service failed", exc_info=error, extra={"service": type(self).__name__})
