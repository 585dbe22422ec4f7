"""How an attempt ends: what a handler may return, and what the store is told.

A handler ends its attempt by returning a result, by raising, or by returning one of `Snooze`,
`Fail`, `Cancel` and `ContinueAs`. The engine turns each into one `Verdict`; `decide_failure` is the
rule for everything that went wrong:

- Handler failures and timeouts count, and `max_attempts` limits them. Lost workers and shutdowns
  are not failures of the handler and never come here; a child process that dies is counted as a
  crash (`decide_crash`).
- An error that its class or its policy calls fatal fails the run at once (`fatal`).
- The last failure that `max_attempts` allows fails it (`exhausted`), even where the handler asked
  for another try by `RetryAfter`.
- A step that has failed for good, or that is recorded as something else, would do so again: the run
  has failed.
- A timeout that ends the run is told as `timeout`, whichever of the two ended it.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from windlass.domain.blame import after_lost_worker
from windlass.domain.policy import Fatal, Retry
from windlass.domain.report import ErrorInfo, describe_error
from windlass.domain.states import Failure, Verb
from windlass.duration import MAX_SECONDS, Duration, parse_duration
from windlass.errors import BadOption, Nondeterminism, StepFailed, TooManySteps

__all__ = [
    "Cancel",
    "ContinueAs",
    "ErrorInfo",
    "Fail",
    "Failed",
    "Outcome",
    "Snooze",
    "Verdict",
    "decide_crash",
    "decide_failure",
    "describe_error",
    "reported",
]


class Failed(Exception):
    """The error of a run whose handler returned `Fail(reason, permanent=False)`."""


@dataclass(frozen=True, slots=True, init=False)
class Snooze:
    """Return this from a handler to be called again later; it is not a failure.

    >>> Snooze("10m").delay
    600.0
    """

    delay: float

    def __init__(self, delay: Duration) -> None:
        object.__setattr__(self, "delay", parse_duration(delay))


@dataclass(frozen=True, slots=True)
class Fail:
    """Return this from a handler to fail: for good, or with `permanent=False` like an exception."""

    reason: str
    permanent: bool = True

    def __post_init__(self) -> None:
        """Refuse what could not be shown later."""
        _check_reason(self.reason)

    def as_error(self) -> Fatal | Failed:
        """Return the exception that means the same."""
        return Fatal(self.reason) if self.permanent else Failed(self.reason)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Return this from a handler to end its run as canceled."""

    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse what could not be shown later."""
        _check_reason(self.reason)


@dataclass(frozen=True, slots=True, init=False)
class ContinueAs:
    """Return this from a handler to go on as the same run, with these arguments and no steps.

    The arguments are those of the job, as for an enqueue; what is left out has its default. Steps
    and input of before are kept as a generation of the run. Failures are counted anew.

    >>> ContinueAs(cursor=500).kwargs
    {'cursor': 500}
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "kwargs", kwargs)


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    RETRY = "retry"
    FAILED = "failed"
    SNOOZED = "snoozed"
    SLEEPING = "sleeping"
    WAITING = "waiting"
    CONTINUED = "continued"
    CANCELED = "canceled"
    RELEASED = "released"
    CRASHED = "crashed"  # its child process died, or it stopped its worker, which can still tell


# What a worker reports of an attempt, as a verb.
REPORTED: MappingProxyType[Outcome, Verb] = MappingProxyType(
    {
        Outcome.SUCCEEDED: Verb.SUCCEED,
        Outcome.RETRY: Verb.BACKOFF,
        Outcome.FAILED: Verb.FAIL,
        Outcome.SNOOZED: Verb.SNOOZE,
        Outcome.SLEEPING: Verb.SLEEP,
        Outcome.WAITING: Verb.WAIT,
        Outcome.CONTINUED: Verb.CONTINUE,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the store is told about an attempt's end.

    `delay` is in seconds, on the store's clock, and belongs to retry and snoozed; it is never so
    long that its end could not be written. `failure` belongs to failed, and to a crash that was
    one too many.
    """

    outcome: Outcome
    delay: float | None = None
    failure: Failure | None = None

    def __post_init__(self) -> None:
        """Refuse contradictions: each would be a bug of the engine."""
        later = self.outcome in (Outcome.RETRY, Outcome.SNOOZED)
        if later != (self.delay is not None):
            raise ValueError(f"{self.outcome} with delay {self.delay}")
        if self.delay is not None and not 0 <= self.delay <= MAX_SECONDS:
            raise ValueError(f"{self.outcome} in {self.delay} s")
        given_up = self.outcome is Outcome.CRASHED and self.failure is Failure.CRASHED
        if (self.outcome is Outcome.FAILED or given_up) != (self.failure is not None):
            raise ValueError(f"{self.outcome} with failure {self.failure}")


def decide_failure(
    policy: Retry,
    error: BaseException,
    *,
    failures_before: int,
    max_attempts: int,
    timed_out: bool,
    random: float,
) -> Verdict:
    """Decide what becomes of a run whose attempt failed or timed out.

    `failures_before` does not count this failure. `random` is of [0, 1).
    """
    failures = failures_before + 1
    known = _failure_of_step(error)
    if known is not None:
        return Verdict(outcome=Outcome.FAILED, failure=known)
    delay = policy.delay_for(failures, error, random) if failures < max_attempts else None
    if delay is not None:
        return Verdict(outcome=Outcome.RETRY, delay=delay)
    if timed_out:
        failure = Failure.TIMEOUT
    elif policy.is_fatal(error):
        failure = Failure.FATAL
    else:
        failure = Failure.EXHAUSTED
    return Verdict(outcome=Outcome.FAILED, failure=failure)


def _failure_of_step(error: BaseException) -> Failure | None:
    """Why a run fails whose durable steps can only end in the same way again."""
    if isinstance(error, StepFailed):
        return Failure(error.why)
    if isinstance(error, Nondeterminism):
        return Failure.NONDETERMINISM
    if isinstance(error, TooManySteps):
        return Failure.FATAL
    if isinstance(error, BaseExceptionGroup):
        found = (_failure_of_step(each) for each in error.exceptions)
        return next((failure for failure in found if failure is not None), None)
    return None


def decide_crash(*, crashes_before: int, max_crashes: int, alone: bool = True) -> Verdict:
    """Decide what becomes of a run that crashed while its worker lives, to tell of it; `alone`:
    there is nobody else to blame, as for the death of its child process."""
    verb = after_lost_worker(crashes_before + 1, alone=alone, max_crashes=max_crashes)
    failure = Failure.CRASHED if verb is Verb.CRASH else None
    return Verdict(outcome=Outcome.CRASHED, failure=failure)


def _check_reason(reason: object) -> None:
    if not isinstance(reason, str):
        raise BadOption("reason", f"it must be text, not {type(reason).__name__}")
