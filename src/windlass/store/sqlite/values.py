"""The edge between rows and values: ids, times and JSON as SQLite keeps them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from windlass.domain.outcome import ErrorInfo
from windlass.domain.progress import Detail
from windlass.domain.run import NULL, Options
from windlass.errors import BadArguments, RunNotFound
from windlass.store.mending import EARLIEST, LATEST, UNREADABLE, mend_error, readable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

PAST_LAST_ID = b"\xff" * 17
EVER = 2**62  # beyond all instants
MOST_LISTED = 1_000  # rows on a page

_encoder = msgspec.json.Encoder()
_options = msgspec.json.Decoder(Options)
_error = msgspec.json.Decoder(ErrorInfo)
_detail = msgspec.json.Decoder(Detail)
_texts = msgspec.json.Decoder(tuple[str, ...])
_anything = msgspec.json.Decoder()


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the datetime, in UTC, of microseconds since 1970, or the nearest that there is."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return LATEST if micros > 0 else EARLIEST


def to_id_or_none(blob: bytes | None) -> str | None:
    """As :func:`to_id`, for a column that may be null."""
    return None if blob is None else to_id(blob)


def from_micros_or_none(micros: int | None) -> datetime | None:
    """As :func:`from_micros`, for a column that may be null."""
    return None if micros is None else from_micros(micros)


def micros_of(seconds: float) -> int:
    """Return a length of time in seconds as microseconds."""
    return round(seconds * 1_000_000)


def to_blob(run: str) -> bytes:
    """Return a run id as its 16 bytes; what is no id names no run (RunNotFound)."""
    blob = blob_or_none(run)
    if blob is None:
        raise RunNotFound(run)
    return blob


def blob_or_none(run: str) -> bytes | None:
    """Return a run id as its 16 bytes, or None if it is no id."""
    try:
        blob = bytes.fromhex(run.replace("-", ""))
    except ValueError:
        return None
    return blob if len(blob) == 16 else None


def new_blob(run: str, job: str) -> bytes:
    """Return the 16 bytes of an id that a client made for a new run."""
    blob = blob_or_none(run)
    if blob is None:
        raise BadArguments(job, f"was enqueued with the id {run!r}, which is not a UUID", "id")
    return blob


def to_id(blob: bytes) -> str:
    """Return the text of a run id."""
    h = blob.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def to_json(value: object) -> str:
    """Return a value as JSON text."""
    return _encoder.encode(value).decode()


def to_json_or_none(value: object) -> str | None:
    """As :func:`to_json`; None stays null."""
    return None if value is None else _encoder.encode(value).decode()


def from_json(text: str) -> Any:
    """Return what JSON text says."""
    return _anything.decode(text)


def from_json_or_none(text: str | None) -> Any:
    """As :func:`from_json`, for a column that may be null."""
    return None if text is None else _anything.decode(text)


def raw_text(raw: msgspec.Raw) -> str:
    """Return JSON that was encoded elsewhere, as text."""
    return str(memoryview(raw), "utf-8")


def to_raw(text: str | None) -> msgspec.Raw:
    """Return a JSON column as it is, undecoded; an absent one is JSON's null."""
    return NULL if text is None else msgspec.Raw(text)


def read_options(text: str | None) -> tuple[Options | None, str | None]:
    """Return a run's options, or what is wrong with them."""
    return readable("options", _options.decode, text)


def to_options(text: str | None) -> Options | None:
    """Return a run's options; None where they cannot be read."""
    return read_options(text)[0]


def to_error(text: str | None) -> ErrorInfo | None:
    """Return a stored error, as far as it can be read."""
    if text is None:
        return None
    try:
        return _error.decode(text)
    except UNREADABLE:
        return mend_error(readable("error", _anything.decode, text)[0] or text)


def to_detail(text: str | None) -> Detail | None:
    """Return what is told beside a run's progress; None where it cannot be read."""
    return readable("progress", _detail.decode, text)[0]


def to_texts(text: str | None) -> tuple[str, ...]:
    """Return a list of texts; null is the empty one, and so is what cannot be read."""
    return readable("texts", _texts.decode, text)[0] or ()


def hex_list(blobs: Sequence[bytes]) -> str:
    """Return ids as the JSON list that statements take."""
    return to_json([blob.hex() for blob in blobs])
