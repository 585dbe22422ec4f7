"""A worker in its process: from the first claim to an exit that nothing can hold up.

The worker has the process and the loop to itself. So whatever stops it, other than a signal from
outside, `--drain` and wear, is the doing of a handler: its signal to this process, a canceled task,
a stopped loop, a SystemExit that went through the loop. Then the worker stops as ever, blames what
does not end in time, and the process ends with 1, by `WorkerDisrupted`. A supervisor takes that for
a death, and starts another after a pause.

When it dies here: a loop that ended is run once more by `asyncio.Runner`, which cancels all tasks,
so the worker can still record everything; where a handler prevents even that, or blocks, the alarm
ends the process, and the leases run out, which counts as well.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from windlass.app import Windlass
from windlass.cli.failures import FAILED, exit_code
from windlass.cli.loading import absent_file
from windlass.cli.signals import FAREWELL, Alarm, Signals
from windlass.cli.slow_store import SLOW
from windlass.cli.supervisor import OUTGROWN, RECYCLED
from windlass.cli.unserved import Unserved
from windlass.config import Settings
from windlass.domain.job import JobSpec
from windlass.duration import format_duration
from windlass.engine.memory import MEGABYTE, resident
from windlass.engine.worker import Worker
from windlass.errors import SchemaMismatch, StoreUnavailable, WorkerDisrupted

log = logging.getLogger(__name__)

_LOOK = 0.25
_WEAR = ("recycle_runs", "recycle_memory")


class Keeper(Protocol):
    """The line to the process that keeps this one running."""

    @property
    def superseded(self) -> bool:
        """Whether this process stops because another has taken over."""

    @property
    def explains_stop(self) -> bool:
        """Whether the other process says what a second Ctrl-C does."""

    def tell_started(self) -> None:
        """Say that this process has come so far as to do its work."""


def run(
    app: Windlass,
    signals: Signals,
    alarm: Alarm,
    *,
    drain: bool,
    watch: bool,
    adapt: Callable[[JobSpec], JobSpec] | None = None,
    lifeline: Keeper | None = None,
    **options: Any,
) -> bool:
    """Run a worker to its end; `watch`: with job files as they change; `adapt`: with each job as
    the surroundings need it.

    With a `lifeline` to its keeper it stops when it is worn out; returns whether it is.
    """
    if (new := absent_file(app)) is not None:
        log.info("making a new store", extra={"file": str(new)})
    worn_at = app.settings.having(**{n: options.get(n) for n in _WEAR})
    worker = app.worker(**options)
    worker.sole = True
    worker.heart.hopeless = lambda: alarm.set(0.0, FAILED)
    if adapt is not None:
        worker.adopt([adapt(spec) for spec in app.jobs.specs()])
    if watch:
        app.jobs.watch()
    worn, supervised = False, lifeline is not None
    stop = partial(_stop, app.settings, worker, signals, alarm, lifeline)

    def work() -> None:
        nonlocal worn
        wear = None if lifeline is None else _worn_out(worker, lifeline, worn_at)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            try:
                worn = runner.run(_work(app, worker, signals, stop, drain=drain, wear=wear))
            finally:
                # What handlers left behind may block the loop's end. Where it ended under the
                # worker, that has yet to stop.
                left = 0.0 if worker.over else _time_to_stop(app.settings)
                alarm.set(left + FAREWELL, _code(sys.exc_info()[1], worn, supervised=supervised))

    try:
        try:
            signals.during(work)
        finally:
            app.jobs.unwatch()
            signals.then(lambda: None)  # whoever asks from now on need not ask
            if worker.failure is not None:  # rather than what became of the loop
                raise worker.failure
    finally:
        # And the interpreter's.
        alarm.set(FAREWELL, _code(sys.exc_info()[1], worn, supervised=supervised))
    return worn


def _stop(
    settings: Settings,
    worker: Worker,
    signals: Signals,
    alarm: Alarm,
    lifeline: Keeper | None,
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Have the worker stop; called between any two instructions of the main thread."""
    _say_what_is_awaited(worker, settings, lifeline)
    # A handler that blocks the loop keeps the worker from hearing this.
    alarm.set(_time_to_stop(settings) + FAREWELL, FAILED)
    betray = partial(worker.betray, "it sent its own process a signal to stop", signals.inside)
    loop.call_soon_threadsafe(betray if signals.inside else worker.stop)
    worker.heart.expect_stop()


def _time_to_stop(settings: Settings) -> float:
    """How long a worker may take that was told to stop."""
    return settings.drain + max(2.0, settings.lease / 3)


def _code(error: BaseException | None, worn: bool, *, supervised: bool) -> int:
    if error is None:
        return RECYCLED if worn else 0
    if supervised and isinstance(error, SchemaMismatch):
        return OUTGROWN
    return (
        exit_code(error) if isinstance(error, Exception) else FAILED
    )  # a SystemExit of a handler's


async def _work(
    app: Windlass,
    worker: Worker,
    signals: Signals,
    stop: Callable[[asyncio.AbstractEventLoop], None],
    *,
    drain: bool,
    wear: Coroutine[None, None, None] | None,
) -> bool:
    signals.then(partial(stop, asyncio.get_running_loop()))
    working = asyncio.create_task(_until_stopped(worker))
    wearing = None if wear is None else asyncio.create_task(wear)
    enough = [] if wearing is None else [wearing]
    unserved = Unserved(app)
    if drain:
        enough.append(asyncio.create_task(_drained(worker, unserved)))
    looking = asyncio.create_task(unserved.watch(worker))
    waiting = asyncio.create_task(_say_if_slow(app, worker))
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
        for watching in (*enough, looking, waiting):
            watching.cancel()
        if not working.done():  # canceled with us, by a handler: it must end first
            await asyncio.wait({working})
        await app.aclose()


async def _say_if_slow(app: Windlass, worker: Worker) -> None:
    """Say that the store has not answered yet, where the store itself does not say why."""
    try:
        async with asyncio.timeout(SLOW):
            await worker.started.wait()
    except TimeoutError:
        outage = getattr(app.store, "outage", None)  # a file has none
        if outage is not None and not outage.lasts:
            extra = {"store": app.store.place}
            log.warning("waiting for an answer from the store", extra=extra)


async def _until_stopped(worker: Worker) -> None:
    try:
        await worker.run()
    except WorkerDisrupted as error:  # raised at the very end: a loop that ends would tell it too
        log.debug("disrupted", extra={"worker": worker.id, "error": str(error)})


async def _worn_out(worker: Worker, lifeline: Keeper, settings: Settings) -> None:
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


def _say_what_is_awaited(worker: Worker, settings: Settings, lifeline: Keeper | None) -> None:
    """Say why the process does not end at once, and what makes it."""
    jobs = Counter(worker.running_jobs)
    if not jobs:
        return
    runs = f"{jobs.total():,} run{'' if jobs.total() == 1 else 's'}"
    names = ", ".join(name if n == 1 else f"{name} ×{n:,}" for name, n in jobs.most_common(3))
    more = ", …" if len(jobs) > 3 else ""
    limit = format_duration(settings.drain)
    if lifeline is not None and lifeline.superseded:
        log.info("the old code has up to %s to finish %s: %s%s", limit, runs, names, more)
        return
    # First, because a narrow terminal cuts the end.
    explained = lifeline is not None and lifeline.explains_stop
    again = "" if explained else ", Ctrl-C again ends it now"
    log.info("stopping%s; waiting up to %s for %s: %s%s", again, limit, runs, names, more)


async def _drained(worker: Worker, unserved: Unserved) -> None:
    while True:
        try:
            left = await worker.drained()
        except StoreUnavailable as error:
            # The worker waits for the store; so do we.
            log.debug("store unavailable", extra={"error": str(error)})
            await asyncio.sleep(0.5)
        else:
            await unserved.look(grace=0.0)  # it does not look again
            paused = {"paused": left.paused} if left.paused else {}
            log.info("nothing left to do", extra={"worker": worker.id, **paused})
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
