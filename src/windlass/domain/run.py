"""The values that cross the store's seam: what a run is when written, held and read.

They are msgspec structs so that one definition serves three times: as Python values,
as the JSON that the PostgreSQL functions take and give, and as rows mapped from SQLite.
Ids are UUIDv7 text made by the client. Delays are seconds that the store adds to its
own clock; absolute times are aware datetimes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.failed import FailureHandler
from windlass.domain.outcome import ErrorInfo, Outcome
from windlass.domain.progress import Detail
from windlass.domain.retention import RetentionTerms
from windlass.domain.states import Failure, Intent, Status

DEFAULT_TENANT = "default"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NULL = msgspec.Raw(b"null")  # JSON's null: what an absent document is read as


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one run overrides of its job's definition, and what few runs have; stored with it."""

    max_attempts: int | None = None
    timeout: float | None = None
    unique: Literal["live"] | None = None
    """``live``: its key is free again when it has ended."""
    again_of: str | None = None
    """The run that this one was made from, if it is one run again."""
    asked_by: str | None = None
    """Who asked for it, if the program said so: see `app.acting_as`."""
    on_failure: bool = False
    """It handles the failure of another run, by which it was made; nobody handles its own."""

    @property
    def frees_key(self) -> bool:
        """Whether the key of an ended run is free."""
        return self.unique == "live"


class NewRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run to be enqueued. Repeating it with the same id makes no second run."""

    id: str
    job: str
    queue: str
    input: msgspec.Raw
    tenant: str = DEFAULT_TENANT
    priority: int = 0
    options: Options | None = None
    job_version: str | None = None
    key: str | None = None
    key_ttl: float | None = None
    tags: tuple[str, ...] = ()
    delay: float | None = None
    at: datetime | None = None
    expires_in: float | None = None
    expires_at: datetime | None = None
    deadline_in: float | None = None
    deadline_at: datetime | None = None
    trace: str | None = None
    metadata: msgspec.Raw | None = None
    enqueued_by: str | None = None  # the run in whose handler it was enqueued
    after: tuple[str, ...] = ()  # the runs that have to end before: see domain/follower.py
    after_failure: Literal["cancel", "run"] = "cancel"  # if one of them has not succeeded
    takes: str | None = None  # the argument that is the result of the one run that it comes after

    @property
    def frees_key(self) -> bool:
        """Whether its key is free again when it has ended."""
        return self.options is not None and self.options.frees_key


class Enqueued(msgspec.Struct, frozen=True, kw_only=True):
    """The store's answer to one :class:`NewRun`, in the order given.

    ``created`` is false where the key or the id was known: the other fields then tell
    of the run that exists, as it is now. ``hinted``: workers were told with the commit.
    """

    id: str
    created: bool
    status: Status
    created_at: datetime
    scheduled_for: datetime
    hinted: bool = False


class RunRef(msgspec.Struct, frozen=True):
    """A run's full name: ids are unique within a tenant only."""

    tenant: str
    id: str


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """What few runs have, and only their handlers ask for."""

    tags: tuple[str, ...] | None = None
    key: str | None = None
    metadata: dict[str, Any] | None = None
    enqueued_by: str | None = None
    is_child: bool = False  # of the run that enqueued it
    scheduled_for: datetime | None = None  # None: it has been ready since then


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A run that this worker now holds, by (tenant, id, token)."""

    tenant: str
    id: str
    job: str
    queue: str
    token: int
    attempt: int
    failures: int
    crash_count: int
    input: msgspec.Raw
    options: Options | None = None
    trace: str | None = None
    schedule: str | None = None
    rank: int = 0  # minus its priority
    ready_at: str | int = 0  # microseconds since 1970; as text they may have a point before six
    slot: datetime | None = None  # the instant of its schedule that this run is for
    extras: Extras | None = None
    deadline_at: datetime | None = None  # when the whole run must be done
    deadline_in: float | None = None  # seconds from the claim until then, by the store's clock
    flaw: str | None = None  # why its row could not be read; it can only fail

    @property
    def ref(self) -> RunRef:
        """The run's name."""
        return RunRef(self.tenant, self.id)

    @property
    def scheduled_for(self) -> datetime:
        """When it was to start, before any backoff."""
        if self.extras is not None and self.extras.scheduled_for is not None:
            return self.extras.scheduled_for
        return _EPOCH + timedelta(microseconds=int(str(self.ready_at).replace(".", "")))


class Held(msgspec.Struct, frozen=True, gc=False):
    """A lease as its holder names it."""

    tenant: str
    id: str
    token: int


class ProgressWrite(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written of a run's progress, under the token of its lease."""

    tenant: str
    id: str
    token: int
    fraction: float | None = None
    message: str | None = None
    detail: Detail | None = None

    @property
    def held(self) -> Held:
        """The lease that it is written under."""
        return Held(self.tenant, self.id, self.token)

    def followed_by(self, later: "ProgressWrite") -> "ProgressWrite":
        """Both as one: the later word counts."""
        return later


class ProgressReply(msgspec.Struct, frozen=True, kw_only=True):
    """Which of several were not written."""

    lost: Sequence[Held] = ()  # the lease is not held under that token
    busy: Sequence[Held] = ()  # somebody has the lease locked: to be sent again


class Finish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The end of one attempt, decided by the worker, valid only under its token."""

    tenant: str
    id: str
    token: int
    outcome: Outcome
    delay: float | None = None
    failure: Failure | None = None
    result: msgspec.Raw | None = None  # of continued: the input that the run goes on with
    error: ErrorInfo | None = None
    counts: bool = False  # whether the attempt counts against max_attempts
    timed_out: bool = False
    version: str | None = None  # of the definition that was run, where that can change
    until: datetime | None = None  # of sleeping and waiting: when it goes on at the latest
    waits: tuple[str, ...] = ()  # the paths of the steps that it sleeps or waits in
    heard: float | None = None  # seconds since the worker heard that it is to end, or to pause


class Mark(msgspec.Struct, frozen=True):
    """A place in a queue's claim order, as the store writes it. A hint, never a truth."""

    rank: int
    ready_at: str
    id: str


class Want(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker asks for: at most ``limit`` runs, queues in the given order.

    ``after`` holds, per queue, the key from which on to look; rows up to it are passed
    over unread. ``window`` bounds how many rows of each queue are looked at from there,
    so that a wall of jobs nobody here knows costs a bounded amount.
    ``turn`` says which queue comes first where ``queues`` names none: counted up by one,
    each has its turn.
    ``ids`` claims exactly these runs (of any queue in ``queues``) instead of the heads.
    """

    limit: int
    queues: tuple[str, ...] | None = None  # None: every queue
    jobs: tuple[str, ...] = ()
    after: dict[str, Mark] = {}
    window: int | None = None
    turn: int = 0
    ids: tuple[RunRef, ...] | None = None


class CycleReply(msgspec.Struct, frozen=True, kw_only=True):
    """What one fused finish-and-claim brought."""

    now: datetime
    lost: tuple[Held, ...] = ()  # finishes refused: the lease is another's, or gone
    busy: tuple[Held, ...] = ()  # finishes not recorded yet: somebody has the lease locked
    claimed: tuple[Claimed, ...] = ()
    marks: dict[str, Mark] = {}  # per queue, the last key taken
    # per queue, the last key looked at, where the window ended the look
    stops: dict[str, Mark] = {}
    # where none were named: those that have something ready, in the order of the look, and the
    # seconds that the search for them took
    queues: tuple[str, ...] = ()
    searched: float = 0.0
    refused: bool = False  # the worker is dead to the store: register anew
    locked: bool = False  # nothing was claimed: somebody has the worker's row locked


class Ordered(msgspec.Struct, frozen=True):
    """An operator's intent for a run that this worker holds."""

    tenant: str
    id: str
    token: int
    intent: Intent
    reason: str | None = None


class Blocked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker says with its renewal while its event loop does not answer.

    ``blamed`` are ends of leases that the renewal no longer names: those that count. The others
    that it does not name are given back uncounted.
    """

    seconds: float  # for how long
    tenant: str | None = None
    run: str | None = None  # which run blocks it, where that is known
    blamed: tuple[Finish, ...] = ()


class RenewReply(msgspec.Struct, frozen=True, kw_only=True):
    """What one renewal brought."""

    now: datetime
    alive: bool  # false: the store has forgotten this worker, nothing is held any more
    orders: tuple[Ordered, ...] = ()
    lost: tuple[Held, ...] = ()
    released: int = 0  # leases of claims whose reply never arrived, given back


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation of a worker process."""

    id: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...] | None
    jobs: tuple[str, ...]
    seats: int
    started_at: datetime | None = None
    renewed_at: datetime | None = None
    alive_until: datetime | None = None
    blocked_since: datetime | None = None  # since when its event loop has not answered
    blocked_tenant: str | None = None
    blocked_run: str | None = None


class SweepReply(msgspec.Struct, frozen=True, kw_only=True):
    """What one sweep of dispatcher, expiry and reaper moved."""

    now: datetime
    dispatched: tuple[RunRef, ...] = ()
    expired: int = 0
    overrun: int = 0  # runs that ended failed/deadline
    reaped: int = 0  # runs sent back to their queue
    crashed: int = 0  # runs that ended failed/crashed
    workers: tuple[str, ...] = ()  # the dead workers they were taken from
    spared: int = 0  # workers whose time ran out in an outage, and that may yet renew
    asked: int = 0  # runs that run and were asked to stop or pause, because their parent has
    next_due: datetime | None = None  # the earliest timer that has not come yet
    more: bool = False  # a limit was hit: sweep again at once


class RunDefaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What each run of a job has unless its enqueue says otherwise; times are in seconds."""

    tags: tuple[str, ...] = ()
    expires: float | None = None
    deadline: float | None = None
    unique: str | None = None  # for runs with a key
    key_ttl: float | None = None  # the same


class JobRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job's definition, stored so that other processes can enqueue by name."""

    name: str
    queue: str
    tenant: str = DEFAULT_TENANT
    priority: int = 0
    max_attempts: int = 5
    timeout: float | None = None
    retry: dict[str, Any] = {}
    parameters: tuple[dict[str, Any], ...] | None = None  # None: takes anything
    default_input: msgspec.Raw = NULL
    defaults: RunDefaults | None = None
    on_failure: FailureHandler | None = None  # who is told of runs that failed for good
    phases: tuple[str, ...] | None = None  # of a pipeline: their names, in order
    retention: RetentionTerms | None = None  # None: as janitors have it
    version: str | None = None


class JobRecord(JobRow, frozen=True, kw_only=True):
    """A definition as the store keeps it. ``updated_at`` is when it last became another."""

    created_at: datetime
    updated_at: datetime


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One ended try of a run."""

    attempt: int
    token: int
    worker: str
    outcome: AttemptOutcome
    started_at: datetime
    finished_at: datetime
    error: ErrorInfo | None = None
    version: str | None = None  # of the job file that it ran


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run as read in one statement."""

    tenant: str
    id: str
    job: str
    queue: str
    status: Status
    priority: int
    attempt: int
    failures: int
    crash_count: int
    token: int
    created_at: datetime
    scheduled_for: datetime
    updated_at: datetime
    input: msgspec.Raw
    key: str | None = None
    tags: tuple[str, ...] = ()
    options: Options | None = None
    trace: str | None = None
    metadata: msgspec.Raw = NULL
    enqueued_by: str | None = None
    result: msgspec.Raw = NULL
    error: ErrorInfo | None = None
    failure: Failure | None = None
    intent: Intent | None = None
    reason: str | None = None  # of a cancel
    waiting_for: str | None = None  # why it is scheduled: delay, backoff, snooze, sleep; or wait
    waits: tuple[str, ...] = ()  # the steps in which it sleeps or waits
    due_at: datetime | None = None
    expires_at: datetime | None = None
    deadline_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stale_at: datetime | None = None
    discarded_at: datetime | None = None
    worker: str | None = None
    progress: float | None = None  # 0 to 1, the latest that the handler told
    progress_message: str | None = None
    progress_detail: Detail | None = None
    progress_at: datetime | None = None
    schedule: str | None = None
    slot: datetime | None = None
    parent: str | None = None  # the run that has started it as its child
    root: str | None = None  # the run that the whole tree has grown from
    attempts: tuple[Attempt, ...] = ()


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable fact about a run or a schedule."""

    seq: int
    type: EventType
    at: datetime
    attempt: int
    data: dict[str, Any] | None = None


class FeedEvent(Event, frozen=True, kw_only=True):
    """An event among those of all subjects: whose it is, and its place in their order."""

    place: str  # to go on from; only this store can read it
    tenant: str
    subject: str  # the id of the run or the schedule


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do for some queues and jobs."""

    ready: int  # what is due included, though no dispatcher has moved it yet
    running: int
    retrying: int
    scheduled: int  # dated into the future: delayed or snoozed
    oldest_ready_at: datetime | None = None
    # ready, due or retrying, and not counted there: the queue is paused, or the job
    paused: int = 0
