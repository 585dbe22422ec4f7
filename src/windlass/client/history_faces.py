"""The two faces of HistoryVerbs: generated from client/history.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from windlass.client.approval_faces import ApprovalFaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.history import HistoryVerbs
    from windlass.client.run import Run
    from windlass.domain.audit import AuditEntry
    from windlass.domain.phase import PhaseState
    from windlass.domain.run import Attempt, Event
    from windlass.domain.runlog import LogLine
    from windlass.domain.step import Generation, Signal, Step
    from windlass.domain.stopping import StopRequest


class HistoryFaces(ApprovalFaces):
    """Every verb of HistoryVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> HistoryVerbs:
        """The flows."""
        ...

    def steps(self, run: str, *, generation: int = 0) -> Sequence[Step]:
        """List what a run remembers of its steps, in the order in which they began.

        `generation` is the number of an earlier one: see `generations`.
        """
        verbs = self._verbs
        return verbs.perform(verbs.steps(run, generation=generation))

    async def asteps(self, run: str, *, generation: int = 0) -> Sequence[Step]:
        """As `steps`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.steps(run, generation=generation))

    def generations(self, run: str) -> Sequence[Generation]:
        """List the inputs that a run went on from, oldest first: its handler has returned
        `ContinueAs` so often. What it has now is `run.input`."""
        verbs = self._verbs
        return verbs.perform(verbs.generations(run))

    async def agenerations(self, run: str) -> Sequence[Generation]:
        """As `generations`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.generations(run))

    def stop_requests(self, run: str) -> Sequence[StopRequest]:
        """List the cancels and pauses that were asked of a run while it was running: when each was
        asked, heard by its worker, and done. A run that is not running stops at once."""
        verbs = self._verbs
        return verbs.perform(verbs.stop_requests(run))

    async def astop_requests(self, run: str) -> Sequence[StopRequest]:
        """As `stop_requests`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.stop_requests(run))

    def phases(self, run: str) -> Sequence[PhaseState]:
        """List the phases of a run, in order, and how far each is; one that is no pipeline has
        the one phase `run`."""
        verbs = self._verbs
        return verbs.perform(verbs.phases(run))

    async def aphases(self, run: str) -> Sequence[PhaseState]:
        """As `phases`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.phases(run))

    def signals(self, run: str) -> Sequence[Signal]:
        """List the signals that were sent to a run, in order; `taken_by` is the step that each
        answered, None while none has asked for it."""
        verbs = self._verbs
        return verbs.perform(verbs.signals(run))

    async def asignals(self, run: str) -> Sequence[Signal]:
        """As `signals`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.signals(run))

    def children(self, run: str, *, limit: int | None = None) -> Sequence[Run]:
        """List the runs that a run has started as its children, by step and place; `limit`: the
        first of them."""
        verbs = self._verbs
        return verbs.perform(verbs.children(run, limit=limit))

    async def achildren(self, run: str, *, limit: int | None = None) -> Sequence[Run]:
        """As `children`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.children(run, limit=limit))

    def after(self, run: str) -> Sequence[Run]:
        """List the runs that a run comes after, in the order given (`using(after=…)`); those that
        were deleted are left out."""
        verbs = self._verbs
        return verbs.perform(verbs.after(run))

    async def aafter(self, run: str) -> Sequence[Run]:
        """As `after`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.after(run))

    def followers(self, run: str) -> Sequence[Run]:
        """List the runs that come after a run, at most the first 1,000."""
        verbs = self._verbs
        return verbs.perform(verbs.followers(run))

    async def afollowers(self, run: str) -> Sequence[Run]:
        """As `followers`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.followers(run))

    def audit(
        self,
        run: str | None = None,
        *,
        queue: str | None = None,
        job: str | None = None,
        by: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[AuditEntry]:
        """List what operators did, the latest first: to one run, queue or job, or to all; `by` one
        of them.

        For the next page, pass the last one's number as `before`.
        """
        verbs = self._verbs
        return verbs.perform(
            verbs.audit(run, queue=queue, job=job, by=by, before=before, limit=limit)
        )

    async def aaudit(
        self,
        run: str | None = None,
        *,
        queue: str | None = None,
        job: str | None = None,
        by: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[AuditEntry]:
        """As `audit`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(
            verbs.audit(run, queue=queue, job=job, by=by, before=before, limit=limit)
        )

    def attempts(
        self, run: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Attempt]:
        """List the attempts of a run that have ended, newest first.

        For the next page, pass the last one's number as `before`. `run.attempts` has the latest
        hundred.
        """
        verbs = self._verbs
        return verbs.perform(verbs.attempts(run, before=before, limit=limit))

    async def aattempts(
        self, run: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Attempt]:
        """As `attempts`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.attempts(run, before=before, limit=limit))

    def run_events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """List the events of a run in order, those after number `after`."""
        verbs = self._verbs
        return verbs.perform(verbs.run_events(run, after=after))

    async def arun_events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """As `run_events`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.run_events(run, after=after))

    def logs(
        self, run: str, *, attempt: int | None = None, after: LogLine | None = None
    ) -> Sequence[LogLine]:
        """List what the handler of a run has logged, in order; of one attempt, if you name it.

        `after` is a line that you have: the list begins after it. Lines come up to a second after
        they were logged.
        """
        verbs = self._verbs
        return verbs.perform(verbs.logs(run, attempt=attempt, after=after))

    async def alogs(
        self, run: str, *, attempt: int | None = None, after: LogLine | None = None
    ) -> Sequence[LogLine]:
        """As `logs`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.logs(run, attempt=attempt, after=after))
