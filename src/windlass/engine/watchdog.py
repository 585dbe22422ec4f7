"""The watchdog: a thread that asks the event loop for a sign of life.

A handler that blocks the loop (a sleep, a long computation, a call without `await`) stops all that
lives there: other handlers, ends on their way to the store, timeouts, cancels, the signal to stop.
The heartbeat is a thread, so it would vouch for all of that for ever. So it asks the watchdog first
(`blockage`).

The watchdog asks the loop for an answer and looks for it twice a second. Each look without one adds
one interval to the silence, however long ago the last look was: while the process was stopped, the
machine asleep or starved, or the interpreter held by a call into C, the watchdog was as silent as
the loop. (So was the heartbeat, and the lease just runs out.)

States, by how long the loop has been silent:

- *answering*.
- *blocked*, after a second or two: logged with job, run and stack. The next renewal, which follows
  at once, says so in the worker's row (`windlass workers`, doctor).
- *given up*, after a whole lease: from the next renewal on, which follows at once, the heartbeat
  names only runs in child processes (:mod:`windlass.engine.vouching`). Other workers may take the
  rest.
- *answering* again: logged. Runs that were given up are canceled, the store refuses their writes,
  and claims that were under way bring nothing.

Who blocks it
-------------
The run whose handler made the loop's current task, which the task's context says (`current`). A
task without a run in its context is the worker's own or the host program's: no run is to blame. In
a callback there is no task, so any run on the loop may be to blame; the same if the loop moves from
the task of one run to that of another and still does not answer.

When the worker is told to stop
-------------------------------
A blocked loop does not hear a stop from outside. So whoever asks for it tells the watchdog as well
(`expect_stop`). If the loop is blocked and still holds runs when the grace is over, they are given
up from this thread, and the owner of the process may end it (`hopeless`).

When it dies here: the thread is a daemon and holds nothing. If the process is killed between giving
up and the loop's return, its other leases run out as usual.
"""

import asyncio
import gc
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial

from windlass.current import current
from windlass.domain.job import Executor
from windlass.engine.holdings import Holding, Holdings
from windlass.logs import TRACEBACK, steady_log
from windlass.sources import Clock

log = steady_log(__name__)

_LOOK = 0.5
_BLOCKED = 1.5
_LATE = 2.0  # after the grace: a loop that is blocked for less than that ends in good order
_MOST_FRAMES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockage:
    """The event loop does not answer."""

    seconds: float
    holding: Holding | None  # whose handler blocks it, if that is known
    anybody: bool  # if not: whether it may be any run on the loop, or none of them
    stack: str  # where it was when that was noticed


class Watchdog:
    """Watches the loop that it is started on."""

    def __init__(
        self,
        holdings: Holdings,
        clock: Clock,
        *,
        lease: float,
        worker: Callable[[], str],
        noticed: Callable[[], None],
        hopeless: Callable[[Blockage], None],
    ) -> None:
        """`noticed` is called when the state changes, `hopeless` when a stop cannot be heard; both
        in the watchdog's thread."""
        self._holdings = holdings
        self._clock = clock
        self._lease = lease
        self._look = min(_LOOK, lease / 4)
        self._patience = min(_BLOCKED, lease / 2)
        self._worker = worker
        self._noticed = noticed
        self._hopeless = hopeless
        self._answered = True
        self._silent = 0.0
        self._last_moment: float | None = None
        self._stopped = threading.Event()
        self._blockage: Blockage | None = None

    @property
    def blockage(self) -> Blockage | None:
        """How the loop is blocked; None from the moment that it answers. From any thread."""
        return None if self._answered else self._blockage

    def start(self) -> None:
        """Begin, with the running loop."""
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        threading.Thread(target=self._watch, name="windlass-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()

    def expect_stop(self, grace: float) -> None:
        """The worker was told to stop, and has so many seconds for it; from any thread."""
        if self._last_moment is None:
            self._last_moment = self._clock.monotonic() + grace + _LATE

    def _watch(self) -> None:
        last = self._clock.monotonic()
        while not self._stopped.wait(self._look):
            now = self._clock.monotonic()
            passed, last = min(now - last, self._look), now
            if self._answered:
                self._come_back()
                if not self._ask():
                    return
            else:
                self._silent += passed
                if self._silent >= self._patience:
                    self._notice()
            late = self._last_moment is not None and now >= self._last_moment
            # Without runs there is nothing to give up: it may be closing what handlers used.
            if late and len(self._holdings) and (blockage := self.blockage) is not None:
                self._hopeless(blockage)
                return

    def _ask(self) -> bool:
        self._answered, self._silent = False, 0.0
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:  # it has closed
            return False
        return True

    def _answer(self) -> None:
        self._answered = True

    def _notice(self) -> None:
        before, (holding, anybody) = self._blockage, self._culprit()
        if before is None:
            self._blockage = now = Blockage(
                seconds=self._silent, holding=holding, anybody=anybody, stack=self._stack()
            )
            self._noticed()
            extra = self._extra(now) | {TRACEBACK: now.stack}
            log_apart(logging.WARNING, "event loop blocked", extra)
            return
        anybody = anybody or before.anybody or holding is not before.holding
        self._blockage = now = replace(
            before, seconds=self._silent, holding=None if anybody else holding, anybody=anybody
        )
        if before.seconds < self._lease <= now.seconds:
            self._noticed()
            text = "event loop blocked for a lease, its runs are given up"
            log_apart(logging.ERROR, text, self._extra(now))

    def _come_back(self) -> None:
        blockage, self._blockage = self._blockage, None
        if blockage is not None:
            self._noticed()
            log_apart(logging.WARNING, "event loop runs again", self._extra(blockage))

    def _culprit(self) -> tuple[Holding | None, bool]:
        """Whose code the loop is in; if that is nobody's, whether it may be anybody's."""
        task = asyncio.current_task(self._loop)
        context = None if task is None else _context_of(task)
        if context is None:
            return None, True
        running = context.get(current)
        return (running if isinstance(running, Holding) else None), False

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._home)
        return "".join(traceback.format_stack(frame)[-_MOST_FRAMES:]) if frame else ""

    def _extra(self, blockage: Blockage) -> dict[str, object]:
        extra: dict[str, object] = {"worker": self._worker()}
        if blockage.holding is not None:
            claimed = blockage.holding.claimed
            extra |= {"run": claimed.id, "job": claimed.job, "tenant": claimed.tenant}
        return extra | {"seconds": round(blockage.seconds, 1)}


def runs_on_loop(holding: Holding) -> bool:
    """Whether its handler is a coroutine on the worker's event loop."""
    return holding.spec.executor is Executor.ASYNC and not holding.isolated


def log_apart(level: int, text: str, extra: dict[str, object]) -> None:
    """Log in a thread of its own: if the loop hangs in a log's handler, so does whoever logs."""
    line = partial(log.log, level, text, extra=extra)
    try:
        threading.Thread(target=line, name="windlass-watchdog-log", daemon=True).start()
    except RuntimeError:  # there is no thread to be had
        line()


def _context_of(task: "asyncio.Task[object]") -> Context | None:
    if sys.version_info >= (3, 12):
        return task.get_context()
    # Python 3.11 has no name for it. The task's own comes before those of its callbacks.
    return next((it for it in gc.get_referents(task) if isinstance(it, Context)), None)
