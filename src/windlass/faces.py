"""The two faces of AppVerbs: generated from verbs.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from windlass.client.run_faces import RunFaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Literal, Unpack

    from windlass.client.requests import Request, UsingOptions
    from windlass.client.run import Run
    from windlass.domain.counts import Counts, QueueState
    from windlass.domain.inspection import WorkerState
    from windlass.requester import Named
    from windlass.verbs import AppVerbs


class AppFaces(RunFaces):
    """Every verb of AppVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> AppVerbs:
        """The flows."""
        ...

    def enqueue(
        self, job: str, input: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Run:
        """Enqueue by name; the handler need not be in this process."""
        verbs = self._verbs
        return verbs.perform(verbs.enqueue(job, input, **options))

    async def aenqueue(
        self, job: str, input: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Run:
        """As `enqueue`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.enqueue(job, input, **options))

    def enqueue_many(
        self, requests: Iterable[Request | Named], *, connection: object = None
    ) -> Sequence[Run]:
        """Enqueue many runs in one round trip, all or none: `[job.request(...), ...]`.

        A job that other code defines is named: `("name", {"user_id": 7})`. With `connection`,
        your own transaction, the runs exist if and only if that commits.
        """
        verbs = self._verbs
        return verbs.perform(verbs.enqueue_many(requests, connection=connection))

    async def aenqueue_many(
        self, requests: Iterable[Request | Named], *, connection: object = None
    ) -> Sequence[Run]:
        """As `enqueue_many`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.enqueue_many(requests, connection=connection))

    def workers(self, *, runs: int = 100) -> Sequence[WorkerState]:
        """All workers, dead ones that nobody has reaped yet included, and what each is doing.

        At most `runs` runs of each are named, those that started first; all are counted.
        """
        verbs = self._verbs
        return verbs.perform(verbs.workers(runs=runs))

    async def aworkers(self, *, runs: int = 100) -> Sequence[WorkerState]:
        """As `workers`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.workers(runs=runs))

    def counts(self, *, by: Literal["status", "queue", "job"] = "status") -> Counts:
        """How many runs there are, by status, queue or job: `app.counts()["failed"]`.

        Cheap at millions of runs: beyond some thousands, PostgreSQL estimates, and `.estimated`
        says for which names. Succeeded runs are counted by status only.
        """
        verbs = self._verbs
        return verbs.perform(verbs.counts(by=by))

    async def acounts(self, *, by: Literal["status", "queue", "job"] = "status") -> Counts:
        """As `counts`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.counts(by=by))

    def queues(self) -> Sequence[QueueState]:
        """Queues with something in them: depth, what runs, and the age of the oldest."""
        verbs = self._verbs
        return verbs.perform(verbs.queues())

    async def aqueues(self) -> Sequence[QueueState]:
        """As `queues`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.queues())
