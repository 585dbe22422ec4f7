"""A worker in its process: from the first claim to an exit that nothing can hold up."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from windlass.app import Windlass
from windlass.cli.failures import FAILED, exit_code
from windlass.cli.signals import FAREWELL, Alarm, Signals
from windlass.cli.supervisor import OUTGROWN, RECYCLED, Lifeline
from windlass.config import Settings
from windlass.domain.job import JobSpec
from windlass.engine.memory import MEGABYTE, resident
from windlass.engine.worker import Worker
from windlass.errors import SchemaMismatch, StoreUnavailable

log = logging.getLogger(__name__)

_LOOK = 0.25
_WEAR = ("recycle_runs", "recycle_memory")


def run(
    app: Windlass,
    signals: Signals,
    alarm: Alarm,
    *,
    drain: bool,
    watch: bool,
    adapt: Callable[[JobSpec], JobSpec] | None = None,
    lifeline: Lifeline | None = None,
    **options: Any,
) -> bool:
    """Run a worker to its end; `watch`: with job files as they change; `adapt`: with each job as
    the surroundings need it.

    With a `lifeline` to a supervisor it stops when it is worn out; returns whether it is.
    """
    worn, worn_at = False, app.settings.having(**{n: options.get(n) for n in _WEAR})
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            worker = app.worker(**options)
            if adapt is not None:
                worker.adopt([adapt(spec) for spec in app.jobs.specs()])
            if watch:
                app.jobs.watch()
            wear = None if lifeline is None else _worn_out(worker, lifeline, worn_at)
            worn = runner.run(_work(app, worker, signals, alarm, drain=drain, wear=wear))
        finally:
            app.jobs.unwatch()
            signals.then(lambda: None)  # whoever asks from now on need not ask
            # What handlers left behind may block the loop's end, or the interpreter's.
            alarm.set(FAREWELL, _code(sys.exc_info()[1], worn, supervised=lifeline is not None))
    return worn


def _code(error: BaseException | None, worn: bool, *, supervised: bool) -> int:
    if error is None:
        return RECYCLED if worn else 0
    if supervised and isinstance(error, SchemaMismatch):
        return OUTGROWN
    return exit_code(error) if isinstance(error, Exception) else FAILED


async def _work(
    app: Windlass,
    worker: Worker,
    signals: Signals,
    alarm: Alarm,
    *,
    drain: bool,
    wear: Coroutine[None, None, None] | None,
) -> bool:
    loop = asyncio.get_running_loop()
    settings = app.settings

    def stop() -> None:
        # A handler that blocks the loop keeps the worker from hearing this.
        alarm.set(settings.drain + max(2.0, settings.lease / 3) + FAREWELL, 1)
        loop.call_soon_threadsafe(worker.stop)

    signals.then(stop)
    working = asyncio.create_task(worker.run())
    wearing = None if wear is None else asyncio.create_task(wear)
    enough = [] if wearing is None else [wearing]
    if drain:
        enough.append(asyncio.create_task(_drained(worker)))
    try:
        if enough:
            await asyncio.wait({working, *enough}, return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
        await working
        for watching in enough:
            if watching.done():
                await watching
        return wearing is not None and wearing.done()
    finally:
        for watching in enough:
            watching.cancel()
        await app.aclose()


async def _worn_out(worker: Worker, lifeline: Lifeline, settings: Settings) -> None:
    """Wait until the process has had as many runs, or as much memory, as it may."""
    await worker.started.wait()
    lifeline.tell_started()
    runs, memory = settings.recycle_runs, settings.recycle_memory
    while True:
        used = resident()
        if (runs is not None and worker.ended >= runs) or (
            memory is not None and used > memory * MEGABYTE
        ):
            extra = {"worker": worker.id, "runs": worker.ended, "memory_mb": used // MEGABYTE}
            log.info("worker worn out", extra=extra)
            return
        await asyncio.sleep(_LOOK)


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
