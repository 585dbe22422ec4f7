"""The seats: runs in their handlers, from the claim to the decided outcome.

A run that was claimed waits until its lane has a seat, runs, and is *concluded* exactly once: by
its handler's end, by a timeout, by a cancel that the handler ignored, by the worker's shutdown,
or because its lease is lost. Whatever the handler does after that is ignored here, as it is
fenced in the store.
"""

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from windlass.context import run_log
from windlass.domain.job import Executor, JobSpec
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Finish, Held, Ordered
from windlass.engine.attempt import Runner, canceled, give_back, release, timeout_of
from windlass.engine.deadlines import Deadlines
from windlass.engine.holdings import Holding, Holdings, Stop
from windlass.engine.lanes import Lane
from windlass.engine.threads import Threads

log = logging.getLogger(__name__)

_STUBBORN = 5.0  # seconds for a handler that was told to end
_LOOK_AFTER = 0.1  # seconds after which runs without a seat are looked at
_LOOKS = 10


class Seats:
    """Starts, stops and concludes attempts. Lives on one event loop."""

    def __init__(
        self,
        jobs: Mapping[str, JobSpec],
        lanes: Mapping[Executor, Lane],
        holdings: Holdings,
        runner: Runner,
        threads: Threads,
        *,
        concluded: Callable[[Finish], None],
        freed: Callable[[], None],
        may_start: Callable[[], bool],
    ) -> None:
        self._jobs = jobs
        self._lanes = lanes
        self._holdings = holdings
        self._runner = runner
        self._threads = threads
        self._concluded = concluded
        self._freed = freed
        self._may_start = may_start
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._loop)
        # Attempts are mostly started by the end of another: they must not inherit its variables.
        self._context = contextvars.copy_context()

    def close(self) -> None:
        """Let go of timers and threads."""
        self._deadlines.close()
        self._threads.close()

    def take(self, runs: Sequence[Claimed]) -> Sequence[Holding]:
        """Hold runs that were just claimed; they start by :meth:`fill`."""
        taken = []
        for claimed in runs:
            spec = self._jobs.get(claimed.job)
            if spec is None:
                # The job went away while its run was on the way.
                self._concluded(give_back(claimed))
                continue
            holding = Holding(claimed, spec)
            taken.append(holding)
            self._holdings.add(holding)
            self._lanes[spec.executor].waiting.append(holding)
        return taken

    def reseat(self) -> None:
        """The jobs have changed: what waits starts as they are now, or goes back."""
        waiting = [holding for lane in self._lanes.values() for holding in lane.waiting]
        for lane in self._lanes.values():
            lane.waiting.clear()
        for holding in waiting:
            spec = self._jobs.get(holding.claimed.job)
            if spec is not None:
                holding.spec = spec
                self._lanes[spec.executor].waiting.append(holding)
            elif not holding.concluded:
                self._conclude(holding, release(holding))
        self.fill()

    def fill(self) -> None:
        """Start what waits, while there are seats and the lease is beyond doubt."""
        for lane in self._lanes.values():
            self._fill(lane)

    def watch(self, holdings: Sequence[Holding], looks: int = _LOOKS) -> None:
        """Give back those that find no seat: soon if none becomes free at all, else in a second."""
        if not all(holding.started for holding in holdings):
            ends = {lane: lane.ends for lane in self._lanes.values()}
            due = self._loop.time() + _LOOK_AFTER
            self._loop.call_at(due, self._look, holdings, ends, due, looks)

    def _look(
        self, holdings: Sequence[Holding], ends: Mapping[Lane, int], due: float, looks: int
    ) -> None:
        late = [h for h in holdings if not h.started and not h.concluded]
        lanes = {self._lanes[holding.spec.executor] for holding in late}
        stood_still = self._loop.time() - due > _LOOK_AFTER / 2  # the process, not the handlers
        if looks and (stood_still or any(lane.ends != ends[lane] for lane in lanes)):
            self.watch(late, looks - 1)
            return
        for holding in late:
            self._conclude(holding, release(holding))
        for lane in lanes:
            lane.calm()
            lane.waiting = deque(h for h in lane.waiting if not h.concluded)

    def announce_stop(self) -> None:
        """Tell the handlers that the worker goes; give back what has not started."""
        for lane in self._lanes.values():
            while lane.waiting:
                holding = lane.waiting.popleft()
                if not holding.concluded:
                    self._conclude(holding, release(holding))
        for holding in self._holdings.all():
            holding.stopping = True

    def give_up_all(self) -> None:
        """The grace is over: cancel what still runs, and give it back."""
        for holding in self._holdings.all():
            if not holding.concluded:
                self._interrupt(holding, Stop.SHUTDOWN)
                self._conclude(holding, release(holding))

    def order(self, order: Ordered) -> None:
        """An operator wants a run to end."""
        holding = self._holdings.find(order.tenant, order.id, order.token)
        if holding is None or holding.stop is not None or holding.concluded:
            return
        self._interrupt(holding, Stop.CANCEL, order.reason)
        if holding.started:
            self._deadlines.after(_STUBBORN, holding, self._stubborn)
        else:
            self._conclude(holding, canceled(holding, order.reason))

    def lose(self, held: Held) -> None:
        """A lease is another's."""
        holding = self._holdings.find(held.tenant, held.id, held.token)
        # An end on its way looks lost to a renewal that overtakes its reply.
        if holding is not None and not holding.concluded:
            log.warning("lease lost", extra={"run": held.id, "tenant": held.tenant})
            self._lose(holding)

    def lose_all(self) -> None:
        """The worker is dead to the store: nothing is ours any more."""
        for lane in self._lanes.values():
            lane.waiting.clear()
        for holding in self._holdings.all():
            if not holding.concluded:
                self._lose(holding)

    def _fill(self, lane: Lane) -> None:
        while lane.waiting and lane.running < lane.seats and self._may_start():
            holding = lane.waiting.popleft()
            if not holding.concluded:
                lane.running += 1
                self._start(lane, holding)

    def _start(self, lane: Lane, holding: Holding) -> None:
        holding.started = self._loop.time()
        limit = timeout_of(holding)
        if limit is not None:
            self._deadlines.after(limit, holding, self._timed_out)
        if lane.executor is Executor.ASYNC:
            attempt = self._attempt(lane, holding)
            holding.task = self._loop.create_task(attempt, context=self._context.copy())
        else:
            call = partial(self._attempt_in_thread, lane, holding)
            self._threads.submit(call, self._context.copy())

    async def _attempt(self, lane: Lane, holding: Holding) -> None:
        self._ended(lane, holding, await self._runner.run_async(holding))

    def _attempt_in_thread(self, lane: Lane, holding: Holding) -> None:
        finish = self._runner.run_sync(holding)
        try:
            self._loop.call_soon_threadsafe(self._ended, lane, holding, finish)
        except RuntimeError:
            log.debug("handler outlived its worker", extra={"run": holding.claimed.id})

    def _ended(self, lane: Lane, holding: Holding, finish: Finish | None) -> None:
        """The handler is out of its seat."""
        holding.task = None
        lane.ended(self._loop.time())
        if not holding.concluded:
            self._conclude(holding, finish)
        if lane.waiting:
            self._fill(lane)
        self._freed()

    def _conclude(self, holding: Holding, finish: Finish | None) -> None:
        holding.concluded = True
        if finish is None:
            self._holdings.drop(holding.held)
            self._freed()
            return
        self._log_end(holding, finish)
        self._concluded(finish)

    def _timed_out(self, holding: Holding) -> None:
        self._interrupt(holding, Stop.TIMEOUT)
        if holding.spec.executor is Executor.THREAD:
            # A thread cannot be stopped, only fenced: its seat stays taken until it ends.
            self._conclude(holding, self._runner.timed_out(holding))
        else:
            self._deadlines.after(_STUBBORN, holding, self._stubborn)

    def _stubborn(self, holding: Holding) -> None:
        """It was told to end and did not: record the end without it."""
        if holding.stop is Stop.TIMEOUT:
            self._conclude(holding, self._runner.timed_out(holding))
        else:
            self._conclude(holding, canceled(holding, holding.reason))

    def _interrupt(self, holding: Holding, stop: Stop, reason: str | None = None) -> None:
        if holding.stop is None or stop is Stop.LOST:
            holding.stop, holding.reason = stop, reason
            if holding.task is not None:
                holding.task.cancel()

    def _lose(self, holding: Holding) -> None:
        self._interrupt(holding, Stop.LOST)
        self._conclude(holding, None)

    def _log_end(self, holding: Holding, finish: Finish) -> None:
        level = logging.INFO
        if finish.outcome in (Outcome.RETRY, Outcome.FAILED):
            level = logging.WARNING if finish.outcome is Outcome.RETRY else logging.ERROR
        if not log.isEnabledFor(level):
            return
        took = (self._loop.time() - holding.started) * 1000 if holding.started else 0.0
        extra: dict[str, object] = {"duration_ms": round(took, 1)}
        if finish.error is not None:
            extra["error"] = f"{finish.error.type}: {finish.error.message}"
        if finish.delay is not None:
            extra["delay"] = round(finish.delay, 3)
        bound = run_log(holding.claimed, self._runner.worker)
        bound.log(level, "run %s", finish.outcome.value, extra=extra)
