"""Every operation as a call: which function, on which kind of transaction."""

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum, auto
from typing import Any, NamedTuple, TypeVar

from windlass.domain.artifact import Artifact
from windlass.domain.run import (
    Backlog,
    CycleReply,
    Enqueued,
    Event,
    Finish,
    Held,
    JobRow,
    NewRun,
    RenewReply,
    RunFilter,
    RunRecord,
    RunRef,
    SweepReply,
    Want,
    WorkerInfo,
)
from windlass.store.interface import Call
from windlass.store.sqlite import artifacts, control, enqueue, finish, read, sweep, workers
from windlass.store.sqlite import jobs as definitions
from windlass.store.sqlite.transaction import Transaction

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Kind(Enum):
    """What a call needs of its connection."""

    WRITE = auto()
    READ = auto()  # microseconds: the loop may do it itself
    SCAN = auto()  # a read whose cost grows with the data


class Merge(NamedTuple):
    """How a call may be done as one with others of its sort.

    ``together`` takes the arguments of all, each of them a list, and answers for each; if it
    raises, nothing was done, and they are run one by one.
    """

    together: Callable[[Transaction, Sequence[Any]], Sequence[Any]]
    argument: Sequence[Any]


class SqliteCall(Call[T_co]):
    """A call of this store: a function of one transaction."""

    __slots__ = ("body", "kind", "merge")

    def __init__(
        self,
        name: str,
        kind: Kind,
        body: Callable[[Transaction], T_co],
        *,
        repeatable: bool,
        merge: Merge | None = None,
    ) -> None:
        super().__init__(name, repeatable=repeatable)
        self.kind = kind
        self.body = body
        self.merge = merge


def _read(name: str, body: Callable[[Transaction], T], kind: Kind = Kind.READ) -> SqliteCall[T]:
    return SqliteCall(name, kind, body, repeatable=True)


def _write(
    name: str, body: Callable[[Transaction], T], *, repeatable: bool = True
) -> SqliteCall[T]:
    return SqliteCall(name, Kind.WRITE, body, repeatable=repeatable)


class SqliteArtifacts:
    """The operations of :class:`windlass.store.interface.ArtifactOperations`."""

    def put(self, artifact: Artifact) -> Call[Artifact]:
        return _write("put_artifact", lambda tx: artifacts.put_artifact(tx, artifact))

    def get(self, tenant: str, artifact: str) -> Call[Artifact | None]:
        return _read("get_artifact", lambda tx: artifacts.get_artifact(tx, tenant, artifact))

    def delete(self, tenant: str, artifact: str) -> Call[bool]:
        return _write(
            "delete_artifact",
            lambda tx: artifacts.delete_artifact(tx, tenant, artifact),
            repeatable=False,
        )

    def delete_under(self, held: Held, artifact: str) -> Call[bool | None]:
        return _write(
            "delete_artifact_under",
            lambda tx: artifacts.delete_artifact_under(tx, held, artifact),
            repeatable=False,
        )


class SqliteControl:
    """The operations of :class:`windlass.store.control.ControlOperations`."""

    def cancel(self, run: RunRef, reason: str | None) -> Call[RunRecord]:
        return _write("cancel", lambda tx: control.cancel(tx, run, reason))

    def retry(self, run: RunRef, max_attempts: int | None) -> Call[RunRecord]:
        return _write("retry", lambda tx: control.retry(tx, run, max_attempts), repeatable=False)

    def reschedule(
        self, run: RunRef, *, at: datetime | None = None, delay: float | None = None
    ) -> Call[RunRecord]:
        return _write(
            "reschedule", lambda tx: control.reschedule(tx, run, at, delay), repeatable=False
        )

    def discard(self, tenant: str, runs: Sequence[str]) -> Call[int]:
        return _write("discard", lambda tx: control.discard(tx, tenant, runs), repeatable=False)


class SqliteOperations(SqliteControl):
    """The operations of :class:`windlass.store.interface.Operations`."""

    def __init__(self) -> None:
        self.artifacts = SqliteArtifacts()

    def sync_jobs(self, jobs: Sequence[JobRow], worker: str | None = None) -> Call[None]:
        return _write("sync_jobs", lambda tx: definitions.sync_jobs(tx, jobs, worker))

    def get_job(self, tenant: str, name: str) -> Call[JobRow | None]:
        return _read("get_job", lambda tx: definitions.get_job(tx, tenant, name))

    def list_jobs(self, tenant: str) -> Call[Sequence[JobRow]]:
        return _read("list_jobs", lambda tx: definitions.list_jobs(tx, tenant))

    def enqueue(self, runs: Sequence[NewRun], *, patient: bool = True) -> Call[Sequence[Enqueued]]:
        return SqliteCall(
            "enqueue",
            Kind.WRITE,
            lambda tx: enqueue.enqueue(tx, runs),
            repeatable=True,
            merge=Merge(enqueue.enqueue_together, runs),
        )

    def register(self, worker: WorkerInfo, lease: float) -> Call[datetime]:
        return _write("register", lambda tx: workers.register(tx, worker, lease))

    def cycle(
        self, worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
    ) -> Call[CycleReply]:
        return _write(
            "cycle",
            lambda tx: finish.cycle(tx, worker, claim_no, finishes, want),
            repeatable=want is None,
        )

    def renew(
        self, worker: str, lease: float, held: Sequence[Held], settled: int
    ) -> Call[RenewReply]:
        return _write("renew", lambda tx: workers.renew(tx, worker, lease, held, settled))

    def retire(self, worker: str) -> Call[int]:
        return _write("retire", lambda tx: workers.retire(tx, worker))

    def list_workers(self) -> Call[Sequence[WorkerInfo]]:
        return _read("list_workers", workers.list_workers)

    def sweep(
        self,
        *,
        dispatch: bool,
        expire: bool,
        reap: bool,
        max_crashes: int,
        limit: int,
        every: float = 0.0,
        spare: bool = True,
    ) -> Call[SweepReply]:
        def body(tx: Transaction) -> SweepReply:
            return sweep.sweep(
                tx,
                dispatch=dispatch,
                expire=expire,
                reap=reap,
                max_crashes=max_crashes,
                limit=limit,
                every=every,
                spare=spare,
            )

        return _write("sweep", body)

    def unpublished(self, older_than: float, limit: int) -> Call[Sequence[RunRef]]:
        return _write("unpublished", lambda tx: sweep.unpublished(tx, older_than, limit))

    def progress(self, held: Held, fraction: float | None, message: str | None) -> Call[bool]:
        return _write("progress", lambda tx: control.progress(tx, held, fraction, message))

    def get_run(self, run: RunRef) -> Call[RunRecord | None]:
        return _read("get_run", lambda tx: read.get_run(tx, run))

    def has_ended(self, run: RunRef) -> Call[bool | None]:
        return _read("has_ended", lambda tx: read.has_ended(tx, run))

    def get_runs(self, tenant: str, ids: Sequence[str]) -> Call[Sequence[RunRecord]]:
        return _read("get_runs", lambda tx: read.get_runs(tx, tenant, ids))

    def list_runs(self, query: RunFilter) -> Call[Sequence[RunRecord]]:
        return _read("list_runs", lambda tx: read.list_runs(tx, query), Kind.SCAN)

    def list_events(self, run: RunRef, after: int, limit: int) -> Call[Sequence[Event]]:
        return _read("list_events", lambda tx: read.list_events(tx, run, after, limit))

    def backlog(self, queues: Sequence[str] | None, jobs: Sequence[str] | None) -> Call[Backlog]:
        return _read("backlog", lambda tx: read.backlog(tx, queues, jobs), Kind.SCAN)
