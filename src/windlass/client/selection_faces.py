"""The two faces of SelectionVerbs: generated from client/selection.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Unpack

    from windlass.client.bulk import BulkResult
    from windlass.client.changing import RunChanges
    from windlass.client.selection import SelectionVerbs
    from windlass.duration import Duration


class SelectionFaces:
    """Every verb of SelectionVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> SelectionVerbs:
        """The flows."""
        ...

    def count(self) -> int:
        """How many there are: counted one by one; `app.counts()` is cheaper where it will do."""
        verbs = self._verbs
        return verbs.perform(verbs.count())

    async def acount(self) -> int:
        """As `count`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.count())

    def cancel(self, *, reason: str | None = None, dry_run: bool = False) -> BulkResult:
        """End those that have not started; ask for the end of those that are running."""
        verbs = self._verbs
        return verbs.perform(verbs.cancel(reason=reason, dry_run=dry_run))

    async def acancel(self, *, reason: str | None = None, dry_run: bool = False) -> BulkResult:
        """As `cancel`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.cancel(reason=reason, dry_run=dry_run))

    def pause(self, *, reason: str | None = None, dry_run: bool = False) -> BulkResult:
        """Stop those that have not ended for now; ask running ones to stop at their next step."""
        verbs = self._verbs
        return verbs.perform(verbs.pause(reason=reason, dry_run=dry_run))

    async def apause(self, *, reason: str | None = None, dry_run: bool = False) -> BulkResult:
        """As `pause`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.pause(reason=reason, dry_run=dry_run))

    def resume(self, *, dry_run: bool = False) -> BulkResult:
        """Let those that are paused, or were asked to pause, go on."""
        verbs = self._verbs
        return verbs.perform(verbs.resume(dry_run=dry_run))

    async def aresume(self, *, dry_run: bool = False) -> BulkResult:
        """As `resume`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.resume(dry_run=dry_run))

    def terminate(self, *, reason: str | None = None, dry_run: bool = False) -> BulkResult:
        """End those that have not ended now; running ones lose their leases."""
        verbs = self._verbs
        return verbs.perform(verbs.terminate(reason=reason, dry_run=dry_run))

    async def aterminate(self, *, reason: str | None = None, dry_run: bool = False) -> BulkResult:
        """As `terminate`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.terminate(reason=reason, dry_run=dry_run))

    def restart(self, *, step: str | None = None, dry_run: bool = False) -> BulkResult:
        """Let those that failed begin anew, from their start or from a step on."""
        verbs = self._verbs
        return verbs.perform(verbs.restart(step=step, dry_run=dry_run))

    async def arestart(self, *, step: str | None = None, dry_run: bool = False) -> BulkResult:
        """As `restart`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.restart(step=step, dry_run=dry_run))

    def retry(self, *, max_attempts: int | None = None, dry_run: bool = False) -> BulkResult:
        """Reopen those that failed or were canceled, each with a fresh budget of attempts."""
        verbs = self._verbs
        return verbs.perform(verbs.retry(max_attempts=max_attempts, dry_run=dry_run))

    async def aretry(self, *, max_attempts: int | None = None, dry_run: bool = False) -> BulkResult:
        """As `retry`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.retry(max_attempts=max_attempts, dry_run=dry_run))

    def reschedule(
        self, *, at: datetime | None = None, delay: Duration | None = None, dry_run: bool = False
    ) -> BulkResult:
        """Move those that have not started to another time; reopen the failed and canceled ones for
        that time. A `delay` begins when a run is moved."""
        verbs = self._verbs
        return verbs.perform(verbs.reschedule(at=at, delay=delay, dry_run=dry_run))

    async def areschedule(
        self, *, at: datetime | None = None, delay: Duration | None = None, dry_run: bool = False
    ) -> BulkResult:
        """As `reschedule`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reschedule(at=at, delay=delay, dry_run=dry_run))

    def reprioritize(
        self, *, priority: int | None = None, queue: str | None = None, dry_run: bool = False
    ) -> BulkResult:
        """Give those that have not started another priority, another queue, or both."""
        verbs = self._verbs
        return verbs.perform(verbs.reprioritize(priority=priority, queue=queue, dry_run=dry_run))

    async def areprioritize(
        self, *, priority: int | None = None, queue: str | None = None, dry_run: bool = False
    ) -> BulkResult:
        """As `reprioritize`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(
            verbs.reprioritize(priority=priority, queue=queue, dry_run=dry_run)
        )

    def change(self, *, dry_run: bool = False, **changes: Unpack[RunChanges]) -> BulkResult:
        """Give those that wait other `tags`, another `timeout`, `expires` or `deadline`; None takes
        one of the last three away."""
        verbs = self._verbs
        return verbs.perform(verbs.change(dry_run=dry_run, **changes))

    async def achange(self, *, dry_run: bool = False, **changes: Unpack[RunChanges]) -> BulkResult:
        """As `change`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.change(dry_run=dry_run, **changes))

    def discard(self, *, dry_run: bool = False) -> BulkResult:
        """Take the failed ones off the dead letters for good."""
        verbs = self._verbs
        return verbs.perform(verbs.discard(dry_run=dry_run))

    async def adiscard(self, *, dry_run: bool = False) -> BulkResult:
        """As `discard`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.discard(dry_run=dry_run))
