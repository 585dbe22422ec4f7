"""The store's seam: what every store can do, said once.

**A call is one transaction, described but not yet run.** The methods of
:class:`Operations` do no I/O; they return a :class:`Call`, and a :class:`Store` runs
it, blocking (:meth:`Store.run`) or on the loop (:meth:`Store.arun`). So there is one
description of each operation and two small drivers, instead of two trees of code. The
seam is internal and free to change; ``tests/conformance`` is its definition.

Positions
    A live run has exactly one position row, in ``timers`` (scheduled), ``ready``
    (queued) or ``leases`` (running); a finished run has none, and ``runs.status`` is
    set. Every move starts by deleting the position row by key: that row is the mutex.
    The row carries attempt, failures, crash_count, token and seq, and hands them on.
Fencing
    ``token`` grows by one at each claim. Whatever a worker writes names (run, token);
    where the lease is gone or has another token, nothing is written and the worker is
    told (``lost``). Nothing else decides who may write: no clock, no status.
Time
    The store's clock is the only one that is written. Callers send delays, not times,
    except where the user named an instant.
Events
    Every state change appends its event, with the next ``seq`` of its run, in the same
    transaction.
Repeats
    A driver repeats a call whose outcome is unknown (the reply was lost) only if
    ``repeatable``. Enqueue is repeatable because ids are made by the client; finish
    because the second try finds no lease, so a repeated finish may report ``lost`` for
    what it did record: the worker asks no more of it than to forget the run. Claim is
    not; the leases of a lost reply are given back by the next renewal (``claim_no``).
    Nor is what would answer otherwise the second time, to somebody who asks: how many were
    discarded, whether an artifact was there. Nobody asks whether a schedule was.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

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
    SweepReply,
    Want,
    WorkerInfo,
)
from windlass.domain.run import RunRef as RunRef
from windlass.store.blocking import BlockingCalls
from windlass.store.calls import Call as Call
from windlass.store.checks import Check
from windlass.store.control import ControlOperations
from windlass.store.inspection import InspectionOperations
from windlass.store.scheduling import ScheduleOperations
from windlass.store.transactions import Joined, TransactionScope

T = TypeVar("T")


class ArtifactOperations(Protocol):
    """What is known of bytes that are kept elsewhere."""

    def put(self, artifact: Artifact) -> Call[Artifact]:
        """Record one; an id that is known stays as it is. Answers with what is stored."""
        ...

    def get(self, tenant: str, artifact: str) -> Call[Artifact | None]:
        """One artifact, by id."""
        ...

    def delete(self, tenant: str, artifact: str) -> Call[bool]:
        """Forget one; false where there is none."""
        ...

    def delete_under(self, held: Held, artifact: str) -> Call[bool | None]:
        """Forget one for a run of its tenant, under its token; None: the lease is lost."""
        ...


class Operations(ControlOperations, Protocol):
    """Every operation, by noun. None of these methods touches the database."""

    @property
    def artifacts(self) -> ArtifactOperations:
        """Those about artifacts."""
        ...

    # -- jobs -----------------------------------------------------------------------

    def sync_jobs(self, jobs: Sequence[JobRow], worker: str | None = None) -> Call[None]:
        """Insert or update job rows; rows equal to what is stored are not rewritten.

        ``worker``: these are the jobs that it runs from now on.
        """
        ...

    def get_job(self, tenant: str, name: str) -> Call[JobRow | None]:
        """One job row."""
        ...

    def list_jobs(self, tenant: str) -> Call[Sequence[JobRow]]:
        """All job rows of a tenant, by name."""
        ...

    # -- enqueue ----------------------------------------------------------------------

    def enqueue(self, runs: Sequence[NewRun], *, patient: bool = True) -> Call[Sequence[Enqueued]]:
        """Insert runs, all or none; answers in the order given.

        A known (tenant, id) or an unexpired (tenant, job, key) with the same input
        answers with the existing run. The same key with other input raises
        :class:`~windlass.errors.KeyConflict` and writes nothing at all. Two items of one
        batch may share a key: the second answers with the first. Where somebody's open
        transaction holds a key, the call waits for some seconds, and if not ``patient`` for less
        than one; then it raises :class:`~windlass.errors.StoreBusy`.
        """
        ...

    # -- workers ----------------------------------------------------------------------

    def register(self, worker: WorkerInfo, lease: float) -> Call[datetime]:
        """Make the worker known and alive for ``lease`` seconds; returns the store's now."""
        ...

    def cycle(
        self, worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
    ) -> Call[CycleReply]:
        """Record the ends of attempts, then claim more: one round trip, one transaction.

        Finishes whose lease does not match come back as ``lost``; the others are applied, but
        those whose lease somebody has locked: they come back as ``busy``, and are to be sent
        again. Nothing waits for a lock, so one locked run delays no other.
        ``finishes`` may come from any worker's leases: the token decides. Claims only for
        a worker that is registered and alive, else ``refused`` (finishes still count), and whose
        row nobody has locked, else ``locked``.
        ``claim_no`` is stored in the leases made, see :meth:`renew`.
        """
        ...

    def renew(
        self, worker: str, lease: float, held: Sequence[Held], settled: int
    ) -> Call[RenewReply]:
        """Keep the worker alive for ``lease`` seconds from now.

        Returns the intents for its runs and those of ``held`` that it no longer holds.
        Its leases which ``held`` does not name and whose claim_no <= ``settled`` are given
        back (``run.interrupted``): their claim's reply never arrived. An expired worker
        that nobody reaped is revived; a reaped one gets ``alive=False``.
        """
        ...

    def retire(self, worker: str) -> Call[int]:
        """Forget a worker that stops; leases it still has are given back. Returns how many."""
        ...

    def list_workers(self) -> Call[Sequence[WorkerInfo]]:
        """All workers known, dead ones not yet reaped included."""
        ...

    # -- services ---------------------------------------------------------------------

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
        """Dispatcher, expiry and reaper in one round trip, each only if asked for.

        dispatch: due timers become ready (``run.queued``), oldest first.
        expire: waiting runs whose expiry passed end failed/expired, those whose deadline
        passed failed/deadline; so does a running one whose worker has not ended it within a
        lease (its attempt is recorded as a timeout, and the worker is fenced).
        reap: the leases of workers whose ``alive_until`` passed, and leases without a
        worker, go back to their queue with crash_count + 1 (``run.crashed``); at
        ``max_crashes`` they end failed/crashed; under a cancel intent, canceled.
        At most ``limit`` runs each.

        An outage is no crash of the workers. The store keeps when anybody last swept, by its
        own clock. After a gap (longer than a third of its lease) a worker whose time is over
        is spared for two thirds of its lease, and nothing is ended by its expiry or deadline
        for as long: the store was away, nobody swept, or the clock was set.
        every: how often the caller sweeps. Gaps up to twice as long are its usual ones: they
        spare those whose time ran out in them, and nobody for a second time.
        spare: false spares nobody, for tests that move the clock.
        """
        ...

    def unpublished(self, older_than: float, limit: int) -> Call[Sequence[RunRef]]:
        """Mark as published, and return, ready runs not published in the last
        ``older_than`` seconds: those whose message was lost, or never sent."""
        ...

    # -- handlers ---------------------------------------------------------------------

    def progress(self, held: Held, fraction: float | None, message: str | None) -> Call[bool]:
        """Record the latest progress of a run under its token; false: the lease is lost."""
        ...

    # -- reads ------------------------------------------------------------------------

    def get_run(self, run: RunRef) -> Call[RunRecord | None]:
        """One run with its attempts, in one statement."""
        ...

    def has_ended(self, run: RunRef) -> Call[bool | None]:
        """Whether a run has ended, and nothing else of it: for who asks often. None: no run."""
        ...

    def get_runs(self, tenant: str, ids: Sequence[str]) -> Call[Sequence[RunRecord]]:
        """Several runs at once; unknown ids are left out."""
        ...

    def list_runs(self, query: RunFilter) -> Call[Sequence[RunRecord]]:
        """A page of runs, newest id first."""
        ...

    def list_events(self, run: RunRef, after: int, limit: int) -> Call[Sequence[Event]]:
        """A run's events with seq > ``after``, in order."""
        ...

    def backlog(self, queues: Sequence[str] | None, jobs: Sequence[str] | None) -> Call[Backlog]:
        """What is left to do, over all tenants."""
        ...


class Wakeups(Protocol):
    """Hints that there may be something to claim. They may be lost; polling finds all."""

    async def wait(self, timeout: float) -> bool:
        """Return true when woken, false after ``timeout`` seconds."""
        ...

    async def close(self) -> None:
        """Stop listening."""
        ...


class Migration(NamedTuple):
    """What a migration did: the versions before and after, and what had been damaged."""

    before: int
    after: int
    mended: tuple[str, ...] = ()


class Store(Protocol):
    """A store: connections, transactions, retries. Opens nothing until first used."""

    @property
    def operations(self) -> Operations:
        """Where calls are made."""
        ...

    @property
    def schedules(self) -> ScheduleOperations:
        """Where calls about schedules are made."""
        ...

    @property
    def inspection(self) -> InspectionOperations:
        """Where operators' questions are made."""
        ...

    def admit(self, write: str) -> None:
        """Raise UsageError where the caller may not write now, before it has somebody else do it,
        of whom that is not true. ``write`` names the call."""
        ...

    def run(self, call: Call[T]) -> T:
        """Run a call, blocking; usable from any thread and, after a fork, in the child."""
        ...

    async def arun(self, call: Call[T]) -> T:
        """Run a call without blocking the loop."""
        ...

    def join(self, connection: object, runs: Sequence[NewRun]) -> Joined:
        """Enqueue in the caller's transaction: the runs exist if and only if it commits.

        As :meth:`Operations.enqueue`, but never repeated. No hint reaches a worker before the
        commit. Raises BadOption for a connection on which that cannot be done.
        """
        ...

    async def ajoin(self, connection: object, runs: Sequence[NewRun]) -> Joined:
        """As :meth:`join`, on the loop."""
        ...

    def transaction(self) -> TransactionScope:
        """A transaction for statements of the caller's own, and to :meth:`join`."""
        ...

    def notify(self) -> None:
        """Hint to workers that something became ready; coalesced, never raises."""
        ...

    async def anotify(self) -> None:
        """As :meth:`notify`, on the loop."""
        ...

    async def listen(self) -> Wakeups:
        """Start receiving hints."""
        ...

    @property
    def place(self) -> str:
        """Where it is, as a URL for people: without a password."""
        ...

    def checks(self, *, full: bool = False) -> Sequence[Check]:
        """What the store looks at in itself when it is asked how it is.

        ``full``: also what takes long, such as every page of a large file.
        """
        ...

    blocking: BlockingCalls  # those that hold up an event loop are told
    migrates_itself: bool  # an older schema is brought up to date by whoever uses it next
    writes_abreast: int  # how many writes of one process make headway at once

    def migrate(self) -> Migration:
        """Bring the schema up to date, and mend what can be mended."""
        ...

    def outdated(self) -> Sequence[str]:
        """The names of what :meth:`migrate` would make anew although the version is right."""
        ...

    def schema_version(self) -> tuple[int, int]:
        """The schema's version as found (0: there is none) and as this program needs it.

        Changes nothing, and tells at once when the database cannot be reached.
        """
        ...

    def backup(self, place: Path, *, replace: bool) -> int:
        """Copy the store to a file while it is in use; return the bytes written.

        Raises UsageError where the file may not be written, or where this is for other tools.
        """
        ...

    def close(self) -> None:
        """Close what this thread or process opened for the sync face."""
        ...

    async def aclose(self) -> None:
        """Close everything."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
