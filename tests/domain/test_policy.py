"""When and how late a failed run is tried again."""

import math
import pickle
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.policy import Fatal, Retry, RetryAfter, RetryKind
from windlass.errors import BadDuration, BadOption, WindlassError

BOOM = ValueError("boom")
PLAIN = Retry(jitter=0.0)


class Busy(Exception):
    def __init__(self, wait: float) -> None:
        self.wait = wait


class VeryBusy(Busy):
    pass


def delays(policy: Retry, counts: range) -> list[float | None]:
    return [policy.delay_for(n, BOOM, 0.0) for n in counts]


def test_default_is_exponential_from_one_second_to_one_hour() -> None:
    assert Retry() == Retry.exponential()
    expected = [min(2 ** (n - 1), 3600) for n in range(1, 40)]
    assert delays(PLAIN, range(1, 40)) == expected


def test_kinds() -> None:
    assert delays(Retry.fixed("5s"), range(1, 4)) == [5, 5, 5]
    assert delays(Retry.linear("10s", cap="25s"), range(1, 5)) == [10, 20, 25, 25]
    tripling = Retry.exponential(base=2, cap=timedelta(minutes=1), factor=3)
    assert delays(tripling, range(1, 6)) == [2, 6, 18, 54, 60]
    assert delays(Retry.never(), range(1, 3)) == [None, None]
    assert delays(Retry.fixed(0), range(1, 3)) == [0, 0]


@pytest.mark.parametrize("failures", [10_000, 10**9, 10**400], ids=["1e4", "1e9", "1e400"])
def test_no_number_of_failures_overflows(failures: int) -> None:
    assert PLAIN.delay_for(failures, BOOM, 0.0) == 3600
    assert Retry.exponential(factor=1000, base=3).delay_for(failures, BOOM, 0.0) == 3600
    assert Retry.linear("1s").delay_for(failures, BOOM, 0.0) == 3600
    assert Retry.exponential(base=0).delay_for(failures, BOOM, 0.0) == 0


def test_zero_and_negative_counts_are_taken_as_the_first_failure() -> None:
    assert delays(PLAIN, range(-1, 2)) == [1, 1, 1]


@given(
    st.integers(min_value=1, max_value=10_000),
    st.floats(min_value=0, max_value=1),
    st.floats(min_value=0, max_value=1, exclude_max=True),
)
def test_jitter_spreads_before_the_published_delay(n: int, jitter: float, chance: float) -> None:
    published = PLAIN.delay_for(n, BOOM, 0.0)
    spread = replace(PLAIN, jitter=jitter).delay_for(n, BOOM, chance)
    assert published is not None
    assert spread is not None
    assert (1 - jitter) * published - 1e-9 <= spread <= published


def test_default_jitter_reaches_both_ends() -> None:
    policy = Retry.fixed(10)
    assert policy.delay_for(1, BOOM, 0.0) == 10
    assert policy.delay_for(1, BOOM, 0.5) == 7.5
    assert policy.delay_for(1, BOOM, math.nextafter(1, 0)) == pytest.approx(5)


def test_fatal_classes_and_fatal_itself_are_never_retried() -> None:
    policy = Retry.fixed(1, fatal=(LookupError, TypeError))
    assert policy.delay_for(1, KeyError("x"), 0.0) is None
    assert policy.delay_for(1, TypeError(), 0.0) is None
    assert policy.delay_for(1, BOOM, 0.0) == 1
    assert PLAIN.delay_for(1, Fatal("no"), 0.0) is None
    assert [policy.is_fatal(e) for e in (KeyError(), Fatal(), BOOM)] == [True, True, False]


def test_only_these_classes_are_retried() -> None:
    policy = Retry.fixed(1, only=OSError)
    assert policy.delay_for(1, ConnectionError(), 0.0) == 1
    assert policy.delay_for(1, BOOM, 0.0) is None
    assert policy.is_fatal(BOOM)
    assert policy.delay_for(1, RetryAfter(3), 0.0) == 3


def test_fatal_wins_over_only_and_over_after() -> None:
    policy = Retry.fixed(1, only=OSError, fatal=PermissionError, after={PermissionError: 5})
    assert policy.delay_for(1, PermissionError(), 0.0) is None


def test_after_takes_the_most_specific_rule_and_no_jitter() -> None:
    policy = Retry.fixed(1, jitter=1.0, after={Exception: "9s", Busy: lambda e: e.wait})
    assert policy.delay_for(1, Busy(30), 0.9) == 30
    assert policy.delay_for(1, VeryBusy(40), 0.9) == 40
    assert policy.delay_for(1, BOOM, 0.9) == 9
    assert policy.delay_for(1, KeyboardInterrupt(), 0.5) == 0.5


@pytest.mark.parametrize("answer", [None, "soon", -1, math.nan, True, object(), 1e99])
def test_after_that_answers_nonsense_leaves_the_formula(answer: Any) -> None:
    policy = Retry.fixed(7, jitter=0, after={ValueError: lambda _: answer})
    assert policy.delay_for(1, BOOM, 0.0) == 7


def test_after_that_raises_leaves_the_formula() -> None:
    policy = Retry.fixed(7, jitter=0, after={ValueError: lambda e: e.absent})
    assert policy.delay_for(1, BOOM, 0.0) == 7


def test_retry_after_chooses_the_delay_exactly() -> None:
    assert Retry.fixed(1).delay_for(1, RetryAfter("90s"), 0.9) == 90
    assert Retry.custom(lambda n, e: 1).delay_for(1, RetryAfter("90s"), 0.9) == 90
    assert Retry.never().delay_for(1, RetryAfter("90s"), 0.0) is None
    with pytest.raises(BadDuration):
        RetryAfter(-1)


def test_retry_after_has_a_text_and_travels() -> None:
    assert str(RetryAfter(90)) == "retry after 90 s"
    copy = pickle.loads(pickle.dumps(RetryAfter("90s", "later")))  # noqa: S301
    assert (copy.delay, str(copy)) == (90.0, "later")
    assert not issubclass(RetryAfter, WindlassError)
    assert not issubclass(Fatal, WindlassError)


def test_custom_rule_is_told_the_count_and_the_error() -> None:
    seen: list[object] = []

    def rule(failures: int, error: BaseException) -> str | None:
        seen.append((failures, error))
        return None if failures > 2 else f"{failures}m"

    policy = Retry.custom(rule, jitter=0)
    assert delays(policy, range(1, 4)) == [60, 120, None]
    assert seen == [(1, BOOM), (2, BOOM), (3, BOOM)]


@pytest.mark.parametrize("answer", ["soon", -1, math.nan, False, object(), 10**400])
def test_custom_rule_that_answers_nonsense_falls_back(answer: Any) -> None:
    policy = Retry.custom(lambda n, e: answer, jitter=0)
    assert delays(policy, range(1, 5)) == [1, 2, 4, 8]


def test_custom_rule_that_raises_falls_back() -> None:
    assert delays(Retry.custom(lambda n, e: 1 / 0, jitter=0), range(1, 5)) == [1, 2, 4, 8]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_custom_rule_that_wants_to_end_the_program_does_not(error: type[BaseException]) -> None:
    def rule(failures: int, seen: BaseException) -> float:
        raise error

    # It is asked while an attempt is concluded: the outcome must be recorded all the same.
    assert Retry.custom(rule).delay_for(1, BOOM, 0.0) == 1.0


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: Retry.fixed(1, jitter=1.1), "jitter"),
        (lambda: Retry.fixed(1, jitter=-0.1), "jitter"),
        (lambda: Retry.fixed(1, jitter=math.nan), "jitter"),
        (lambda: Retry.fixed(1, jitter=True), "jitter"),
        (lambda: Retry.exponential(factor=0.5), "factor"),
        (lambda: Retry.exponential(factor=math.inf), "factor"),
        (lambda: Retry.exponential(base="2h", cap="1h"), "cap"),
        (lambda: Retry.fixed(1, fatal=ValueError()), "fatal"),  # type: ignore[arg-type]
        (lambda: Retry.fixed(1, only=("OSError",)), "only"),  # type: ignore[arg-type]
        (lambda: Retry.fixed(1, after={int: 5}), "after"),  # type: ignore[dict-item]
        (lambda: Retry.custom("soon"), "rule"),  # type: ignore[arg-type]
    ],
)
def test_bad_options_are_refused_at_definition(make: Any, option: str) -> None:
    with pytest.raises(BadOption) as caught:
        make()
    assert caught.value.option == option


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry.fixed(-1),
        lambda: Retry.linear("fast"),
        lambda: Retry.exponential(cap=math.inf),
        lambda: Retry.fixed(1, after={OSError: "fast"}),
    ],
)
def test_bad_durations_are_refused_at_definition(make: Any) -> None:
    with pytest.raises(BadDuration):
        make()


def test_policy_is_frozen_and_hashable() -> None:
    policy = Retry.fixed(1, after={OSError: 5})
    assert hash(policy) == hash(Retry.fixed(1, after={OSError: 5}))
    with pytest.raises(AttributeError):
        policy.base = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        policy.after[ValueError] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    "policy",
    [
        Retry(),
        Retry.never(),
        Retry.fixed("5s", jitter=0),
        Retry.linear("5s", cap="1m"),
        Retry.exponential(base=2, cap=100, factor=1.5, jitter=0.1),
    ],
)
def test_stored_form_reads_back_equal(policy: Retry) -> None:
    assert Retry.from_json(policy.to_json()) == policy


def test_stored_form_of_a_custom_policy_has_the_default_formula() -> None:
    policy = Retry.custom(lambda n, e: 9, fatal=OSError)
    stored = policy.to_json()
    assert stored == {"kind": "custom", "base": 1.0, "cap": 3600.0, "factor": 2.0, "jitter": 0.5}
    read = Retry.from_json(stored)
    assert read.kind is RetryKind.CUSTOM
    assert read.delay_for(3, OSError(), 0.0) == 4


def test_empty_stored_form_is_the_default() -> None:
    assert Retry.from_json({}) == Retry()


@pytest.mark.parametrize(
    "stored",
    [{"kind": "sometimes"}, {"base": -1}, {"jitter": 2}, {"rule": "x"}, {"cap": None}],
)
def test_bad_stored_form_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        Retry.from_json(stored)
