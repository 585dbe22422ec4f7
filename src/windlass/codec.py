"""Inputs, results and step values as JSON, with the same limits on both stores.

What one store would accept and the other refuse (or silently change) is refused here for both:
NaN and infinities, which msgspec would write as null; NUL characters, which PostgreSQL does not
take; lone surrogates; integers beyond 64 bits; nesting so deep that readers overflow. Values that
are fine, which is nearly all of them, pay only for a few searches in the encoded bytes; the value
itself is walked only where one of those finds something suspicious.
"""

import dataclasses
import hashlib
import ipaddress
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import accumulate
from json.encoder import encode_basestring
from pathlib import PurePath
from typing import Any, Final

import msgspec

from windlass.errors import BadPayload, PayloadTooLarge

MAX_BYTES: Final = 1024 * 1024
"""The default limit of one encoded value."""

MAX_DEPTH: Final = 100
"""How deep objects and arrays may nest."""

TEXTUAL: Final = (
    *(PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network),
    *(ipaddress.IPv6Network, ipaddress.IPv4Interface, ipaddress.IPv6Interface),
)
"""Classes that msgspec does not know, whose values are written as their text."""

_TOO_LONG = "an integer of more than 64 bits; pass it as text"
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1

_DIGITS = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else byte for byte in range(256))
_LONG_NUMBER = b"0" * 19  # the shortest integers beyond 64 bits have 19 digits
_LONG_INTEGER = re.compile(rb"-?[0-9]{19,21}")  # more digits cannot fit anyway
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # not a backslash followed by the letters u0000
_NESTING = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_ALL_BUT_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_LARGEST_EXPONENT = 10_000  # of any float it is below 400
_LITERALS: Mapping[object, str] = {None: "null", True: "true", False: "false"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def encode(value: object, *, what: str, limit: int = MAX_BYTES) -> bytes:
    """Return the value as compact JSON in UTF-8.

    Raises BadPayload or PayloadTooLarge; `what` names the value in the message, e.g. "input of
    send_welcome".
    """
    try:
        data = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _explain(value, what, error) from error
    if len(data) > limit:
        raise PayloadTooLarge(what, len(data), limit)
    # So few brackets cannot nest too deep, wherever they stand.
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise BadPayload(what, f"it nests deeper than {MAX_DEPTH} levels")
    if b"null" in data and not _is_finite(value):
        _refuse_numbers(value, what)
    if _LONG_NUMBER in data.translate(_DIGITS) and _may_overflow(data):
        _refuse_numbers(value, what)
    if b"\\u0000" in data and _NUL.search(data):
        raise BadPayload(what, "it has a NUL character", _find_nul(value))
    return data


def decode(data: bytes | str | msgspec.Raw, *, what: str = "value") -> Any:
    """Return what the JSON says, in dicts, lists, text, numbers, booleans and None."""
    try:
        return _decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise BadPayload(what, f"it is not valid JSON ({error})") from error


def instant_text(moment: datetime) -> str:
    """An instant as ISO 8601 in UTC: `2025-01-01T12:00:00Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def canonical_hash(data: bytes | str | msgspec.Raw) -> str:
    """Return a hash that is equal for equal JSON values, however they are written.

    On PostgreSQL `windlass.input_hash` computes the same; docs/protocol.md defines it.
    """
    try:
        value = _exact_decoder.decode(data if isinstance(data, str) else bytes(data).decode())
    except (ValueError, RecursionError) as error:
        raise BadPayload("value", f"it is not valid JSON ({error})") from error
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def _canonical(value: object) -> str:
    """The one text of a JSON value, as PostgreSQL's jsonb writes it but for the final zeros."""
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or isinstance(value, bool):
        return _LITERALS[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        if "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        return "0" if digits == "-0" else digits
    if isinstance(value, dict):
        members = sorted(value.items(), key=_place)
        return f"{{{', '.join([f'{encode_basestring(n)}: {_canonical(m)}' for n, m in members])}}}"
    assert isinstance(value, list)
    return f"[{', '.join([_canonical(item) for item in value])}]"


def _place(member: tuple[str, object]) -> tuple[int, bytes]:
    """Where jsonb has a member: the shorter name, in UTF-8, comes first."""
    name = member[0].encode()
    return len(name), name


def _exact_number(digits: str) -> Decimal:
    number = Decimal(digits)
    if number and abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(f"{digits[:40]} is out of range")  # its digits would fill the memory
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON has")


def is_model(cls: object) -> bool:
    """Whether it is a class of Pydantic models. Pydantic is not imported for that."""
    pydantic = sys.modules.get("pydantic")
    # getattr: at this moment another thread may be half-way through importing it.
    base = getattr(pydantic, "BaseModel", None)
    return base is not None and isinstance(cls, type) and issubclass(cls, base)


def _encode_foreign(value: Any) -> object:
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    # Written as it is by the encoder, but unknown to to_builtins.
    if isinstance(value, msgspec.Raw):
        return decode(value)
    if isinstance(value, TEXTUAL):
        return str(value)
    # Subclasses, which msgspec does not take. A boolean gets here as the key of a dict only.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_encoder = msgspec.json.Encoder(enc_hook=_encode_foreign)
_exact_decoder = json.JSONDecoder(parse_float=_exact_number, parse_constant=_refuse_constant)
_strict_encoder = json.JSONEncoder(allow_nan=False, check_circular=False)
_decoder = msgspec.json.Decoder()


def _is_finite(value: object) -> bool:
    # Most nulls are just None. The standard encoder minds the others, and is in C; a walk is not.
    try:
        _strict_encoder.encode(_as_builtins(value))
    except ValueError:
        return False
    return True


def _may_overflow(data: bytes) -> bool:
    return any(not _MIN_INT <= int(digits) <= _MAX_INT for digits in _LONG_INTEGER.findall(data))


def _refuse_numbers(value: object, what: str) -> None:
    for path, item in _walk(_as_builtins(value)):
        if isinstance(item, float) and not math.isfinite(item):
            raise BadPayload(what, f"{item} is not a number that JSON has", path)
        if isinstance(item, int) and not _MIN_INT <= item <= _MAX_INT:
            raise BadPayload(what, _TOO_LONG, path)


def _find_nul(value: object) -> str:
    for path, item in _walk(_as_builtins(value)):
        if isinstance(item, str) and "\0" in item:
            return path
    return "$"  # in the name of a member


def _as_builtins(value: object) -> object:
    return msgspec.to_builtins(value, enc_hook=_encode_foreign, str_keys=True)


def _walk(value: object) -> Iterator[tuple[str, object]]:
    """Yield every scalar with its path. Iterative, since the depth is not yet known to be sane."""
    pending: list[tuple[str, object]] = [("$", value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, dict):
            pending.extend((path + _step(key), child) for key, child in item.items())
        elif isinstance(item, (list, tuple)):
            pending.extend((f"{path}[{index}]", child) for index, child in enumerate(item))
        else:
            yield path, item


def _step(key: object) -> str:
    return f".{key}" if isinstance(key, str) and _NAME.fullmatch(key) else f"[{ascii(key)[:80]}]"


def _depth(data: bytes) -> int:
    """Return how deep valid JSON nests, by whole-buffer operations: a regex is far slower."""
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    # What is left of most strings is a pair of quotes. Whatever such a pair closes or opens,
    # without it each bracket is inside or outside of a string as before.
    marks = unescaped.translate(None, _ALL_BUT_MARKS).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])
    return max(accumulate(map(_NESTING.__getitem__, brackets)), default=0)


def _explain(value: object, what: str, error: Exception) -> BadPayload:
    """Say what could not be encoded, and where: msgspec names the type alone."""
    path, culprit = "$", value
    for _ in range(MAX_DEPTH):
        inner = next((pair for pair in _children(culprit) if not _encodes(pair[1])), None)
        if inner is None:
            break
        path, culprit = path + inner[0], inner[1]
    if isinstance(error, RecursionError):
        return BadPayload(what, f"it contains itself or nests deeper than {MAX_DEPTH} levels")
    if isinstance(error, UnicodeEncodeError):
        return BadPayload(what, "a lone surrogate is no character", path)
    if isinstance(culprit, int):
        return BadPayload(what, _TOO_LONG, path)
    if isinstance(culprit, Mapping):
        return BadPayload(what, "the keys of a dict must be text or numbers", path)
    return BadPayload(what, str(error), path)


def _encodes(value: object) -> bool:
    try:
        _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True


def _children(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from ((_step(key), child) for key, child in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{index}]", child) for index, child in enumerate(value))
    elif isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield f".{field.name}", getattr(value, field.name, None)
