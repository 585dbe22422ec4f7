"""A service: finds the jobs that runs wait for and that are not defined here.

Most jobs are known because their module was imported. Others say by their name where they are,
such as a Django task: somebody enqueues it, and no worker has imported it yet. If the application
can find jobs by name, its workers look for them: before they start, and whenever runs wait.
"""

import logging
from collections.abc import Container, Mapping
from functools import partial
from typing import ClassVar, Protocol

from windlass.domain.report import ErrorInfo
from windlass.engine.attempt import prepared
from windlass.engine.environment import Environment
from windlass.engine.service import News, Service
from windlass.offloop import off_loop

log = logging.getLogger(__name__)

_LOOK = 10.0  # seconds, if nothing wakes it
_HEAD = 1_000  # runs of each queue that are looked at


class Findable(Container[str], Protocol):
    """The jobs of an application."""

    def find(self, name: str) -> bool:
        """Whether there is such a job, now that it was looked for; imports foreign code."""


class Discovery(Service):
    """Looks at what waits; asks for each unknown name once."""

    wakes_on: ClassVar[Mapping[News, float]] = {News.STORE_CHANGED: 1.0}

    def __init__(self, environment: Environment, jobs: Findable) -> None:
        super().__init__(environment)
        self._jobs = jobs
        self._asked: set[str] = set()

    async def work(self) -> float:
        """Look, and rest."""
        await self.look()
        return _LOOK

    async def look(self) -> None:
        """Find the jobs of all runs that are ready in the queues served here."""
        queues = self._options.queues
        for demand in await self._store.arun(self._store.operations.inspect_demand(_HEAD)):
            served = queues is None or demand.queue in queues
            if served and demand.job not in self._jobs and demand.job not in self._asked:
                self._asked.add(demand.job)
                await self._find(demand.job)

    async def _find(self, job: str) -> None:
        found = await off_loop(partial(prepared, partial(self._jobs.find, job)), "windlass-find")
        if isinstance(found, ErrorInfo):
            extra = {"job": job, "error": f"{found.type}: {found.message}"}
            log.error("job cannot be imported", extra=extra)
