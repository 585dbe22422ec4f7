"""How attempts end: the values handlers return, and the rule for failures."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.outcome import (
    Cancel,
    Fail,
    Failed,
    Outcome,
    Snooze,
    Verdict,
    decide_crash,
    decide_failure,
)
from windlass.domain.policy import Fatal, Retry, RetryAfter
from windlass.domain.states import Failure
from windlass.errors import BadDuration, BadOption

BOOM = ValueError("boom")
LATE = TimeoutError("late")

POLICY = Retry.fixed(10, jitter=0, fatal=PermissionError)
NEVER = Retry.never()
ONLY_OS = Retry.fixed(10, jitter=0, only=ConnectionError)
GIVES_UP = Retry.custom(lambda failures, error: None)


def decide(
    error: BaseException, before: int, *, policy: Retry = POLICY, timed_out: bool = False
) -> Verdict:
    return decide_failure(
        policy,
        error,
        failures_before=before,
        max_attempts=3,
        timed_out=timed_out,
        random=0.0,
    )


def retry(delay: float) -> Verdict:
    return Verdict(outcome=Outcome.RETRY, delay=delay)


def failed(failure: Failure) -> Verdict:
    return Verdict(outcome=Outcome.FAILED, failure=failure)


@pytest.mark.parametrize(
    ("policy", "error", "before", "timed_out", "expected"),
    [
        (POLICY, BOOM, 0, False, retry(10)),
        (POLICY, BOOM, 1, False, retry(10)),
        (POLICY, BOOM, 2, False, failed(Failure.EXHAUSTED)),
        (POLICY, BOOM, 99, False, failed(Failure.EXHAUSTED)),
        (POLICY, PermissionError(), 0, False, failed(Failure.FATAL)),
        (POLICY, PermissionError(), 2, False, failed(Failure.FATAL)),
        (POLICY, Fatal("no"), 0, False, failed(Failure.FATAL)),
        (POLICY, LATE, 1, True, retry(10)),
        (POLICY, LATE, 2, True, failed(Failure.TIMEOUT)),
        (POLICY, LATE, 2, False, failed(Failure.EXHAUSTED)),
        (POLICY, RetryAfter(77), 1, False, retry(77)),
        (POLICY, RetryAfter(77), 2, False, failed(Failure.EXHAUSTED)),
        (NEVER, BOOM, 0, False, failed(Failure.EXHAUSTED)),
        (NEVER, LATE, 0, True, failed(Failure.TIMEOUT)),
        (ONLY_OS, BOOM, 0, False, failed(Failure.FATAL)),
        (ONLY_OS, ConnectionError(), 0, False, retry(10)),
        (ONLY_OS, LATE, 0, True, failed(Failure.TIMEOUT)),
        (GIVES_UP, BOOM, 0, False, failed(Failure.EXHAUSTED)),
    ],
)
def test_decide_failure(
    policy: Retry, error: BaseException, before: int, timed_out: bool, expected: Verdict
) -> None:
    assert decide(error, before, policy=policy, timed_out=timed_out) == expected


@pytest.mark.parametrize("max_attempts", [-1, 0, 1])
def test_one_attempt_or_fewer_means_no_retry(max_attempts: int) -> None:
    decision = decide_failure(
        POLICY, BOOM, failures_before=0, max_attempts=max_attempts, timed_out=False, random=0.0
    )
    assert decision == failed(Failure.EXHAUSTED)


@given(st.integers(min_value=1, max_value=30), st.booleans())
def test_a_run_that_always_fails_is_started_max_attempts_times(limit: int, late: bool) -> None:
    starts = 0
    while True:
        decision = decide_failure(
            POLICY, BOOM, failures_before=starts, max_attempts=limit, timed_out=late, random=0.5
        )
        starts += 1
        if decision.outcome is Outcome.FAILED:
            break
    assert starts == limit


def test_a_failed_decision_never_calls_a_custom_rule_beyond_the_budget() -> None:
    calls: list[int] = []
    policy = Retry.custom(lambda failures, error: calls.append(failures))
    decide(BOOM, 2, policy=policy)
    assert calls == []


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": Outcome.RETRY},
        {"outcome": Outcome.SNOOZED},
        {"outcome": Outcome.SUCCEEDED, "delay": 1.0},
        {"outcome": Outcome.FAILED},
        {"outcome": Outcome.CANCELED, "failure": Failure.FATAL},
        {"outcome": Outcome.FAILED, "failure": Failure.FATAL, "delay": 1.0},
    ],
)
def test_contradictory_decisions_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="with"):
        Verdict(**fields)


def test_outcomes_are_pinned() -> None:
    again = {"retry", "snoozed", "sleeping", "waiting", "continued", "released", "crashed"}
    assert set(Outcome) == {"succeeded", "failed", "canceled"} | again


def test_snooze_keeps_seconds() -> None:
    assert Snooze("10m") == Snooze(600) == Snooze(delay=600.0)
    assert Snooze("10m").delay == 600.0
    for bad in (-1, "soon", True, None):
        with pytest.raises(BadDuration):
            Snooze(bad)  # type: ignore[arg-type]


def test_fail_and_cancel_want_text() -> None:
    assert Fail("no").permanent
    assert Cancel().reason == ""
    for make in (Fail, Cancel):
        with pytest.raises(BadOption):
            make(404)  # type: ignore[arg-type]


def test_fail_has_its_exception() -> None:
    permanent, passing = Fail("no").as_error(), Fail("no", permanent=False).as_error()
    assert (type(permanent), str(permanent)) == (Fatal, "no")
    assert (type(passing), str(passing)) == (Failed, "no")
    assert decide(permanent, 0) == failed(Failure.FATAL)
    assert decide(passing, 0) == retry(10)


def test_values_are_frozen() -> None:
    for value, name in [(Snooze(1), "delay"), (Fail("x"), "reason"), (Cancel("x"), "reason")]:
        with pytest.raises(AttributeError):
            setattr(value, name, "other")


@pytest.mark.parametrize(("before", "failure"), [(0, None), (1, None), (2, Failure.CRASHED)])
def test_the_last_crash_that_is_allowed_ends_the_run(before: int, failure: Failure | None) -> None:
    decision = decide_crash(crashes_before=before, max_crashes=3)

    assert (decision.outcome, decision.failure) == (Outcome.CRASHED, failure)


def test_a_crash_fails_by_nothing_else() -> None:
    with pytest.raises(ValueError, match="crashed with failure"):
        Verdict(outcome=Outcome.CRASHED, failure=Failure.FATAL)
