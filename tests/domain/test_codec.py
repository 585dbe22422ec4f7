"""JSON in and out, and everything that is refused on its way in."""

import dataclasses
import decimal
import enum
import hashlib
import json
import math
import sys
import time
import uuid
from collections import OrderedDict, namedtuple
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import codec
from windlass.errors import BadPayload, PayloadTooLarge


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Order:
    id: object
    note: str | None = None


class Point(msgspec.Struct):
    x: object


class Model(pydantic.BaseModel):
    size: float = pydantic.Field(default=1.5, alias="Size")


class Options(TypedDict):
    deep: bool


class Label(str):
    pass


class Count(int):
    pass


class Ratio(float):
    pass


Pair = namedtuple("Pair", "a b")  # noqa: PYI024
MOMENT = datetime(2030, 1, 1, tzinfo=UTC)


def encode(value: object, limit: int = codec.MAX_BYTES) -> bytes:
    return codec.encode(value, what="input", limit=limit)


def nested(depth: int) -> object:
    value: object = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, b"null"),
        ({"a": None, "b": [True, 1, 2.5, "é"]}, '{"a":null,"b":[true,1,2.5,"é"]}'.encode()),
        ({"null": "null"}, b'{"null":"null"}'),
        (uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (decimal.Decimal("1.10"), b'"1.10"'),
        (decimal.Decimal("NaN"), b'"NaN"'),
        (MOMENT, b'"2030-01-01T00:00:00Z"'),
        (Color.RED, b'"red"'),
        (Level.HIGH, b"3"),
        ({1}, b"[1]"),
        ((1, 2), b"[1,2]"),
        (Pair(1, None), b"[1,null]"),
        (b"\x00", b'"AA=="'),
        ({1: 2}, b'{"1":2}'),
        (Order(1), b'{"id":1,"note":null}'),
        (Point(Order(Model())), b'{"x":{"id":{"Size":1.5},"note":null}}'),
        (Options(deep=True), b'{"deep":true}'),
        (OrderedDict(a=1), b'{"a":1}'),
        ({"a": Label("x"), "b": Count(5), "c": Ratio(0.5)}, b'{"a":"x","b":5,"c":0.5}'),
        (
            [2**64 - 1, -(2**63), 10**18],
            b"[18446744073709551615,-9223372036854775808,1" + b"0" * 18 + b"]",
        ),
        ("9" * 30, b'"' + b"9" * 30 + b'"'),
        (1e300, b"1e300"),
        ("\\u0000", rb'"\\u0000"'),
        ('"\\\\u0000', rb'"\"\\\\u0000"'),
        (msgspec.Raw(b'{"a":null}'), b'{"a":null}'),
    ],
)
def test_encode(value: object, data: bytes) -> None:
    assert encode(value) == data
    assert codec.decode(data) == json.loads(data)


LOOP: list[object] = []
LOOP.append({"again": LOOP})


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        (math.nan, "$", "nan is not a number that JSON has"),
        ({"a": [1, {"b c": -math.inf}]}, "$.a[1]['b c']", "-inf is not a number"),
        ({"a": None, "b": math.inf}, "$.b", "inf is not a number"),
        (Order(Point(math.nan)), "$.id.x", "nan is not"),
        (Model(Size=math.nan), "$.Size", "nan is not"),
        (Ratio("inf"), "$", "inf is not"),
        ({"a": ["x", "a\0b"]}, "$.a[1]", "NUL character"),
        ("\\\0", "$", "NUL character"),
        ("\\u0000\0", "$", "NUL character"),
        ({"\0": 1}, "$", "NUL character"),
        ({"a": "\ud800"}, "$.a", "lone surrogate"),
        ({"\udfff": 1}, "$", "lone surrogate"),
        (Order("\ud83d"), "$.id", "lone surrogate"),
        ({"a": [2**64]}, "$.a[0]", "more than 64 bits"),
        (-(2**63) - 1, "$", "more than 64 bits"),
        ([10**4000], "$[0]", "more than 64 bits"),
        ([10**5000], "$[0]", "more than 64 bits"),
        (Count(2**70), "$", "more than 64 bits"),
        (nested(101), "$", "nests deeper than 100 levels"),
        (nested(100_000), "$", "nests deeper than 100 levels"),
        (LOOP, "$", "it contains itself"),
        (object(), "$", "object has no form in JSON"),
        ({"a": [Order(Point(len))]}, "$.a[0].id.x", "builtin_function_or_method has no form"),
        ({"a": range(3)}, "$.a", "range has no form"),
        ({"a": {None: 1}}, "$.a", "keys of a dict must be text or numbers"),
        ({(1, 2): 3}, "$", "keys of a dict must be text or numbers"),
        ({True: 1}, "$", "keys of a dict must be text or numbers"),
    ],
    ids=range(27),
)
def test_refuse(value: object, path: str, why: str) -> None:
    with pytest.raises(BadPayload) as caught:
        encode(value)
    assert why in str(caught.value)
    assert str(caught.value).startswith("The input cannot be stored")
    assert (caught.value.what, caught.value.path) == ("input", path)
    assert len(str(caught.value)) < 300


def test_depth_counts_structure_only() -> None:
    assert encode(nested(100))
    for text in ("[{" * 300, '"[{' * 300, "\\[{" * 300, '\\"[{' * 300, ']}"' * 300, "\\\\"):
        # Brackets in strings neither add to the depth nor hide it.
        assert encode([text, {text: [text]}] * 60)
        with pytest.raises(BadPayload, match="deeper"):
            encode([text, nested(100), text])
        with pytest.raises(BadPayload, match="deeper"):
            encode({text: {text: nested(99)}})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=[]), max_size=8)
    | st.sampled_from(["\\u0000", "[[{", '"', "\\", "null", "1" * 25]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def is_sound(value: object) -> bool:
    """Whether a value of plain JSON may be stored: the rules, written the slow way."""
    if isinstance(value, dict):
        return all(is_sound(key) and is_sound(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_sound, value))
    if isinstance(value, str):
        return not any(char == "\0" or 0xD800 <= ord(char) <= 0xDFFF for char in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -(2**63) <= value < 2**64


@given(JSON)
def test_exactly_the_sound_values_pass_and_come_back(value: object) -> None:
    if is_sound(value):
        data = encode(value)
        assert codec.decode(data) == value
        assert json.loads(data) == value
    else:
        with pytest.raises(BadPayload):
            encode(value)


@given(st.text(st.sampled_from('[]{}"\\a'), max_size=40), st.integers(0, 120))
def test_depth_is_exact_beside_any_text(text: str, depth: int) -> None:
    value = [text, nested(depth), {text: text}]
    assert codec._depth(msgspec.json.encode(value)) == max(depth + 1, 2)


def test_size_is_limited_in_bytes() -> None:
    assert encode("é" * 4, limit=10)
    with pytest.raises(PayloadTooLarge) as caught:
        encode("é" * 5, limit=11)
    assert (caught.value.size, caught.value.limit) == (12, 11)
    assert "store it elsewhere and pass a pointer" in str(caught.value)
    assert encode("x" * (codec.MAX_BYTES - 2))
    with pytest.raises(PayloadTooLarge):
        encode("x" * (codec.MAX_BYTES - 1))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"1 2",
        b"NaN",
        b"1e999",
        b'"\xff"',
        rb'"\ud800"',
        b"\xef\xbb\xbf1",
        b"[" * 200_000,
    ],
    ids=range(9),
)
def test_decode_refuses_what_is_not_json(data: bytes) -> None:
    with pytest.raises(BadPayload, match="not valid JSON"):
        codec.decode(data)


def test_decode_takes_text_bytes_and_raw() -> None:
    for data in ('{"a":1}', b'{"a":1}', msgspec.Raw(b'{"a":1}')):
        assert codec.decode(data) == {"a": 1}


def test_canonical_hash_ignores_order_and_spacing() -> None:
    first = codec.canonical_hash(b'{"b": [1, {"d":2,"c":3}], "a": null}')
    assert first == codec.canonical_hash(b'{"a":null,"b":[1,{"c":3,"d":2}]}')
    assert first != codec.canonical_hash(b'{"a":null,"b":[{"c":3,"d":2},1]}')
    assert first != codec.canonical_hash(b'{"a":0,"b":[1,{"c":3,"d":2}]}')


def test_canonical_hash_is_pinned() -> None:
    # Stored beside keys: a change would make every repeated key of the day before a conflict.
    written = '{"a": "é", "b": 1}'.encode()
    assert codec.canonical_hash(b'{"b":1,"a":"\xc3\xa9"}') == hashlib.sha256(written).hexdigest()


def test_pydantic_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codec.is_model(Model)
    assert not codec.is_model(Model())
    assert not codec.is_model(Order)
    monkeypatch.delitem(sys.modules, "pydantic")
    assert not codec.is_model(Model)
    with pytest.raises(BadPayload, match="Model has no form in JSON"):
        encode(Model())


def test_a_serializer_that_fails_is_the_payloads_fault() -> None:
    class Broken(pydantic.BaseModel):
        @pydantic.model_serializer
        def dump(self) -> dict[str, Any]:
            raise ValueError("cannot dump")

    with pytest.raises(BadPayload, match="cannot dump"):
        encode({"a": Broken()})


def test_encoding_a_small_dict_stays_cheap() -> None:
    # The budget is 3 µs; a walk of the value in Python would be ten times this bound.
    value = {"user_id": 12345, "name": "Grace Hopper", "tags": ["a", "b"], "note": "x" * 40}
    best = min(_time(value) for _ in range(20))
    assert best < 15e-6


def _time(value: object) -> float:
    start = time.perf_counter()
    for _ in range(100):
        encode(value)
    return (time.perf_counter() - start) / 100


SAME = [
    ("1", "1.0", "1.000", "1e0", "10E-1"),
    ("100", "1e2", "1E+2", "100.00"),
    ("0", "-0", "0.0", "-0.0", "0e9"),
    ("0.1", "0.10", "1e-1"),
    ("-0.0000001", "-1e-7"),
    ('"é/\\n"', r'"\u00e9\/\u000a"'),
    ('{"a": 1, "b": 2}', '{"b":2,"a":1}', '{"a": 0, "b": 2, "a": 1}'),
]


@pytest.mark.parametrize("spellings", SAME)
def test_canonical_hash_is_of_the_value(spellings: tuple[str, ...]) -> None:
    assert len({codec.canonical_hash(text) for text in spellings}) == 1


def test_canonical_hash_tells_values_apart() -> None:
    texts = [spellings[0] for spellings in SAME]
    texts += ["12345678901234567890", "12345678901234567891", "0.30000000000000004", "0.3"]
    texts += ['"1"', '"1.0"', "null", "true", "false", "[]", "{}", '""', "[1, 0]", "[10]"]
    assert len({codec.canonical_hash(text) for text in texts}) == len(texts)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e99999999", "[1", "[" * 100_000])
def test_canonical_hash_refuses_what_is_not_json(text: str) -> None:
    with pytest.raises(BadPayload, match="not valid JSON"):
        codec.canonical_hash(text)
