"""A run as an application holds it: what was last read of it, and what can be done with it."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from windlass.client.view import RunView
from windlass.domain.run import Event, RunRecord
from windlass.duration import Duration

if TYPE_CHECKING:
    from windlass.client.client import Client


class Run(RunView):
    """One logical execution of a job with one input.

    The attributes are what was last read; `refresh` reads again. The a-methods are the async
    twins.
    """

    __slots__ = ("_client",)

    def __init__(self, client: "Client", record: RunRecord) -> None:
        super().__init__(record)
        self._client = client

    def refresh(self) -> "Run":
        """Read it again; returns itself. Raises RunNotFound."""
        self._record = self._client.get(self.id).record
        return self

    async def arefresh(self) -> "Run":
        """As `refresh`."""
        self._record = (await self._client.aget(self.id)).record
        return self

    def cancel(self, reason: str | None = None) -> "Run":
        """Cancel it; returns itself as it then stands."""
        self._record = self._client.cancel(self.id, reason=reason).record
        return self

    async def acancel(self, reason: str | None = None) -> "Run":
        """As `cancel`."""
        self._record = (await self._client.acancel(self.id, reason=reason)).record
        return self

    def retry(self, *, max_attempts: int | None = None) -> "Run":
        """Reopen it; returns itself as it then stands."""
        self._record = self._client.retry(self.id, max_attempts=max_attempts).record
        return self

    async def aretry(self, *, max_attempts: int | None = None) -> "Run":
        """As `retry`."""
        self._record = (await self._client.aretry(self.id, max_attempts=max_attempts)).record
        return self

    def reschedule(self, *, at: datetime | None = None, delay: Duration | None = None) -> "Run":
        """Move it to another time, or reopen it for that time; returns itself as it then stands."""
        self._record = self._client.reschedule(self.id, at=at, delay=delay).record
        return self

    async def areschedule(
        self, *, at: datetime | None = None, delay: Duration | None = None
    ) -> "Run":
        """As `reschedule`."""
        self._record = (await self._client.areschedule(self.id, at=at, delay=delay)).record
        return self

    def wait(self, timeout: Duration | None = None) -> "Run":
        """Wait until it has ended, whatever the outcome; returns itself. Raises ResultTimeout."""
        self._record = self._client.wait(self.id, timeout=timeout).record
        return self

    async def await_end(self, timeout: Duration | None = None) -> "Run":
        """As `wait`."""
        self._record = (await self._client.await_end(self.id, timeout=timeout)).record
        return self

    def events(self, after: int = 0) -> Sequence[Event]:
        """Its whole history, or what came after the event of that `seq`."""
        return self._client.events(self.id, after=after)

    async def aevents(self, after: int = 0) -> Sequence[Event]:
        """As `events`."""
        return await self._client.aevents(self.id, after=after)

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.job} {self.status.value}>"
