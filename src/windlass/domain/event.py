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
    """What can happen to a run or a schedule, as its history shows it.

    Where an attempt ends that was asked to end or to pause, the data says for how many seconds its
    worker had known: {"heard": …}. A success says nothing.
    """

    # data: {"why": "delay"} where it is not yet due; {"schedule": id, "slot": …} of a schedule's
    ENQUEUED = "run.enqueued"
    QUEUED = "run.queued"  # its time came, or what it waited for
    STARTED = "run.started"
    SUCCEEDED = "run.succeeded"
    # data: {"failure": …}, and {"handled_by": id} of the run of its failure handler, if it has one
    FAILED = "run.failed"
    RETRYING = "run.retrying"  # data: {"delay": seconds}
    SNOOZED = "run.snoozed"  # data: {"delay": seconds}
    SLEEPING = "run.sleeping"  # data: {"until": …, "for": the names of the steps that sleep}
    HELD = "run.held"  # it comes after other runs, or as many of its siblings live as may
    WAITING = "run.waiting"  # data: {"for": the names of the steps that wait}, {"until": …} if any
    CONTINUED = "run.continued"  # data: {"generation": the number of the one that is over}
    SIGNALED = "run.signaled"  # data: {"name": …, "number": …}
    STEP_SUCCEEDED = "step.succeeded"  # data: {"step": …}, as of all events of steps
    # a phase of a pipeline is done: the event of the step that it is; data: {"step": its name}
    PHASE_COMPLETED = "phase.completed"
    STEP_FAILED = "step.failed"  # for good
    STEP_RETRYING = "step.retrying"  # data: {"delay": …, "failures": …} too
    STEP_TIMED_OUT = "step.timed_out"  # nothing came in the time that it waited
    INTERRUPTED = "run.interrupted"  # given back by a worker that stops
    CRASHED = "run.crashed"  # taken back from a dead worker
    CANCEL_REQUESTED = "run.cancel_requested"  # data: {"reason": ...} where one was given
    CANCELED = "run.canceled"  # data: {"reason": ...} where one was given
    PAUSE_REQUESTED = "run.pause_requested"  # data: {"reason": ...} where one was given
    PAUSED = "run.paused"  # data: {"reason": ...} where one was given
    # let go on by an operator; data: {"to": its status}; nothing if the request of a pause was
    # taken back before the run had stopped
    RESUMED = "run.resumed"
    # reopened by an operator; data: {"max_attempts": …} and {"input": …}, as below, where given
    RETRIED = "run.retried"
    # begun anew by an operator; data: {"step": the one it begins with}, if not with its start
    RESTARTED = "run.restarted"
    # moved, or reopened, by an operator; data: {"at": …}, that of the event where it is ready now
    RESCHEDULED = "run.rescheduled"
    # given another priority or queue by an operator; data: {"priority": …, "queue": …}
    REPRIORITIZED = "run.reprioritized"
    # changed by an operator; data: what differs, {"tags": {"from": …, "to": …}, …}, or only the
    # sizes of what is large, {"input": {"from_bytes": …, "to_bytes": …}}
    CHANGED = "run.changed"
    DISCARDED = "run.discarded"  # taken off the dead letters by an operator

    STALE = "run.stale"  # it ended a while ago, and is to be deleted
    # it is gone; data: {"job": …, "status": how it had ended}. In the feed alone
    DELETED = "run.deleted"

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
    WAITED = "waited"  # it gave its seat up, to sleep or to wait
    CONTINUED = "continued"  # its run went on with another input
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
        Verb.SLEEP: Effect(EventType.SLEEPING, AttemptOutcome.WAITED, wait="sleep"),
        Verb.HOLD: Effect(EventType.HELD, wait="held"),
        Verb.WAIT: Effect(EventType.WAITING, AttemptOutcome.WAITED, wait="wait"),
        Verb.CONTINUE: Effect(EventType.CONTINUED, AttemptOutcome.CONTINUED),
        Verb.RELEASE: Effect(EventType.INTERRUPTED, AttemptOutcome.INTERRUPTED),
        Verb.REAP: Effect(EventType.CRASHED, AttemptOutcome.CRASHED),
        Verb.CRASH: Effect(EventType.FAILED, AttemptOutcome.CRASHED, Failure.CRASHED),
        Verb.STOP: Effect(EventType.CANCELED, AttemptOutcome.CANCELED),
        Verb.CANCEL: Effect(EventType.CANCELED),
        Verb.EXPIRE: Effect(EventType.FAILED, failure=Failure.EXPIRED),
        Verb.OVERRUN: Effect(EventType.FAILED, AttemptOutcome.TIMEOUT, Failure.DEADLINE),
        Verb.RETRY: Effect(EventType.RETRIED),
        Verb.RESTART: Effect(EventType.RESTARTED),
        Verb.RESCHEDULE: Effect(EventType.RESCHEDULED, wait="delay"),
        Verb.REPRIORITIZE: Effect(EventType.REPRIORITIZED),
        Verb.CHANGE: Effect(EventType.CHANGED),
        Verb.SIGNAL: Effect(EventType.SIGNALED),
        Verb.PAUSE: Effect(EventType.PAUSED, wait="paused"),
        Verb.RESUME: Effect(EventType.RESUMED),
        Verb.RESUME_TIMER: Effect(EventType.RESUMED),
        Verb.RESUME_WAIT: Effect(EventType.RESUMED),
        Verb.TERMINATE: Effect(EventType.CANCELED, AttemptOutcome.CANCELED),
    }
)
