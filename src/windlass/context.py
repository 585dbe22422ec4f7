"""What a handler sees of its run: `Context` in async handlers, `SyncContext` in threads."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar

from windlass.artifacts.faces import Artifacts, SyncArtifacts
from windlass.artifacts.shelf import Shelf
from windlass.current import trace_of
from windlass.domain.event_names import make_event
from windlass.domain.pipeline import PhaseResults
from windlass.domain.run import Claimed, Extras, Held
from windlass.durable.awaited import AwaitedWork
from windlass.durable.blocking import BlockingWork
from windlass.durable.children_faces import AwaitedChildren, BlockingChildren
from windlass.durable.faces import AwaitedFace, BlockingFace
from windlass.durable.requests import Desk as StepDesk
from windlass.errors import LeaseLost
from windlass.gauge import Gauge
from windlass.logs import RunLog
from windlass.resources import OpenResources
from windlass.store.operations import Call, Operations

T = TypeVar("T")

run_logger = logging.getLogger("windlass.run")
"""Where the logs of all attempts go."""

_TURN = 0.02  # seconds after which a handler that tells its progress lets others run
_NO_EXTRAS = Extras()


class Standing(Protocol):
    """How the attempt stands; changed by the engine, read by the handler."""

    @property
    def canceled(self) -> bool: ...

    @property
    def stopping(self) -> bool: ...

    @property
    def lost(self) -> bool: ...

    @property
    def max_attempts(self) -> int: ...

    def is_final(self, error: BaseException, /) -> bool: ...


class Desk(Protocol):
    """Where a context has its calls done: a store, or, in a child process, its worker."""

    @property
    def operations(self) -> Operations: ...

    @property
    def shelf(self) -> Shelf: ...

    def run(self, call: Call[T]) -> T: ...

    async def arun(self, call: Call[T]) -> T: ...


class _BaseContext:
    __slots__ = (
        "_claimed",
        "_gauge",
        "_gauges",
        "_log",
        "_phases",
        "_resources",
        "_standing",
        "_store",
        "_turn",
        "_work",
        "_worker",
    )

    def __init__(
        self,
        claimed: Claimed,
        standing: Standing,
        store: Desk,
        worker: str,
        resources: OpenResources,
        work: Callable[[], Any],
        gauges: Callable[[Any], Gauge],
    ) -> None:
        self._gauges = gauges  # what finds the gauge of its attempt
        self._gauge: Gauge | None = None
        self._turn = 0.0
        self._phases: PhaseResults | None = None
        self._work = work  # what makes its durable work, when there is any
        self._resources = resources
        self._claimed = claimed
        self._standing = standing
        self._store = store
        self._worker = worker
        self._log: RunLog | None = None

    @property
    def run_id(self) -> str:
        """The run's id: the same in every attempt, so a good idempotency key for effects."""
        return self._claimed.id

    @property
    def job(self) -> str:
        """The job's name."""
        return self._claimed.job

    @property
    def tenant(self) -> str:
        """The run's owner."""
        return self._claimed.tenant

    @property
    def queue(self) -> str:
        """The queue it was claimed from."""
        return self._claimed.queue

    @property
    def slot(self) -> datetime | None:
        """The instant of its schedule that it was made for, in UTC; None for other runs.

        The same in every attempt, however late the run is: "the day that this report is about".
        """
        return self._claimed.slot

    @property
    def deadline(self) -> datetime | None:
        """By when the run must be done, in UTC, or None; at that time the attempt is stopped."""
        return self._claimed.deadline_at

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._claimed.attempt

    @property
    def failures(self) -> int:
        """How many attempts have failed before this one."""
        return self._claimed.failures

    @property
    def max_attempts(self) -> int:
        """How many failures end the run."""
        return self._standing.max_attempts

    @property
    def is_last_attempt(self) -> bool:
        """Whether the run has failed for good if this attempt fails."""
        return self._claimed.failures + 1 >= self._standing.max_attempts

    def is_final(self, error: BaseException) -> bool:
        """Whether the run fails for good if this attempt ends by this error: it was the last one,
        or the job's retry policy gives up. False if the run will be tried again, or is given back
        or canceled."""
        return self._standing.is_final(error)

    @property
    def priority(self) -> int:
        """Its priority; larger is more urgent."""
        return -self._claimed.rank

    @property
    def scheduled_for(self) -> datetime:
        """When it was meant to start, in UTC: as enqueued, or as last rescheduled."""
        return self._claimed.scheduled_for

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._extras.tags or ()

    @property
    def key(self) -> str | None:
        """The key that it was enqueued with, if any."""
        return self._extras.key

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata that it was enqueued with."""
        return self._extras.metadata or {}

    @property
    def enqueued_by(self) -> str | None:
        """The id of the run in whose handler it was enqueued, if it was in one."""
        return self._extras.enqueued_by

    @property
    def asked_by(self) -> str | None:
        """Who asked for the run, if that was said: see `app.acting_as`."""
        options = self._claimed.options
        return None if options is None else options.asked_by

    @property
    def parent(self) -> str | None:
        """The id of the run that has started it as its child, if one has."""
        return self._extras.enqueued_by if self._extras.is_child else None

    @property
    def schedule(self) -> str | None:
        """The id of the schedule that made it, if one did."""
        return self._claimed.schedule

    @property
    def token(self) -> int:
        """The lease's fencing token: greater than that of every earlier attempt."""
        return self._claimed.token

    @property
    def trace(self) -> str:
        """The trace it belongs to: as given, that of the run that enqueued it, or its own id."""
        return trace_of(self._claimed)

    @property
    def log(self) -> RunLog:
        """A logger whose events carry the run, the job, the attempt and the trace."""
        if self._log is None:
            self._log = run_log(self._claimed, self._worker)
        return self._log

    @property
    def resources(self) -> OpenResources:
        """What `@app.resource` functions made, by name: `ctx.resources.db`."""
        return self._resources

    def resource(self, name: str) -> Any:
        """The resource of a name: `ctx.resource("db")` is `ctx.resources.db`."""
        return getattr(self._resources, name)

    @property
    def canceled(self) -> bool:
        """True once the run should end: canceled, timed out, past its deadline, its lease is lost,
        or a shutdown waits no longer."""
        return self._standing.canceled

    @property
    def stopping(self) -> bool:
        """True once the worker shuts down: a run that is not done soon is given back."""
        return self._standing.stopping

    @property
    def phases(self) -> PhaseResults:
        """In a pipeline, the phases that have ended: `ctx.phases["download"].result`."""
        if self._phases is None:
            self._phases = PhaseResults()
        return self._phases

    @property
    def _held(self) -> Held:
        return Held(self._claimed.tenant, self._claimed.id, self._claimed.token)

    @property
    def _extras(self) -> Extras:
        return self._claimed.extras or _NO_EXTRAS

    def _emit(self, name: str, data: Mapping[str, Any] | None) -> Call[int | None]:
        """What adds an event to the run. Raises BadOption, BadPayload and PayloadTooLarge."""
        return self._store.operations.emit(self._held, make_event(name, data))

    def _emitted(self, seq: int | None) -> None:
        if seq is None:
            raise LeaseLost(self._claimed.id, self._claimed.token)

    def _own_gauge(self) -> Gauge:
        """What is told of the progress of this attempt. Raises LeaseLost."""
        gauge = self._gauge
        if gauge is None:
            gauge = self._gauge = self._gauges(self._standing)
        if gauge.over or self._standing.lost:
            raise LeaseLost(self._claimed.id, self._claimed.token)
        return gauge


class Context(_BaseContext, AwaitedFace, AwaitedChildren):
    """The run that an async handler works on: ids, attempt, log, progress, steps, resources."""

    __slots__ = ()

    def _durable(self) -> tuple[AwaitedWork, StepDesk]:
        made: tuple[AwaitedWork, StepDesk] = self._work()
        made[0].refuse_elsewhere()
        return made

    @property
    def artifacts(self) -> Artifacts:
        """Bytes that the run keeps outside the database: see `Artifacts`."""
        return Artifacts(self._store, self._held)

    def _in_thread(self, bench: object) -> "SyncContext":
        """The context of a phase in a thread, which has this durable work."""
        other = SyncContext(
            self._claimed, self._standing, self._store, self._worker, self._resources,
            lambda: bench, self._gauges,
        )  # fmt: skip
        other._phases = self.phases
        return other

    async def checkpoint(self) -> None:
        """Stop here if the run was asked to pause, or to end.

        Steps and waits do this by themselves. A run that is paused here, and resumed, starts its
        handler from the beginning; recorded steps are not done again.
        """
        await self._durable()[0].checkpoint("checkpoint")

    async def emit(self, name: str, data: Mapping[str, Any] | None = None) -> None:
        """Tell an event of your own: `await ctx.emit("order.shipped", {"order": 7})`.

        It is among the events of the run, and of `app.events()`. Names have two parts or more, and
        begin with none of Windlass's own words; `data` is an object of at most 16 KiB. An attempt
        that is repeated emits it again. In a step it is emitted once:
        `await ctx.step("tell", ctx.emit, "order.shipped", data)`. Raises LeaseLost if another
        worker has the run now.
        """
        self._emitted(await self._store.arun(self._emit(name, data)))

    async def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Tell how far the run is, from 0 to 1, and what it is doing; in a pipeline, the phase.

        Call it as often as you like: it is written once a second, and before the attempt ends.
        Raises LeaseLost once it is known that another worker has the run, at the latest after the
        next write.
        """
        self._own_gauge().tell(fraction, message)
        await self._give_turn()

    async def units(
        self, *, done: int | None = None, failed: int | None = None, total: int | None = None
    ) -> None:
        """Tell how many units of work are done, how many have failed, how many there are.

        Each is a count by now, not what has been added; what is not given stays. With a total it is
        the progress, too. It is written as `progress` is.
        """
        self._own_gauge().count(done, failed, total)
        await self._give_turn()

    async def _give_turn(self) -> None:
        """Let others run now and then: nothing else may be awaited in a loop that tells this."""
        now = asyncio.get_running_loop().time()
        if now - self._turn > _TURN:
            await asyncio.sleep(0)
            self._turn = now


class SyncContext(_BaseContext, BlockingFace, BlockingChildren):
    """As `Context`, for sync handlers: without `await`."""

    __slots__ = ()

    def _durable(self) -> tuple[BlockingWork, StepDesk]:
        made: tuple[BlockingWork, StepDesk] = self._work()
        return made

    @property
    def artifacts(self) -> SyncArtifacts:
        """Bytes that the run keeps outside the database: see `Artifacts`."""
        return SyncArtifacts(self._store, self._held)

    def checkpoint(self) -> None:
        """Stop here if the run was asked to pause, or to end.

        Steps and waits do this by themselves. A run that is paused here, and resumed, starts its
        handler from the beginning; recorded steps are not done again.
        """
        self._durable()[0].checkpoint("checkpoint")

    def emit(self, name: str, data: Mapping[str, Any] | None = None) -> None:
        """Tell an event of your own: `ctx.emit("order.shipped", {"order": 7})`.

        It is among the events of the run, and of `app.events()`. Names have two parts or more, and
        begin with none of Windlass's own words; `data` is an object of at most 16 KiB. An attempt
        that is repeated emits it again. In a step it is emitted once:
        `ctx.step("tell", ctx.emit, "order.shipped", data)`. Raises LeaseLost if another
        worker has the run now.
        """
        self._emitted(self._store.run(self._emit(name, data)))

    def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Tell how far the run is, from 0 to 1, and what it is doing; in a pipeline, the phase.

        Call it as often as you like: it is written once a second, and before the attempt ends.
        Raises LeaseLost once it is known that another worker has the run, at the latest after the
        next write.
        """
        self._own_gauge().tell(fraction, message)

    def units(
        self, *, done: int | None = None, failed: int | None = None, total: int | None = None
    ) -> None:
        """Tell how many units of work are done, how many have failed, how many there are.

        Each is a count by now, not what has been added; what is not given stays. With a total it is
        the progress, too. It is written as `progress` is.
        """
        self._own_gauge().count(done, failed, total)


def run_log(claimed: Claimed, worker: str) -> RunLog:
    """The log of one attempt."""
    return RunLog(
        run_logger,
        run=claimed.id,
        job=claimed.job,
        attempt=claimed.attempt,
        tenant=claimed.tenant,
        worker=worker,
        trace=trace_of(claimed),
    )
