"""What a handler sees of its run: `Context` in async handlers, `SyncContext` in threads."""

import logging
from datetime import datetime
from typing import Any, Protocol, TypeVar

from windlass.domain.artifact import Artifact
from windlass.domain.job import check_text
from windlass.domain.run import Claimed, Held
from windlass.errors import BadOption, LeaseLost
from windlass.logs import RunLog
from windlass.resources import OpenResources
from windlass.store.operations import Call, Operations

T = TypeVar("T")

run_logger = logging.getLogger("windlass.run")
"""Where the logs of all attempts go."""

_LONGEST_MESSAGE = 10_000


class Standing(Protocol):
    """How the attempt stands; changed by the engine, read by the handler."""

    @property
    def canceled(self) -> bool: ...

    @property
    def stopping(self) -> bool: ...


class Desk(Protocol):
    """Where a context has its calls done: a store, or, in a child process, its worker."""

    @property
    def operations(self) -> Operations: ...

    def run(self, call: Call[T]) -> T: ...

    async def arun(self, call: Call[T]) -> T: ...


class _BaseArtifacts:
    __slots__ = ("_calls", "_held", "_store")

    def __init__(self, store: Desk, held: Held) -> None:
        self._store = store
        self._calls = store.operations
        self._held = held

    def _known(self, deleted: bool | None) -> bool:
        if deleted is None:
            raise LeaseLost(self._held.id, self._held.token)
        return deleted


class Artifacts(_BaseArtifacts):
    """The artifacts of a run's tenant, for async handlers."""

    __slots__ = ()

    async def get(self, id: str) -> Artifact | None:
        """What is known of an artifact, or None."""
        return await self._store.arun(self._calls.get_artifact(self._held.tenant, id))

    async def delete(self, id: str) -> bool:
        """Forget an artifact; false where there is none.

        Raises LeaseLost where another worker has the run by now.
        """
        call = self._calls.delete_artifact_under(self._held, id)
        return self._known(await self._store.arun(call))


class SyncArtifacts(_BaseArtifacts):
    """The artifacts of a run's tenant, for handlers in threads."""

    __slots__ = ()

    def get(self, id: str) -> Artifact | None:
        """What is known of an artifact, or None."""
        return self._store.run(self._calls.get_artifact(self._held.tenant, id))

    def delete(self, id: str) -> bool:
        """Forget an artifact; false where there is none.

        Raises LeaseLost where another worker has the run by now.
        """
        return self._known(self._store.run(self._calls.delete_artifact_under(self._held, id)))


class _BaseContext:
    __slots__ = ("_claimed", "_log", "_resources", "_standing", "_store", "_worker")

    def __init__(
        self,
        claimed: Claimed,
        standing: Standing,
        store: Desk,
        worker: str,
        resources: OpenResources,
    ) -> None:
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
    def token(self) -> int:
        """The lease's fencing token: greater than that of every earlier attempt."""
        return self._claimed.token

    @property
    def trace(self) -> str:
        """The trace id, 32 hexadecimal digits: as given in SQL, else made of the run's id."""
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
        """The same by a name that varies: `ctx.resource("db")`."""
        return getattr(self._resources, name)

    @property
    def canceled(self) -> bool:
        """True once the run should end: canceled, timed out, past its deadline, its lease is lost,
        or a shutdown waits no longer."""
        return self._standing.canceled

    @property
    def stopping(self) -> bool:
        """True once the worker shuts down: what is not done soon is given back."""
        return self._standing.stopping

    @property
    def _held(self) -> Held:
        return Held(self._claimed.tenant, self._claimed.id, self._claimed.token)

    def _progress(self, fraction: float | None, message: str | None) -> Call[bool]:
        text = check_text("message", message, _LONGEST_MESSAGE) if message else None
        return self._store.operations.progress(self._held, _fraction(fraction), text)


class Context(_BaseContext):
    """What an async handler sees of its run."""

    __slots__ = ()

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of the run's tenant."""
        return Artifacts(self._store, self._held)

    async def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Record how far the run is, from 0 to 1, and what it is at. The latest counts.

        Raises LeaseLost where another worker has the run by now.
        """
        call = self._progress(fraction, message)
        if not await self._store.arun(call):
            raise LeaseLost(self.run_id, self.token)


class SyncContext(_BaseContext):
    """What a sync handler, in its thread, sees of its run."""

    __slots__ = ()

    @property
    def artifacts(self) -> SyncArtifacts:
        """The artifacts of the run's tenant."""
        return SyncArtifacts(self._store, self._held)

    def progress(self, fraction: float | None, message: str | None = None) -> None:
        """Record how far the run is, from 0 to 1, and what it is at. The latest counts.

        Raises LeaseLost where another worker has the run by now.
        """
        call = self._progress(fraction, message)
        if not self._store.run(call):
            raise LeaseLost(self.run_id, self.token)


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


def trace_of(claimed: Claimed) -> str:
    """The trace id of a run."""
    return claimed.trace or claimed.id.replace("-", "")


def _fraction(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise BadOption("fraction", f"{value!r} is not a number from 0 to 1")
