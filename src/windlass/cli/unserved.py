"""Which runs wait in vain: no worker that is alive would take them.

A worker that has nothing to do, or ends by --drain, looks as if all work were done. It may be that
runs wait for a job that it does not have, or in a queue that it does not serve. So it says which.
"""

import asyncio
import logging

from windlass.app import Windlass
from windlass.engine.worker import Worker
from windlass.errors import StoreError

log = logging.getLogger(__name__)

FIRST_LOOK = 1.0
LOOK = 30.0
"""Seconds between two looks of an idle worker."""
_HEAD = 1_000  # runs of each queue that are looked at
_GRACE = 0.5  # seconds: who serves what has only just become ready may only just have started


class Unserved:
    """Says it of each job and queue once, until somebody serves it again."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self._told: set[tuple[str, str]] = set()

    async def watch(self, worker: Worker) -> None:
        """Look whenever the worker is idle, for as long as it works."""
        await worker.started.wait()
        pause = FIRST_LOOK
        while True:
            await asyncio.sleep(pause)
            if not worker.busy:
                await self.look()
                pause = LOOK

    async def look(self, grace: float = _GRACE) -> None:
        """Log what has waited for so many seconds and is served by nobody."""
        store = self._app.store
        try:
            waiting = await store.arun(store.operations.inspect_demand(_HEAD))
            workers = await self._app.aworkers(runs=0) if waiting else ()
        except StoreError as error:  # the worker itself says what is wrong with the store
            log.debug("not looked for unserved runs", extra={"error": str(error)})
            return
        alive = [worker for worker in workers if worker.alive]
        unserved = {
            (demand.queue, demand.job): demand.waiting
            for demand in waiting
            if demand.seconds >= grace
            and not any(worker.serves(demand.queue, demand.job) for worker in alive)
        }
        for (queue, job), runs in unserved.items():
            if (queue, job) not in self._told:
                extra = {"job": job, "queue": queue, "waiting": runs}
                log.warning("runs wait that no worker serves", extra=extra)
        self._told = set(unserved)
