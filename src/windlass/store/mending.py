"""Rows that this program would not have written, read as far as they can be.

An older release, or SQL by hand, may have stored what does not decode: options of the wrong type, a
time without end, an error of another shape. Such a row costs its own run something, and nobody
else: a worker is told the flaw with the run and records it as the run's failure, and a reader gets
the record with a default in the place of what cannot be read.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, get_args

import msgspec

from windlass.domain.report import MESSAGE_LIMIT, ErrorInfo
from windlass.domain.run import Attempt
from windlass.domain.scheduling.rows import ScheduleRow

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""What reading a stored value may raise."""

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


def readable(what: str, read: Callable[[Any], T], stored: Any) -> tuple[T | None, str | None]:
    """Return what was stored, or else what is wrong with it."""
    if stored is None:
        return None, None
    try:
        return read(stored), None
    except UNREADABLE as error:
        return None, f"its stored {what} cannot be read: {error}"


def read_row(text: str, kind: type[T]) -> T:
    """Read a row that came as JSON."""
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE:
        if not issubclass(kind, msgspec.Struct):
            raise
        return _struct(json.loads(text), kind)


def read_schedule(text: str | msgspec.Raw) -> ScheduleRow:
    """Read a schedule; one that had to be mended carries its flaw, and nobody fires it."""
    try:
        return msgspec.json.decode(text, type=ScheduleRow)
    except UNREADABLE as error:
        row = json.loads(text if isinstance(text, str) else bytes(text))
        return msgspec.structs.replace(_struct(row, ScheduleRow), flaw=str(error))


def mend_error(stored: object) -> ErrorInfo:
    """An error of any shape: its text members, or all of it as the message."""
    members = stored if isinstance(stored, Mapping) else {"message": _text(stored)}
    names = ErrorInfo.__struct_fields__
    return ErrorInfo(**{n: _text(members[n]) for n in names if members.get(n) is not None})


def mend_instant(stored: object) -> datetime:
    """A time that Python's clock does not reach becomes the nearest that it does."""
    text = str(stored)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return EARLIEST if text.startswith("-") or text.endswith("BC") else LATEST


def _struct(row: Mapping[str, Any], kind: type[S]) -> S:
    values = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in row:
            continue
        stored = row[field.encode_name]
        try:
            values[field.name] = _convert(stored, field.type)
        except UNREADABLE:
            if field.required:
                raise
    return kind(**values)


def _convert(stored: Any, wanted: Any) -> Any:
    kinds = get_args(wanted) or (wanted,)
    if msgspec.Raw in kinds:
        return msgspec.Raw(json.dumps(stored))
    try:
        return msgspec.convert(stored, wanted)
    except UNREADABLE:
        if datetime in kinds:
            return mend_instant(stored)
        if ErrorInfo in kinds:
            return mend_error(stored)
        if Attempt in kinds and isinstance(stored, Sequence):
            return tuple(_struct(each, Attempt) for each in stored)
        raise


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "backslashreplace").decode()[:MESSAGE_LIMIT]
