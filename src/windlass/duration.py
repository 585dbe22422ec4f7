"""Lengths of time: what people write, and back."""

import math
import re
import reprlib
from datetime import timedelta
from typing import TypeAlias

from windlass.errors import BadDuration

Duration: TypeAlias = float | str | timedelta
"""Seconds, a timedelta, or text such as "250ms", "30s", "2h30m", "7d", "1w" or "30"."""

MAX_SECONDS = 100 * 365.25 * 86400.0
"""The longest duration: a century. Beyond it a typing mistake is likelier than a wish."""

_UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_PART = re.compile(rf"\s*(?P<number>{_NUMBER.pattern})\s*(?P<unit>[^\s0-9.]+)\s*")


def parse_duration(value: Duration) -> float:
    """Return the duration in seconds.

    Raises BadDuration for anything else, booleans and negative numbers included.

    >>> parse_duration("2h30m")
    9000.0
    """
    match value:
        case bool():
            raise _bad(value, "a boolean is not a number of seconds")
        case timedelta():
            seconds = value.total_seconds()
        case int() | float():
            if isinstance(value, float) and not math.isfinite(value):
                raise _bad(value, "it is not finite")
            # Cut before it is converted: a huge int does not fit a float.
            seconds = float(min(max(value, -1), 2 * MAX_SECONDS))
        case str():
            seconds = _parse_text(value)
        case _:
            raise _bad(value, f"its type is {type(value).__name__}")
    if seconds < 0:
        raise _bad(value, "it is negative")
    if seconds > MAX_SECONDS:
        raise _bad(value, "it is longer than 100 years")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the duration for people to read, in its one or two largest units.

    >>> format_duration(72)
    '1 m 12 s'
    """
    if not math.isfinite(seconds):
        return f"{seconds} s"
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    # What a unit is decided by is the rounded number, lest 59.96 s be shown as 60 s.
    if round(seconds * 1000, 1) < 1000:
        return f"{round(seconds * 1000, 1):g} ms" if seconds else "0 s"
    if round(seconds, 1) < 60:
        return f"{round(seconds, 1):g} s"
    return _two_units(seconds)


def _two_units(seconds: float) -> str:
    units = [("w", "d", "h"), ("d", "h", "m"), ("h", "m", "s"), ("m", "s", "s")]
    for large, small, finer in units:
        # Six and a half days are no week: whether it is one is asked of the hours.
        if round(seconds / _UNITS[finer]) * _UNITS[finer] >= _UNITS[large]:
            whole = round(seconds / _UNITS[small])
            count, rest = divmod(whole, round(_UNITS[large] / _UNITS[small]))
            return f"{count} {large} {rest} {small}" if rest else f"{count} {large}"
    raise AssertionError("unreachable: a minute or more was given")


def _parse_text(text: str) -> float:
    if len(text) > 100:
        raise _bad(text, "it is too long")
    plain = text.strip()
    if not plain:
        raise _bad(text, "it is empty")
    if plain.startswith("-"):
        raise _bad(text, "it is negative")
    if _NUMBER.fullmatch(plain):
        return float(plain)
    total, position, smallest = 0.0, 0, math.inf
    while position < len(plain):
        part = _PART.match(plain, position)
        if part is None:
            raise _bad(text, f"{plain[position:]!r} is not a number with a unit")
        unit = _UNITS.get(part["unit"])
        if unit is None:
            raise _bad(text, f"{part['unit']!r} is not a unit (ms, s, m, h, d, w)")
        if unit >= smallest:
            raise _bad(text, "its units must run from large to small, each once")
        total += float(part["number"]) * unit
        position, smallest = part.end(), unit
    return total


def _bad(value: object, why: str) -> BadDuration:
    # reprlib: short, and safe against a __repr__ that raises.
    return BadDuration(reprlib.repr(value), why)
