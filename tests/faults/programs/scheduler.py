"""A scheduler and nothing else: `python -m tests.faults.programs.scheduler CONFIG`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from tests.faults.programs.jobs import Witness
from windlass import Windlass, WorkerOptions
from windlass.domain.scheduling.rows import Decision
from windlass.engine.environment import Environment
from windlass.engine.scheduler import Scheduler
from windlass.sources import Ids, Sources, SystemClock


class Config(msgspec.Struct, kw_only=True):
    """What the process is told, as JSON."""

    url: str
    folder: str
    settings: dict[str, Any] = {}
    skew: float = 0.0  # seconds by which its clock is ahead of the others'
    linger: float = 0.0  # seconds between what it finds due and what it does about it


class WrongClock(SystemClock):
    """A clock that is off."""

    def __init__(self, skew: float) -> None:
        self._skew = timedelta(seconds=skew)

    def now(self) -> datetime:
        """What this machine believes the time to be."""
        return super().now() + self._skew


def linger(seconds: float) -> None:
    """Let others fire what this one has found due, before it does."""
    fire = Scheduler._fire

    async def late(self: Scheduler, decisions: Sequence[Decision]) -> bool:
        await asyncio.sleep(seconds)
        return await fire(self, decisions)

    Scheduler._fire = late  # type: ignore[method-assign]


async def schedule(app: Windlass, witness: Witness) -> None:
    """Fire what is due until SIGTERM."""
    options = WorkerOptions(poll=app.settings.poll)
    scheduler = Scheduler(Environment(app.store, app.sources, options))
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    scheduler.start()
    witness.append("begun", str(os.getpid()))
    await over.wait()
    await scheduler.stop()
    await app.aclose()


def main(config: Config) -> None:
    """Run one scheduler."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    linger(config.linger)
    clock = WrongClock(config.skew)
    sources = Sources(clock=clock, ids=Ids(clock), random=Sources.system().random)
    app = Windlass(config.url, sources=sources, **config.settings)
    asyncio.run(schedule(app, Witness(Path(config.folder))))


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Config))
