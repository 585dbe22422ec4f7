"""The verbs of an application, in two faces over the same calls.

The sync face uses no thread and no loop. The async face never blocks the loop, and enqueues in
groups. Each pair of twins differs in nothing but how the call is run.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict, Unpack

from windlass.client.group import GroupCommit
from windlass.client.handles import Handles
from windlass.client.requests import Request, check_instant, check_time, shared_connection
from windlass.client.run import Run
from windlass.domain.job import check_max_attempts, check_text
from windlass.domain.run import Enqueued, Event, NewRun, RunFilter, RunRecord, RunRef
from windlass.domain.states import Failure, Status
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption, ResultTimeout, RunFailed, RunNotFound
from windlass.sources import Sources
from windlass.store.flow import Flow, arun_flow, run_flow
from windlass.store.interface import Call, Store
from windlass.store.transactions import AsyncTransaction, Transaction
from windlass.transport.interface import Transport, encode_message

MOST_PER_PAGE = 1000
_LONGEST_NAME = 200
_LONGEST_REASON = 10_000
_EVENTS = 1000  # at once
_FIRST_LOOK = 0.005
_LAST_LOOK = 0.25


class ListOptions(TypedDict, total=False):
    """What a listing may be narrowed by."""

    status: Status | str
    job: str
    queue: str
    tag: str
    failure: Failure | str
    created_from: datetime
    created_to: datetime
    dead: bool
    before: str
    limit: int


class Client:
    """Enqueue, look, wait, cancel, retry, reschedule."""

    def __init__(
        self, store: Store, sources: Sources, transport: Transport, *, tenant: str
    ) -> None:
        self._store = store
        self._sources = sources
        self._transport = transport
        self._tenant = tenant
        self._group = GroupCommit(store, self._aannounce)

    def enqueue(self, requests: Sequence[Request]) -> Sequence[Run]:
        """Enqueue in one round trip, all or none."""
        if not requests:
            return []
        connection = shared_connection(requests)
        runs = [self._new_run(request) for request in requests]
        if connection is not None:
            return self._join(connection, runs)
        answers = self._store.run(self._store.operations.enqueue(runs))
        self._announce(runs, answers)
        known = _known(answers)
        records = self._store.run(self._get_runs(known)) if known else ()
        return Handles(self, runs, answers, records)

    async def aenqueue(self, requests: Sequence[Request]) -> Sequence[Run]:
        """As `enqueue`."""
        if not requests:
            return []
        connection = shared_connection(requests)
        runs = [self._new_run(request) for request in requests]
        if connection is not None:
            return await self._ajoin(connection, runs)
        answers = await self._group.enqueue(runs)
        known = _known(answers)
        records = await self._store.arun(self._get_runs(known)) if known else ()
        return Handles(self, runs, answers, records)

    def get(self, run: str) -> Run:
        """Read a run; raises RunNotFound."""
        return self._found(run, self._store.run(self._store.operations.get_run(self._ref(run))))

    async def aget(self, run: str) -> Run:
        """As `get`."""
        call = self._store.operations.get_run(self._ref(run))
        return self._found(run, await self._store.arun(call))

    def list(self, **query: Unpack[ListOptions]) -> Sequence[Run]:
        """A page of runs, newest first; the next page: before=the last one's id."""
        call = self._store.operations.list_runs(self._filter(query))
        return [Run(self, record) for record in self._store.run(call)]

    async def alist(self, **query: Unpack[ListOptions]) -> Sequence[Run]:
        """As `list`."""
        call = self._store.operations.list_runs(self._filter(query))
        return [Run(self, record) for record in await self._store.arun(call)]

    def cancel(self, run: str, *, reason: str | None = None) -> Run:
        """End a run that has not started; ask for the end of one that is running."""
        call = self._store.operations.cancel(self._ref(run), _reason(reason))
        found = Run(self, self._store.run(call))
        if found.cancel_requested:
            self._store.notify()  # so that its worker asks for orders now
        return found

    async def acancel(self, run: str, *, reason: str | None = None) -> Run:
        """As `cancel`."""
        call = self._store.operations.cancel(self._ref(run), _reason(reason))
        found = Run(self, await self._store.arun(call))
        if found.cancel_requested:
            await self._store.anotify()
        return found

    def retry(self, run: str, *, max_attempts: int | None = None) -> Run:
        """Reopen a failed, canceled or stale run, with a fresh budget."""
        call = self._store.operations.retry(self._ref(run), _budget(max_attempts))
        reopened = Run(self, self._store.run(call))
        self._publish(reopened)
        self._store.notify()
        return reopened

    async def aretry(self, run: str, *, max_attempts: int | None = None) -> Run:
        """As `retry`."""
        call = self._store.operations.retry(self._ref(run), _budget(max_attempts))
        reopened = Run(self, await self._store.arun(call))
        self._publish(reopened)
        await self._store.anotify()
        return reopened

    def reschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """Move a run that has not started to another time; reopen one that ended, for that time."""
        call = self._store.operations.reschedule(self._ref(run), **check_time(at, delay))
        moved = Run(self, self._store.run(call))
        self._publish(moved)
        self._store.notify()
        return moved

    async def areschedule(
        self, run: str, *, at: datetime | None = None, delay: Duration | None = None
    ) -> Run:
        """As `reschedule`."""
        call = self._store.operations.reschedule(self._ref(run), **check_time(at, delay))
        moved = Run(self, await self._store.arun(call))
        self._publish(moved)
        await self._store.anotify()
        return moved

    def discard(self, runs: Sequence[str]) -> int:
        """Take failed runs off the dead letters; returns how many were on it."""
        return self._store.run(self._store.operations.discard(self._tenant, _ids(runs)))

    async def adiscard(self, runs: Sequence[str]) -> int:
        """As `discard`."""
        return await self._store.arun(self._store.operations.discard(self._tenant, _ids(runs)))

    def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """A run's history, in order, from the event after that `seq` on."""
        return run_flow(self._store, self._history(run, after))

    async def aevents(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """As `events`."""
        return await arun_flow(self._store, self._history(run, after))

    def wait(self, run: str, *, timeout: Duration | None = None) -> Run:
        """Wait until a run has ended, whatever the outcome. Raises ResultTimeout."""
        patience = _Wait(run, timeout, self._sources)
        with self._store.blocking.watch():
            while True:
                if self._store.run(self._has_ended(run)) is not False:
                    found = self.get(run)
                    if found.status.finished:  # and was not reopened meanwhile
                        return found
                time.sleep(patience.pause())

    async def await_end(self, run: str, *, timeout: Duration | None = None) -> Run:
        """As `wait`."""
        patience = _Wait(run, timeout, self._sources)
        while True:
            if await self._store.arun(self._has_ended(run)) is not False:
                found = await self.aget(run)
                if found.status.finished:
                    return found
            await asyncio.sleep(patience.pause())

    def result(self, run: str, *, timeout: Duration | None = None) -> Any:
        """Wait for a run's result; raises RunFailed where it has none, ResultTimeout."""
        return _result(self.wait(run, timeout=timeout))

    async def aresult(self, run: str, *, timeout: Duration | None = None) -> Any:
        """As `result`."""
        return _result(await self.await_end(run, timeout=timeout))

    def _new_run(self, request: Request) -> NewRun:
        return request.new_run(self._sources.new_id(), self._tenant)

    def _join(self, connection: object, runs: Sequence[NewRun]) -> Sequence[Run]:
        """Enqueue in the caller's transaction.

        Only of our own do we learn when it has committed. After another's the store's hint comes
        by itself, and the message of a transport by its sweep.
        """
        joined = self._store.join(connection, runs)
        if isinstance(connection, Transaction):
            connection.after_commit(lambda: self._announce(runs, joined.answers))
        return Handles(self, runs, *joined)

    async def _ajoin(self, connection: object, runs: Sequence[NewRun]) -> Sequence[Run]:
        joined = await self._store.ajoin(connection, runs)
        if isinstance(connection, AsyncTransaction):
            connection.after_commit(lambda: self._aannounce(runs, joined.answers))
        return Handles(self, runs, *joined)

    def _announce(self, runs: Sequence[NewRun], answers: Sequence[Enqueued]) -> None:
        """Tell workers; a run for later is found by the dispatchers in its time."""
        if any(a.created for a in answers):
            if not self._transport.pulls:
                self._transport.publish(_messages(runs, answers))
            self._store.notify()

    async def _aannounce(self, runs: Sequence[NewRun], answers: Sequence[Enqueued]) -> None:
        if any(a.created for a in answers):
            if not self._transport.pulls:
                self._transport.publish(_messages(runs, answers))
            await self._store.anotify()

    def _publish(self, run: Run) -> None:
        """Send word of a run that is ready; one for later is found by the dispatchers."""
        if run.status is Status.QUEUED:
            self._transport.publish([encode_message(run.ref)])

    def _history(self, run: str, after: int) -> Flow[Sequence[Event]]:
        ref, found = self._ref(run), list[Event]()
        while True:
            page = yield self._store.operations.list_events(ref, after, _EVENTS)
            found += page
            if len(page) < _EVENTS:
                return found
            after = page[-1].seq

    def _get_runs(self, ids: Sequence[str]) -> Call[Sequence[RunRecord]]:
        return self._store.operations.get_runs(self._tenant, ids)

    def _has_ended(self, run: str) -> Call[bool | None]:
        return self._store.operations.has_ended(self._ref(run))

    def _found(self, run: str, record: RunRecord | None) -> Run:
        if record is None:
            raise RunNotFound(run)
        return Run(self, record)

    def _ref(self, run: str) -> RunRef:
        return RunRef(self._tenant, _id(run))

    def _filter(self, query: ListOptions) -> RunFilter:
        given: dict[str, Any] = {}
        for name, value in query.items():
            reader = _LIST_READERS.get(name)
            if reader is None:
                raise BadOption(
                    name, f"there is no such filter; there are {', '.join(_LIST_READERS)}"
                )
            if value is not None:
                given[name] = reader(name, value)
        return RunFilter(tenant=self._tenant, **given)


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


def _result(run: Run) -> Any:
    if run.status is Status.SUCCEEDED:
        return run.result
    raise RunFailed(run.id, run.status, run.failure, run.error, run.reason)


def _known(answers: Sequence[Enqueued]) -> Sequence[str]:
    """The runs that were there before."""
    return [answer.id for answer in answers if not answer.created]


def _messages(runs: Sequence[NewRun], answers: Sequence[Enqueued]) -> list[bytes]:
    return [
        encode_message(RunRef(run.tenant, answer.id))
        for run, answer in zip(runs, answers, strict=True)
        if answer.created and answer.status is Status.QUEUED
    ]


def _reason(reason: str | None) -> str | None:
    if not reason:
        return None
    given: object = reason  # callers without a type checker pass anything
    if not isinstance(given, str):
        raise BadOption("reason", f"it must be text, not {type(given).__name__}")
    return check_text("reason", given, _LONGEST_REASON)


def _budget(max_attempts: int | None) -> int | None:
    return None if max_attempts is None else check_max_attempts(max_attempts)


def _one_of(kind: type[StrEnum]) -> Callable[[str, Any], StrEnum]:
    def read(option: str, value: Any) -> StrEnum:
        try:
            return kind(value)
        except ValueError:
            raise BadOption(option, f"{value!r} is not one of {', '.join(kind)}") from None

    return read


def _name(option: str, value: Any) -> str:
    return check_text(option, value, _LONGEST_NAME)


def _truth(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadOption(option, f"{value!r} is neither True nor False")
    return value


def _page(option: str, value: Any) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_PER_PAGE
    if not good:
        raise BadOption(option, f"{value!r} is not a whole number from 1 to {MOST_PER_PAGE}")
    return int(value)


def _ids(runs: Sequence[str]) -> list[str]:
    return [_id(run) for run in runs]


def _id(run: object) -> str:
    """An id as the stores know it; what cannot be one is not found, alike on both."""
    text = run.strip().lower() if isinstance(run, str) else ""
    digits = text.replace("-", "")
    if len(digits) != 32 or any(c not in "0123456789abcdef" for c in digits):
        raise RunNotFound(str(run)[:100])
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_LIST_READERS: dict[str, Callable[[str, Any], Any]] = {
    "status": _one_of(Status),
    "job": _name,
    "queue": _name,
    "tag": _name,
    "failure": _one_of(Failure),
    "created_from": check_instant,
    "created_to": check_instant,
    "dead": _truth,
    "before": lambda _, value: _id(value),
    "limit": _page,
}
