"""What is known of one run: its steps, children, attempts and events, as flows."""

import builtins
from collections.abc import Sequence

from windlass.client.approvals import ApprovalVerbs
from windlass.client.filters import check_id, check_page, check_subject
from windlass.client.run import Run
from windlass.domain.audit import AuditEntry
from windlass.domain.child import PAGE
from windlass.domain.phase import PhaseState, phases_of
from windlass.domain.run import Attempt, Event, RunRecord, RunRef
from windlass.domain.runlog import LogLine, LogPlace, lines_of
from windlass.domain.step import Generation, Signal, Step, check_generation
from windlass.domain.stopping import StopRequest, stop_requests
from windlass.errors import RunNotFound
from windlass.store.flow import Flow
from windlass.store.operations import Operations

_EVENTS = 1000  # at once
_PIECES = 20  # of logs: each has up to a mebibyte


class HistoryVerbs(ApprovalVerbs):
    """Look at what a run has done, and what it is doing."""

    def steps(self, run: str, *, generation: int = 0) -> Flow[Sequence[Step]]:
        """List what a run remembers of its steps, in the order in which they began.

        `generation` is the number of an earlier one: see `generations`.
        """
        ref, found, after = self._ref(run), builtins.list[Step](), None
        wanted = check_generation(generation)
        while True:
            page = yield self._operations.list_steps(ref.tenant, ref.id, after, _EVENTS, wanted)
            found += page
            if len(page) < _EVENTS:
                return sorted(found, key=lambda step: (step.started_at, step.seq or 0, step.path))
            after = page[-1].path

    def generations(self, run: str) -> Flow[Sequence[Generation]]:
        """List the inputs that a run went on from, oldest first: its handler has returned
        `ContinueAs` so often. What it has now is `run.input`."""
        ref, found, after = self._ref(run), builtins.list[Generation](), 0
        while True:
            page = yield self._operations.list_generations(ref.tenant, ref.id, after, _EVENTS)
            found += page
            if len(page) < _EVENTS:
                return found
            after = page[-1].number

    def stop_requests(self, run: str) -> Flow[Sequence[StopRequest]]:
        """List the cancels and pauses that were asked of a run while it was running: when each was
        asked, heard by its worker, and done. A run that is not running stops at once."""
        return stop_requests((yield from self.run_events(run)))

    def phases(self, run: str) -> Flow[Sequence[PhaseState]]:
        """List the phases of a run, in order, and how far each is; one that is no pipeline has
        the one phase `run`."""
        record = yield from self._record(run)
        steps = yield from self.steps(run)
        known = yield from self._scope.requester.phases(record.job)
        return phases_of(record, steps, known)

    def signals(self, run: str) -> Flow[Sequence[Signal]]:
        """List the signals that were sent to a run, in order; `taken_by` is the step that each
        answered, None while none has asked for it."""
        ref, found, after = self._ref(run), builtins.list[Signal](), 0
        while True:
            page = yield self._operations.list_signals(ref.tenant, ref.id, after, _EVENTS)
            found += page
            if len(page) < _EVENTS:
                return found
            after = page[-1].number

    def children(self, run: str, *, limit: int | None = None) -> Flow[Sequence[Run]]:
        """List the runs that a run has started as its children, by step and place; `limit`: the
        first of them."""
        ref, found, after = self._ref(run), builtins.list[Run](), None
        while True:
            size = PAGE if limit is None else min(PAGE, limit - len(found))
            page = yield self._operations.list_children(ref.tenant, ref.id, None, after, size)
            ids = [row.id for row in page]
            records = yield self._operations.get_runs(ref.tenant, ids)
            by_id = {record.id: record for record in records}
            found += [Run(self._scope, by_id[id]) for id in ids if id in by_id]
            if len(page) < PAGE or (limit is not None and len(found) >= limit):
                return found
            after = (page[-1].path, page[-1].n)

    def after(self, run: str) -> Flow[Sequence[Run]]:
        """List the runs that a run comes after, in the order given (`using(after=…)`); those that
        were deleted are left out."""
        return (yield from self._linked(run, followers=False))

    def followers(self, run: str) -> Flow[Sequence[Run]]:
        """List the runs that come after a run, at most the first 1,000."""
        return (yield from self._linked(run, followers=True))

    def _linked(self, run: str, *, followers: bool) -> Flow[Sequence[Run]]:
        ref = self._ref(run)
        rows = yield self._operations.list_follows(ref.tenant, ref.id, followers, _EVENTS)
        ids = [row.id if followers else row.awaited for row in rows]
        records = (yield self._operations.get_runs(ref.tenant, ids)) if ids else ()
        by_id = {record.id: record for record in records}
        return [Run(self._scope, by_id[id]) for id in ids if id in by_id]

    def audit(
        self,
        run: str | None = None,
        *,
        queue: str | None = None,
        job: str | None = None,
        by: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Flow[Sequence[AuditEntry]]:
        """List what operators did, the latest first: to one run, queue or job, or to all; `by` one
        of them.

        For the next page, pass the last one's number as `before`.
        """
        kind, subject = check_subject(run, queue, job)
        found: Sequence[AuditEntry] = yield self._operations.list_audit(
            self._scope.tenant,
            kind=kind,
            subject=subject,
            actor=by,
            before=before,
            limit=check_page("limit", limit),
        )
        return found

    def attempts(
        self, run: str, *, before: int | None = None, limit: int = 100
    ) -> Flow[Sequence[Attempt]]:
        """List the attempts of a run that have ended, newest first.

        For the next page, pass the last one's number as `before`. `run.attempts` has the latest
        hundred.
        """
        call = self._operations.list_attempts(self._ref(run), before, check_page("limit", limit))
        found: Sequence[Attempt] = yield call
        return found

    def run_events(self, run: str, *, after: int = 0) -> Flow[Sequence[Event]]:
        """List the events of a run in order, those after number `after`."""
        ref, found = self._ref(run), builtins.list[Event]()
        while True:
            page = yield self._operations.list_events(ref, after, _EVENTS)
            found += page
            if len(page) < _EVENTS:
                return found
            after = page[-1].seq

    def logs(
        self, run: str, *, attempt: int | None = None, after: LogLine | None = None
    ) -> Flow[Sequence[LogLine]]:
        """List what the handler of a run has logged, in order; of one attempt, if you name it.

        `after` is a line that you have: the list begins after it. Lines come up to a second after
        they were logged.
        """
        ref, found = self._ref(run), builtins.list[LogLine]()
        place = None if after is None else LogPlace(after.token, after.number)
        while True:
            chunks = yield self._operations.list_logs(ref.tenant, ref.id, place, _PIECES)
            if not chunks and place is None:
                yield from self._record(run)  # raises RunNotFound
            lines = [line for chunk in chunks for line in lines_of(chunk)]
            found += [line for line in lines if attempt in (None, line.attempt)]
            if len(chunks) < _PIECES:
                return found
            place = LogPlace(lines[-1].token, lines[-1].number)

    @property
    def _operations(self) -> Operations:
        return self._scope.store.operations

    def _ref(self, run: str) -> RunRef:
        return RunRef(self._scope.tenant, check_id(run))

    def _record(self, run: str) -> Flow[RunRecord]:
        record: RunRecord | None = yield self._operations.get_run(self._ref(run))
        if record is None:
            raise RunNotFound(run)
        return record
