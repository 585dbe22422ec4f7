"""Runs: making them, and reading them."""

from collections.abc import Sequence

from windlass.domain.run import (
    Attempt,
    Backlog,
    Enqueued,
    Event,
    FeedEvent,
    NewRun,
    RunFilter,
    RunRecord,
    RunRef,
)
from windlass.store.operations.declare import read, scan, write


class RunOperations:
    """Runs are made once; what becomes of them is read."""

    @write(new_work=True, patient=lambda runs, patient: patient)
    def enqueue(self, runs: Sequence[NewRun], *, patient: bool = True) -> Sequence[Enqueued]:
        """Insert runs, all or none; answers in the order given.

        A known (tenant, id) or an unexpired (tenant, job, key) with the same input
        answers with the existing run. The same key with other input raises
        :class:`~windlass.errors.KeyConflict` and writes nothing at all. Two items of one
        batch may share a key: the second answers with the first. Where somebody's open
        transaction holds a key, the call waits for some seconds, and if not ``patient`` for less
        than one; then it raises :class:`~windlass.errors.StoreBusy`.
        """

    @read()
    def get_run(self, run: RunRef) -> RunRecord | None:
        """One run with its attempts, in one statement."""

    @read()
    def has_ended(self, run: RunRef) -> bool | None:
        """Whether a run has ended, and nothing else of it: for who asks often. None: no run."""

    @read()
    def get_runs(self, tenant: str, ids: Sequence[str]) -> Sequence[RunRecord]:
        """Several runs at once; unknown ids are left out."""

    @scan()
    def list_runs(self, query: RunFilter) -> Sequence[RunRecord]:
        """A page of runs, newest id first."""

    @read()
    def list_attempts(self, run: RunRef, before: int | None, limit: int) -> Sequence[Attempt]:
        """A run's ended attempts, the last one first; those numbered below ``before``."""

    @read()
    def list_events(self, run: RunRef, after: int, limit: int) -> Sequence[Event]:
        """A run's events with seq > ``after``, in order."""

    @scan()
    def list_feed(self, after: str | None, limit: int) -> Sequence[FeedEvent]:
        """The events of all subjects after a place, in the order in which they were committed.

        None: from the beginning. Events of one subject come in the order of their ``seq``. What is
        committed later has a later place: to go on from the last place seen misses nothing.
        """

    @scan()
    def backlog(self, queues: Sequence[str] | None, jobs: Sequence[str] | None) -> Backlog:
        """What is left to do, over all tenants."""
