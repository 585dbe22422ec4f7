"""What workers do: claim, finish, renew, sweep."""

from collections.abc import Sequence
from datetime import datetime

from windlass.domain.run import (
    Blocked,
    CycleReply,
    Finish,
    Held,
    ProgressReply,
    ProgressWrite,
    RenewReply,
    RunRef,
    SweepReply,
    Want,
    WorkerInfo,
)
from windlass.store.operations.declare import read, write


class WorkerOperations:
    """The calls of workers, and of the services that run in them."""

    @write()
    def register(self, worker: WorkerInfo, lease: float) -> datetime:
        """Make the worker known and alive for ``lease`` seconds; returns the store's now."""

    @write(repeatable=lambda worker, claim_no, finishes, want: want is None)
    def cycle(
        self, worker: str, claim_no: int, finishes: Sequence[Finish], want: Want | None
    ) -> CycleReply:
        """Record the ends of attempts, then claim more: one round trip, one transaction.

        Finishes whose lease does not match come back as ``lost``; the others are applied, but
        those whose lease somebody has locked: they come back as ``busy``, and are to be sent
        again. Nothing waits for a lock, so one locked run delays no other.
        ``finishes`` may come from any worker's leases: the token decides. Claims only for
        a worker that is registered and alive, else ``refused`` (finishes still count), and whose
        row nobody has locked, else ``locked``.
        ``claim_no`` is stored in the leases made, see :meth:`renew`.
        """

    @write(urgent=True)
    def renew(
        self,
        worker: str,
        lease: float,
        held: Sequence[Held],
        settled: int,
        blocked: Blocked | None = None,
    ) -> RenewReply:
        """Keep the worker alive for ``lease`` seconds from now.

        Returns the intents for its runs and those of ``held`` that it no longer holds.
        Its leases which ``held`` does not name and whose claim_no <= ``settled`` are given
        back (``run.interrupted``): their claim's reply never arrived, or the worker cannot
        vouch for them any more. An expired worker that nobody reaped is revived; a reaped one
        gets ``alive=False``.

        ``blocked`` is kept with the worker until it renews without. Of the leases that are
        given back, those that it blames end as it says: a crash that counts.
        """

    @write()
    def retire(self, worker: str) -> int:
        """Forget a worker that stops; leases it still has are given back. Returns how many."""

    @read()
    def list_workers(self) -> Sequence[WorkerInfo]:
        """All workers known, dead ones not yet reaped included."""

    @write()
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
    ) -> SweepReply:
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

    @write()
    def unpublished(self, older_than: float, limit: int) -> Sequence[RunRef]:
        """Mark as published, and return, ready runs not published in the last
        ``older_than`` seconds: those whose message was lost, or never sent."""

    @write()
    def record_progress(self, reports: Sequence[ProgressWrite]) -> ProgressReply:
        """Write the latest progress of runs, each under the token of its lease.

        The reply names those that were not written: the lease is lost, or somebody has it locked.
        Nothing waits for a lock, so one locked run delays no other.
        """
