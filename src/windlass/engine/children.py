"""The child processes of a worker: for jobs with `executor="process"`, and for suspects.

At most `process_seats` of them run jobs with that executor, and `suspect_seats` run suspects, each
one attempt at a time; idle ones are kept warm for a while. A child holds no lease and no connection
of the worker's: the worker renews, and what the handler tells (progress, log lines, its end) comes
over a socket and counts under the worker's lease, if it still has it.

How an attempt in a child ends:

- its handler ends: the child has decided what comes of it, as it knows the exception itself;
- it is to end (a timeout, a cancel, a lost lease, a shutdown): the handler is told, and after
  `cancel_grace` the process is killed (at once where a shutdown's grace is over);
- the process dies: that attempt alone has crashed, nothing else is touched;
- the process does not find the job: the attempt has failed, and the next looks in a fresh one;
- there is no process to be had, or it ends before it can take an attempt: there was no attempt, and
  the run goes back (`scarcity`).
"""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from windlass.domain.job import Executor, JobSpec
from windlass.domain.origin import Origin
from windlass.domain.outcome import decide_crash
from windlass.domain.run import Finish
from windlass.engine.attempt import Runner, finish, release
from windlass.engine.child import Child
from windlass.engine.holdings import Holding, Stop
from windlass.engine.memory import MEGABYTE
from windlass.engine.options import WorkerOptions
from windlass.engine.scarcity import REFUSALS, NotGiven
from windlass.engine.wire import Answer, Ask, Assignment, Done, Lacking, Setup, StandingNow, Words
from windlass.errors import ProcessDied, UsageError, WindlassError
from windlass.logs import LOGGER, steady_log
from windlass.store.interface import Store
from windlass.store.operations.handlers import make_call, pack_answer

log = steady_log(__name__)

_HEARD = (logging.getLogger(), logging.getLogger(LOGGER))  # either may let more through
_IDLE = 60.0  # seconds for which a child without work is kept
_FAREWELL = 2.0  # seconds for what a child closes at its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How a fresh process finds the jobs of an application."""

    origin_of: Callable[[JobSpec], Origin]
    """Raises UsageError, which says why it cannot be found."""
    url: str
    """Of the store; it means the same in every folder."""
    path: Callable[[], list[str]]
    """Where modules are looked for, by now; in whatever folder."""


class Children:
    """Runs attempts in child processes. Lives on one event loop."""

    def __init__(
        self, store: Store, runner: Runner, options: WorkerOptions, isolation: Isolation | None
    ) -> None:
        self._store = store
        self._runner = runner
        self._options = options
        self._isolation = isolation
        self._free = asyncio.Semaphore(options.process_seats + options.suspect_seats)
        self._all: set[Child] = set()
        self._idle: list[Child] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._unfit: dict[str, JobSpec] = {}  # jobs that were not to be found in a child
        self._origins: dict[str, tuple[JobSpec, Origin]] = {}  # looking one up takes a while

    def can_run(self, spec: JobSpec) -> bool:
        """Whether a fresh process can find this job."""
        try:
            self._origin(spec)
        except UsageError:
            return False
        # As it is defined now: another version of a job file may be found again.
        return self._unfit.get(spec.name) is not spec

    async def run(self, holding: Holding, began: Callable[[bool], None]) -> Finish | None:
        """Run an attempt to its end; `began` is called when its handler is, with whether that is
        in a new process. Raises NotGiven where there is none."""
        try:
            async with self._free:
                return await self._attempt(holding, began)
        except asyncio.CancelledError as error:  # while it waited for a process
            return self._stopped(holding, error)

    async def close(self) -> None:
        """End all of them: those without an attempt by themselves, the others are killed."""
        for child in self._all:
            if child in self._idle:
                child.dismiss()
            elif not child.dismissed:
                child.kill()
        self._idle.clear()
        if self._all:
            await asyncio.gather(*(self._farewell(child) for child in list(self._all)))

    # -- inside -----------------------------------------------------------------------------

    async def _attempt(self, holding: Holding, began: Callable[[bool], None]) -> Finish | None:
        try:
            origin = self._origin(holding.spec)
        except UsageError as error:
            return self._runner.conclude_error(holding, error)
        try:
            child = self._waiting() or await self._start()
        except REFUSALS as error:
            raise NotGiven(str(error)) from error
        holding.pid, holding.told = child.pid, lambda: child.report(_standing(holding))
        holding.exists = lambda: child.exists
        order, answer = self._order(child, holding, origin), partial(self._do, holding)

        def handler_began() -> None:
            began(child.runs == 1)
            if holding.stopping or holding.pausing:  # asked for while the child could not hear it
                child.report(_standing(holding))

        result = child.attempt(
            order, began=handler_began, told=partial(self._told, holding),
            joined=partial(_join, holding), answer=answer,
        )  # fmt: skip
        try:
            end = await asyncio.shield(result)
        except ProcessDied as error:
            if not child.ready and holding.stop is None:
                raise NotGiven(f"a new process ended {error.how}") from error
            return self._died(holding, error)
        except asyncio.CancelledError as error:
            end_in_time = await self._last_chance(child, holding, result)
            if end_in_time is None:
                return self._stopped(holding, error)
            end = end_in_time
        finally:
            holding.told = None
            self._put_back(child, result)
        if isinstance(end, Lacking):
            return self._lacking(holding, end)
        return end.whole

    async def _last_chance(
        self, child: Child, holding: Holding, result: "asyncio.Future[Done | Lacking]"
    ) -> Done | Lacking | None:
        """Let the handler end by itself; kill it where it does not."""
        if holding.stop is None:
            holding.stop = Stop.SHUTDOWN  # nobody stopped it but a loop that goes down
        child.report(_standing(holding))
        if holding.stop is not Stop.SHUTDOWN:
            try:
                await asyncio.wait({result}, timeout=self._options.cancel_grace)
            except asyncio.CancelledError:  # told once more, and more urgently
                log.debug("not waited for", extra={"run": holding.claimed.id})
        if result.done() and result.exception() is None:
            return result.result()
        child.kill()
        return None

    def _stopped(self, holding: Holding, error: asyncio.CancelledError) -> Finish | None:
        holding.stop = holding.stop or Stop.SHUTDOWN
        return self._runner.conclude_error(holding, error)

    def _died(self, holding: Holding, error: ProcessDied) -> Finish | None:
        if holding.stop is not None:
            return self._runner.conclude_error(holding, asyncio.CancelledError())
        verdict = decide_crash(
            crashes_before=holding.claimed.crash_count, max_crashes=self._options.max_crashes
        )
        return finish(holding, verdict, error=error)

    def _lacking(self, holding: Holding, end: Lacking) -> Finish | None:
        extra = {"job": holding.spec.name, "error": f"{end.error.type}: {end.error.message}"}
        log.error("job not found in a fresh process", extra=extra)
        if holding.spec.executor is Executor.PROCESS:
            why = f"not found in a fresh process: {end.error.type}: {end.error.message}"
            return self._runner.conclude_error(holding, UsageError(why))
        self._unfit[holding.spec.name] = holding.spec
        return release(holding)

    def _origin(self, spec: JobSpec) -> Origin:
        if self._isolation is None:
            raise UsageError(f"Job {spec.name!r} needs an application: this worker has none.")
        known, origin = self._origins.get(spec.name, (None, None))
        if known is not spec or origin is None:
            origin = self._isolation.origin_of(spec)
            self._origins[spec.name] = (spec, origin)
        return origin

    def _order(self, child: Child, holding: Holding, origin: Origin) -> Assignment:
        folder = origin.folder
        if folder is not None:
            if folder.digest in child.known:
                origin = msgspec.structs.replace(
                    origin, folder=msgspec.structs.replace(folder, files=())
                )
            child.known.add(folder.digest)
        return Assignment(claimed=holding.claimed, origin=origin, worker=self._runner.worker)

    def _waiting(self) -> Child | None:
        """An idle child; one that has died meanwhile died of nobody's run."""
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._forget(child)
        return None

    async def _start(self) -> Child:
        assert self._isolation is not None
        place = self._options.artifacts
        setup = Setup(
            path=[os.fsencode(place) for place in self._isolation.path()],
            url=self._isolation.url,
            level=min(map(logging.Logger.getEffectiveLevel, _HEARD)),
            result_limit=self._options.result_limit,
            max_steps=self._options.max_steps,
            run_logs=self._options.run_logs,
            artifacts=None if place is None else os.fsencode(place),
            artifact_limit=self._options.artifact_limit,
        )
        child = await Child.start(setup)
        self._all.add(child)
        log.debug("child process started", extra={"pid": child.pid})
        return child

    def _told(self, holding: Holding, words: Words) -> None:
        """What the handler has told counts as told here, under this lease."""
        if holding.concluded:
            return
        if words.progress is not None:
            self._runner.gauge_of(holding).relay(words.progress)
        if words.lines is not None:
            self._runner.notebook_of(holding).relay(words.lines)

    async def _do(self, holding: Holding, ask: Ask) -> Answer:
        """Do for a handler what only the holder of its lease can do."""
        operations = self._store.operations
        try:
            call = make_call(operations, ask.operation, holding.held, ask.arguments)
            return Answer(value=pack_answer(await self._runner.desk.arun(call)))
        except WindlassError as error:
            return Answer(error=str(error))

    def _put_back(self, child: Child, result: "asyncio.Future[Done | Lacking]") -> None:
        if not result.done() or not child.alive:
            self._forget(child)
        elif (why := _lacked(result) or self._worn(child)) is not None:
            log.info("child process recycled", extra={"pid": child.pid, "why": why})
            child.dismiss()
            self._forget(child)
        else:
            self._idle.append(child)
            loop, runs = asyncio.get_running_loop(), child.runs
            loop.call_later(_IDLE, self._let_go, child, runs)

    def _worn(self, child: Child) -> str | None:
        """Why a child is to be replaced, if it is."""
        runs, memory = self._options.recycle_runs, self._options.recycle_memory
        if runs is not None and child.runs >= runs:
            return f"{child.runs} runs"
        if memory is not None and child.memory > memory * MEGABYTE:
            return f"{child.memory // MEGABYTE} MB"
        return None

    def _let_go(self, child: Child, runs: int) -> None:
        if child in self._idle and child.runs == runs:
            self._idle.remove(child)
            child.dismiss()
            self._forget(child)

    def _forget(self, child: Child) -> None:
        """See it off, without waiting for it here."""
        task = asyncio.get_running_loop().create_task(self._farewell(child))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _farewell(self, child: Child) -> None:
        if not await child.ended(_FAREWELL):
            child.kill()
            await child.ended(_FAREWELL)
        self._all.discard(child)


def _join(holding: Holding, finish: Finish | None) -> None:
    """The handler ends the run in a transaction of its own, or was refused that."""
    holding.joined = finish


def _lacked(result: "asyncio.Future[Done | Lacking]") -> str | None:
    """Why a child is to be replaced that did not find its job.

    What failed may have been half imported, and the files of the job are not kept: the next
    attempt would fail of that, though what was in its way is gone.
    """
    lacked = result.exception() is None and isinstance(result.result(), Lacking)
    return "job not found" if lacked else None


def _standing(holding: Holding) -> StandingNow:
    claimed = holding.claimed
    return StandingNow(
        run=claimed.id,
        token=claimed.token,
        stop=holding.stop,
        reason=holding.reason,
        stopping=holding.stopping,
        pausing=holding.pausing,
    )
