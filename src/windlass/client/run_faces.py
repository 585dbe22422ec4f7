"""The two faces of RunVerbs: generated from client/verbs.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any, Unpack

    from windlass.client.filters import (
        ListOptions,
    )
    from windlass.client.run import Run
    from windlass.client.verbs import RunVerbs
    from windlass.domain.run import Attempt, Event
    from windlass.duration import Duration


class RunFaces:
    """Every verb of RunVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> RunVerbs:
        """The flows."""
        ...

    def get(self, run: str) -> Run:
        """Read a run; raises RunNotFound."""
        verbs = self._verbs
        return verbs.perform(verbs.get(run))

    async def aget(self, run: str) -> Run:
        """As `get`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.get(run))

    def list(self, **query: Unpack[ListOptions]) -> Sequence[Run]:
        """A page of runs, newest first, by status, job, queue, tag, failure, created_from,
        created_to, dead; `limit` of them; the next page: before=the last one's id."""
        verbs = self._verbs
        return verbs.perform(verbs.list(**query))

    async def alist(self, **query: Unpack[ListOptions]) -> Sequence[Run]:
        """As `list`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.list(**query))

    def cancel(self, run: str, *, reason: str | None = None) -> Run:
        """End a run that has not started; ask for the end of one that is running."""
        verbs = self._verbs
        return verbs.perform(verbs.cancel(run, reason=reason))

    async def acancel(self, run: str, *, reason: str | None = None) -> Run:
        """As `cancel`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.cancel(run, reason=reason))

    def retry(self, run: str, *, max_attempts: int | None = None) -> Run:
        """Reopen a failed, canceled or stale run, with a fresh budget of attempts."""
        verbs = self._verbs
        return verbs.perform(verbs.retry(run, max_attempts=max_attempts))

    async def aretry(self, run: str, *, max_attempts: int | None = None) -> Run:
        """As `retry`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.retry(run, max_attempts=max_attempts))

    def reschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """Move a run that has not started to another time; reopen one that ended, for that time.

        `at` is a datetime with a zone, `delay` a duration from now; what has come already is ready
        at once. Raises IllegalTransition for a run that is running or has succeeded, and RunExpires
        for one that would have expired, or met its deadline, by then.
        """
        verbs = self._verbs
        return verbs.perform(verbs.reschedule(run, at=at, delay=delay))

    async def areschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """As `reschedule`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reschedule(run, at=at, delay=delay))

    def reprioritize(
        self, run: str, *, priority: int | None = None, queue: str | None = None
    ) -> Run:
        """Give a run that has not started another priority, another queue, or both.

        It keeps its time: in its new place it comes before what became ready after it. Raises
        IllegalTransition for a run that is running or has ended.
        """
        verbs = self._verbs
        return verbs.perform(verbs.reprioritize(run, priority=priority, queue=queue))

    async def areprioritize(
        self, run: str, *, priority: int | None = None, queue: str | None = None
    ) -> Run:
        """As `reprioritize`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reprioritize(run, priority=priority, queue=queue))

    def discard(self, *runs: str) -> int:
        """Take failed runs off the dead letters for good; returns how many were on them."""
        verbs = self._verbs
        return verbs.perform(verbs.discard(*runs))

    async def adiscard(self, *runs: str) -> int:
        """As `discard`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.discard(*runs))

    def attempts(
        self, run: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Attempt]:
        """A run's ended attempts, the last one first; the next page: before=the last one's
        number. A run itself has its latest hundred."""
        verbs = self._verbs
        return verbs.perform(verbs.attempts(run, before=before, limit=limit))

    async def aattempts(
        self, run: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Attempt]:
        """As `attempts`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.attempts(run, before=before, limit=limit))

    def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """A run's history, in order, from the event after that `seq` on."""
        verbs = self._verbs
        return verbs.perform(verbs.events(run, after=after))

    async def aevents(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """As `events`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.events(run, after=after))

    def wait(self, run: str, *, timeout: Duration | None = None) -> Run:
        """Wait until a run has ended, whatever the outcome. Raises ResultTimeout."""
        verbs = self._verbs
        return verbs.perform(verbs.wait(run, timeout=timeout))

    async def await_end(self, run: str, *, timeout: Duration | None = None) -> Run:
        """As `wait`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.wait(run, timeout=timeout))

    def result(self, run: str, *, timeout: Duration | None = None) -> Any:
        """Wait for a run's result; raises RunFailed where it has none, ResultTimeout."""
        verbs = self._verbs
        return verbs.perform(verbs.result(run, timeout=timeout))

    async def aresult(self, run: str, *, timeout: Duration | None = None) -> Any:
        """As `result`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.result(run, timeout=timeout))
