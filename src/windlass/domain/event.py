"""The events of runs and schedules, and the outcomes of attempts: one name each, in both stores.

Each event is written by the transaction that makes it true, under its subject's next
``seq``. ``attempt`` on an event is the number of starts so far, 0 where the subject is no run.

`states.py` says where a verb leads; `EFFECTS` says what it leaves behind. The stores apply both and
decide nothing by themselves: SQLite in Python, PostgreSQL by functions that ``tools/make_sql.py``
generates from these tables.
"""

from types import MappingProxyType
from typing import NamedTuple

from windlass.domain.open_enum import OpenEnum
from windlass.domain.states import Failure, Verb


class EventType(OpenEnum):
    """What can be read in the history of a run, or of a schedule."""

    # data: {"why": "delay"} where it is not yet due; {"schedule": id, "slot": …} of a schedule's
    ENQUEUED = "run.enqueued"
    QUEUED = "run.queued"  # its time came
    STARTED = "run.started"
    SUCCEEDED = "run.succeeded"
    FAILED = "run.failed"  # data: {"failure": ...}
    RETRYING = "run.retrying"  # data: {"delay": seconds}
    SNOOZED = "run.snoozed"  # data: {"delay": seconds}
    INTERRUPTED = "run.interrupted"  # given back by a worker that stops
    CRASHED = "run.crashed"  # taken back from a dead worker
    CANCEL_REQUESTED = "run.cancel_requested"  # data: {"reason": ...} where one was given
    CANCELED = "run.canceled"  # data: {"reason": ...} where one was given
    RETRIED = "run.retried"  # reopened by an operator
    # moved, or reopened, by an operator; data: {"at": …}, that of the event where it is ready now
    RESCHEDULED = "run.rescheduled"
    # given another priority or queue by an operator; data: {"priority": …, "queue": …}
    REPRIORITIZED = "run.reprioritized"
    DISCARDED = "run.discarded"  # taken off the dead letters by an operator

    SCHEDULE_CREATED = "schedule.created"  # data: {"job": name}
    SCHEDULE_CHANGED = "schedule.changed"  # data: {"version": n}
    SCHEDULE_PAUSED = "schedule.paused"
    SCHEDULE_RESUMED = "schedule.resumed"
    SCHEDULE_DELETED = "schedule.deleted"
    # data: {"slots": those recorded, "count": all of them}, and {"at_least": true} if it was more
    SCHEDULE_MISSED = "schedule.missed"
    SCHEDULE_SKIPPED = "schedule.skipped"  # data: {"slot": …, "why": "overlap" or "full"}


class AttemptOutcome(OpenEnum):
    """How an attempt ended; what the run did next is in the events."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SNOOZED = "snoozed"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"
    CRASHED = "crashed"


class Effect(NamedTuple):
    """What is recorded of a verb."""

    event: EventType
    attempt: AttemptOutcome | None = None  # how the attempt ended, if the verb ends one
    failure: Failure | None = None  # why the run failed, unless somebody says otherwise
    wait: str | None = None  # what a timer waits for


EFFECTS: MappingProxyType[Verb, Effect] = MappingProxyType(
    {
        Verb.DUE: Effect(EventType.QUEUED),
        Verb.CLAIM: Effect(EventType.STARTED),
        Verb.SUCCEED: Effect(EventType.SUCCEEDED, AttemptOutcome.SUCCEEDED),
        Verb.FAIL: Effect(EventType.FAILED, AttemptOutcome.FAILED, Failure.FATAL),
        Verb.BACKOFF: Effect(EventType.RETRYING, AttemptOutcome.FAILED, wait="backoff"),
        Verb.SNOOZE: Effect(EventType.SNOOZED, AttemptOutcome.SNOOZED, wait="snooze"),
        Verb.RELEASE: Effect(EventType.INTERRUPTED, AttemptOutcome.INTERRUPTED),
        Verb.REAP: Effect(EventType.CRASHED, AttemptOutcome.CRASHED),
        Verb.CRASH: Effect(EventType.FAILED, AttemptOutcome.CRASHED, Failure.CRASHED),
        Verb.STOP: Effect(EventType.CANCELED, AttemptOutcome.CANCELED),
        Verb.CANCEL: Effect(EventType.CANCELED),
        Verb.EXPIRE: Effect(EventType.FAILED, failure=Failure.EXPIRED),
        Verb.OVERRUN: Effect(EventType.FAILED, AttemptOutcome.TIMEOUT, Failure.DEADLINE),
        Verb.RETRY: Effect(EventType.RETRIED),
        Verb.RESCHEDULE: Effect(EventType.RESCHEDULED, wait="delay"),
        Verb.REPRIORITIZE: Effect(EventType.REPRIORITIZED),
    }
)
