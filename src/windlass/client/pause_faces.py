"""The two faces of PauseVerbs: generated from client/pauses.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from windlass.client.run_faces import RunFaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.pauses import PauseVerbs
    from windlass.domain.pause import WorkPause


class PauseFaces(RunFaces):
    """Every verb of PauseVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> PauseVerbs:
        """The flows."""
        ...

    def pause_queue(self, queue: str, *, reason: str | None = None) -> WorkPause:
        """Start nothing from a queue until `resume_queue`. Runs that are running go on.

        When this has returned, no worker anywhere starts a run of it. What waits keeps its place,
        and runs may be enqueued meanwhile; `expires` and `deadline` go on. You may repeat it:
        the first pause stays as it is. Raises StoreBusy if somebody keeps a claim in an open
        transaction: the pause is stored then, and you can repeat the call.
        """
        verbs = self._verbs
        return verbs.perform(verbs.pause_queue(queue, reason=reason))

    async def apause_queue(self, queue: str, *, reason: str | None = None) -> WorkPause:
        """As `pause_queue`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.pause_queue(queue, reason=reason))

    def resume_queue(self, queue: str) -> bool:
        """Let a queue go on; returns whether it was paused."""
        verbs = self._verbs
        return verbs.perform(verbs.resume_queue(queue))

    async def aresume_queue(self, queue: str) -> bool:
        """As `resume_queue`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.resume_queue(queue))

    def pause_job(self, job: str, *, reason: str | None = None) -> WorkPause:
        """Start no run of a job, in any queue, until `resume_job`; otherwise as `pause_queue`."""
        verbs = self._verbs
        return verbs.perform(verbs.pause_job(job, reason=reason))

    async def apause_job(self, job: str, *, reason: str | None = None) -> WorkPause:
        """As `pause_job`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.pause_job(job, reason=reason))

    def resume_job(self, job: str) -> bool:
        """Let a job go on; returns whether it was paused."""
        verbs = self._verbs
        return verbs.perform(verbs.resume_job(job))

    async def aresume_job(self, job: str) -> bool:
        """As `resume_job`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.resume_job(job))

    def pauses(self) -> Sequence[WorkPause]:
        """List the queues and jobs that are paused: since when, by whom and why."""
        verbs = self._verbs
        return verbs.perform(verbs.pauses())

    async def apauses(self) -> Sequence[WorkPause]:
        """As `pauses`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.pauses())
