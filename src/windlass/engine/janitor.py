"""The janitor: a service that lets go of what is over. `domain/retention.py` has the protocol.

Every worker has one, and any number may work at once: each takes chores that no other has. A piece
of work is small, and a pause follows it, so that claims and ends wait for none. One that dies with
its transaction open has done nothing; one that dies after it leaves bytes of artifacts, which
`windlass artifacts sweep` finds.
"""

from windlass.artifacts.shelf import Shelf
from windlass.domain.retention import Tidied
from windlass.engine.environment import Environment
from windlass.engine.service import Service
from windlass.engine.signals import Signal
from windlass.logs import steady_log
from windlass.offloop import off_loop

log = steady_log(__name__)

LIMIT = 200  # runs or rows in a transaction
PAUSE = 0.05  # seconds between two of them
_EVERY = 60.0


class Janitor(Service):
    """Looks once a minute; soon again while there is more."""

    def __init__(self, environment: Environment, limit: int = LIMIT) -> None:
        super().__init__(environment)
        self._limit = limit
        self._terms = environment.options.retention
        options = environment.options
        self._shelf = Shelf(options.artifacts, options.artifact_limit)
        self.tidied: Signal[Tidied] = Signal()

    async def work(self) -> float:
        """Do a piece of what is due; sleep for a while."""
        call = self._store.operations.tidy(self._terms, self._limit)
        done = await self._store.arun(call)
        if done.locations:
            await off_loop(lambda: self._remove(done.locations), "windlass-artifact")
        if done.deleted or done.stale:
            log.info("old runs", extra={"stale": done.stale, "deleted": done.deleted})
        self.tidied.emit(done)
        return PAUSE if done.more else _EVERY

    def _remove(self, locations: tuple[str, ...]) -> None:
        for location in locations:
            self._shelf.remove(location)
