"""A scheduler and nothing else: `python -m tests.faults.programs.scheduler CONFIG`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from tests.faults.programs.jobs import Witness
from windlass import Windlass
from windlass.engine.scheduler import Scheduler
from windlass.sources import Ids, Sources, SystemClock
from windlass.transport.store import StoreTransport


class Config(msgspec.Struct, kw_only=True):
    """What the process is told, as JSON."""

    url: str
    folder: str
    settings: dict[str, Any] = {}
    skew: float = 0.0  # seconds by which its clock is ahead of the others'


class WrongClock(SystemClock):
    """A clock that is off."""

    def __init__(self, skew: float) -> None:
        self._skew = timedelta(seconds=skew)

    def now(self) -> datetime:
        """What this machine believes the time to be."""
        return super().now() + self._skew


async def schedule(app: Windlass, witness: Witness) -> None:
    """Fire what is due until SIGTERM."""
    scheduler = Scheduler(app.store, app.sources, StoreTransport(), poll=app.settings.poll)
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
    clock = WrongClock(config.skew)
    sources = Sources(clock=clock, ids=Ids(clock), random=Sources.system().random)
    app = Windlass(config.url, sources=sources, **config.settings)
    asyncio.run(schedule(app, Witness(Path(config.folder))))


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Config))
