"""Runs: making them, and reading them."""

from collections.abc import Mapping, Sequence

from windlass.domain.listing import FoundIds, RunFilter, RunPage
from windlass.domain.run import (
    Attempt,
    Backlog,
    Enqueued,
    Event,
    FeedEvent,
    NewRun,
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
    def list_runs(self, query: RunFilter) -> RunPage:
        """A page of runs, newest id first. It looks at a bounded number of runs, so that a page
        with a ``next`` may be short."""

    @scan()
    def find_runs(self, query: RunFilter) -> FoundIds:
        """The ids of such a page, and nothing else of the runs."""

    @read()
    def ids_between(self, tenant: str, first: str, last: str, limit: int) -> Sequence[str]:
        """The ids of runs from one to another, both included, in order."""

    @read()
    def look_for_ends(self, tenant: str, ids: Sequence[str]) -> Mapping[str, bool]:
        """Which of several runs have ended; unknown ids are left out. For who asks often."""

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
