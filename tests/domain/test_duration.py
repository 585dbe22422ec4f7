"""What counts as a duration, what does not, and how one is shown."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.duration import MAX_SECONDS, format_duration, parse_duration
from windlass.errors import BadDuration


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (0, 0.0),
        (5, 5.0),
        (0.25, 0.25),
        (timedelta(minutes=2), 120.0),
        ("30", 30.0),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("250ms", 0.25),
        ("10m", 600.0),
        ("2h30m", 9000.0),
        ("7d", 604800.0),
        ("1w", 604800.0),
        ("1w2d3h4m5s6ms", 788645.006),
        (" 1 h 30 m ", 5400.0),
        ("0", 0.0),
        (MAX_SECONDS, MAX_SECONDS),
    ],
)
def test_parse(given: Any, seconds: float) -> None:
    parsed = parse_duration(given)
    assert parsed == pytest.approx(seconds, rel=1e-12)
    assert type(parsed) is float


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (True, "boolean"),
        (math.nan, "not finite"),
        (math.inf, "not finite"),
        (-math.inf, "not finite"),
        (-1, "negative"),
        (-0.001, "negative"),
        (timedelta(seconds=-1), "negative"),
        ("-5s", "negative"),
        ("", "empty"),
        ("  ", "empty"),
        ("5 parsecs", "'parsecs' is not a unit (ms, s, m, h, d, w)"),
        ("5M", "'M' is not a unit"),
        ("s", "'s' is not a number with a unit"),
        ("1h2", "'2' is not a number with a unit"),
        ("1.2.3s", "is not a number with a unit"),
        ("1e3", "'e' is not a unit"),
        ("nan", "is not a number"),
        ("inf", "is not a number"),
        ("٣s", "is not a number"),
        ("30m2h", "from large to small"),
        ("1h1h", "from large to small"),
        ("1" * 101, "too long"),
        ("9" * 100, "longer than 100 years"),
        (10**400, "longer than 100 years"),
        (-(10**400), "negative"),
        (1e300, "longer than 100 years"),
        (timedelta.max, "longer than 100 years"),
        ("101 w 9999999d", "longer than 100 years"),
        (None, "its type is NoneType"),
        (b"5s", "its type is bytes"),
        ([5], "its type is list"),
        (Hostile(), "its type is Hostile"),
    ],
)
def test_refuse(given: Any, why: str) -> None:
    with pytest.raises(BadDuration) as caught:
        parse_duration(given)
    assert why in str(caught.value)
    assert "Give seconds, a timedelta, or text" in str(caught.value)
    assert len(str(caught.value)) < 300


PIECES = st.sampled_from(
    ["1", "60", "0.5", ".", " ", "ms", "s", "m", "h", "d", "w", "x", "-", "e9"]
)


@given(st.text(max_size=120) | st.lists(PIECES, max_size=8).map("".join))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except BadDuration:
        return
    assert 0 <= seconds <= MAX_SECONDS


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0004, "0.4 ms"),
        (0.25, "250 ms"),
        (0.99999, "1 s"),
        (1, "1 s"),
        (1.54, "1.5 s"),
        (59.94, "59.9 s"),
        (59.96, "1 m"),
        (72, "1 m 12 s"),
        (3599.6, "1 h"),
        (3600, "1 h"),
        (9000, "2 h 30 m"),
        (86399, "1 d"),
        (90061, "1 d 1 h"),
        (561601, "6 d 12 h"),
        (603900, "1 w"),
        (604800, "1 w"),
        (788645, "1 w 2 d"),
        (-72, "-1 m 12 s"),
        (math.inf, "inf s"),
    ],
)
def test_format(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(min_value=0.001, max_value=MAX_SECONDS))
def test_what_is_shown_is_read_back_within_its_precision(seconds: float) -> None:
    # Half a day of a week is the coarsest.
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.0715)
