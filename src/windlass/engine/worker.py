"""A worker: takes leases, runs handlers, records what came of them.

One process, one event loop. This module has its beginning and its end; while it works, the hub
connects its parts (:mod:`windlass.engine.hub`):

    Holdings  what is leased to us                  Pump      finishes out, claims in
    Lanes     seats per executor                    Seats     attempts, started and stopped
    Heart     heartbeat and watchdog, in threads    Intake    wake-ups, polling, messages
    Roster    the jobs it runs, which may change    Children  attempts in processes of their own
    Reports   progress, of all runs together
    Services  what else is to be done: a list, of which the worker knows none by name

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
from collections.abc import Sequence

from windlass.artifacts.shelf import Shelf
from windlass.capture import lines_kept
from windlass.domain.job import JobSpec
from windlass.domain.outcome import Outcome
from windlass.domain.run import Backlog
from windlass.engine.around import Around
from windlass.engine.attempt import Runner
from windlass.engine.audience import Audience
from windlass.engine.children import Children, Isolation
from windlass.engine.ending import Ending
from windlass.engine.environment import Environment
from windlass.engine.farewell import last_words
from windlass.engine.heart import Heart
from windlass.engine.hub import Announce, Hub
from windlass.engine.idle import drained
from windlass.engine.interruption import finished_before
from windlass.engine.reporting import Reports
from windlass.engine.seats import Seats
from windlass.engine.service import Service
from windlass.engine.services import make_services
from windlass.engine.signals import WorkerSignals
from windlass.engine.threads import Threads
from windlass.engine.time_limit import time_limit
from windlass.errors import UsageError, WorkerDisrupted
from windlass.logs import steady_log
from windlass.resources import OpenResources, belong, close_all

log = steady_log(__name__)

_LAST_WORDS = 4.0  # after a grace of 25 s there is not much left of the 30 s that most give


class Worker:
    """Runs jobs until it is stopped, on one event loop. Use it once."""

    def __init__(
        self,
        environment: Environment,
        jobs: Sequence[JobSpec],
        *,
        services: Sequence[Service] | None = None,
        expecting: bool = False,
        resources: OpenResources | None = None,
        announce: Announce | None = None,
        isolation: Isolation | None = None,
        hooks: Sequence[Around] = (),
        audience: Audience | None = None,
    ) -> None:
        """`services` run beside it; by default, all that there are. `announce` stores what belongs
        to the jobs, such as their schedules; it is called whenever they have been stored.
        `isolation` is for child processes, `hooks` are run around each attempt, and `audience` is
        told what happens."""
        if not jobs and not expecting:
            raise UsageError("A worker needs at least one job: none is registered.")
        self._environment, self._isolation = environment, isolation
        self._store, self.options = environment.store, environment.options
        self._audience = audience
        self._resources = resources or OpenResources({})
        limit = self.options.result_limit
        self._runner = Runner(self._store, environment.sources, self._resources, limit, hooks)
        self._runner.max_steps = self.options.max_steps
        self._runner.run_logs = self.options.run_logs
        self._runner.desk.shelf = Shelf(
            self.options.artifacts, self.options.artifact_limit, environment.sources.new_id
        )
        if services is None:
            services = make_services(environment)
        self._hub = Hub(environment, jobs, services, self._runner, announce)
        self._loop: asyncio.AbstractEventLoop | None = None  # once it runs
        self.started = asyncio.Event()  # it is registered and its jobs are known to the store
        self.over = False  # it has stopped, and holds nothing any more
        self.sole = False  # nobody but its handlers can cancel its tasks, or stop its loop

    @property
    def id(self) -> str:
        """The worker's name in the store."""
        return self._hub.worker

    @property
    def busy(self) -> int:
        """How many leases it holds."""
        return len(self._hub.holdings)

    @property
    def running_jobs(self) -> Sequence[str]:
        """The job of each run that is in its handler; any thread may read it."""
        held = self._hub.holdings.all()
        return [holding.claimed.job for holding in held if holding.started is not None]

    @property
    def ended(self) -> int:
        """How many attempts have ended, by the store's answer."""
        return self._hub.ended

    @property
    def failure(self) -> BaseException | None:
        """What it ends by."""
        return self._hub.failure

    @property
    def heart(self) -> Heart:
        """Its heartbeat."""
        return self._hub.heart

    @property
    def services(self) -> Sequence[Service]:
        """What runs beside it."""
        return self._hub.services.all

    @property
    def signals(self) -> WorkerSignals:
        """What happens in it, for tests of Windlass itself."""
        return self._hub.signals

    async def run(self) -> None:
        """Work until :meth:`stop`; returns when everything is finished or given back.

        If it cannot go on, it stops as orderly as it can, and raises the reason.
        """
        self._loop = asyncio.get_running_loop()
        belong(self._resources, self._loop)
        self._runner.boss, self._runner.taken_down = asyncio.current_task(), self.unasked
        self._make_reports()
        self._hub.seats = self._make_seats()
        self.heart.start()
        try:
            # A store that is not there may never come.
            if await finished_before(self._hub.stopping, self._hub.register()):
                with lines_kept():
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
        """Begin to stop: nothing more is claimed, and `run` returns when the rest has ended."""
        self._hub.stop()

    def betray(self, how: str, line: Sequence[int] = ()) -> None:
        """Begin to stop because a handler wants it, which is for nobody else to want.

        `line` has the ids of processes that it came through, if any.
        """
        if not self._hub.stopping.is_set():
            error = WorkerDisrupted(how)
            self._hub.seats.accuse(error, line)
            self._hub.failed(error)

    def unasked(self) -> None:
        """Its task, or that of whoever runs it, was canceled: whose doing is that?"""
        if self.sole and self.heart.renewal is not None:
            self.betray("it canceled the worker's tasks, or stopped its event loop")

    def adopt(self, jobs: Sequence[JobSpec]) -> None:
        """Run these jobs, and no others, from now on; may be called from any thread.

        What runs finishes as it began. Runs of a job that is gone stay in their queue.
        """
        if self._loop is None:
            self._hub.roster.replace(jobs)
        else:
            with contextlib.suppress(RuntimeError):  # it has closed: there is nothing to run
                self._loop.call_soon_threadsafe(self._replace_jobs, jobs)

    async def drained(self) -> Backlog:
        """Wait until nothing is ready, running or retrying for the jobs and queues served here.

        Paused queues and jobs are not waited for: returns what is left.
        """
        await self.started.wait()
        hub = self._hub
        return await drained(self._store, self.options, hub.roster.jobs, hub.holdings, hub.changed)

    # -- inside ---------------------------------------------------------------------------

    def _make_seats(self) -> Seats:
        hub, options = self._hub, self.options
        children = Children(self._store, self._runner, options, self._isolation)
        threads = Threads(options.threads)
        return Seats(hub.roster, hub.holdings, self._runner, threads, children, options, hub)

    def _make_reports(self) -> None:
        """What handlers tell and log is written by these."""
        hub, store, every = self._hub, self._store, self.options.report
        operations, signals = store.operations, self.signals
        hub.progress = Reports(
            store, operations.record_progress, every, hub, signals.told, what="progress"
        )
        hub.lines = Reports(
            store, operations.record_logs, every, hub, signals.logged,
            what="log of a run", unhurried=lambda end: end.outcome is Outcome.SUCCEEDED,
        )  # fmt: skip
        self._runner.enlist, self._runner.noted = hub.progress.enlist, hub.lines.enlist

    def _replace_jobs(self, jobs: Sequence[JobSpec]) -> None:
        self._hub.roster.replace(jobs)
        self._hub.seats.reseat()
        self._hub.runs_ready()

    async def _serve(self) -> None:
        """Take part, until told to stop."""
        if self._audience is not None and not await finished_before(
            self._hub.stopping, self._audience.start()
        ):
            return
        await self._hub.start()
        known = {"worker": self.id, "store": self._store.place}
        log.info("worker started", extra=known | self._hub.roster.summary)
        self.started.set()
        await self._hub.stopping.wait()

    async def _shut_down(self) -> None:
        """End every part; canceled meanwhile, it waits for less and gives more up."""
        self.stop()
        self._hub.seats.announce_stop()  # before anything is awaited: a seat may become free
        log.info("worker stopping", extra={"worker": self.id, "running": self.busy})
        ending = Ending(self._hub.failed)
        await ending.step(self._hub.intake.stop(self._hub.rebirth))
        for service in self.services:
            await ending.step(service.stop())
        await ending.step(self._environment.transport.close())
        await ending.step(self._drain())
        deadline = asyncio.get_running_loop().time() + _LAST_WORDS
        await ending.step(last_words(self._store, self._hub.pump, self.id, deadline))
        await ending.step(self._hub.lines.finish(deadline))
        await ending.step(self.heart.silence(deadline))
        if self._audience is not None:
            await ending.step(self._audience.stop())
        await ending.step(close_all(self._resources))
        await ending.step(self._hub.seats.close())
        log.info("worker stopped", extra={"worker": self.id})
        ending.over()

    async def _drain(self) -> None:
        """Let what runs end, for as long as `drain` allows; give back the rest."""
        try:
            with contextlib.suppress(TimeoutError):
                async with time_limit(self.options.drain):
                    await self._all_ended()
        finally:
            self._hub.seats.give_up_all()

    async def _all_ended(self) -> None:
        while self._hub.holdings.all():
            await self._hub.seat_freed()
        await self._hub.pump.flushed()
