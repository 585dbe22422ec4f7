"""What a verb does besides changing a run's status: what is recorded of it.

`states.py` says where a verb leads; this says what it leaves behind. The stores apply both without
deciding anything by themselves: SQLite in Python, PostgreSQL by functions that
`tools/make_sql.py` generates from these tables.
"""

from types import MappingProxyType
from typing import NamedTuple

from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.states import Failure, Verb


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
    }
)

# What a worker reports of an attempt, as a verb.
REPORTED: MappingProxyType[Outcome, Verb] = MappingProxyType(
    {
        Outcome.SUCCEEDED: Verb.SUCCEED,
        Outcome.RETRY: Verb.BACKOFF,
        Outcome.FAILED: Verb.FAIL,
        Outcome.SNOOZED: Verb.SNOOZE,
        Outcome.CANCELED: Verb.STOP,
        Outcome.RELEASED: Verb.RELEASE,
        Outcome.CRASHED: Verb.REAP,  # CRASH if the worker gives a failure with it
    }
)


def reported(outcome: Outcome, failure: Failure | None) -> Verb:
    """The verb that a worker's report amounts to.

    >>> reported(Outcome.CRASHED, None), reported(Outcome.CRASHED, Failure.CRASHED)
    (<Verb.REAP: 'reap'>, <Verb.CRASH: 'crash'>)
    """
    if outcome is Outcome.CRASHED and failure is not None:
        return Verb.CRASH
    return REPORTED[outcome]
