"""The hub: connects the parts of one worker while it works.

Each part is given the hub as the one object that it talks to, and sees of it only what its own
Protocol names (:mod:`windlass.engine.hosts`). So what one part has to say to another is written
here, and nowhere else:

    Intake    a wake-up, a poll, a message        -> Pump claims, Services wake, Heart renews
    Pump      claimed runs, answered ends         -> Seats, Holdings
    Seats     decided ends, free seats            -> Pump
    Heart     lost leases, orders, "you are dead" -> Seats; a new registration
    Services  runs that became ready              -> Pump
    Roster    jobs that were stored               -> Services
    Reports   lost leases                         -> Seats

It also knows what ends a worker: the first error of a part that it cannot do without.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from windlass.domain.job import JobSpec
from windlass.domain.run import Claimed, Finish, Held, ProgressWrite, RenewReply, RunRef
from windlass.domain.runlog import LogWrite
from windlass.engine.announcer import Announcer
from windlass.engine.attempt import Runner
from windlass.engine.environment import Environment
from windlass.engine.heart import Heart
from windlass.engine.holdings import Holdings
from windlass.engine.intake import Intake
from windlass.engine.joined import JoinedEnds
from windlass.engine.pump import Pump
from windlass.engine.registration import introduce
from windlass.engine.reporting import Reports
from windlass.engine.roster import Roster
from windlass.engine.seats import Seats
from windlass.engine.service import News, Service
from windlass.engine.services import Services
from windlass.engine.signals import WorkerSignals
from windlass.engine.throttle import Throttle
from windlass.errors import SchemaMismatch
from windlass.logs import steady_log
from windlass.transport.interface import encode_message

log = steady_log("windlass.engine.worker")  # what is logged here is about the worker

_RENEW_AGAIN = 0.5

Announce = Callable[[], Awaitable[None]]
"""Stores what belongs to the jobs, such as their schedules."""


class Hub:
    """The parts of one worker, and what they say to each other. Lives on one event loop."""

    seats: Seats  # once the worker runs
    progress: Reports[ProgressWrite]
    lines: Reports[LogWrite]

    def __init__(
        self,
        environment: Environment,
        jobs: Sequence[JobSpec],
        services: Sequence[Service],
        runner: Runner,
        announce: Announce | None,
    ) -> None:
        self._environment = environment
        self._store, self._transport = environment.store, environment.transport
        self._runner = runner
        self._announce = announce
        self.signals = WorkerSignals()
        self.holdings = Holdings()
        self.joined = JoinedEnds(self._look_after)
        self.roster = Roster(jobs, environment.options, self._store.batch)
        self.pump = Pump(environment, self.holdings, list(self.roster.lanes.values()), self)
        self.heart = Heart(environment, self.holdings, self)
        self.intake = Intake(environment, self)
        self.services = Services(services)
        self.stopping = asyncio.Event()
        self.failure: BaseException | None = None  # what the worker ends by
        self.ended = 0  # attempts whose end the store has answered
        self.changed = asyncio.Event()  # a seat or a lease is free
        self._ask_for_orders = Throttle(_RENEW_AGAIN, self._renew_if_busy)
        self.rebirth: asyncio.Task[None] | None = None  # it registers under a new name
        self._announcer = Announcer(self.requeued)
        runner.work_added = self._announcer.add

    @property
    def worker(self) -> str:
        """The name under which the store knows the worker now."""
        return self._runner.worker

    # -- beginning and end ----------------------------------------------------------------

    async def register(self) -> None:
        """Make the worker known under a new name; wait for a store that is not there yet."""
        self._announcer.begin()
        info = self.roster.introduce(self._environment.sources)
        again = self.heart.renewal is not None
        sent = await introduce(self._environment, info, self.roster, self, again=again)
        self._runner.worker = self.pump.worker = info.id
        self.heart.beat(info.id, sent)
        self.runs_ready()
        self.signals.registered.emit(info.id)

    async def start(self) -> None:
        """Take part: listen, store the jobs as they change, run the services."""
        await self.intake.start()
        self.intake.run("roster", self.roster.keep_stored(self._store, self))
        self.services.start(self)

    def stop(self) -> None:
        """From now on nothing is claimed."""
        self.pump.claiming = False
        self.stopping.set()
        self.signals.stopping.emit(None)

    def failed(self, error: BaseException) -> None:
        """A part that the worker needs is over by this error: so is the worker."""
        if self.failure is None:
            self.failure = error
            log.error("worker cannot go on", extra={"worker": self.worker, "error": str(error)})
        self.stop()
        if isinstance(error, SchemaMismatch):
            self.seats.lose_all()  # no use waiting for what cannot be recorded
            for holding in self.holdings.all():
                self.holdings.drop(holding.claimed)
            self._change()

    def task_ended(self, task: "asyncio.Task[None]") -> None:
        """A task of a part is over."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    # -- for the intake -------------------------------------------------------------------

    @property
    def poll_every(self) -> float:
        """Seconds without a wake-up after which to look for runs."""
        return self._environment.options.poll * 1.5 * self.roster.open_lanes

    def woken(self) -> None:
        """Somebody changed something: enqueued, made a schedule, canceled one of our runs."""
        self.runs_ready()
        self.services.spread(News.STORE_CHANGED)
        self._ask_for_orders()

    def runs_ready(self) -> None:
        """There may be something to claim."""
        if self._transport.pulls:
            self.pump.hunger()

    def room(self) -> int:
        """How many runs a transport may bring now."""
        if not self.may_claim:
            return 0
        now = asyncio.get_running_loop().time()
        room = sum(lane.room(now) for lane in self.roster.lanes.values())
        return max(0, room - self.pump.brought)

    async def seat_freed(self) -> None:
        """Wait until a seat or a lease is free."""
        self.changed.clear()
        await self.changed.wait()

    def delivered(self, runs: tuple[RunRef, ...]) -> None:
        """A transport brought these."""
        self.pump.deliver(runs)

    # -- for the pump ---------------------------------------------------------------------

    @property
    def may_claim(self) -> bool:
        """Whether to ask for runs: the leases are safe, and no suspects run apart."""
        return self.may_start and self.rebirth is None and not self.seats.group.members

    def claimed(self, runs: Sequence[Claimed]) -> None:
        """A claim brought these."""
        taken = self.seats.take(runs)
        if self.stopping.is_set():
            self.seats.announce_stop()
        else:
            self.seats.fill()
            if self._transport.pulls:  # what a transport brought here would be brought again
                self.seats.watch(taken)
        self.signals.claimed.emit(runs)
        self.signals.changed.emit(len(self.holdings))

    async def before_ends(self, ends: Sequence[Finish]) -> Sequence[Held]:
        """What attempts told last goes before their ends."""
        busy = await self.progress.before(ends)
        return [*busy, *await self.lines.before(ends)]

    def recorded(self, ends: Sequence[Finish]) -> None:
        """The store has answered these ends."""
        if self.holdings.drop_ended(ends):
            self.services.spread(News.CHILD_ENDED)
        self.ended += len(ends)
        self.seats.step_aside()
        self._change()
        if self.signals.recorded.listeners:
            for end in ends:
                self.signals.recorded.emit(Held(end.tenant, end.id, end.token))

    async def requeued(self, runs: Sequence[RunRef]) -> None:
        """Runs that we sent back to their queues: ours to claim again, or anybody's."""
        if self._transport.pulls:
            self.pump.hunger()
            await self._store.anotify()
        else:
            self._transport.publish([encode_message(run) for run in runs])

    def renew_soon(self) -> None:
        """Renew now: the answer says whether our runs are still ours, and wanted."""
        self.heart.hurry()

    # -- for the seats --------------------------------------------------------------------

    @property
    def may_start(self) -> bool:
        """Whether the leases are ours beyond doubt."""
        return self.heart.safe

    def concluded(self, finish: Finish) -> None:
        """The end of an attempt is decided."""
        self._look_after(finish)
        self.pump.end(finish)

    def freed(self) -> None:
        """A seat is free."""
        self._change()
        self.pump.nudge()

    # -- for the heart --------------------------------------------------------------------

    def renewed(self, worker: str, reply: RenewReply) -> None:
        """The store has answered the heartbeat under this name."""
        if worker != self.worker:
            return
        if not reply.alive:
            self._start_over()
        else:
            for lost in reply.lost:
                self.seats.lose(lost)
            self.seats.orders.heed(reply.orders)
            self.seats.fill()
            self.pump.nudge()
        self.signals.renewed.emit(reply)

    def disowned(self, held: Held) -> None:
        """The heartbeat did not name this lease, or a report found it lost."""
        self.seats.lose(held)

    # -- for the roster -------------------------------------------------------------------

    async def jobs_stored(self) -> None:
        """The store knows the jobs: store what belongs to them."""
        if self._announce is not None:
            await self._announce()
            self.services.spread(News.JOBS_STORED)

    # -- inside ---------------------------------------------------------------------------

    def _start_over(self) -> None:
        """Dead to the store: drop everything and register under a new name."""
        if self.rebirth is not None:
            return
        self.pump.start_over()
        if self.stopping.is_set():
            self.seats.lose_all()  # what still runs can record nothing: no use waiting for it
            return
        log.warning("worker was declared dead, starting over", extra={"worker": self.worker})
        self.heart.pause()
        self.seats.lose_all()
        self.rebirth = asyncio.create_task(self.register(), name="windlass-register")
        self.rebirth.add_done_callback(self._started_over)

    def _started_over(self, task: "asyncio.Task[None]") -> None:
        self.rebirth = None
        self.task_ended(task)
        self.roster.store_soon()  # what changed meanwhile was stored under the old name
        self.runs_ready()

    def _look_after(self, finish: Finish) -> None:
        """See to it that a run which is due soon is noticed."""
        if finish.delay is not None and finish.delay < self._environment.options.poll:
            # Our own dispatcher may be asleep until later than that.
            self.services.spread_in(finish.delay, News.RUN_DUE)

    def _renew_if_busy(self) -> None:
        if len(self.holdings):
            self.renew_soon()

    def _change(self) -> None:
        self.changed.set()
        if self.signals.changed.listeners:  # called for every run: do not count for nobody
            self.signals.changed.emit(len(self.holdings))
