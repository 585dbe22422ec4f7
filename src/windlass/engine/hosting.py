"""A worker as a guest in another program: a web server, a script, a thread of its own.

The host has the process. So nothing here touches signals or the event loop's settings. Its logging
is left alone too: only while the host has none that would show them, warnings and errors go to
standard error (:func:`windlass.logs.problems_shown`).
The worker starts when the host says so and stops when it does, gracefully: nothing more is claimed,
what runs gets the time that `drain` allows, and what is then unfinished goes back to its queue.

To stop it is the host's right: by leaving the block, by `worker.stop()` (in a handler too), by
canceling the task it runs in. None of that is held against a run. In a thread of its own the worker
has the loop to itself, so whoever cancels its tasks or stops that loop is a handler
(:meth:`windlass.engine.worker.Worker.betray`).

A worker that cannot go on stops by itself. That is logged at once, and raised where the host stops
it: a web server should not go down because its guest did.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

from windlass.engine.worker import Worker
from windlass.errors import UsageError
from windlass.logs import problems_shown, steady_log

log = steady_log(__name__)

# By which a loop ends that a handler stops, or raises through.
_ENDS = (RuntimeError, SystemExit, KeyboardInterrupt, asyncio.CancelledError)

Close = Callable[[], Awaitable[None]]


@asynccontextmanager
async def hosted(worker: Worker, close: Close, *, wait: bool = True) -> AsyncIterator[Worker]:
    """Run a worker on this loop for as long as the block lasts; then close the connections.

    Enters when the worker is known to the store, which may be long where that is not there yet, or
    (`wait=False`) at once.
    """
    with problems_shown():
        task = asyncio.create_task(worker.run(), name="windlass-worker")
        task.add_done_callback(_report)
        try:
            if wait:
                await _started(worker, task)
            yield worker
        except asyncio.CancelledError:
            worker.unasked()
            raise
        finally:
            worker.stop()
            try:
                await task
            finally:
                await close()


class WorkerThread:
    """A worker on an event loop of its own, in a thread: for hosts that have none.

    Use it by `with`, or by `start` and `stop`. A forked child has no such thread: start one there.
    """

    def __init__(self, make: Callable[[], Worker], close: Close, *, wait: bool = True) -> None:
        self._make = make
        self._close = close
        self._wait = wait
        self._pid = 0
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None

    def start(self) -> Self:
        """Start it; returns when the worker is known to the store. Raises what keeps it from that.

        Once only, in this process.
        """
        if self._thread is not None and self._pid == os.getpid():
            raise UsageError("This worker thread has been started already.")
        self._pid = os.getpid()
        self._ready = threading.Event()
        # A daemon: a host that forgets to stop it may end all the same.
        self._thread = threading.Thread(target=self._run, name="windlass-worker", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self.stop()
        return self

    def stop(self) -> None:
        """Stop it gracefully and wait for its end; raises what made it end before. Repeatable."""
        if self._thread is None or self._pid != os.getpid():
            return
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:
                log.debug("loop closed")
        self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(self._watched())
        except _ENDS as error:  # of the loop, by a handler; the worker has ended with it
            self._failure = self._failure or error
        finally:
            self._ready.set()

    async def _watched(self) -> None:
        """Work, and keep what it ended by: it is raised where the host can hear it."""
        task = asyncio.create_task(self._work())
        while not task.done():
            with suppress(asyncio.CancelledError):  # it is canceled as well, and must end first
                await asyncio.wait({task})
        self._failure = asyncio.CancelledError() if task.cancelled() else task.exception()

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        worker = self._make()
        worker.sole = True
        if not self._wait:
            self._ready.set()
        # By a signal, which takes no turn of the loop: the first run may block that at once.
        with worker.signals.registered.calling(lambda _: self._ready.set()):
            async with hosted(worker, self._close, wait=self._wait):
                await self._stopping.wait()


async def _started(worker: Worker, task: asyncio.Task[None]) -> None:
    """Wait until it works; raises what keeps it from working."""
    started = asyncio.create_task(worker.started.wait())
    try:
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        started.cancel()
    if task.done():
        await task


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("worker ended by an error", exc_info=error)
