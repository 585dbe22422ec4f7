"""The values that cross the store's seam: what a run is when written, held and read.

They are msgspec structs so that one definition serves three times: as Python values,
as the JSON that the PostgreSQL functions take and give, and as rows mapped from SQLite.
Ids are UUIDv7 text made by the client. Delays are seconds that the store adds to its
own clock; absolute times are aware datetimes.
"""

from datetime import datetime
from typing import Any

import msgspec

from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import ErrorInfo, Outcome
from windlass.domain.states import Failure, Intent, Status

DEFAULT_TENANT = "default"
NULL = msgspec.Raw(b"null")  # JSON's null: what an absent document is read as


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one run overrides of its job's definition; stored with the run."""

    max_attempts: int | None = None
    timeout: float | None = None


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


class Enqueued(msgspec.Struct, frozen=True, kw_only=True):
    """The store's answer to one :class:`NewRun`, in the order given.

    ``created`` is false where the key or the id was known: the other fields then tell
    of the run that exists, as it is now.
    """

    id: str
    created: bool
    status: Status
    created_at: datetime
    scheduled_for: datetime


class RunRef(msgspec.Struct, frozen=True):
    """A run's full name: ids are unique within a tenant only."""

    tenant: str
    id: str


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
    slot: datetime | None = None  # the instant of its schedule that this run is for
    deadline_at: datetime | None = None  # when the whole run must be done
    deadline_in: float | None = None  # seconds from the claim until then, by the store's clock
    flaw: str | None = None  # why its row could not be read; it can only fail

    @property
    def ref(self) -> RunRef:
        """The run's name."""
        return RunRef(self.tenant, self.id)


class Held(msgspec.Struct, frozen=True, gc=False):
    """A lease as its holder names it."""

    tenant: str
    id: str
    token: int


class Finish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The end of one attempt, decided by the worker, valid only under its token."""

    tenant: str
    id: str
    token: int
    outcome: Outcome
    delay: float | None = None
    failure: Failure | None = None
    result: msgspec.Raw | None = None
    error: ErrorInfo | None = None
    counts: bool = False  # whether the attempt counts against max_attempts
    timed_out: bool = False
    version: str | None = None  # of the definition that was run, where that can change


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
    next_due: datetime | None = None  # the earliest timer that has not come yet
    more: bool = False  # a limit was hit: sweep again at once


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
    result: msgspec.Raw = NULL
    error: ErrorInfo | None = None
    failure: Failure | None = None
    intent: Intent | None = None
    reason: str | None = None  # of a cancel
    waiting_for: str | None = None  # why it is scheduled: delay, backoff, snooze
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
    schedule: str | None = None
    slot: datetime | None = None
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


class RunFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a listing asks for. Newest first by id; ``before`` is the last id seen."""

    tenant: str = DEFAULT_TENANT
    status: Status | None = None
    job: str | None = None
    queue: str | None = None
    tag: str | None = None
    failure: Failure | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    dead: bool = False  # failed, and neither retried nor discarded
    before: str | None = None
    limit: int = 50


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do for some queues and jobs."""

    ready: int  # what is due included, though no dispatcher has moved it yet
    running: int
    retrying: int
    scheduled: int  # dated into the future: delayed or snoozed
    oldest_ready_at: datetime | None = None
