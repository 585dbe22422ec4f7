"""Deletes units that were staged for a batch nobody has enqueued: see `domain/batch.py`."""

from windlass.engine.environment import Environment
from windlass.engine.service import Service
from windlass.engine.signals import Signal

LIMIT = 200  # pages of units at once
_EVERY = 60.0


class UnitSweeper(Service):
    """Looks once a minute; at once again while there is more."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.swept: Signal[int] = Signal()

    async def work(self) -> float:
        """Delete what is overdue; sleep for a while."""
        deleted = await self._store.arun(self._store.operations.sweep_units(LIMIT))
        self.swept.emit(deleted)
        return 0.0 if deleted >= LIMIT else _EVERY
