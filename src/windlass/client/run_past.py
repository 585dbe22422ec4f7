"""What is known of one run, asked of the run itself: its steps, children, signals and events."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.scope import Scope, Verbs
from windlass.domain.artifact import Artifact
from windlass.domain.audit import AuditEntry
from windlass.domain.batch import BatchCounts, FailedUnit
from windlass.domain.phase import PhaseState
from windlass.domain.run import Event
from windlass.domain.runlog import LogLine
from windlass.domain.step import Generation, Signal, Step
from windlass.domain.stopping import StopRequest
from windlass.store.flow import Flow

if TYPE_CHECKING:
    from windlass.client.run import Run
    from windlass.client.verbs import RunVerbs


class PastVerbs(Verbs):
    """Look at what one run has done, as flows."""

    __slots__ = ("_run",)

    def __init__(self, scope: Scope, run: "Run[Any]") -> None:
        super().__init__(scope)
        self._run = run

    def steps(self, *, generation: int = 0) -> Flow[Sequence[Step]]:
        """List what the run remembers of its steps, in the order in which they began.

        `generation` is the number of an earlier one: see `generations`.
        """
        return (yield from self._runs.steps(self._run.id, generation=generation))

    def generations(self) -> Flow[Sequence[Generation]]:
        """List the inputs that the run went on from by `ContinueAs`, oldest first."""
        return (yield from self._runs.generations(self._run.id))

    def stop_requests(self) -> Flow[Sequence[StopRequest]]:
        """List the cancels and pauses that were asked of it while it was running: when each was
        asked, heard by its worker, and done."""
        return (yield from self._runs.stop_requests(self._run.id))

    def children(self, *, limit: int | None = None) -> Flow[Sequence["Run[Any]"]]:
        """List the runs that it has started as its children, by step and place; `limit`: the
        first of them."""
        return (yield from self._runs.children(self._run.id, limit=limit))

    def after(self) -> Flow[Sequence["Run[Any]"]]:
        """List the runs that it comes after, in the order given; see `using(after=…)`."""
        return (yield from self._runs.after(self._run.id))

    def followers(self) -> Flow[Sequence["Run[Any]"]]:
        """List the runs that come after it, at most the first 1,000."""
        return (yield from self._runs.followers(self._run.id))

    def phases(self) -> Flow[Sequence[PhaseState]]:
        """List the phases of the run, in order, and how far each is; see `app.phases`."""
        return (yield from self._runs.phases(self._run.id))

    def batch_counts(self) -> Flow[BatchCounts]:
        """How far the batch is, in numbers that add up; see `app.batch_counts`."""
        return (yield from self._runs.batch_counts(self._run.id))

    def failed_units(self, *, after: int = -1, limit: int = 100) -> Flow[Sequence[FailedUnit]]:
        """List the units of the batch that failed, with their errors; see `app.failed_units`."""
        return (yield from self._runs.failed_units(self._run.id, after=after, limit=limit))

    def retry_failed(self) -> Flow["Run[Any]"]:
        """Enqueue a new batch of the units that failed; see `app.retry_failed`."""
        return (yield from self._runs.retry_failed(self._run.id))

    def audit(self) -> Flow[Sequence[AuditEntry]]:
        """List what operators did to the run, the latest first; see `app.audit`."""
        return (yield from self._runs.audit(self._run.id))

    def artifacts(self) -> Flow[Sequence[Artifact]]:
        """List the artifacts of the run, by name; `app.artifacts` reads them."""
        from windlass.client.artifacts import ArtifactVerbs

        return (yield from ArtifactVerbs(self._scope).list(self._run.id))

    def signals(self) -> Flow[Sequence[Signal]]:
        """List the signals that were sent to the run, in order; see `app.signals`."""
        return (yield from self._runs.signals(self._run.id))

    def events(self, after: int = 0) -> Flow[Sequence[Event]]:
        """List the events of the run in order, those after number `after`."""
        return (yield from self._runs.run_events(self._run.id, after=after))

    def logs(
        self, *, attempt: int | None = None, after: LogLine | None = None
    ) -> Flow[Sequence[LogLine]]:
        """List what its handler has logged, in order; see `app.logs`."""
        return (yield from self._runs.logs(self._run.id, attempt=attempt, after=after))

    @property
    def _runs(self) -> "RunVerbs":
        from windlass.client.verbs import RunVerbs  # which makes runs

        return RunVerbs(self._scope)
