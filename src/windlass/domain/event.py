"""The events of a run and the outcomes of its attempts: one name each, in both stores.

Each event is written by the transaction that makes it true, under the run's next
``seq``. ``attempt`` on an event is the number of starts so far.
"""

from enum import StrEnum


class EventType(StrEnum):
    """What can be read in a run's history."""

    ENQUEUED = "run.enqueued"  # data: {"why": "delay"} where it is not yet due
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
    DISCARDED = "run.discarded"  # taken off the dead letters by an operator


class AttemptOutcome(StrEnum):
    """How an attempt ended; what the run did next is in the events."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SNOOZED = "snoozed"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"
    CRASHED = "crashed"
