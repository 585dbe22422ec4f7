"""The seats: runs in their handlers, from the claim to the decided outcome.

A run that was claimed waits until its lane has a seat, runs, and is *concluded* exactly once: by
its handler's end, by a timeout, by a cancel that the handler ignored, by the worker's shutdown,
or because its lease is lost. Whatever the handler does after that is ignored here, as it is
fenced in the store.

A handler may stop the worker without killing it: by a signal to its own process, by canceling all
tasks, by stopping the loop. Then whatever does not end in the time that a stop allows has crashed
(:meth:`Seats.accuse`), since it may have been the one; the others were merely interrupted.

A suspect (`domain.blame`: a worker has died under it) runs in a child process whatever its
executor, in a seat of its lane. So that a crowd of suspects cannot take the machine's memory, at
most `suspect_seats` of them run at a time; those that wait for a child take no seat, so other runs
of their lane go on. Where no fresh process can find its job a suspect runs here, in a group that
has the worker to itself (:mod:`windlass.engine.suspects`): nothing more is claimed, and the group
starts when everything else has ended, or has had its time to.
"""

import asyncio
import contextvars
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial

import msgspec

from windlass.domain.blame import is_suspect
from windlass.domain.job import Executor
from windlass.domain.outcome import decide_crash
from windlass.domain.run import Claimed, Finish, Held
from windlass.engine.attempt import (
    Runner,
    canceled,
    finish,
    give_back,
    given_up,
    leaves,
    release,
    timeout_of,
)
from windlass.engine.children import Children
from windlass.engine.deadlines import Deadlines
from windlass.engine.ends import Ends
from windlass.engine.holdings import Holding, Holdings, Stop
from windlass.engine.hosts import SeatsHost
from windlass.engine.lanes import Lane
from windlass.engine.options import WorkerOptions
from windlass.engine.orders import Orders
from windlass.engine.roster import Roster
from windlass.engine.scarcity import REFUSALS, NotGiven, Scarcity
from windlass.engine.suspects import SuspectGroup
from windlass.engine.threads import Threads
from windlass.errors import WorkerDisrupted
from windlass.logs import steady_log

log = steady_log(__name__)

_LOOK_AFTER = 0.1  # seconds after which runs without a seat are looked at
_LOOKS = 10
_MORE_THREADS = (
    "allow more threads or memory (ulimit -u, -v; TasksMax or pids.max of the service), or lower "
    "threads"
)
_MORE_PROCESSES = (
    "allow more processes, open files or memory (ulimit -u, -n, -v; TasksMax or pids.max of the "
    "service), or lower process_seats"
)


class Seats:
    """Starts, stops and concludes attempts. Lives on one event loop."""

    def __init__(
        self,
        roster: Roster,
        holdings: Holdings,
        runner: Runner,
        threads: Threads,
        children: Children,
        options: WorkerOptions,
        host: SeatsHost,
    ) -> None:
        self._jobs = roster.jobs
        self._lanes = roster.lanes
        self._holdings = holdings
        self._runner = runner
        self._threads = threads
        self._children = children
        self._options = options
        self._suspects = 0  # how many of them run in children
        self.group = SuspectGroup(roster.lanes)  # suspects that must run without neighbours
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._no_threads = Scarcity("thread for a handler", _MORE_THREADS, self._resume)
        self._no_processes = Scarcity("child process", _MORE_PROCESSES, self._resume)
        self._deadlines = Deadlines(self._loop)
        self._ends = Ends(self._loop)
        self.orders = Orders(holdings, self._cancel, self._release, self._loop.time)
        runner.suspended = self._insist
        # Attempts are mostly started by the end of another: they must not inherit its variables.
        self._context = contextvars.copy_context()

    async def close(self) -> None:
        """Let go of timers, threads and child processes."""
        self._ends.close()
        self._deadlines.close()
        self._threads.close()
        await self._children.close()

    def take(self, runs: Sequence[Claimed]) -> Sequence[Holding]:
        """Hold runs that were just claimed; they start by :meth:`fill`."""
        taken, apart = [], []
        for claimed in runs:
            spec = self._jobs.get(claimed.job)
            if spec is None:
                # The job went away while its run was on the way.
                self._host.concluded(give_back(claimed))
                continue
            holding = Holding(claimed, spec)
            older = self._holdings.add(holding)
            if older is not None and not older.concluded:
                # The store had it back before anybody told us, or its handler sent it back itself.
                self._lose(older) if older.joined is None else self._conclude(older, None)
            if claimed.deadline_in is not None:
                self._deadlines.after(claimed.deadline_in, holding, self._overran)
            if not is_suspect(claimed.crash_count):
                taken.append(holding)
                self._lanes[spec.executor].waiting.append(holding)
            elif self._children.can_run(spec):
                self._await_child(holding)
            else:
                apart.append(holding)
        if apart:
            self._set_apart(apart)
        return taken

    def reseat(self) -> None:
        """The jobs have changed: what waits starts as they are now, or goes back."""
        suspects = [holding for lane in self._lanes.values() for holding in lane.suspects]
        waiting = [holding for lane in self._lanes.values() for holding in lane.waiting]
        for lane in self._lanes.values():
            lane.clear()
        for holding in (*waiting, *suspects, *self._not_started()):
            spec = self._jobs.get(holding.claimed.job)
            if spec is None:
                self._release(holding)
                continue
            holding.spec = spec
            if holding in suspects:
                self._await_child(holding)
            elif holding not in self.group or self.group.started:
                self._lanes[spec.executor].waiting.append(holding)
        self.fill()

    def fill(self) -> None:
        """Start what waits, while there are seats and the lease is beyond doubt."""
        for lane in self._lanes.values():
            self._fill(lane)
        self.step_aside()

    def watch(self, holdings: Sequence[Holding], looks: int = _LOOKS) -> None:
        """Give back those that find no seat: soon if none becomes free at all, else in a second."""
        if any(holding.started is None for holding in holdings):
            ends = {lane: lane.ends for lane in self._lanes.values()}
            due = self._loop.time() + _LOOK_AFTER
            self._loop.call_at(due, self._release_unseated, holdings, ends, due, looks)

    def _release_unseated(
        self, holdings: Sequence[Holding], ends: Mapping[Lane, int], due: float, looks: int
    ) -> None:
        late = [h for h in holdings if h.started is None and not h.concluded]
        lanes = {self._lanes[holding.spec.executor] for holding in late}
        stood_still = self._loop.time() - due > _LOOK_AFTER / 2  # the process, not the handlers
        if looks and (stood_still or any(lane.ends != ends[lane] for lane in lanes)):
            self.watch(late, looks - 1)
            return
        for holding in late:
            self._release(holding)
        for lane in lanes:
            lane.calm()

    def _await_child(self, holding: Holding) -> None:
        """Let a suspect wait for a child process. The others of its lane are in one anyway."""
        lane = self._lanes[holding.spec.executor]
        lane_is_isolated = lane.executor is Executor.PROCESS
        (lane.waiting if lane_is_isolated else lane.suspects).append(holding)

    def _set_apart(self, suspects: Sequence[Holding]) -> None:
        """Let some of these wait until they have the worker to themselves; the others go back."""
        waited = bool(self.group.members)
        for holding in self.group.form(suspects):
            self._release(holding)
        if waited or not self.group.members:
            return
        group = tuple(self.group.members)
        runs = ", ".join(holding.claimed.id for holding in group)
        extra = {"number": len(group), "runs": runs}
        log.warning("suspected of killing workers, and run apart", extra=extra)
        self._loop.call_later(self._options.drain, self._wait_no_longer, group)

    def step_aside(self) -> None:
        """Start the suspects that wait to have the worker to themselves, if they have."""
        if self.group.members and len(self._holdings) == len(self.group.members):
            self._start_group()

    def _wait_no_longer(self, group: tuple[Holding, ...]) -> None:
        if any(holding in self.group for holding in group):
            self._start_group()

    def _start_group(self) -> None:
        for holding in self.group.start():
            lane = self._lanes[holding.spec.executor]
            lane.waiting.append(holding)
            self._fill(lane)

    def _not_started(self) -> Sequence[Holding]:
        """The suspects of a group that waits to start."""
        return () if self.group.started else tuple(self.group.members)

    def announce_stop(self) -> None:
        """Tell the handlers that the worker goes; give back what has not started."""
        for holding in self._not_started():
            self._release(holding)
        for lane in self._lanes.values():
            for holding in lane.clear():
                self._release(holding)
        for holding in self._holdings.all():
            holding.stopping = True
            if holding.told is not None:
                holding.told()

    def give_up_all(self) -> None:
        """The grace is over: cancel what still runs, and give it back."""
        for holding in self._holdings.all():
            if not holding.concluded:
                self._interrupt(holding, Stop.SHUTDOWN)
                self._conclude(holding, given_up(holding))

    def accuse(self, error: WorkerDisrupted, line: Sequence[int]) -> None:
        """One of the handlers has stopped the worker: what does not end in time has crashed.

        `line` has the processes that the stop came through. If a child process of ours is among
        them its run is to blame, and nobody else; if not, no child can have done it.
        """
        running = [h for h in self._holdings.all() if h.started is not None and not h.concluded]
        accused = [h for h in running if h.pid in line] or [h for h in running if not h.isolated]
        for holding in accused:
            verdict = decide_crash(
                crashes_before=holding.claimed.crash_count,
                max_crashes=self._options.max_crashes,
                alone=len(accused) == 1,
            )
            holding.accused = finish(holding, verdict, error=error)

    def _cancel(self, holding: Holding, reason: str | None) -> None:
        self._interrupt(holding, Stop.CANCEL, reason)
        if holding.started is not None:
            self._insist(holding)
        else:
            self._conclude(holding, canceled(holding, reason))

    def lose(self, held: Held) -> None:
        """A lease is another's."""
        holding = self._holdings.find(held.tenant, held.id, held.token)
        # An end on its way looks lost to a renewal that overtakes its reply; so does one that was
        # committed in a transaction of the handler, which may have something to do after that.
        if holding is not None and not holding.concluded and holding.joined is None:
            log.warning("lease lost", extra={"run": held.id, "tenant": held.tenant})
            self._lose(holding)

    def lose_all(self) -> None:
        """The worker is dead to the store: nothing is ours any more."""
        for lane in self._lanes.values():
            lane.clear()
        for holding in self._holdings.all():
            if not holding.concluded:
                self._lose(holding)

    def _fill(self, lane: Lane) -> None:
        while lane.has_seat and self._host.may_start:
            suspects = lane.suspects if self._suspects < self._options.suspect_seats else None
            waiting = suspects or lane.waiting
            if not waiting:
                return
            holding = waiting.popleft()
            if not holding.concluded:
                lane.take_seat()
                holding.suspect = waiting is suspects
                self._start(lane, holding)

    def _start(self, lane: Lane, holding: Holding) -> None:
        holding.started = self._loop.time()
        self._suspects += holding.suspect
        holding.isolated = holding.suspect or lane.executor is Executor.PROCESS
        if holding.isolated:
            self._start_task(lane, holding, self._attempt_in_child(lane, holding))
            return
        self._count_time(holding)
        if lane.executor is Executor.ASYNC:
            self._start_task(lane, holding, self._attempt(lane, holding))
        else:
            self._start_thread(lane, holding)

    def _start_task(
        self, lane: Lane, holding: Holding, attempt: Coroutine[None, None, None]
    ) -> None:
        holding.task = self._loop.create_task(attempt, context=self._context.copy())
        holding.task.add_done_callback(partial(self._left, lane, holding))

    def _start_thread(self, lane: Lane, holding: Holding) -> None:
        call = partial(self._runner.run_sync, holding)
        then = partial(self._ended_in_thread, lane, holding)
        try:
            if self._threads.submit(call, then, self._context.copy()):
                self._no_threads.given(lane)
        except REFUSALS as error:
            self._no_threads.close_seat(lane, error)
            self._release(holding)

    def _count_time(self, holding: Holding) -> None:
        limit = timeout_of(holding)
        if limit is not None:
            self._deadlines.after(limit, holding, self._timed_out)

    async def _attempt(self, lane: Lane, holding: Holding) -> None:
        self._ended(lane, holding, await self._runner.run_async(holding))

    async def _attempt_in_child(self, lane: Lane, holding: Holding) -> None:
        try:
            finish = await self._children.run(holding, partial(self._began, lane, holding))
        except NotGiven as error:
            holding.task = None
            if holding.suspect:
                pause = self._no_processes.refused(error)
                self._loop.call_later(pause, self._ended, lane, holding, None)
            else:
                self._no_processes.close_seat(lane, error)
            self._release(holding)
        else:
            self._ended(lane, holding, finish)

    def _began(self, lane: Lane, holding: Holding, fresh: bool) -> None:
        if fresh:
            self._no_processes.given(lane)
        self._count_time(holding)

    def _ended_in_thread(self, lane: Lane, holding: Holding, finish: Finish | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._ended, lane, holding, finish)
        except RuntimeError:
            log.debug("handler outlived its worker", extra={"run": holding.claimed.id})

    def _left(self, lane: Lane, holding: Holding, task: "asyncio.Task[None]") -> None:
        """A task is over: if by another way than through the end of its attempt, this is it."""
        if holding.task is not task:
            return
        if task.cancelled():  # before its first step, by us or with the whole loop
            holding.stop = holding.stop or Stop.SHUTDOWN
            error: BaseException | None = asyncio.CancelledError()
        else:
            error = task.exception()
        if error is not None:
            self._ended(lane, holding, self._runner.conclude_error(holding, error))

    def _ended(self, lane: Lane, holding: Holding, finish: Finish | None) -> None:
        """The handler is out of its seat."""
        holding.task = None
        now = self._loop.time()
        lane.ended(now)
        if not holding.concluded:
            self._conclude(holding, finish, now)
        if holding.suspect:
            self._suspects -= 1
            self.fill()  # of whatever lane the next one is
        elif lane.waiting or lane.suspects:
            self._fill(lane)
        self._host.freed()

    def _resume(self, lane: Lane) -> None:
        self._fill(lane)
        self._host.freed()

    def _conclude(self, holding: Holding, finish: Finish | None, now: float | None = None) -> None:
        holding.concluded = True
        if self.group.members:
            self.group.leave(holding)
        if holding.gauge is not None:
            self._host.progress.close(holding.gauge, finish)
        if holding.notebook is not None:
            self._host.lines.close(holding.notebook, finish)
        if finish is None:
            self._holdings.drop(holding.claimed)
            self._host.freed()
            return
        now = now or self._loop.time()
        if holding.heard_at is not None:
            finish = msgspec.structs.replace(finish, heard=round(now - holding.heard_at, 3))
        self._host.concluded(finish)
        took = 0.0 if holding.started is None else now - holding.started
        worker, claimed = self._runner.worker, holding.claimed
        if holding.joined is None:
            self._ends.log(worker, claimed, finish, took)
        else:
            log_end = partial(self._ends.log, worker, claimed, took=took)
            self._host.joined.add(holding, log_end)

    def _release(self, holding: Holding) -> None:
        """Give back what has not started."""
        if not holding.concluded:
            self._conclude(holding, release(holding))

    def _timed_out(self, holding: Holding) -> None:
        self._end_late(holding, Stop.TIMEOUT)

    def _overran(self, holding: Holding) -> None:
        if holding.stop is None:  # else it is ending already
            self._end_late(holding, Stop.DEADLINE)

    def _end_late(self, holding: Holding, stop: Stop) -> None:
        self._interrupt(holding, stop)
        if holding.task is None:
            # It has no seat yet, or is a thread, which cannot be stopped, only fenced: that seat
            # stays taken until it ends.
            self._conclude(holding, self._runner.too_late(holding))
        else:
            self._insist(holding)

    def _insist(self, holding: Holding) -> None:
        """Give a handler that was told to end some time for it; a child process is killed then."""
        if not holding.isolated:
            self._deadlines.after(self._options.cancel_grace, holding, self._stubborn)

    def _stubborn(self, holding: Holding) -> None:
        """It was told to end and did not: record the end without it."""
        if (left := leaves(holding)) is not None:
            self._conclude(holding, left)
        elif holding.stop in (Stop.TIMEOUT, Stop.DEADLINE):
            self._conclude(holding, self._runner.too_late(holding))
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
