"""What cannot be stored or meant is refused at the call: one clear error, nothing written.

Each case has its whole text here, so that both stores say the same.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass import (
    BadDuration,
    BadOption,
    BadPayload,
    PayloadTooLarge,
    Windlass,
    WindlassError,
)


def nested(levels: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def cyclic() -> list[Any]:
    """A list that contains itself."""
    value: list[Any] = []
    value.append(value)
    return value


def text_of(size: int) -> str:
    """A text whose input has so many bytes of JSON."""
    return "a" * (size - len('{"value":""}'))


@pytest.fixture
def take(app: Windlass) -> Any:
    """A job that takes anything."""

    @app.job
    async def take(value: Any = None) -> None: ...

    return take


STORED = "The input of job 'take' cannot be stored"
BUILTIN = "builtin_function_or_method"
TOO_LONG = "an integer of more than 64 bits; pass it as text"

TOO_LARGE = (
    "The input of job 'take' is 1,048,577 bytes of JSON and the limit is 1,048,576: "
    "store it elsewhere and pass a pointer."
)

PAYLOADS: dict[str, tuple[Any, type[WindlassError], str]] = {
    "nan": (math.nan, BadPayload, f"{STORED} at $.value: nan is not a number that JSON has."),
    "inf": ([math.inf], BadPayload, f"{STORED} at $.value[0]: inf is not a number that JSON has."),
    "minus inf": (
        {"a b": -math.inf},
        BadPayload,
        f"{STORED} at $.value['a b']: -inf is not a number that JSON has.",
    ),
    "nul": ("a\0b", BadPayload, f"{STORED} at $.value: it has a NUL character."),
    "nul in a key": ({"a\0b": 1}, BadPayload, f"{STORED}: it has a NUL character."),
    "surrogate": (
        ["x", "\ud800"],
        BadPayload,
        f"{STORED} at $.value[1]: a lone surrogate is no character.",
    ),
    "depth": (nested(100), BadPayload, f"{STORED}: it nests deeper than 100 levels."),
    "depth beyond the stack": (
        nested(100_000),
        BadPayload,
        f"{STORED}: it contains itself or nests deeper than 100 levels.",
    ),
    "cycle": (
        cyclic(),
        BadPayload,
        f"{STORED}: it contains itself or nests deeper than 100 levels.",
    ),
    "long integer": (2**64, BadPayload, f"{STORED} at $.value: {TOO_LONG}."),
    "long negative integer": (-(2**63) - 1, BadPayload, f"{STORED} at $.value: {TOO_LONG}."),
    "huge integer": (10**5000, BadPayload, f"{STORED} at $.value: {TOO_LONG}."),
    "object": (object(), BadPayload, f"{STORED} at $.value: object has no form in JSON."),
    "function": ([print], BadPayload, f"{STORED} at $.value[0]: {BUILTIN} has no form in JSON."),
    "class": (dict, BadPayload, f"{STORED} at $.value: type has no form in JSON."),
    "complex": (1j, BadPayload, f"{STORED} at $.value: complex has no form in JSON."),
    "keys": (
        {(1, 2): 3},
        BadPayload,
        f"{STORED} at $.value: the keys of a dict must be text or numbers.",
    ),
    "too large": (
        text_of(1_048_577),
        PayloadTooLarge,
        TOO_LARGE,
    ),
}  # fmt: skip


async def test_payload_is_refused(app: Windlass, take: Any, subtests: pytest.Subtests) -> None:
    for case, (value, error, text) in PAYLOADS.items():
        with subtests.test(case):
            with pytest.raises(error) as sync:
                take.enqueue(value)
            with pytest.raises(error) as twin:
                await take.aenqueue(value)
            with pytest.raises(error) as request:
                take.using(delay="1s").request(value=value)
            with pytest.raises(error) as named:
                app.enqueue("take", {"value": value})
            assert {str(caught.value) for caught in (sync, twin, request, named)} == {text}
    assert app.list() == []


def test_largest_payload_is_taken(app: Windlass, take: Any) -> None:
    largest = text_of(1_048_576)
    run = take.enqueue(largest)
    assert app.get(run.id).input == {"value": largest}
    deepest = nested(99)  # the input itself is one level
    assert app.get(take.enqueue(deepest).id).input == {"value": deepest}


def test_limit_can_be_lower(url: str) -> None:
    app = Windlass(url, payload_limit=100)

    @app.job
    def take(value: str) -> None: ...

    take.enqueue(text_of(100))
    with pytest.raises(PayloadTooLarge, match="is 101 bytes of JSON and the limit is 100"):
        take.enqueue(text_of(101))
    with pytest.raises(PayloadTooLarge, match="is 101 bytes of JSON and the limit is 100"):
        app.enqueue("take", {"value": text_of(101)})
    assert len(app.list()) == 1
    app.close()


HINT = "Give seconds, a timedelta, or text such as '250ms', '30s', '2h30m' or '7d'."
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001
UNSTORABLE = "it has a NUL or a lone surrogate, which no store can hold"
NO_NAME = "is not a name: no spaces, commas or control characters"
NO_PRIORITY = "is not a whole number from -32768 to 32767"

OPTIONS: list[tuple[str, Any, type[WindlassError], str]] = [
    ("delay", -1, BadDuration, f"-1 is not a duration: it is negative. {HINT}"),
    ("delay", timedelta(-1), BadDuration, "it is negative"),
    ("delay", "soon", BadDuration, "'soon' is not a duration: 'soon' is not a number with a unit"),
    ("delay", "5 parsecs", BadDuration, "'parsecs' is not a unit (ms, s, m, h, d, w)"),
    ("delay", "", BadDuration, "it is empty"),
    ("delay", True, BadDuration, "True is not a duration: a boolean is not a number of seconds"),
    ("delay", math.nan, BadDuration, "it is not finite"),
    ("delay", math.inf, BadDuration, "it is not finite"),
    ("delay", None, BadDuration, "its type is NoneType"),
    ("delay", [5], BadDuration, "its type is list"),
    ("delay", "101y", BadDuration, "'y' is not a unit"),
    ("delay", 10**30, BadDuration, "it is longer than 100 years"),
    ("key_ttl", -1, BadDuration, "it is negative"),
    ("timeout", -1, BadDuration, "it is negative"),
    ("timeout", "x", BadDuration, "is not a number with a unit"),
    ("timeout", 0, BadOption, "it must be longer than zero; leave it out for none"),
    ("expires", -1, BadDuration, "it is negative"),
    ("deadline", -1, BadDuration, "it is negative"),
    ("deadline", NAIVE, BadOption, "has no time zone: say which, e.g. tzinfo=UTC"),
    ("expires", NAIVE, BadOption, "has no time zone: say which, e.g. tzinfo=UTC"),
    ("at", NAIVE, BadOption, "has no time zone: say which, e.g. tzinfo=UTC"),
    ("at", "2030-01-01", BadOption, "'2030-01-01' is not a datetime"),
    ("at", 5, BadOption, "5 is not a datetime"),
    ("at", None, BadOption, "None is not a datetime"),
    ("at", datetime(9999, 12, 31, tzinfo=UTC), BadOption, "the last day is 9999-12-30"),
    ("expires", datetime.max.replace(tzinfo=UTC), BadOption, "the last day is 9999-12-30"),
    ("at", NAIVE.date(), BadOption, "is not a datetime"),
    ("key", "", BadOption, "'' is not text"),
    ("key", 7, BadOption, "7 is not text"),
    ("key", None, BadOption, "None is not text"),
    ("key", "k" * 1001, BadOption, "it has 1001 characters, more than 1000"),
    ("key", "ä" * 501, BadOption, "it has 1002 bytes in UTF-8, more than 1000"),
    ("key", "a\0b", BadOption, UNSTORABLE),
    ("key", "\udfff", BadOption, UNSTORABLE),
    ("tags", "vip", BadOption, "'vip' is not a list of texts"),
    ("tags", 5, BadOption, "5 is not a list of texts"),
    ("tags", ["a", 5], BadOption, "5 is not text"),
    ("tags", [""], BadOption, "'' is not text"),
    ("tags", ["t" * 201], BadOption, "it has 201 characters, more than 200"),
    ("tags", ["a\0"], BadOption, UNSTORABLE),
    ("tags", [str(n) for n in range(101)], BadOption, "101 are more than 100"),
    ("priority", 32_768, BadOption, f"32768 {NO_PRIORITY}"),
    ("priority", -32_769, BadOption, f"-32769 {NO_PRIORITY}"),
    ("priority", "high", BadOption, f"'high' {NO_PRIORITY}"),
    ("priority", True, BadOption, f"True {NO_PRIORITY}"),
    ("priority", 1.0, BadOption, f"1.0 {NO_PRIORITY}"),
    ("queue", "", BadOption, f"'' {NO_NAME}"),
    ("queue", "a b", BadOption, f"'a b' {NO_NAME}"),
    ("queue", "a,b", BadOption, f"'a,b' {NO_NAME}"),
    ("queue", "\ud800", BadOption, NO_NAME),
    ("queue", None, BadOption, f"None {NO_NAME}"),
    ("max_attempts", 0, BadOption, "0 is not a whole number from 1 to 1,000,000"),
    ("max_attempts", 1.5, BadOption, "1.5 is not a whole number from 1 to 1,000,000"),
    ("max_attempts", True, BadOption, "True is not a whole number from 1 to 1,000,000"),
    ("dely", 1, BadOption, "there is no such option; there are delay, at, priority, key, key_ttl,"),
    ("retry", 1, BadOption, "there is no such option; there are delay"),
]


def test_option_is_refused(app: Windlass, take: Any, subtests: pytest.Subtests) -> None:
    for option, value, error, why in OPTIONS:
        given = {option: value} | ({"key": "k"} if option == "key_ttl" else {})
        with subtests.test(option, value=ascii(value)[:40]):
            with pytest.raises(error) as using:
                take.using(**given)
            with pytest.raises(error) as named:
                app.enqueue("take", {}, **given)
            assert str(using.value) == str(named.value)
            assert why in str(using.value)
            assert getattr(using.value, "option", option) == option
    assert app.list() == []


def test_longest_options_are_taken(app: Windlass, take: Any) -> None:
    tags = [f"{n:0200}" for n in range(100)]
    job = take.using(key="ä" * 500, tags=tags, queue="q" * 200, priority=32_767, delay="36500d")
    run = app.get(job.enqueue().id)
    assert (run.key, len(run.tags), run.queue) == ("ä" * 500, 100, "q" * 200)
    assert run.due_at is not None
    assert run.due_at > datetime(2100, 1, 1, tzinfo=UTC)


REASONS: list[tuple[Any, str]] = [
    (5, "it must be text, not int"),
    (b"x", "it must be text, not bytes"),
    ("a\0b", UNSTORABLE),
    ("\ud800", UNSTORABLE),
    ("x" * 10_001, "it has 10001 characters, more than 10000"),
]


async def test_reason_of_a_cancel_is_refused(
    app: Windlass, take: Any, subtests: pytest.Subtests
) -> None:
    run = take.enqueue()
    for reason, why in REASONS:
        with subtests.test(ascii(reason)[:40]):
            with pytest.raises(BadOption) as sync:
                app.cancel(run.id, reason=reason)
            with pytest.raises(BadOption) as twin:
                await run.acancel(reason)
            assert str(sync.value) == str(twin.value)
            assert why in str(sync.value)
    assert run.refresh().status == "queued"


def test_budget_of_a_retry_is_refused(app: Windlass, take: Any) -> None:
    run = take.enqueue().cancel()
    wrong: list[Any] = [0, -1, "3", True, 1.5]
    for budget in wrong:
        with pytest.raises(BadOption, match="max_attempts"):
            app.retry(run.id, max_attempts=budget)
    assert run.refresh().status == "canceled"


TIMES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, BadOption, "give either at=, a datetime, or delay=, a duration"),
    ({"at": None, "delay": None}, BadOption, "give either at=, a datetime, or delay=, a duration"),
    ({"at": datetime(2090, 1, 1, tzinfo=UTC), "delay": 0}, BadOption, "not both"),
    ({"at": NAIVE}, BadOption, "has no time zone: say which, e.g. tzinfo=UTC"),
    ({"at": "2090-01-01T00:00Z"}, BadOption, "'2090-01-01T00:00Z' is not a datetime"),
    ({"at": 5}, BadOption, "5 is not a datetime"),
    ({"at": datetime.max.replace(tzinfo=UTC)}, BadOption, "the last day is 9999-12-30"),
    ({"delay": -1}, BadDuration, "it is negative"),
    ({"delay": "-1s"}, BadDuration, "it is negative"),
    ({"delay": float("nan")}, BadDuration, "it is not finite"),
    ({"delay": "soon"}, BadDuration, "'soon' is not a number with a unit"),
    ({"delay": True}, BadDuration, "a boolean is not a number of seconds"),
    ({"delay": "101 w 9999d 36500d"}, BadDuration, "its units must run from large to small"),
    ({"delay": "36526d"}, BadDuration, "it is longer than 100 years"),
]


async def test_time_of_a_reschedule_is_refused(
    app: Windlass, take: Any, subtests: pytest.Subtests
) -> None:
    for run in (take.enqueue(), take.using(delay="1h").enqueue(), take.enqueue().cancel()):
        before = run.refresh().record
        for when, error, why in TIMES:
            with subtests.test(run.status.value, when=str(when)):
                with pytest.raises(error) as sync:
                    app.reschedule(run.id, **when)
                with pytest.raises(error) as twin:
                    await run.areschedule(**when)
                assert str(sync.value) == str(twin.value)
                assert why in str(sync.value)
        assert run.refresh().record == before


QUERIES: list[tuple[dict[str, Any], str]] = [
    ({"stat": "failed"}, "there is no such filter; there are status, job, queue, tag, key"),
    ({"status": "done"}, "'done' is not one of scheduled, queued, running"),
    ({"status": 5}, "5 is neither a status nor several"),
    ({"failure": "bored"}, "'bored' is not one of exhausted, fatal, timeout"),
    ({"limit": 0}, "0 is not a whole number from 1 to 1000"),
    ({"limit": 1001}, "1001 is not a whole number from 1 to 1000"),
    ({"limit": "5"}, "'5' is not a whole number from 1 to 1000"),
    ({"limit": True}, "True is not a whole number from 1 to 1000"),
    ({"limit": 1.5}, "1.5 is not a whole number from 1 to 1000"),
    ({"created_from": NAIVE}, "has no time zone: say which, e.g. tzinfo=UTC"),
    ({"created_to": "2030-01-01"}, "'2030-01-01' is not a datetime"),
    ({"job": 5}, "5 is not text"),
    ({"job": "a\0"}, UNSTORABLE),
    ({"queue": "\ud800"}, UNSTORABLE),
    ({"tag": ["a"]}, "['a'] is not text"),
    ({"tag": "a\0"}, UNSTORABLE),
    ({"dead": "yes"}, "'yes' is neither True nor False"),
]


async def test_query_is_refused(app: Windlass, subtests: pytest.Subtests) -> None:
    for query, why in QUERIES:
        with subtests.test(ascii(query)):
            with pytest.raises(BadOption) as sync:
                app.list(**query)
            with pytest.raises(BadOption) as twin:
                await app.alist(**query)
            assert str(sync.value) == str(twin.value)
            assert sync.value.option == next(iter(query))
            assert why in str(sync.value)
