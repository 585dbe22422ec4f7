"""A worker: takes leases, runs handlers, records what came of them.

One process, one event loop. Parts, each with a reason of its own:

    Holdings  what is leased to us                  Pump     finishes out, claims in
    Lanes     seats per executor                    Seats    attempts, started and stopped
    Heart     heartbeat and watchdog, in threads    Sweeper  dispatcher, expiry, reaper
    Children  attempts in processes of their own
    Roster    the jobs it runs, which may change    Scheduler  slots of schedules into runs

Stopping: nothing is claimed any more, runs that have not started are given back, running ones
get `drain` seconds; then they are canceled and given back, recorded as interrupted and counted
nowhere; the worker takes itself off the list. To be canceled is to be told to stop; to be canceled
once more, that time is short. If the process is killed instead, its leases run out and another
worker's reaper takes the runs.

A stop that a handler caused (:meth:`Worker.betray`) is the same, but what is then unfinished may be
its cause: it is recorded as crashed, and the worker ends by `WorkerDisrupted`. Who has the loop to
itself (`sole`) knows it by being canceled without having been told to stop. As a guest on another
program's loop a worker may be canceled by that program, which is a stop as any other.

A worker whose lease has run out and was reaped is dead to the store. It drops all it held, tells
the handlers, and goes on under a new name: a name stands for one unbroken series of leases.

A worker whose store has a schema that it does not know (a newer program changed what it needs) can
record nothing any more. It drops all it held, tells the handlers, tries once to give the leases
back, and ends by that error; what it could not give back, a reaper takes.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from windlass.domain.job import JobSpec
from windlass.domain.run import Claimed, Finish, Held, RenewReply, RunRef
from windlass.engine.attempt import Runner
from windlass.engine.children import Children, Isolation
from windlass.engine.ending import Ending
from windlass.engine.environment import Environment
from windlass.engine.farewell import last_words
from windlass.engine.heart import Heart
from windlass.engine.holdings import Holdings
from windlass.engine.idle import drained
from windlass.engine.intake import Intake, receive, watch
from windlass.engine.interruption import finished_before
from windlass.engine.options import WorkerOptions
from windlass.engine.pump import Pump
from windlass.engine.registration import introduce
from windlass.engine.roster import Roster
from windlass.engine.seats import Seats
from windlass.engine.service import News, Service
from windlass.engine.services import Services, make_services
from windlass.engine.threads import Threads
from windlass.engine.throttle import Throttle
from windlass.errors import SchemaMismatch, UsageError, WorkerDisrupted
from windlass.logs import steady_log
from windlass.resources import OpenResources, belong, close_all
from windlass.transport.interface import encode_message

log = steady_log(__name__)

_LAST_WORDS = 4.0  # after a grace of 25 s there is not much left of the 30 s that most give
_RENEW_AGAIN = 0.5


class Worker:
    """Runs the jobs it is given, until stopped. One event loop, one use."""

    def __init__(
        self,
        environment: Environment,
        jobs: Sequence[JobSpec],
        *,
        services: Sequence[Service] | None = None,
        expecting: bool = False,
        resources: OpenResources | None = None,
        announce: Callable[[], Awaitable[None]] | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        """`services` run beside it; by default, all that there are. `announce` stores what belongs
        to the jobs, such as their schedules; it is called whenever they have been stored.
        `isolation` is for child processes."""
        if not jobs and not expecting:
            raise UsageError("A worker needs at least one job: none is registered.")
        store, sources, options = environment.store, environment.sources, environment.options
        self._store, self._options, self._sources = store, options, sources
        self._transport = environment.transport
        self._holdings = Holdings()
        self._roster = Roster(jobs, options)
        self._lanes = self._roster.lanes
        self._resources = resources or OpenResources({})
        self._runner = Runner(store, sources, self._resources, options.result_limit)
        self._pump = Pump(
            store,
            sources,
            self._holdings,
            list(self._lanes.values()),
            arrived=self._arrived,
            forgotten=self._forgotten,
            refused=self._overdue,
            requeued=self._requeued,
            may_claim=self._may_claim,
            ended=self.task_ended,
        )
        self._services = Services(make_services(environment) if services is None else services)
        self.heart = self._make_heart()
        self._announce_jobs, self._isolation = announce, isolation
        self._intake = Intake(self.task_ended)
        self.started = asyncio.Event()  # it is registered and its jobs are known to the store
        self._stopping, self._changed = asyncio.Event(), asyncio.Event()
        self._rebirth: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None  # what it ends by
        self.over = False  # it has stopped, and holds nothing any more
        self.sole = False  # nobody but its handlers can cancel its tasks, or stop its loop
        self.ended = 0  # attempts whose end the store has answered

    def _make_heart(self) -> Heart:
        return Heart(
            self._store,
            self._sources,
            self._holdings,
            self._options,
            answered=self._renewed,
            disowned=lambda held: self._seats.lose(held),
            failed=self._fail,
        )

    @property
    def id(self) -> str:
        """The name of this incarnation."""
        return self._runner.worker

    @property
    def options(self) -> WorkerOptions:
        """How it works."""
        return self._options

    @property
    def services(self) -> Sequence[Service]:
        """What runs beside it."""
        return self._services.all

    @property
    def busy(self) -> int:
        """How many leases it holds."""
        return len(self._holdings)

    async def run(self) -> None:
        """Work until :meth:`stop`; returns when everything is finished or given back.

        Raises what made it impossible to go on, after as orderly a stop as there can be.
        """
        self._loop = asyncio.get_running_loop()
        belong(self._resources, self._loop)
        self._runner.boss, self._runner.taken_down = asyncio.current_task(), self.unasked
        self._seats = Seats(
            self._roster.jobs,
            self._lanes,
            self._holdings,
            self._runner,
            Threads(self._options.threads),
            Children(self._store, self._runner, self._options, self._isolation),
            self._options,
            concluded=self._concluded,
            freed=self._freed,
            may_start=self._may_start,
        )
        self.heart.start()
        try:
            # A store that is not there may never come.
            if await finished_before(self._stopping, self._register()):
                await self._serve()
        except asyncio.CancelledError:
            self.unasked()
            if not isinstance(self.failure, WorkerDisrupted):
                raise
        finally:
            try:
                if self.heart.renewal is not None:
                    await self._shut_down()
            finally:  # even where nothing can be awaited any more
                self.heart.stop()
                self.over = True
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Begin to stop: from now on nothing is claimed."""
        self._pump.claiming = False
        self._stopping.set()

    def betray(self, how: str, line: Sequence[int] = ()) -> None:
        """Begin to stop because a handler wants it, which is for nobody else to want.

        `line` has the ids of processes that it came through, if any.
        """
        if not self._stopping.is_set():
            error = WorkerDisrupted(how)
            self._seats.accuse(error, line)
            self._fail(error)

    def unasked(self) -> None:
        """Its task, or that of whoever runs it, was canceled: whose doing is that?"""
        if self.sole and self.heart.renewal is not None:
            self.betray("it canceled the worker's tasks, or stopped its event loop")

    def adopt(self, jobs: Sequence[JobSpec]) -> None:
        """Run these jobs, and no others, from now on; may be called from any thread.

        What runs finishes as it began. Runs of a job that is gone stay in their queue.
        """
        if hasattr(self, "_loop"):
            with contextlib.suppress(RuntimeError):  # it has closed: there is nothing to run
                self._loop.call_soon_threadsafe(self._adopt, jobs)
        else:
            self._roster.replace(jobs)

    async def drained(self) -> None:
        """Wait until nothing is ready, running or retrying for the jobs and queues served here."""
        await self.started.wait()
        jobs, busy = self._roster.jobs, lambda: self.busy
        await drained(self._store, self._options, jobs, busy, self._changed)

    # -- beginning and end ----------------------------------------------------------------

    async def _register(self) -> None:
        """Make ourselves known under a new name; wait for a store that is not there yet."""
        info = self._roster.introduce(self._sources)
        sent = await introduce(
            self._store,
            self._sources,
            info,
            self._roster.rows(),
            lease=self._options.lease,
            poll=self._options.poll,
            told=self._jobs_told,
            later=self._roster.store_soon,
            again=self.heart.renewal is not None,
        )
        self._runner.worker = self._pump.worker = info.id
        self.heart.beat(info.id, sent)
        self.runs_ready()

    async def _serve(self) -> None:
        """Take part, until told to stop."""
        wakeups = await self._intake.listen(self._store)
        self._intake.start(
            "watch", watch(wakeups, self._looks(), self._poll_every, self.runs_ready)
        )
        if not self._transport.pulls:
            self._intake.start("receive", self._receive())
        telling = self._roster.keep_stored(self._store, lambda: self.id, self._jobs_told)
        self._intake.start("roster", telling)
        self._services.start(self)
        self._announce()
        self.started.set()
        await self._stopping.wait()

    async def _jobs_told(self) -> None:
        if self._announce_jobs is not None:
            await self._announce_jobs()
            self._services.spread(News.JOBS_STORED)

    def _announce(self) -> None:
        known = {"worker": self.id, "store": self._store.place}
        log.info("worker started", extra=known | self._roster.summary)

    async def _shut_down(self) -> None:
        """End every part; canceled meanwhile, it waits for less and gives more up."""
        self.stop()
        self._seats.announce_stop()  # before anything is awaited: a seat may become free
        log.info("worker stopping", extra={"worker": self.id, "running": self.busy})
        ending = Ending(self._fail)
        await ending.step(self._intake.stop(self._rebirth))
        for service in self.services:
            await ending.step(service.stop())
        await ending.step(self._transport.close())
        await ending.step(self._drain())
        deadline = self._loop.time() + _LAST_WORDS
        await ending.step(last_words(self._store, self._pump, self.id, deadline))
        await ending.step(self.heart.silence(deadline))
        await ending.step(close_all(self._resources))
        await ending.step(self._seats.close())
        log.info("worker stopped", extra={"worker": self.id})
        ending.over()

    async def _drain(self) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._options.drain):
                    await self._all_ended()
        finally:
            self._seats.give_up_all()

    async def _all_ended(self) -> None:
        while self._holdings.all():
            self._changed.clear()
            await self._changed.wait()
        await self._pump.flushed()

    def _adopt(self, jobs: Sequence[JobSpec]) -> None:
        self._roster.replace(jobs)
        self._seats.reseat()
        self.runs_ready()

    # -- traffic --------------------------------------------------------------------------

    def _may_claim(self) -> bool:
        return self._may_start() and self._rebirth is None and not self._seats.group.members

    def _may_start(self) -> bool:
        return self.heart.safe

    def _arrived(self, runs: Sequence[Claimed]) -> None:
        taken = self._seats.take(runs)
        if self._stopping.is_set():
            self._seats.announce_stop()
        else:
            self._seats.fill()
            if self._transport.pulls:  # what a transport brought here would be brought again
                self._seats.watch(taken)

    def _concluded(self, finish: Finish) -> None:
        if finish.delay is not None and finish.delay < self._options.poll:
            # Our own dispatcher may be asleep until later than that.
            self._services.spread_in(finish.delay, News.RUN_DUE)
        self._pump.end(finish)

    def _freed(self) -> None:
        self._changed.set()
        self._pump.nudge()

    def _forgotten(self, held: Held) -> None:
        """The store has answered the end of this lease."""
        self._holdings.drop(held)
        self.ended += 1
        self._seats.step_aside()
        self._changed.set()

    async def _requeued(self, runs: Sequence[RunRef]) -> None:
        """Runs that we sent back to their queues: ours to claim again, or anybody's."""
        if self._transport.pulls:
            self._pump.hunger()
            await self._store.anotify()
        else:
            self._transport.publish([encode_message(run) for run in runs])

    def _renewed(self, name: str, reply: RenewReply) -> None:
        if name != self.id:
            return
        if not reply.alive:
            self._reborn()
            return
        for lost in reply.lost:
            self._seats.lose(lost)
        for order in reply.orders:
            self._seats.order(order)
        self._seats.fill()
        self._pump.nudge()

    def _overdue(self) -> None:
        """Renew now: it tells whether our runs are still ours, and wanted."""
        self.heart.hurry()

    def _reborn(self) -> None:
        """Dead to the store: drop everything and register under a new name."""
        if self._rebirth is not None:
            return
        self._pump.start_over()
        if self._stopping.is_set():
            self._seats.lose_all()  # what still runs can record nothing: no use waiting for it
            return
        log.warning("worker was declared dead, starting over", extra={"worker": self.id})
        self.heart.pause()
        self._seats.lose_all()
        self._rebirth = asyncio.create_task(self._register(), name="windlass-register")
        self._rebirth.add_done_callback(self._born)

    def _born(self, task: asyncio.Task[None]) -> None:
        self._rebirth = None
        self.task_ended(task)
        self._roster.store_soon()  # what changed meanwhile was told under the old name
        self.runs_ready()

    def task_ended(self, task: asyncio.Task[None]) -> None:
        """One of our own tasks is over; if by an error, so are we: it cannot be done without."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            log.error("worker cannot go on", extra={"worker": self.id, "error": str(error)})
        self.stop()
        if isinstance(error, SchemaMismatch):
            self._seats.lose_all()  # no use waiting for what cannot be recorded
            for holding in self._holdings.all():
                self._holdings.drop(holding.held)
            self._changed.set()

    def runs_ready(self) -> None:
        """There may be something to claim."""
        if self._transport.pulls:
            self._pump.hunger()

    def _looks(self) -> Sequence[Callable[[], None]]:
        """What a wake-up may mean, and how often each is worth a look."""
        return (
            self.runs_ready,
            partial(self._services.spread, News.STORE_CHANGED),
            Throttle(_RENEW_AGAIN, self._ask_for_orders),  # one of our runs was canceled
        )

    def _ask_for_orders(self) -> None:
        if self.busy:
            self._overdue()

    def _poll_every(self) -> float:
        return self._options.poll * 1.5 * self._roster.open_lanes

    def _room(self) -> int:
        """How many runs a transport may bring now."""
        if not self._may_claim():
            return 0
        now = self._loop.time()
        room = sum(lane.room(now) for lane in self._lanes.values())
        return max(0, room - self._pump.brought)

    async def _receive(self) -> None:
        async def change() -> None:
            self._changed.clear()
            await self._changed.wait()

        await receive(self._transport, self._room, change, self._pump.deliver)
