"""A run as an application holds it: what was last read of it, and what can be done with it."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from windlass.client.handle_faces import HandleFaces
from windlass.client.scope import Scope, Verbs
from windlass.client.view import RunView
from windlass.domain.run import Event, RunRecord
from windlass.duration import Duration
from windlass.store.flow import Flow

if TYPE_CHECKING:
    from windlass.client.verbs import RunVerbs


class Run(RunView, HandleFaces):
    """One logical execution of a job with one input.

    The attributes are what was last read; `refresh` reads again. The a-methods are the async
    twins.
    """

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope, record: RunRecord) -> None:
        super().__init__(record)
        self._scope = scope

    def become(self, record: RunRecord) -> "Run":
        """Show what was read just now; returns itself."""
        self._record = record
        return self

    @property
    def _verbs(self) -> "HandleVerbs":
        return HandleVerbs(self._scope, self)

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.job} {self.status.value}>"


class HandleVerbs(Verbs):
    """What can be done with one run, as flows; those that move it return it as it then stands."""

    __slots__ = ("_run",)

    def __init__(self, scope: Scope, run: Run) -> None:
        super().__init__(scope)
        self._run = run

    def refresh(self) -> Flow[Run]:
        """Read it again; returns itself. Raises RunNotFound."""
        return (yield from self._updated(self._runs.get(self._run.id)))

    def cancel(self, reason: str | None = None) -> Flow[Run]:
        """Cancel it; returns itself as it then stands."""
        return (yield from self._updated(self._runs.cancel(self._run.id, reason=reason)))

    def retry(self, *, max_attempts: int | None = None) -> Flow[Run]:
        """Reopen it; returns itself as it then stands."""
        return (yield from self._updated(self._runs.retry(self._run.id, max_attempts=max_attempts)))

    def reschedule(self, *, at: datetime | None = None, delay: Duration | None = None) -> Flow[Run]:
        """Move it to another time, or reopen it for that time; returns itself as it then stands."""
        return (yield from self._updated(self._runs.reschedule(self._run.id, at=at, delay=delay)))

    def reprioritize(self, *, priority: int | None = None, queue: str | None = None) -> Flow[Run]:
        """Give it another priority or queue; returns itself as it then stands."""
        moved = self._runs.reprioritize(self._run.id, priority=priority, queue=queue)
        return (yield from self._updated(moved))

    def wait(self, timeout: Duration | None = None) -> Flow[Run]:
        """Wait until it has ended, whatever the outcome; returns itself. Raises ResultTimeout."""
        return (yield from self._updated(self._runs.wait(self._run.id, timeout=timeout)))

    def events(self, after: int = 0) -> Flow[Sequence[Event]]:
        """Its whole history, or what came after the event of that `seq`."""
        return (yield from self._runs.events(self._run.id, after=after))

    @property
    def _runs(self) -> "RunVerbs":
        from windlass.client.verbs import RunVerbs  # which makes runs

        return RunVerbs(self._scope)

    def _updated(self, flow: Flow[Run]) -> Flow[Run]:
        found = yield from flow
        return self._run.become(found.record)
