"""A worker in its process: from the first claim to an exit that nothing can hold up."""

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

from windlass.app import Windlass
from windlass.cli.signals import FAREWELL, Alarm, Signals
from windlass.engine.worker import Worker
from windlass.errors import StoreUnavailable

log = logging.getLogger(__name__)


def run(
    app: Windlass, signals: Signals, alarm: Alarm, *, drain: bool, watch: bool, **options: Any
) -> None:
    """Run a worker to its end; `watch`: with job files as they change."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            worker = app.worker(**options)
            if watch:
                app.jobs.watch()
            runner.run(_work(app, worker, signals, alarm, drain=drain))
        finally:
            app.jobs.unwatch()
            signals.then(lambda: None)  # whoever asks from now on need not ask
            # What handlers left behind may block the loop's end, or the interpreter's.
            alarm.set(FAREWELL, 0 if sys.exc_info()[0] is None else 1)


async def _work(
    app: Windlass, worker: Worker, signals: Signals, alarm: Alarm, *, drain: bool
) -> None:
    loop = asyncio.get_running_loop()
    settings = app.settings

    def stop() -> None:
        # A handler that blocks the loop keeps the worker from hearing this.
        alarm.set(settings.drain + max(2.0, settings.lease / 3) + FAREWELL, 1)
        loop.call_soon_threadsafe(worker.stop)

    signals.then(stop)
    working = asyncio.create_task(worker.run())
    watching = asyncio.create_task(_drained(worker)) if drain else None
    try:
        if watching is not None:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
        await working
        if watching is not None and watching.done():
            await watching
    finally:
        if watching is not None:
            watching.cancel()
        await app.aclose()


async def _drained(worker: Worker) -> None:
    while True:
        try:
            await worker.drained()
        except StoreUnavailable as error:
            # The worker waits for the store; so do we.
            log.debug("store unavailable", extra={"error": str(error)})
            await asyncio.sleep(0.5)
        else:
            log.info("nothing left to do", extra={"worker": worker.id})
            return


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it is installed, else asyncio's own."""
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
