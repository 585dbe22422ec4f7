"""The two faces of HandleVerbs: generated from client/run.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from windlass.client.run import HandleVerbs, Run
    from windlass.domain.run import Event
    from windlass.duration import Duration


class HandleFaces:
    """Every verb of HandleVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> HandleVerbs:
        """The flows."""
        ...

    def refresh(self) -> Run:
        """Read it again; returns itself. Raises RunNotFound."""
        verbs = self._verbs
        return verbs.perform(verbs.refresh())

    async def arefresh(self) -> Run:
        """As `refresh`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.refresh())

    def cancel(self, reason: str | None = None) -> Run:
        """Cancel it; returns itself as it then stands."""
        verbs = self._verbs
        return verbs.perform(verbs.cancel(reason))

    async def acancel(self, reason: str | None = None) -> Run:
        """As `cancel`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.cancel(reason))

    def retry(self, *, max_attempts: int | None = None) -> Run:
        """Reopen it; returns itself as it then stands."""
        verbs = self._verbs
        return verbs.perform(verbs.retry(max_attempts=max_attempts))

    async def aretry(self, *, max_attempts: int | None = None) -> Run:
        """As `retry`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.retry(max_attempts=max_attempts))

    def reschedule(self, *, at: datetime | None = None, delay: Duration | None = None) -> Run:
        """Move it to another time, or reopen it for that time; returns itself as it then stands."""
        verbs = self._verbs
        return verbs.perform(verbs.reschedule(at=at, delay=delay))

    async def areschedule(
        self, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """As `reschedule`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reschedule(at=at, delay=delay))

    def reprioritize(self, *, priority: int | None = None, queue: str | None = None) -> Run:
        """Give it another priority or queue; returns itself as it then stands."""
        verbs = self._verbs
        return verbs.perform(verbs.reprioritize(priority=priority, queue=queue))

    async def areprioritize(self, *, priority: int | None = None, queue: str | None = None) -> Run:
        """As `reprioritize`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reprioritize(priority=priority, queue=queue))

    def wait(self, timeout: Duration | None = None) -> Run:
        """Wait until it has ended, whatever the outcome; returns itself. Raises ResultTimeout."""
        verbs = self._verbs
        return verbs.perform(verbs.wait(timeout))

    async def await_end(self, timeout: Duration | None = None) -> Run:
        """As `wait`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.wait(timeout))

    def events(self, after: int = 0) -> Sequence[Event]:
        """Its whole history, or what came after the event of that `seq`."""
        verbs = self._verbs
        return verbs.perform(verbs.events(after))

    async def aevents(self, after: int = 0) -> Sequence[Event]:
        """As `events`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.events(after))
