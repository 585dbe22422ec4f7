"""The two faces of PastVerbs: generated from client/run_past.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from windlass.client.run import Run
    from windlass.client.run_past import PastVerbs
    from windlass.domain.artifact import Artifact
    from windlass.domain.audit import AuditEntry
    from windlass.domain.batch import BatchCounts, FailedUnit
    from windlass.domain.phase import PhaseState
    from windlass.domain.run import Event
    from windlass.domain.runlog import LogLine
    from windlass.domain.step import Generation, Signal, Step
    from windlass.domain.stopping import StopRequest


class PastFaces:
    """Every verb of PastVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> PastVerbs:
        """The flows."""
        ...

    def steps(self, *, generation: int = 0) -> Sequence[Step]:
        """List what the run remembers of its steps, in the order in which they began.

        `generation` is the number of an earlier one: see `generations`.
        """
        verbs = self._verbs
        return verbs.perform(verbs.steps(generation=generation))

    async def asteps(self, *, generation: int = 0) -> Sequence[Step]:
        """As `steps`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.steps(generation=generation))

    def generations(self) -> Sequence[Generation]:
        """List the inputs that the run went on from by `ContinueAs`, oldest first."""
        verbs = self._verbs
        return verbs.perform(verbs.generations())

    async def agenerations(self) -> Sequence[Generation]:
        """As `generations`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.generations())

    def stop_requests(self) -> Sequence[StopRequest]:
        """List the cancels and pauses that were asked of it while it was running: when each was
        asked, heard by its worker, and done."""
        verbs = self._verbs
        return verbs.perform(verbs.stop_requests())

    async def astop_requests(self) -> Sequence[StopRequest]:
        """As `stop_requests`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.stop_requests())

    def children(self, *, limit: int | None = None) -> Sequence[Run[Any]]:
        """List the runs that it has started as its children, by step and place; `limit`: the
        first of them."""
        verbs = self._verbs
        return verbs.perform(verbs.children(limit=limit))

    async def achildren(self, *, limit: int | None = None) -> Sequence[Run[Any]]:
        """As `children`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.children(limit=limit))

    def after(self) -> Sequence[Run[Any]]:
        """List the runs that it comes after, in the order given; see `using(after=…)`."""
        verbs = self._verbs
        return verbs.perform(verbs.after())

    async def aafter(self) -> Sequence[Run[Any]]:
        """As `after`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.after())

    def followers(self) -> Sequence[Run[Any]]:
        """List the runs that come after it, at most the first 1,000."""
        verbs = self._verbs
        return verbs.perform(verbs.followers())

    async def afollowers(self) -> Sequence[Run[Any]]:
        """As `followers`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.followers())

    def phases(self) -> Sequence[PhaseState]:
        """List the phases of the run, in order, and how far each is; see `app.phases`."""
        verbs = self._verbs
        return verbs.perform(verbs.phases())

    async def aphases(self) -> Sequence[PhaseState]:
        """As `phases`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.phases())

    def batch_counts(self) -> BatchCounts:
        """How far the batch is, in numbers that add up; see `app.batch_counts`."""
        verbs = self._verbs
        return verbs.perform(verbs.batch_counts())

    async def abatch_counts(self) -> BatchCounts:
        """As `batch_counts`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.batch_counts())

    def failed_units(self, *, after: int = -1, limit: int = 100) -> Sequence[FailedUnit]:
        """List the units of the batch that failed, with their errors; see `app.failed_units`."""
        verbs = self._verbs
        return verbs.perform(verbs.failed_units(after=after, limit=limit))

    async def afailed_units(self, *, after: int = -1, limit: int = 100) -> Sequence[FailedUnit]:
        """As `failed_units`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.failed_units(after=after, limit=limit))

    def retry_failed(self) -> Run[Any]:
        """Enqueue a new batch of the units that failed; see `app.retry_failed`."""
        verbs = self._verbs
        return verbs.perform(verbs.retry_failed())

    async def aretry_failed(self) -> Run[Any]:
        """As `retry_failed`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.retry_failed())

    def audit(self) -> Sequence[AuditEntry]:
        """List what operators did to the run, the latest first; see `app.audit`."""
        verbs = self._verbs
        return verbs.perform(verbs.audit())

    async def aaudit(self) -> Sequence[AuditEntry]:
        """As `audit`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.audit())

    def artifacts(self) -> Sequence[Artifact]:
        """List the artifacts of the run, by name; `app.artifacts` reads them."""
        verbs = self._verbs
        return verbs.perform(verbs.artifacts())

    async def aartifacts(self) -> Sequence[Artifact]:
        """As `artifacts`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.artifacts())

    def signals(self) -> Sequence[Signal]:
        """List the signals that were sent to the run, in order; see `app.signals`."""
        verbs = self._verbs
        return verbs.perform(verbs.signals())

    async def asignals(self) -> Sequence[Signal]:
        """As `signals`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.signals())

    def events(self, after: int = 0) -> Sequence[Event]:
        """List the events of the run in order, those after number `after`."""
        verbs = self._verbs
        return verbs.perform(verbs.events(after))

    async def aevents(self, after: int = 0) -> Sequence[Event]:
        """As `events`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.events(after))

    def logs(
        self, *, attempt: int | None = None, after: LogLine | None = None
    ) -> Sequence[LogLine]:
        """List what its handler has logged, in order; see `app.logs`."""
        verbs = self._verbs
        return verbs.perform(verbs.logs(attempt=attempt, after=after))

    async def alogs(
        self, *, attempt: int | None = None, after: LogLine | None = None
    ) -> Sequence[LogLine]:
        """As `logs`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.logs(attempt=attempt, after=after))
