"""What an application does with runs, each verb written once, as a flow.

``faces.py`` has the two faces of each, and is generated from this file (``tools/make_faces.py``).
"""

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

from windlass.client.announce import publish_moved
from windlass.client.filters import (
    ListOptions,
    check_budget,
    check_id,
    check_page,
    check_reason,
    read_filter,
)
from windlass.client.requests import check_time
from windlass.client.run import Run
from windlass.client.scope import Verbs
from windlass.domain.job import check_name, check_priority
from windlass.domain.run import Attempt, Event, RunRecord, RunRef
from windlass.domain.states import Status
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, ResultTimeout, RunFailed, RunNotFound
from windlass.sources import Sources
from windlass.store.flow import Flow, Hint, Pause
from windlass.store.operations import Call, Operations

_EVENTS = 1000  # at once
_FIRST_LOOK = 0.005
_LAST_LOOK = 0.25


class RunVerbs(Verbs):
    """Look, wait, cancel, retry, reschedule, reprioritize, discard."""

    def get(self, run: str) -> Flow[Run]:
        """Read a run; raises RunNotFound."""
        record: RunRecord | None = yield self._operations.get_run(self._ref(run))
        if record is None:
            raise RunNotFound(run)
        return Run(self._scope, record)

    def list(self, **query: Unpack[ListOptions]) -> Flow[Sequence[Run]]:
        """A page of runs, newest first, by status, job, queue, tag, failure, created_from,
        created_to, dead; `limit` of them; the next page: before=the last one's id."""
        records = yield self._operations.list_runs(read_filter(self._scope.tenant, query))
        return [Run(self._scope, record) for record in records]

    def cancel(self, run: str, *, reason: str | None = None) -> Flow[Run]:
        """End a run that has not started; ask for the end of one that is running."""
        record = yield self._operations.cancel(self._ref(run), check_reason(reason))
        found = Run(self._scope, record)
        if found.cancel_requested:
            yield Hint()  # so that its worker asks for orders now
        return found

    def retry(self, run: str, *, max_attempts: int | None = None) -> Flow[Run]:
        """Reopen a failed, canceled or stale run, with a fresh budget of attempts."""
        call = self._operations.retry(self._ref(run), check_budget(max_attempts))
        return (yield from self._moved(call))

    def reschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Flow[Run]:
        """Move a run that has not started to another time; reopen one that ended, for that time.

        `at` is a datetime with a zone, `delay` a duration from now; what has come already is ready
        at once. Raises IllegalTransition for a run that is running or has succeeded, and RunExpires
        for one that would have expired, or met its deadline, by then.
        """
        call = self._operations.reschedule(self._ref(run), **check_time(at, delay))
        return (yield from self._moved(call))

    def reprioritize(
        self, run: str, *, priority: int | None = None, queue: str | None = None
    ) -> Flow[Run]:
        """Give a run that has not started another priority, another queue, or both.

        It keeps its time: in its new place it comes before what became ready after it. Raises
        IllegalTransition for a run that is running or has ended.
        """
        if priority is None and queue is None:
            raise BadOption("priority", "give a priority, a queue, or both")
        call = self._operations.reprioritize(
            self._ref(run),
            priority=None if priority is None else check_priority(priority),
            queue=None if queue is None else check_name("queue", queue),
        )
        return (yield from self._moved(call))

    def discard(self, *runs: str) -> Flow[int]:
        """Take failed runs off the dead letters for good; returns how many were on them."""
        ids = [check_id(run) for run in runs]
        discarded: int = yield self._operations.discard(self._scope.tenant, ids)
        return discarded

    def attempts(
        self, run: str, *, before: int | None = None, limit: int = 100
    ) -> Flow[Sequence[Attempt]]:
        """A run's ended attempts, the last one first; the next page: before=the last one's
        number. A run itself has its latest hundred."""
        call = self._operations.list_attempts(self._ref(run), before, check_page("limit", limit))
        found: Sequence[Attempt] = yield call
        return found

    def events(self, run: str, *, after: int = 0) -> Flow[Sequence[Event]]:
        """A run's history, in order, from the event after that `seq` on."""
        ref, found = self._ref(run), builtins.list[Event]()
        while True:
            page = yield self._operations.list_events(ref, after, _EVENTS)
            found += page
            if len(page) < _EVENTS:
                return found
            after = page[-1].seq

    def wait(self, run: str, *, timeout: Duration | None = None) -> Flow[Run]:
        """Wait until a run has ended, whatever the outcome. Raises ResultTimeout."""
        patience = _Wait(run, timeout, self._scope.sources)
        while True:
            if (yield self._operations.has_ended(self._ref(run))) is not False:
                found = yield from self.get(run)
                if found.status.finished:  # and was not reopened meanwhile
                    return found
            yield Pause(patience.pause())

    def result(self, run: str, *, timeout: Duration | None = None) -> Flow[Any]:
        """Wait for a run's result; raises RunFailed where it has none, ResultTimeout."""
        ended = yield from self.wait(run, timeout=timeout)
        if ended.status is Status.SUCCEEDED:
            return ended.result
        raise RunFailed(ended.id, ended.status, ended.failure, ended.error, ended.reason)

    @property
    def _operations(self) -> Operations:
        return self._scope.store.operations

    def _ref(self, run: str) -> RunRef:
        return RunRef(self._scope.tenant, check_id(run))

    def _moved(self, call: Call[RunRecord]) -> Flow[Run]:
        """Move a run, and notify whoever may take it."""
        record = yield call
        publish_moved(self._scope.transport, record)
        yield Hint()
        return Run(self._scope, record)


class _Wait:
    """How long to sleep between looks: short at first, then less and less often."""

    def __init__(self, run: str, timeout: Duration | None, sources: Sources) -> None:
        self._run = run
        self._clock = sources.clock
        self._timeout = None if timeout is None else parse_duration(timeout)
        self._began = self._clock.monotonic()
        self._next = _FIRST_LOOK

    def pause(self) -> float:
        """Seconds until the next look; raises ResultTimeout when the time is up."""
        pause, self._next = self._next, min(self._next * 1.5, _LAST_LOOK)
        if self._timeout is None:
            return pause
        left = self._began + self._timeout - self._clock.monotonic()
        if left <= 0:
            raise ResultTimeout(self._run, self._timeout)
        return min(pause, left)
