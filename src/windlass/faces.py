"""The two faces of AppVerbs: generated from verbs.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, overload

from windlass.client.pause_faces import PauseFaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any, Literal, Unpack

    from windlass.client.requests import Request, UsingOptions
    from windlass.client.run import Run
    from windlass.client.typed import R
    from windlass.domain.counts import Counts, QueueState
    from windlass.domain.inspection import WorkerState
    from windlass.domain.retention import Growth, Pruned
    from windlass.domain.states import Status
    from windlass.duration import Duration
    from windlass.requester import Named
    from windlass.verbs import AppVerbs


class AppFaces(PauseFaces):
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
        """Enqueue a job by its name; the handler may be in another program."""
        verbs = self._verbs
        return verbs.perform(verbs.enqueue(job, input, **options))

    async def aenqueue(
        self, job: str, input: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Run:
        """As `enqueue`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.enqueue(job, input, **options))

    @overload
    def enqueue_many(
        self, requests: Iterable[Request[R]], *, connection: object = ...
    ) -> Sequence[Run[R]]: ...
    @overload
    def enqueue_many(
        self, requests: Iterable[Request[Any] | Named], *, connection: object = ...
    ) -> Sequence[Run[Any]]: ...
    def enqueue_many(
        self, requests: Iterable[Request[Any] | Named], *, connection: object = ...
    ) -> Sequence[Run[Any]]:
        """Enqueue many runs in one round trip, all or none: `[job.request(...), ...]`.

        Name a job that other code defines: `("name", {"user_id": 7})`. With `connection`, your own
        transaction, the runs exist if and only if it commits.
        """
        verbs = self._verbs
        return verbs.perform(verbs.enqueue_many(requests, connection=connection))

    @overload
    async def aenqueue_many(
        self, requests: Iterable[Request[R]], *, connection: object = ...
    ) -> Sequence[Run[R]]: ...
    @overload
    async def aenqueue_many(
        self, requests: Iterable[Request[Any] | Named], *, connection: object = ...
    ) -> Sequence[Run[Any]]: ...
    async def aenqueue_many(
        self, requests: Iterable[Request[Any] | Named], *, connection: object = ...
    ) -> Sequence[Run[Any]]:
        """As `enqueue_many`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.enqueue_many(requests, connection=connection))

    def workers(self, *, runs: int = 100) -> Sequence[WorkerState]:
        """List the workers and what each is doing; a dead one until its runs are taken back.

        For each, at most `runs` runs are named, those that started first; all are counted.
        """
        verbs = self._verbs
        return verbs.perform(verbs.workers(runs=runs))

    async def aworkers(self, *, runs: int = 100) -> Sequence[WorkerState]:
        """As `workers`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.workers(runs=runs))

    def counts(self, *, by: Literal["status", "queue", "job"] = "status") -> Counts:
        """Count runs by status, queue or job: `app.counts()["failed"]`.

        It is fast with millions of runs, too: above some thousands PostgreSQL estimates, and
        `.estimated` says which numbers. Succeeded runs are counted by status only.
        """
        verbs = self._verbs
        return verbs.perform(verbs.counts(by=by))

    async def acounts(self, *, by: Literal["status", "queue", "job"] = "status") -> Counts:
        """As `counts`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.counts(by=by))

    def queues(self) -> Sequence[QueueState]:
        """List queues that have runs or are paused: how many wait and run, the age of the oldest.

        `pause` says since when a queue is paused, by whom and why.
        """
        verbs = self._verbs
        return verbs.perform(verbs.queues())

    async def aqueues(self) -> Sequence[QueueState]:
        """As `queues`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.queues())

    def prune(
        self,
        *,
        older_than: Duration | None = None,
        status: Status | str | Iterable[Status | str] | None = None,
        job: str | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Delete runs that ended so long ago now, with everything that hangs on them.

        Without `older_than` that is what `delete_after` of the settings says. Runs that others
        need are kept. `dry_run` counts those that fit, and deletes nothing.
        """
        verbs = self._verbs
        return verbs.perform(
            verbs.prune(older_than=older_than, status=status, job=job, dry_run=dry_run)
        )

    async def aprune(
        self,
        *,
        older_than: Duration | None = None,
        status: Status | str | Iterable[Status | str] | None = None,
        job: str | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """As `prune`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(
            verbs.prune(older_than=older_than, status=status, job=job, dry_run=dry_run)
        )

    def growth(self) -> Growth:
        """How large the store is, and when its oldest run was made."""
        verbs = self._verbs
        return verbs.perform(verbs.growth())

    async def agrowth(self) -> Growth:
        """As `growth`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.growth())

    def deletes_at(self, run: str) -> datetime | None:
        """When a run is to be deleted, at the earliest; None while it has not ended, or if it is
        kept for good."""
        verbs = self._verbs
        return verbs.perform(verbs.deletes_at(run))

    async def adeletes_at(self, run: str) -> datetime | None:
        """As `deletes_at`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.deletes_at(run))
