"""Announces runs that handlers make ready, such as children, to whoever may claim them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from windlass.domain.run import RunRef
from windlass.logs import steady_log

log = steady_log(__name__)


class Announcer:
    """Takes news of runs in any thread, and spreads them on the worker's loop."""

    def __init__(self, spread: Callable[[Sequence[RunRef]], Awaitable[None]]) -> None:
        self._spread = spread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Spread news on the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def add(self, runs: Sequence[RunRef]) -> None:
        """These are ready; called in any thread."""
        if runs and self._loop is not None:
            self._loop.call_soon_threadsafe(self._announce, runs)

    def _announce(self, runs: Sequence[RunRef]) -> None:
        task = asyncio.get_running_loop().create_task(self._tell(runs))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _tell(self, runs: Sequence[RunRef]) -> None:
        await self._spread(runs)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # They are in the store: whoever polls finds them.
            log.warning("runs not announced", extra={"error": str(error)})
