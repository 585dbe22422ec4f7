"""The two faces of HandleVerbs: generated from client/run.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic

from windlass.client.past_faces import PastFaces
from windlass.client.typed import R_co

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any, Unpack

    from windlass.client.changing import ChangeOptions
    from windlass.client.requests import UsingOptions
    from windlass.client.run import HandleVerbs, Run
    from windlass.domain.approval import Approval
    from windlass.domain.step import Signal
    from windlass.duration import Duration


class HandleFaces(PastFaces, Generic[R_co]):
    """Every verb of HandleVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> HandleVerbs[R_co]:
        """The flows."""
        ...

    def refresh(self) -> Run[R_co]:
        """Read the run again, and return it. Raises RunNotFound."""
        verbs = self._verbs
        return verbs.perform(verbs.refresh())

    async def arefresh(self) -> Run[R_co]:
        """As `refresh`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.refresh())

    def cancel(self, reason: str | None = None) -> Run[R_co]:
        """Cancel the run, and return it as it then is."""
        verbs = self._verbs
        return verbs.perform(verbs.cancel(reason))

    async def acancel(self, reason: str | None = None) -> Run[R_co]:
        """As `cancel`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.cancel(reason))

    def pause(self, reason: str | None = None) -> Run[R_co]:
        """Stop the run for now, and return it as it then is; see `app.pause`."""
        verbs = self._verbs
        return verbs.perform(verbs.pause(reason))

    async def apause(self, reason: str | None = None) -> Run[R_co]:
        """As `pause`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.pause(reason))

    def resume(self) -> Run[R_co]:
        """Let the run go on where it was paused, and return it as it then is."""
        verbs = self._verbs
        return verbs.perform(verbs.resume())

    async def aresume(self) -> Run[R_co]:
        """As `resume`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.resume())

    def terminate(self, reason: str | None = None) -> Run[R_co]:
        """End the run now, whatever its handler does; see `app.terminate`."""
        verbs = self._verbs
        return verbs.perform(verbs.terminate(reason))

    async def aterminate(self, reason: str | None = None) -> Run[R_co]:
        """As `terminate`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.terminate(reason))

    def restart(self, *, step: str | None = None) -> Run[R_co]:
        """Let the run begin anew, or from a step on, and return it as it then is; see
        `app.restart`."""
        verbs = self._verbs
        return verbs.perform(verbs.restart(step=step))

    async def arestart(self, *, step: str | None = None) -> Run[R_co]:
        """As `restart`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.restart(step=step))

    def retry(
        self, *, max_attempts: int | None = None, input: Mapping[str, Any] | None = None
    ) -> Run[R_co]:
        """Run it once more after it failed or was canceled, and return it as it then is.

        With `input`, the arguments by name, it starts with that instead of its own.
        """
        verbs = self._verbs
        return verbs.perform(verbs.retry(max_attempts=max_attempts, input=input))

    async def aretry(
        self, *, max_attempts: int | None = None, input: Mapping[str, Any] | None = None
    ) -> Run[R_co]:
        """As `retry`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.retry(max_attempts=max_attempts, input=input))

    def run_again(
        self, *, input: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Run[R_co]:
        """Enqueue a new run like this one, which must have ended, and return the new one.

        It has the same input unless you give another, and the same options except the key; give
        others as with `using`. Its `again_of` is the id of this run.
        """
        verbs = self._verbs
        return verbs.perform(verbs.run_again(input=input, **options))

    async def arun_again(
        self, *, input: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Run[R_co]:
        """As `run_again`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.run_again(input=input, **options))

    def signal(self, name: str, payload: object = None, *, key: str | None = None) -> Signal:
        """Send the run a signal that it waits for, or will; see `app.signal`."""
        verbs = self._verbs
        return verbs.perform(verbs.signal(name, payload, key=key))

    async def asignal(self, name: str, payload: object = None, *, key: str | None = None) -> Signal:
        """As `signal`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.signal(name, payload, key=key))

    def approve(
        self,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Approval:
        """Say yes to what the run asks by `ctx.approval`; see `app.approve`."""
        verbs = self._verbs
        return verbs.perform(verbs.approve(name, by=by, comment=comment, token=token))

    async def aapprove(
        self,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Approval:
        """As `approve`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.approve(name, by=by, comment=comment, token=token))

    def reject(
        self,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Approval:
        """Say no to what the run asks by `ctx.approval`; see `app.approve`."""
        verbs = self._verbs
        return verbs.perform(verbs.reject(name, by=by, comment=comment, token=token))

    async def areject(
        self,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Approval:
        """As `reject`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reject(name, by=by, comment=comment, token=token))

    def reschedule(self, *, at: datetime | None = None, delay: Duration | None = None) -> Run[R_co]:
        """Move the run to another time, or run it again then; return it as it then is."""
        verbs = self._verbs
        return verbs.perform(verbs.reschedule(at=at, delay=delay))

    async def areschedule(
        self, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run[R_co]:
        """As `reschedule`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reschedule(at=at, delay=delay))

    def reprioritize(self, *, priority: int | None = None, queue: str | None = None) -> Run[R_co]:
        """Give the run another priority or queue, and return it as it then is."""
        verbs = self._verbs
        return verbs.perform(verbs.reprioritize(priority=priority, queue=queue))

    async def areprioritize(
        self, *, priority: int | None = None, queue: str | None = None
    ) -> Run[R_co]:
        """As `reprioritize`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reprioritize(priority=priority, queue=queue))

    def change(self, **changes: Unpack[ChangeOptions]) -> Run[R_co]:
        """Change the run while it waits, and return it as it then is: `input`, `tags`, `timeout`,
        `expires`, `deadline`. None takes one of the last three away."""
        verbs = self._verbs
        return verbs.perform(verbs.change(**changes))

    async def achange(self, **changes: Unpack[ChangeOptions]) -> Run[R_co]:
        """As `change`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.change(**changes))

    def wait(self, timeout: Duration | None = None) -> Run[R_co]:
        """Wait until the run has ended, however it ended; return it. Raises ResultTimeout."""
        verbs = self._verbs
        return verbs.perform(verbs.wait(timeout))

    async def await_end(self, timeout: Duration | None = None) -> Run[R_co]:
        """As `wait`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.wait(timeout))
