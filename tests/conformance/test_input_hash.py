"""One hash of an input for everybody: Python, SQLite and PostgreSQL, however it is written."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.kit import Driver
from tests.conformance.plain_sql import Client
from windlass import codec
from windlass.errors import KeyConflict

_texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
_numbers = (
    st.integers(-(2**63), 2**64 - 1)
    | st.integers(-100, 100)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 1.0, 100.0, 1e16, 1e22, 1e-7, 5e-324, 1.7976931348623157e308])
)
_values = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


class Speller:
    """Writes a value as JSON in one of its many ways."""

    def __init__(self, chance: Any) -> None:
        self._random = chance  # hypothesis's own, so that it can make an example small

    def write(self, value: Any) -> str:
        """One spelling of a value."""
        return f"{self._gap()}{self._bare(value)}{self._gap()}"

    def _bare(self, value: Any) -> str:
        match value:
            case None | bool():
                return json.dumps(value)
            case int() | float():
                return self._number(value)
            case str():
                return self._text(value)
            case list():
                return f"[{','.join(map(self.write, value))}{self._gap()}]"
            case _:
                return self._object(value)

    def _object(self, value: dict[str, Any]) -> str:
        members = list(value.items())
        self._random.shuffle(members)
        # A name that comes twice counts the last time.
        twice = [(name, "?") for name, _ in members[:1] if self._random.random() < 0.3]
        pairs = [f"{self._gap()}{self._text(n)}:{self.write(v)}" for n, v in twice + members]
        return f"{{{','.join(pairs)}}}"

    def _number(self, value: float) -> str:
        exact = Decimal(repr(value))
        match self._random.randrange(4):
            case 0:
                return f"{exact:f}" + ("" if "." in f"{exact:f}" else ".0") + "00"
            case 1:
                sign, digits, exponent = exact.as_tuple()
                assert isinstance(exponent, int)
                mark = self._random.choice("eE")
                return f"{'-' * sign}{''.join(map(str, digits))}{mark}{exponent:+d}"
            case _:
                return repr(value)

    def _text(self, text: str) -> str:
        if self._random.random() < 0.5:
            return json.dumps(text, ensure_ascii=self._random.random() < 0.5)
        units = text.encode("utf-16-be").hex()
        return '"' + "".join(f"\\u{units[n : n + 4]}" for n in range(0, len(units), 4)) + '"'

    def _gap(self) -> str:
        return str(self._random.choice(["", "", " ", "\n\t"]))


def _same(one: Any, other: Any) -> bool:
    """Whether two values of JSON are equal: True is not 1, and no digit is lost."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return Decimal(repr(one)) == Decimal(repr(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return type(one) is type(other) and one == other


def test_sql_and_python_have_one_hash(client: Client) -> None:
    @given(_values, st.randoms())
    def check(value: Any, chance: Any) -> None:
        text = Speller(chance).write(value)
        found = client.value("select windlass.input_hash(%s::json)", text)
        assert found == codec.canonical_hash(text) == codec.canonical_hash(json.dumps(value))

    check()


def test_a_key_knows_its_input_again_however_it_is_written(steer: Driver) -> None:
    @given(_values, _values, st.randoms())
    def check(one: Any, other: Any, chance: Any) -> None:
        key = steer.sources.new_id()
        speller = Speller(chance)

        def enqueue(value: Any) -> bool:
            document = msgspec.Raw(speller.write(value).encode())
            (answer,) = steer.enqueue(steer.new(key=key, input=document))
            return answer.created

        assert enqueue(one)
        assert not enqueue(one)
        if _same(one, other):
            assert not enqueue(other)
        else:
            with pytest.raises(KeyConflict):
                enqueue(other)

    check()
