"""A worker with one seat, moved by hand: each of its steps is a procedure.

It takes, runs and ends attempts as the real one does, by the same operations and the same
`Runner`. What it leaves out is what needs real time: a heartbeat (its lease is for ever), polling,
and a thread for sync handlers. An attempt that took too long by the virtual clock has timed out.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from importlib.metadata import version

from windlass.app import Windlass
from windlass.capture import lines_kept
from windlass.domain.outcome import Outcome, decide_crash
from windlass.domain.retention import Tidied, terms_of
from windlass.domain.run import (
    Claimed,
    CycleReply,
    Finish,
    RunRecord,
    RunRef,
    SweepReply,
    Want,
    WorkerInfo,
)
from windlass.domain.step import MOST_MAX_STEPS, Step, StepKind
from windlass.durable.awaited import Patience
from windlass.duration import MAX_SECONDS
from windlass.engine.attempt import Runner, lateness, timeout_of
from windlass.engine.attempt import finish as report
from windlass.engine.environment import environment_of
from windlass.engine.holdings import Holding, Stop
from windlass.engine.scheduler import Scheduler
from windlass.errors import ProcessDied, RunNotFound
from windlass.offloop import off_loop
from windlass.resources import OpenResources, all_open, belong, close_all, open_all
from windlass.testing.bridge import current_bridge
from windlass.testing.faces import Procedure, Work
from windlass.testing.places import clock_of
from windlass.testing.steps import SimulatedCrash, stage_of

SWEEP_LIMIT = 500
TIDY_EVERY = 60.0


class Witness(Runner):
    """Runs attempts and keeps what the last one raised: the store has only its description."""

    raised: BaseException | None = None
    max_crashes = 3

    def conclude_error(self, holding: Holding, error: BaseException) -> Finish | None:
        """What becomes of an attempt whose handler raised, or was stopped."""
        self.raised = error
        if isinstance(error, SimulatedCrash):
            before = holding.claimed.crash_count
            verdict = decide_crash(crashes_before=before, max_crashes=self.max_crashes)
            return report(holding, verdict, error=ProcessDied("for a test"))
        return super().conclude_error(holding, error)

    def too_late(self, holding: Holding) -> Finish:
        """What becomes of an attempt that took too long."""
        self.raised = lateness(holding)
        return super().too_late(holding)


class LoneWorker:
    """Takes runs of an application, one at a time, when told to."""

    def __init__(self, app: Windlass) -> None:
        self._clock = clock_of(app)
        self._app = app
        self._store = app.store
        self._resources = OpenResources(app.resource.openers)
        limit = app.settings.payload_limit
        self.runner = Witness(app.store, app.sources, self._resources, limit, app.middleware.around)
        # Time that a test does not let pass is not waited for.
        self.runner.patience = Patience(in_seat=0.0, linger=0.0)
        self.runner.max_crashes = app.settings.max_crashes
        self.runner.max_steps = app.settings.max_steps
        self.runner.desk.shelf = app.ground.shelf
        self.runner.stage = self._stage = stage_of(app)
        self.runner.run_logs = app.settings.run_logs
        self._last: Holding | None = None  # the last attempt
        self._claims = 0
        self._turn = 0  # of its claims alone: ends are numbered too
        self._kept = terms_of(app.settings)
        self._tidied: datetime | None = None
        self._fired = False
        self._scheduler: Scheduler | None = None

    def arrive(self, lease: float | None = None) -> Procedure[None]:
        """Make the jobs, the schedules and itself known to the store, for ever or for a lease."""
        app, host = self._app, socket.gethostname()
        tenant = app.settings.tenant
        self.runner.worker = f"{host}:{os.getpid()}:{app.sources.new_id()[-6:]}"
        kept = self._kept.runs
        rows = [spec.row(tenant, kept) for spec in app.jobs.specs()]
        yield app.store.operations.sync_jobs(rows)
        yield Work(call=app.schedules.sync)
        info = WorkerInfo(
            id=self.runner.worker,
            host=host,
            pid=os.getpid(),
            version=version("windlass"),
            queues=None,
            jobs=tuple(app.jobs),
            seats=1,
        )
        yield self._store.operations.register(info, MAX_SECONDS if lease is None else lease)

    def leave(self) -> Procedure[None]:
        """Close what was opened, and give back what it still holds."""
        if self._resources_used:
            yield Work(coroutine=lambda: close_all(self._resources))
        if self.runner.worker:
            yield self._store.operations.retire(self.runner.worker)

    # -- what time moves ----------------------------------------------------------------------

    def sweep(self) -> Procedure[SweepReply]:
        """Dispatch what is due, end what is too late, take back what dead workers hold."""
        reply: SweepReply = yield self._store.operations.sweep(
            dispatch=True,
            expire=True,
            reap=True,
            max_crashes=self._app.settings.max_crashes,
            limit=SWEEP_LIMIT,
            spare=False,  # time that jumps is no outage here
        )
        return reply

    def tidy(self) -> Procedure[None]:
        """Do what a janitor would have done by now: once a minute is often enough for it."""
        now = self._clock.now()
        if self._tidied is not None and abs((now - self._tidied).total_seconds()) < TIDY_EVERY:
            return
        self._tidied = now
        while True:
            done: Tidied = yield self._store.operations.tidy(self._kept, SWEEP_LIMIT)
            if done.locations:
                yield Work(call=partial(self._remove, done.locations))
            if not done.more:
                return

    def _remove(self, locations: Sequence[str]) -> None:
        for location in locations:
            self._app.ground.shelf.remove(location)

    def plan(self) -> Procedure[bool]:
        """Let the scheduler fire what is due; returns whether it made a run."""
        self._fired = False
        if self._scheduler is None:
            self._scheduler = Scheduler(environment_of(self._app.ground, self._app.settings))
            self._scheduler.host = self
        yield Work(coroutine=self._scheduler.work)
        return self._fired

    def runs_ready(self) -> None:
        """The scheduler made a run."""
        self._fired = True

    def task_ended(self, task: "asyncio.Task[None]") -> None:
        """The scheduler has no task here: it works when told to."""

    # -- attempts -----------------------------------------------------------------------------

    def take(self, run: RunRef | None = None) -> Procedure[Claimed | None]:
        """Claim this run, or the next one that is ready; None where there is none."""
        self._claims += 1
        self._turn += 1
        want = Want(
            limit=1,
            jobs=tuple(self._app.jobs),
            turn=self._turn,
            ids=None if run is None else (run,),
        )
        reply: CycleReply = yield self._store.operations.cycle(
            self.runner.worker, self._claims, (), want
        )
        return reply.claimed[0] if reply.claimed else None

    def hold(self, claimed: Claimed) -> Holding:
        """A claimed run with its definition."""
        return Holding(claimed, self._app.jobs[claimed.job].spec)

    def attempt(self, holding: Holding) -> Procedure[Finish | None]:
        """Run the handler; returns what is to be recorded."""
        self.runner.raised = self._last = None
        spec = holding.spec
        began = self._clock.monotonic()
        if spec.signature.is_async:
            finish: Finish | None = yield Work(coroutine=lambda: self._run_async(holding))
        else:
            if self._resources_used and (spec.signature.takes_context or self._surrounded):
                yield Work(coroutine=self._open)
            finish = yield from self._run_sync(holding)
        limit, stop = _limit_of(holding)
        if limit is not None and self._clock.monotonic() - began >= limit and holding.stop is None:
            holding.stop = stop
            finish = self.runner.too_late(holding)
        holding.concluded = True
        self._last = holding
        return finish

    def record(self, finish: Finish | None) -> Procedure[Finish | None]:
        """Tell the store; nothing where the lease is not ours any more.

        Returns the end that counts: it may be that of a transaction of the handler's own.
        """
        if finish is not None:
            self._claims += 1
            yield from self._tell()
            reply: CycleReply = yield self._store.operations.cycle(
                self.runner.worker, self._claims, (finish,), None
            )
            joined = None if self._last is None else self._last.joined
            if reply.lost and joined is not None:
                return joined
            if finish.outcome is Outcome.WAITING:
                yield from self._answer(finish)
        return finish

    def _tell(self) -> Procedure[None]:
        """Write what the attempt has told, before its end, as a real worker does."""
        gauge = None if self._last is None else self._last.gauge
        told = None if gauge is None else gauge.take()
        if told is not None:
            yield self._store.operations.record_progress([told])
        notebook = None if self._last is None else self._last.notebook
        if notebook is not None:
            notebook.close()
            lines = notebook.take()
            if lines is not None:
                yield self._store.operations.record_logs([lines])

    def _answer(self, finish: Finish) -> Procedure[None]:
        """Send a run that waits the signals that the test has an answer for."""
        operations, run = self._store.operations, RunRef(finish.tenant, finish.id)
        if not self._stage.answers and not self._stage.approvals:
            return
        steps: Sequence[Step] = yield operations.list_steps(
            run.tenant, run.id, None, MOST_MAX_STEPS
        )
        for step in steps:
            if step.path not in finish.waits:
                continue
            if step.kind is StepKind.APPROVAL and (said := self._stage.said_to(step.path)):
                yield operations.answer_approval(run, step.path, *said, None)
            elif step.signal is not None:
                payload = self._stage.answer(step.signal)
                if payload is not None:
                    yield operations.signal(run, step.signal, payload, None)

    def read(self, run: RunRef) -> Procedure[RunRecord]:
        """The run as it is now."""
        record: RunRecord | None = yield self._store.operations.get_run(run)
        if record is None:
            raise RunNotFound(run.id)
        return record

    # -- inside -------------------------------------------------------------------------------

    @property
    def _surrounded(self) -> bool:
        return bool(self._app.middleware.around)  # which get a context too

    @property
    def _resources_used(self) -> bool:
        return bool(self._app.resource.openers)

    def _run_sync(self, holding: Holding) -> Procedure[Finish | None]:
        call = Work(call=lambda: self._run_here(holding))
        bridged = current_bridge.get() is not None  # then the loop runs meanwhile
        if self._resources_used and not all_open(self._resources) and not bridged:
            # It will ask the loop for what could not be opened, so the loop must run.
            attempt = partial(self._run_here, holding)
            call = Work(coroutine=lambda: off_loop(attempt, "windlass-handler"))
        finish: Finish | None = yield call
        return finish

    def _run_here(self, holding: Holding) -> Finish | None:
        with lines_kept():
            return self.runner.run_sync(holding)

    async def _run_async(self, holding: Holding) -> Finish | None:
        with lines_kept():
            return await self._run_task(holding)

    async def _run_task(self, holding: Holding) -> Finish | None:
        belong(self._resources, asyncio.get_running_loop())
        task = asyncio.create_task(self.runner.run_async(holding))
        limit, stop = _limit_of(holding)
        try:
            done, _ = await asyncio.wait({task}, timeout=limit)
            if not done:
                holding.stop = stop
                task.cancel()
            return await task
        except asyncio.CancelledError:
            # The test gives up; so does the handler, and its run goes back to its queue.
            holding.stop = Stop.SHUTDOWN
            task.cancel()
            await asyncio.wait({task})
            raise

    async def _open(self) -> None:
        belong(self._resources, asyncio.get_running_loop())
        await open_all(self._resources)


def _limit_of(holding: Holding) -> tuple[float | None, Stop]:
    """How long an attempt may take, and what it is told then."""
    limit, left = timeout_of(holding), holding.claimed.deadline_in
    if left is not None and (limit is None or left <= limit):
        return left, Stop.DEADLINE
    return limit, Stop.TIMEOUT
