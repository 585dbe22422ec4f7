"""What the tests of the store are written with: new runs, a driver, and ways into a status."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol, TypeVar

import msgspec
import pytest

from tests.conformance.places import Row, Tables
from windlass.domain.changes import Changes
from windlass.domain.event import EventType
from windlass.domain.listing import RunFilter
from windlass.domain.outcome import ErrorInfo, Outcome
from windlass.domain.progress import Detail
from windlass.domain.run import (
    DEFAULT_TENANT,
    Blocked,
    Claimed,
    CycleReply,
    Enqueued,
    Event,
    FeedEvent,
    Finish,
    Held,
    NewRun,
    ProgressWrite,
    RenewReply,
    RunRecord,
    RunRef,
    SweepReply,
    Want,
    WorkerInfo,
)
from windlass.domain.runlog import LogLine, LogWrite
from windlass.domain.states import Failure, Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.sources import ManualClock, Sources
from windlass.store.interface import Store
from windlass.store.operations import Call, Operations

T = TypeVar("T")

LEASE = 30.0
JOB = "greet"
QUEUE = "main"
WORKER = "worker-1"
ABSENT = "00000000-0000-7000-8000-000000000000"  # an id that no run has


def requires(*capabilities: str) -> pytest.MarkDecorator:
    """Run the test only on stores that can do this."""
    return pytest.mark.requires(*capabilities)


class Face(Protocol):
    """One of the two ways to run a call."""

    def __call__(self, call: Call[T]) -> T:
        """Run it and wait."""
        ...


def raw(value: object) -> msgspec.Raw:
    """A value as the JSON that crosses the seam."""
    return msgspec.Raw(msgspec.json.encode(value))


def value_of(document: msgspec.Raw) -> Any:
    """What a JSON document says."""
    return msgspec.json.decode(document)


def make_error(message: str = "boom", kind: str = "ValueError") -> ErrorInfo:
    """An error as a worker reports it."""
    return ErrorInfo(type=kind, message=message, traceback="Traceback …", fingerprint="f00d")


def make_worker(ident: str = WORKER, **fields: Any) -> WorkerInfo:
    """A worker as it introduces itself."""
    given: dict[str, Any] = {
        "host": "box", "pid": 7, "version": "1", "queues": None, "jobs": (JOB,), "seats": 10,
    }  # fmt: skip
    return WorkerInfo(id=ident, **(given | fields))


def make_finish(held: Claimed | Held, outcome: Outcome, **fields: Any) -> Finish:
    """The end of an attempt, under the token of its lease unless another is given."""
    if outcome is Outcome.FAILED:
        fields = {"failure": Failure.FATAL, "error": make_error(), "counts": True} | fields
    if outcome is Outcome.RETRY:
        fields = {"delay": 60.0, "error": make_error(), "counts": True} | fields
    if outcome is Outcome.SNOOZED:
        fields = {"delay": 60.0} | fields
    if outcome is Outcome.SLEEPING:
        fields = {"waits": ("nap",), "until": datetime(9000, 1, 1, tzinfo=UTC)} | fields
    if outcome is Outcome.WAITING:
        fields = {"waits": ("go",)} | fields
    if outcome is Outcome.CONTINUED:
        fields = {"result": raw({"n": 2})} | fields
    named: dict[str, Any] = {"tenant": held.tenant, "id": held.id, "token": held.token}
    return Finish(outcome=outcome, **(named | fields))


def held_of(run: Claimed) -> Held:
    """A claimed run as its holder names it afterwards."""
    return Held(run.tenant, run.id, run.token)


def logged(held: Held, *lines: LogLine, first: int = 0, attempt: int = 1) -> LogWrite:
    """A piece of an attempt's log."""
    return LogWrite(
        tenant=held.tenant, id=held.id, token=held.token, attempt=attempt, first=first, lines=lines
    )


def told(
    held: Held, fraction: float | None, message: str | None = None, detail: Detail | None = None
) -> ProgressWrite:
    """What the holder of a lease tells of its progress."""
    return ProgressWrite(
        tenant=held.tenant, id=held.id, token=held.token, fraction=fraction, message=message,
        detail=detail,
    )  # fmt: skip


class Driver:
    """A store, one of its faces and a clock: the vocabulary of the tests."""

    def __init__(self, store: Store, call: Face, sources: Sources, tables: Tables) -> None:
        self.store = store
        self.call = call
        self.sources = sources
        self.tables = tables
        self._claims = count(1)

    @property
    def ops(self) -> Operations:
        """Where calls are made."""
        return self.store.operations

    # -- time -----------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The time of the test's clock."""
        return self.sources.now()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert isinstance(self.sources.clock, ManualClock), "this test runs on the real clock"
        self.sources.clock.advance(seconds)

    def jump(self, by: timedelta) -> None:
        """Move the wall clock alone, either way."""
        assert isinstance(self.sources.clock, ManualClock), "this test runs on the real clock"
        self.sources.clock.jump(by)

    def later(self, seconds: float) -> datetime:
        """The time of the test's clock in so many seconds."""
        return self.now + timedelta(seconds=seconds)

    # -- enqueue --------------------------------------------------------------------------

    def new(self, **fields: Any) -> NewRun:
        """A run that is not yet enqueued."""
        given = {"id": self.sources.new_id(), "job": JOB, "queue": QUEUE, "input": raw({"n": 1})}
        return NewRun(**(given | fields))

    def enqueue(self, *runs: NewRun) -> Sequence[Enqueued]:
        """Enqueue these, in one call."""
        return self.call(self.ops.enqueue(runs))

    def add(self, **fields: Any) -> RunRef:
        """Enqueue one new run."""
        run = self.new(**fields)
        (answer,) = self.enqueue(run)
        assert answer.created
        return RunRef(run.tenant, answer.id)

    def add_many(self, number: int, **fields: Any) -> Sequence[RunRef]:
        """Enqueue new runs in one call."""
        runs = [self.new(**fields) for _ in range(number)]
        self.enqueue(*runs)
        return [RunRef(run.tenant, run.id) for run in runs]

    # -- workers --------------------------------------------------------------------------

    def register(self, worker: str = WORKER, lease: float = LEASE) -> datetime:
        """Make a worker known, or alive again."""
        return self.call(self.ops.register(make_worker(worker), lease))

    def claim(
        self,
        limit: int = 10,
        *,
        worker: str = WORKER,
        jobs: Sequence[str] = (JOB,),
        queues: Sequence[str] | None = None,
        claim_no: int | None = None,
        finishes: Sequence[Finish] = (),
        **more: Any,
    ) -> CycleReply:
        """Ask for runs; each call has a number of its own unless one is given."""
        want = Want(
            limit=limit, jobs=tuple(jobs), queues=None if queues is None else tuple(queues), **more
        )
        number = next(self._claims) if claim_no is None else claim_no
        return self.call(self.ops.cycle(worker, number, finishes, want))

    def start(self, worker: str = WORKER, **fields: Any) -> Claimed:
        """Enqueue a run and let a worker that is alive claim it."""
        return self.take(self.add(**fields), worker)

    def take(self, run: RunRef, worker: str = WORKER) -> Claimed:
        """Let a worker that is alive claim exactly this run."""
        self.register(worker)
        job = self.get(run).job
        (claimed,) = self.claim(1, worker=worker, jobs=(job,), ids=(run,)).claimed
        return claimed

    def start_many(self, number: int, worker: str = WORKER, **fields: Any) -> Sequence[Claimed]:
        """Enqueue runs and let a worker claim them all."""
        self.add_many(number, **fields)
        self.register(worker)
        claimed = self.claim(number, worker=worker).claimed
        assert len(claimed) == number
        return claimed

    def finish(self, held: Claimed | Held, outcome: Outcome, **fields: Any) -> CycleReply:
        """End one attempt."""
        return self.finish_all([make_finish(held, outcome, **fields)])

    def finish_all(self, finishes: Sequence[Finish], worker: str = WORKER) -> CycleReply:
        """End attempts, without claiming more; those that somebody has locked, once more."""
        reply = self.send_ends(finishes, worker)
        while reply.busy:
            busy = set(reply.busy)
            again = [end for end in finishes if Held(end.tenant, end.id, end.token) in busy]
            later = self.send_ends(again, worker)
            lost = (*reply.lost, *later.lost)
            reply = msgspec.structs.replace(reply, busy=later.busy, lost=lost)
        return reply

    def send_ends(self, finishes: Sequence[Finish], worker: str = WORKER) -> CycleReply:
        """End attempts in one trip, whatever it leaves busy."""
        return self.call(self.ops.cycle(worker, next(self._claims), finishes, None))

    def renew(
        self,
        held: Iterable[Claimed | Held] = (),
        *,
        worker: str = WORKER,
        lease: float = LEASE,
        settled: int = 0,
        blocked: Blocked | None = None,
    ) -> RenewReply:
        """Keep a worker alive."""
        names = [Held(item.tenant, item.id, item.token) for item in held]
        return self.call(self.ops.renew(worker, lease, names, settled, blocked))

    def kill(self, worker: str = WORKER) -> None:
        """Let a worker's time run out at this very instant."""
        self.register(worker, lease=0)

    def sweep(
        self,
        *,
        dispatch: bool = False,
        expire: bool = False,
        reap: bool = False,
        max_crashes: int = 3,
        limit: int = 100,
        every: float = 0.0,
        spare: bool = False,
    ) -> SweepReply:
        """Run the services that are named.

        Most tests let time jump, and spare nobody for it; see `test_outages.py` for those that do.
        """
        return self.call(
            self.ops.sweep(
                dispatch=dispatch,
                expire=expire,
                reap=reap,
                max_crashes=max_crashes,
                limit=limit,
                every=every,
                spare=spare,
            )
        )

    # -- control and reads ------------------------------------------------------------------

    def cancel(self, run: RunRef, reason: str | None = None) -> RunRecord:
        """Ask for a run's end."""
        return self.call(self.ops.cancel(run, reason))

    def pause(self, run: RunRef, reason: str | None = None) -> RunRecord:
        """Stop a run for now."""
        return self.call(self.ops.pause(run, reason))

    def resume(self, run: RunRef) -> RunRecord:
        """Let a paused run go on."""
        return self.call(self.ops.resume(run))

    def restart(self, run: RunRef, step: str | None = None) -> RunRecord:
        """Let a run begin anew."""
        return self.call(self.ops.restart(run, step))

    def terminate(self, run: RunRef, reason: str | None = None) -> RunRecord:
        """End a run now."""
        return self.call(self.ops.terminate(run, reason))

    def retry(
        self, run: RunRef, max_attempts: int | None = None, input: msgspec.Raw | None = None
    ) -> RunRecord:
        """Reopen a run."""
        return self.call(self.ops.retry(run, max_attempts, input))

    def reschedule(self, run: RunRef, **when: Any) -> RunRecord:
        """Move a run in time: `at` or `delay`."""
        return self.call(self.ops.reschedule(run, **when))

    def reprioritize(self, run: RunRef, **place: Any) -> RunRecord:
        """Give a run another `priority`, or another `queue`."""
        return self.call(self.ops.reprioritize(run, **place))

    def change(self, run: RunRef, **changes: Any) -> RunRecord:
        """Change a run that waits; the fields are those of `Changes`."""
        return self.call(self.ops.change(run, Changes(**changes)))

    def get(self, run: RunRef) -> RunRecord:
        """The record of a run that must be there."""
        record = self.call(self.ops.get_run(run))
        assert record is not None
        return record

    def list(self, **fields: Any) -> Sequence[str]:
        """The ids on one page of a listing."""
        return [record.id for record in self.call(self.ops.list_runs(RunFilter(**fields)))]

    def events(self, run: RunRef) -> Sequence[Event]:
        """A run's whole history."""
        return self.call(self.ops.list_events(run, 0, 1_000))

    def feed(self, at_least: int = 0) -> Sequence[FeedEvent]:
        """All events, once there are so many: a transaction of anybody else, in any
        database of the server, holds the feed back while it runs."""
        deadline = time.monotonic() + 10
        while True:
            events = self.call(self.ops.list_feed(None, 1_000_000))
            if len(events) >= at_least or time.monotonic() > deadline:
                return events
            time.sleep(0.005)

    def trail(self, run: RunRef) -> Sequence[EventType]:
        """What happened to a run, by name; its seq must be 1 to n."""
        events = self.events(run)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        return [event.type for event in events]

    def rows(self, table: str, **where: object) -> Sequence[Row]:
        """The rows of a table in which these columns have these values."""
        return [
            row
            for row in self.tables.rows(table)
            if all(row[column] == value for column, value in where.items())
        ]

    def positions(self, run: RunRef) -> Sequence[str]:
        """The tables in which the run has a position."""
        return [
            table
            for table in ("timers", "ready", "leases")
            if self.rows(table, tenant=run.tenant, id=run.id)
        ]

    # -- ways into a status -------------------------------------------------------------------

    def bring(self, status: Status, **fields: Any) -> RunRef:
        """A run in the given status, by real operations."""
        match status:
            case Status.SCHEDULED:
                return self.add(delay=60.0, **fields)
            case Status.QUEUED:
                return self.add(**fields)
            case Status.RUNNING:
                return self.start(**fields).ref
            case Status.SUCCEEDED:
                return self.ended(Outcome.SUCCEEDED, **fields)
            case Status.FAILED:
                return self.ended(Outcome.FAILED, **fields)
            case Status.CANCELED:
                return self.ended(Outcome.CANCELED, **fields)
            case Status.WAITING:
                return self.waits(**fields)
            case Status.PAUSED:
                run = self.add(**fields)
                self.pause(run)
                return run

    def waits(self, **fields: Any) -> RunRef:
        """A run that waits for the signal `go`, for a minute at most."""
        claimed = self.start(**fields)
        step = StepWrite(
            path="go", kind=StepKind.SIGNAL, state=StepState.WAITING, signal="go", wait=60.0
        )
        assert self.call(self.ops.record_steps(held_of(claimed), [step])) is not None
        until = self.later(60.0)
        reply = self.finish(claimed, Outcome.WAITING, waits=("go",), until=until)
        assert reply.lost == ()
        if "expires_in" in fields:  # it has started: only a new one counts
            self.change(claimed.ref, expires_in=fields["expires_in"])
        return claimed.ref

    def ended(self, outcome: Outcome, **fields: Any) -> RunRef:
        """A run whose first attempt ended like this."""
        claimed = self.start(**fields)
        assert self.finish(claimed, outcome).lost == ()
        return claimed.ref


def ref(ident: str, tenant: str = DEFAULT_TENANT) -> RunRef:
    """A run's full name."""
    return RunRef(tenant, ident)


def ids(items: Iterable[NewRun | RunRef | Claimed | Enqueued | RunRecord]) -> Sequence[str]:
    """The ids of things that have one."""
    return [item.id for item in items]


def reachable() -> Sequence[Status]:
    """The statuses that operations lead to today."""
    return list(Status)


Opened = Callable[[], Driver]
"""Opens one more driver on the same database, with connections of its own."""
