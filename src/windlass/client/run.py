"""A run as an application holds it: what was last read of it, and what can be done with it."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Unpack

from windlass.client.handle_faces import HandleFaces
from windlass.client.run_past import PastVerbs
from windlass.client.scope import Scope
from windlass.client.typed import R_co
from windlass.client.view import RunView
from windlass.domain.approval import Approval
from windlass.domain.returns import Returns
from windlass.domain.run import RunRecord
from windlass.domain.states import Status
from windlass.domain.step import Signal
from windlass.duration import Duration
from windlass.store.flow import Flow

if TYPE_CHECKING:
    from windlass.client.changing import ChangeOptions
    from windlass.client.requests import UsingOptions


class Run(RunView, HandleFaces[R_co], Generic[R_co]):
    """A job with one input, and everything that has happened to it.

    The attributes show what was last read; `refresh` reads again. Each method has an async twin
    with an `a`. `Run[R]` is a run whose job returns R; one found by name or id is a `Run[Any]`.
    """

    __slots__ = ("_created", "_returns", "_scope")

    def __init__(
        self,
        scope: Scope,
        record: RunRecord,
        created: bool | None = None,
        returns: Returns | None = None,
    ) -> None:
        """`returns` reads the result; without it the result is plain JSON."""
        super().__init__(record)
        self._scope = scope
        self._created = created
        self._returns = returns

    @property
    def created(self) -> bool | None:
        """Whether the call that returned this made the run: False where its key or id was known,
        None for a run that was only read."""
        return self._created

    @property
    def result(self) -> R_co | None:
        """What the handler returned, of the type that it is annotated with; None until the run
        has succeeded. Plain JSON where there is no annotation, or the run was found by name or id.

        Raises ResultMismatch where it does not fit the annotation; see `raw_result`.
        """
        if self._returns is None or self.status is not Status.SUCCEEDED:
            plain: R_co | None = self.raw_result
            return plain
        result: R_co = self._returns.read(self.id, self._record.result)
        return result

    def become(self, record: RunRecord) -> "Run[R_co]":
        """Show what was read just now; returns itself."""
        self._record = record
        return self

    @property
    def _verbs(self) -> "HandleVerbs[R_co]":
        return HandleVerbs(self._scope, self, self._returns)

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.job} {self.status.value}>"


class HandleVerbs(PastVerbs, Generic[R_co]):
    """What can be done with one run, as flows; those that move it return it as it then stands."""

    __slots__ = ("_returns",)

    _run: Run[R_co]

    def __init__(self, scope: Scope, run: Run[R_co], returns: Returns | None) -> None:
        super().__init__(scope, run)
        self._returns = returns

    def refresh(self) -> Flow[Run[R_co]]:
        """Read the run again, and return it. Raises RunNotFound."""
        return (yield from self._updated(self._runs.get(self._run.id)))

    def cancel(self, reason: str | None = None) -> Flow[Run[R_co]]:
        """Cancel the run, and return it as it then is."""
        return (yield from self._updated(self._runs.cancel(self._run.id, reason=reason)))

    def pause(self, reason: str | None = None) -> Flow[Run[R_co]]:
        """Stop the run for now, and return it as it then is; see `app.pause`."""
        return (yield from self._updated(self._runs.pause(self._run.id, reason=reason)))

    def resume(self) -> Flow[Run[R_co]]:
        """Let the run go on where it was paused, and return it as it then is."""
        return (yield from self._updated(self._runs.resume(self._run.id)))

    def terminate(self, reason: str | None = None) -> Flow[Run[R_co]]:
        """End the run now, whatever its handler does; see `app.terminate`."""
        return (yield from self._updated(self._runs.terminate(self._run.id, reason=reason)))

    def restart(self, *, step: str | None = None) -> Flow[Run[R_co]]:
        """Let the run begin anew, or from a step on, and return it as it then is; see
        `app.restart`."""
        return (yield from self._updated(self._runs.restart(self._run.id, step=step)))

    def retry(
        self, *, max_attempts: int | None = None, input: Mapping[str, Any] | None = None
    ) -> Flow[Run[R_co]]:
        """Run it once more after it failed or was canceled, and return it as it then is.

        With `input`, the arguments by name, it starts with that instead of its own.
        """
        moved = self._runs.retry(self._run.id, max_attempts=max_attempts, input=input)
        return (yield from self._updated(moved))

    def run_again(
        self, *, input: Mapping[str, Any] | None = None, **options: Unpack["UsingOptions"]
    ) -> Flow[Run[R_co]]:
        """Enqueue a new run like this one, which must have ended, and return the new one.

        It has the same input unless you give another, and the same options except the key; give
        others as with `using`. Its `again_of` is the id of this run.
        """
        made = yield from self._runs.run_again(self._run.id, input=input, **options)
        return Run(self._scope, made.record, made.created, self._returns)

    def signal(self, name: str, payload: object = None, *, key: str | None = None) -> Flow[Signal]:
        """Send the run a signal that it waits for, or will; see `app.signal`."""
        return (yield from self._runs.signal(self._run.id, name, payload, key=key))

    def approve(
        self,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Flow[Approval]:
        """Say yes to what the run asks by `ctx.approval`; see `app.approve`."""
        given = {"by": by, "comment": comment, "token": token}
        return (yield from self._runs.approve(self._run.id, name, **given))

    def reject(
        self,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Flow[Approval]:
        """Say no to what the run asks by `ctx.approval`; see `app.approve`."""
        given = {"by": by, "comment": comment, "token": token}
        return (yield from self._runs.reject(self._run.id, name, **given))

    def reschedule(
        self, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Flow[Run[R_co]]:
        """Move the run to another time, or run it again then; return it as it then is."""
        return (yield from self._updated(self._runs.reschedule(self._run.id, at=at, delay=delay)))

    def reprioritize(
        self, *, priority: int | None = None, queue: str | None = None
    ) -> Flow[Run[R_co]]:
        """Give the run another priority or queue, and return it as it then is."""
        moved = self._runs.reprioritize(self._run.id, priority=priority, queue=queue)
        return (yield from self._updated(moved))

    def change(self, **changes: Unpack["ChangeOptions"]) -> Flow[Run[R_co]]:
        """Change the run while it waits, and return it as it then is: `input`, `tags`, `timeout`,
        `expires`, `deadline`. None takes one of the last three away."""
        return (yield from self._updated(self._runs.change(self._run.id, **changes)))

    def wait(self, timeout: Duration | None = None) -> Flow[Run[R_co]]:
        """Wait until the run has ended, however it ended; return it. Raises ResultTimeout."""
        return (yield from self._updated(self._runs.wait(self._run.id, timeout=timeout)))

    def _updated(self, flow: Flow[Run[Any]]) -> Flow[Run[R_co]]:
        found = yield from flow
        return self._run.become(found.record)
