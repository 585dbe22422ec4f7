"""What an application does beyond single runs: enqueue by name, look at its workers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack, overload

from windlass.client.enqueue import enqueue
from windlass.client.filters import check_by
from windlass.client.pauses import PauseVerbs
from windlass.client.pruning import deletes_at, prune
from windlass.client.requests import Request, UsingOptions
from windlass.client.run import Run
from windlass.client.scope import Scope
from windlass.client.typed import R
from windlass.domain.counts import MOST_COUNTED, By, Counts, QueueState, join_queues
from windlass.domain.inspection import WorkerState
from windlass.domain.retention import Growth, Pruned
from windlass.domain.states import Status
from windlass.duration import Duration
from windlass.requester import Named, Requester
from windlass.store.flow import Flow


class AppVerbs(PauseVerbs):
    """The verbs of an application."""

    __slots__ = ("_requester",)

    def __init__(self, scope: Scope, requester: Requester) -> None:
        super().__init__(scope)
        self._requester = requester

    def enqueue(
        self,
        job: str,
        input: Mapping[str, Any] | None = None,
        **options: Unpack[UsingOptions],
    ) -> Flow[Run]:
        """Enqueue a job by its name; the handler may be in another program."""
        request = yield from self._requester.asked(job, input, **options)
        runs = yield from enqueue(self._scope, [request])
        return runs[0]

    @overload
    def enqueue_many(
        self, requests: Iterable[Request[R]], *, connection: object = ...
    ) -> Flow[Sequence[Run[R]]]: ...
    @overload
    def enqueue_many(
        self, requests: Iterable[Request[Any] | Named], *, connection: object = ...
    ) -> Flow[Sequence[Run[Any]]]: ...

    def enqueue_many(
        self, requests: Iterable[Request[Any] | Named], *, connection: object = ...
    ) -> Flow[Sequence[Run[Any]]]:
        """Enqueue many runs in one round trip, all or none: `[job.request(...), ...]`.

        Name a job that other code defines: `("name", {"user_id": 7})`. With `connection`, your own
        transaction, the runs exist if and only if it commits.
        """
        asked = yield from self._requester.asked_all(requests, connection)
        return (yield from enqueue(self._scope, asked))

    def workers(self, *, runs: int = 100) -> Flow[Sequence[WorkerState]]:
        """List the workers and what each is doing; a dead one until its runs are taken back.

        For each, at most `runs` runs are named, those that started first; all are counted.
        """
        found: Sequence[WorkerState] = yield self._scope.store.operations.inspect_workers(runs)
        return found

    def counts(self, *, by: Literal["status", "queue", "job"] = "status") -> Flow[Counts]:
        """Count runs by status, queue or job: `app.counts()["failed"]`.

        It is fast with millions of runs, too: above some thousands PostgreSQL estimates, and
        `.estimated` says which numbers. Succeeded runs are counted by status only.
        """
        kind = check_by(by)
        rows = yield self._scope.store.operations.count_runs(self._scope.tenant, kind, MOST_COUNTED)
        return Counts(kind, rows)

    def queues(self) -> Flow[Sequence[QueueState]]:
        """List queues that have runs or are paused: how many wait and run, the age of the oldest.

        `pause` says since when a queue is paused, by whom and why.
        """
        operations, tenant = self._scope.store.operations, self._scope.tenant
        ages = yield operations.queue_ages(tenant, MOST_COUNTED)
        rows = yield operations.count_runs(tenant, By.QUEUE, MOST_COUNTED)
        pauses = yield operations.list_pauses(tenant)
        return join_queues(rows, ages, pauses)

    def prune(
        self,
        *,
        older_than: Duration | None = None,
        status: Status | str | Iterable[Status | str] | None = None,
        job: str | None = None,
        dry_run: bool = False,
    ) -> Flow[Pruned]:
        """Delete runs that ended so long ago now, with everything that hangs on them.

        Without `older_than` that is what `delete_after` of the settings says. Runs that others
        need are kept. `dry_run` counts those that fit, and deletes nothing.
        """
        return (yield from prune(self._scope, older_than, status, job, dry_run))

    def growth(self) -> Flow[Growth]:
        """How large the store is, and when its oldest run was made."""
        found: Growth = yield self._scope.store.operations.measure_growth(self._scope.tenant)
        return found

    def deletes_at(self, run: str) -> Flow[datetime | None]:
        """When a run is to be deleted, at the earliest; None while it has not ended, or if it is
        kept for good."""
        return (yield from deletes_at(self._scope, run))
