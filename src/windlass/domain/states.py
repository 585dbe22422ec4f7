"""The life of a run: every status, every verb, and which may follow which.

Rule 1: everything that decides a run's next status lives in this file. The stores
apply what this table says; the CHECK constraints of both schemas, the diagram in the
docs and the exhaustive tests are made from it.

A *live* run has one position: a timer (``scheduled``), a place in a queue
(``queued``) or a lease (``running``). One that is ``waiting`` has a timer as well: it is due when
it waits no longer, if ever. So has one that is ``paused``: it is never due, and remembers what it
was doing before. A *finished* run has none, only its outcome.

A cancel or a pause of a running run does not move it: it is recorded as an *intent*, and the
worker that holds the lease is told. Terminal outcomes that arrive first win over the
intent. Everything that would have sent the run round again ends it under a cancel
(:func:`under_intent`); under a pause it goes where it would have gone, and is paused there in the
same transaction (:func:`is_paused_next`). A cancel wins over a pause.

A resume takes a paused run back to where it was, by one of three verbs (:func:`resumed_by`): to its
timer, to its wait, or, if what it waited for has come meanwhile, to its queue.

A restart forgets the steps of a run, all of them or those from one on, and lets it begin again. It
is for runs that do not run.

A terminate ends a run at once. If it runs, its lease is gone: whatever its handler still does can
no longer be recorded.

A reschedule leads to ``scheduled``; where its time has come already, ``due`` follows in the same
transaction, and the run is ``queued``.
"""

from enum import StrEnum
from types import MappingProxyType

from windlass.domain.open_enum import OpenEnum
from windlass.errors import IllegalTransition


class Status(OpenEnum):
    """Where a run stands."""

    SCHEDULED = "scheduled"  # not yet due: a future time, a backoff, a snooze
    QUEUED = "queued"  # ready, may be claimed now
    RUNNING = "running"  # a worker holds its lease
    WAITING = "waiting"  # for a signal or for children
    PAUSED = "paused"  # an operator stopped it for now
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def finished(self) -> bool:
        """Whether the run has its outcome and no position."""
        return self in FINISHED


FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELED})

TIMERS = MappingProxyType({"wait": Status.WAITING, "paused": Status.PAUSED})
"""The status of a run by what its timer is for; anything else is ``scheduled``."""


class Failure(OpenEnum):
    """Why a failed run failed."""

    EXHAUSTED = "exhausted"  # max_attempts failures
    FATAL = "fatal"  # an error that is never retried
    TIMEOUT = "timeout"  # the last allowed attempt ran out of time
    CRASHED = "crashed"  # its worker process died max_crashes times
    EXPIRED = "expired"  # not started before its expiry
    DEADLINE = "deadline"  # not done by its deadline
    NONDETERMINISM = "nondeterminism"  # a replay left the recorded path


class Intent(StrEnum):
    """What an operator wants of a running run."""

    CANCEL = "cancel"
    PAUSE = "pause"
    OTHER = "other"  # never stored: read where a newer program stored one that we do not know

    @classmethod
    def _missing_(cls, value: object) -> "Intent | None":
        return cls.OTHER if isinstance(value, str) else None


class Verb(StrEnum):
    """What can happen to a run."""

    DUE = "due"  # its time has come
    CLAIM = "claim"  # a worker takes its lease
    SUCCEED = "succeed"
    FAIL = "fail"  # for good
    BACKOFF = "backoff"  # failed, to be tried again later
    SNOOZE = "snooze"  # the handler asked to be called later
    SLEEP = "sleep"  # the handler sleeps durably, without a seat
    WAIT = "wait"  # the handler waits durably, for a signal, without a seat
    HOLD = "hold"  # a new run is held back: others come first
    CONTINUE = "continue"  # the handler goes on with a new input and an empty history
    RELEASE = "release"  # given back unfinished by a worker that stops
    REAP = "reap"  # taken back from a dead worker
    CRASH = "crash"  # taken back once too often
    STOP = "stop"  # ended on request
    CANCEL = "cancel"  # an operator asks for the end
    EXPIRE = "expire"  # waited too long for its first start
    OVERRUN = "overrun"  # not done by its deadline
    RETRY = "retry"  # an operator reopens it
    RESCHEDULE = "reschedule"  # an operator chooses another time
    REPRIORITIZE = "reprioritize"  # an operator chooses another priority or queue
    SIGNAL = "signal"  # somebody sends it something that it waits for, or will
    CHANGE = "change"  # an operator gives it another input, other tags or other times
    PAUSE = "pause"  # an operator stops it for now
    RESUME = "resume"  # an operator lets it go on; it may be claimed now
    RESUME_TIMER = "resume_timer"  # the same, and its time has not come yet
    RESUME_WAIT = "resume_wait"  # the same, and what it waits for has not come yet
    RESTART = "restart"  # an operator lets it begin anew, from its start or from a step
    TERMINATE = "terminate"  # an operator ends it now, whatever its handler does


_REOPENED = MappingProxyType(
    {
        Verb.RETRY: Status.QUEUED,
        Verb.RESTART: Status.QUEUED,
        Verb.RESCHEDULE: Status.SCHEDULED,
    }
)

TRANSITIONS: MappingProxyType[Status, MappingProxyType[Verb, Status]] = MappingProxyType(
    {
        Status.SCHEDULED: MappingProxyType(
            {
                Verb.DUE: Status.QUEUED,
                Verb.CANCEL: Status.CANCELED,
                Verb.EXPIRE: Status.FAILED,
                Verb.OVERRUN: Status.FAILED,
                Verb.RESCHEDULE: Status.SCHEDULED,
                Verb.REPRIORITIZE: Status.SCHEDULED,
                Verb.CHANGE: Status.SCHEDULED,
                Verb.SIGNAL: Status.SCHEDULED,
                Verb.PAUSE: Status.PAUSED,
                Verb.RESUME: Status.SCHEDULED,  # as it is
                Verb.RESTART: Status.QUEUED,
                Verb.TERMINATE: Status.CANCELED,
            }
        ),
        Status.QUEUED: MappingProxyType(
            {
                Verb.CLAIM: Status.RUNNING,
                Verb.HOLD: Status.SCHEDULED,
                Verb.CANCEL: Status.CANCELED,
                Verb.EXPIRE: Status.FAILED,
                Verb.OVERRUN: Status.FAILED,
                Verb.RESCHEDULE: Status.SCHEDULED,
                Verb.REPRIORITIZE: Status.QUEUED,
                Verb.CHANGE: Status.QUEUED,
                Verb.SIGNAL: Status.QUEUED,
                Verb.PAUSE: Status.PAUSED,
                Verb.RESUME: Status.QUEUED,  # as it is
                Verb.RESTART: Status.QUEUED,
                Verb.TERMINATE: Status.CANCELED,
            }
        ),
        Status.RUNNING: MappingProxyType(
            {
                Verb.SUCCEED: Status.SUCCEEDED,
                Verb.FAIL: Status.FAILED,
                Verb.BACKOFF: Status.SCHEDULED,
                Verb.SNOOZE: Status.SCHEDULED,
                Verb.SLEEP: Status.SCHEDULED,
                Verb.WAIT: Status.WAITING,
                Verb.CONTINUE: Status.QUEUED,
                Verb.RELEASE: Status.QUEUED,
                Verb.REAP: Status.QUEUED,
                Verb.CRASH: Status.FAILED,
                Verb.OVERRUN: Status.FAILED,  # by the store, where its worker did not end it
                Verb.STOP: Status.CANCELED,
                Verb.CANCEL: Status.RUNNING,  # the intent is recorded, the holder told
                Verb.PAUSE: Status.RUNNING,  # likewise
                Verb.RESUME: Status.RUNNING,  # the intent is taken back
                Verb.TERMINATE: Status.CANCELED,
                Verb.SIGNAL: Status.RUNNING,
            }
        ),
        Status.WAITING: MappingProxyType(
            {
                Verb.DUE: Status.QUEUED,
                Verb.CANCEL: Status.CANCELED,
                Verb.EXPIRE: Status.FAILED,  # by an expiry that it was given while it waits
                Verb.OVERRUN: Status.FAILED,
                Verb.REPRIORITIZE: Status.WAITING,
                Verb.CHANGE: Status.WAITING,
                Verb.SIGNAL: Status.WAITING,
                Verb.PAUSE: Status.PAUSED,
                Verb.RESUME: Status.WAITING,  # as it is
                Verb.RESTART: Status.QUEUED,
                Verb.TERMINATE: Status.CANCELED,
            }
        ),
        Status.PAUSED: MappingProxyType(
            {
                Verb.PAUSE: Status.PAUSED,  # as it is
                Verb.RESUME: Status.QUEUED,
                Verb.RESUME_TIMER: Status.SCHEDULED,
                Verb.RESUME_WAIT: Status.WAITING,
                Verb.RESTART: Status.QUEUED,
                Verb.CANCEL: Status.CANCELED,
                Verb.EXPIRE: Status.FAILED,
                Verb.OVERRUN: Status.FAILED,
                Verb.REPRIORITIZE: Status.PAUSED,
                Verb.CHANGE: Status.PAUSED,
                Verb.SIGNAL: Status.PAUSED,
                Verb.TERMINATE: Status.CANCELED,
            }
        ),
        Status.SUCCEEDED: _REOPENED,  # only once stale
        Status.FAILED: _REOPENED,
        Status.CANCELED: _REOPENED,
    }
)

_NOWHERE: MappingProxyType[Verb, Status] = MappingProxyType({})  # from a status we do not know

# What would send a run round again; under a cancel intent it ends the run instead.
ROUND_AGAIN = frozenset(
    {
        *(Verb.BACKOFF, Verb.SNOOZE, Verb.SLEEP, Verb.WAIT, Verb.CONTINUE),
        *(Verb.RELEASE, Verb.REAP, Verb.CRASH),
    }
)


def advance(status: Status, verb: Verb, *, run: str = "?", stale: bool = False) -> Status:
    """The status that follows, or :class:`IllegalTransition`.

    A succeeded run may be reopened only once retention has marked it stale: before that,
    a second success would silently replace the first.
    """
    target = TRANSITIONS.get(status, _NOWHERE).get(verb)
    if target is None or (status is Status.SUCCEEDED and not stale):
        raise IllegalTransition(run=run, status=status, verb=verb)
    return target


def under_intent(verb: Verb, intent: Intent | None) -> Verb:
    """The verb that applies once an operator's intent is taken into account."""
    if intent is Intent.CANCEL and verb in ROUND_AGAIN:
        return Verb.STOP
    return verb


def is_paused_next(status: Status, intent: Intent | None) -> bool:
    """Whether a run that has left its lease for this status is paused there."""
    return intent is Intent.PAUSE and Verb.PAUSE in TRANSITIONS.get(status, _NOWHERE)


def resumed_by(before: Status, *, come: bool) -> Verb:
    """The verb that takes a paused run back to where it was; `come`: what it waited for has."""
    if before is Status.QUEUED or come:
        return Verb.RESUME
    return Verb.RESUME_WAIT if before is Status.WAITING else Verb.RESUME_TIMER
