"""Which runs wait in vain: no worker that is alive would take them.

A worker that has nothing to do, or ends by --drain, looks as if all work were done. It may be that
runs wait for a job that it does not have, in a queue that it does not serve, or in one that is
paused. So it says which.
"""

import asyncio
import logging
from collections.abc import Sequence

from windlass.app import Windlass
from windlass.domain.inspection import Demand
from windlass.domain.pause import PauseKind, WorkPause, pause_over
from windlass.engine.worker import Worker
from windlass.errors import StoreError

log = logging.getLogger(__name__)

FIRST_LOOK = 1.0
LOOK = 30.0
"""Seconds between two looks of an idle worker."""
_HEAD = 1_000  # runs of each queue that are looked at
_GRACE = 0.5  # seconds: who serves what has only just become ready may only just have started


class Unserved:
    """Says it of each job and queue once, until somebody serves it again or lets it go on."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self._told: set[tuple[str, str]] = set()
        self._told_paused: set[tuple[PauseKind, str]] = set()

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
            paused = any(demand.paused for demand in waiting)
            pauses = await store.arun(store.operations.list_pauses(None)) if paused else ()
        except StoreError as error:  # the worker itself says what is wrong with the store
            log.debug("not looked for unserved runs", extra={"error": str(error)})
            return
        alive = [worker for worker in workers if worker.alive]
        unserved = {
            (demand.queue, demand.job): demand.waiting
            for demand in waiting
            if demand.seconds >= grace
            and demand.waiting > demand.paused
            and not any(worker.serves(demand.queue, demand.job) for worker in alive)
        }
        for (queue, job), runs in unserved.items():
            if (queue, job) not in self._told:
                extra = {"job": job, "queue": queue, "waiting": runs}
                log.warning("runs wait that no worker serves", extra=extra)
        self._told = set(unserved)
        self._say_paused(waiting, pauses)

    def _say_paused(self, waiting: Sequence[Demand], pauses: Sequence[WorkPause]) -> None:
        held: dict[tuple[PauseKind, str], int] = {}
        by_name = {(pause.kind, pause.name): pause for pause in pauses}
        for demand in waiting:
            pause = pause_over(pauses, demand.queue, demand.job) if demand.paused else None
            if pause is not None:
                name = pause.kind, pause.name
                held[name] = held.get(name, 0) + demand.paused
        for name, runs in held.items():
            if name not in self._told_paused:
                pause = by_name[name]
                extra = {pause.kind.value: pause.name, "by": pause.by, "waiting": runs}
                if pause.reason is not None:
                    extra["reason"] = pause.reason
                log.info("runs wait that are paused", extra=extra)
        self._told_paused = set(held)
