"""Files of units: bytes cut into records, by lines or as CSV, and what each record says.

A record is a line. In CSV a quoted value may go on over several lines, and the first record names
the columns. Blank lines are no records. Whoever counts the records of a file and whoever reads some
of them later must agree, so both cut by the same `Splitter`; it tells where each record ends, which
is where a reader can begin.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from windlass import codec
from windlass.domain.artifact import Artifact
from windlass.errors import BadOption, BadPayload, PayloadTooLarge, UsageError

_BOM = b"\xef\xbb\xbf"


class Format(StrEnum):
    """How the records of a file are written."""

    NDJSON = "ndjson"  # a JSON document in each line
    CSV = "csv"  # a header, then rows; a unit is a dict of texts by column
    LINES = "lines"  # a unit is the text of a line


_BY_TYPE = {
    "application/x-ndjson": Format.NDJSON,
    "application/jsonl": Format.NDJSON,
    "text/csv": Format.CSV,
}
_BY_ENDING = {".ndjson": Format.NDJSON, ".jsonl": Format.NDJSON, ".csv": Format.CSV}


class FileUnits(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact whose records are the units of a batch."""

    artifact: Artifact
    format: Format


class Record(NamedTuple):
    """The bytes of a record, and where the next one begins."""

    data: bytes
    end: int


class Splitter:
    """Cuts the chunks of a file, from some record on, into records."""

    def __init__(self, format: Format, offset: int = 0) -> None:
        self._quoted = format is Format.CSV
        self._at = offset  # where the record begins that is not whole yet
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """The records that end in the next chunk. Raises UsageError if one is too long."""
        data, start, quotes = self._rest + chunk, 0, 0
        search = 0 if self._quoted else len(self._rest)
        while (cut := data.find(b"\n", search)) >= 0:
            if self._quoted:
                quotes += data.count(b'"', search, cut)
            search = cut + 1
            if quotes % 2:
                continue
            record = data[start:cut].removesuffix(b"\r")
            if record and not record.isspace():
                yield Record(record, self._at + search)
            start, quotes = search, 0
        self._rest = data[start:]
        self._at += start
        if len(self._rest) > codec.MAX_BYTES:
            raise UsageError(
                f"The record at byte {self._at:,} has more than {codec.MAX_BYTES:,} bytes: is it a "
                "file of another kind, or does a quote lack its end?"
            )

    def finish(self) -> Iterator[Record]:
        """The last record, if it lacks its line end."""
        record = self._rest.removesuffix(b"\r")
        if record and not record.isspace():
            yield Record(record, self._at + len(self._rest))


def format_of(artifact: Artifact) -> Format:
    """How the records of an artifact are written, by its type or its name. Raises BadOption."""
    ending = artifact.name[artifact.name.rfind(".") :].lower()
    found = _BY_TYPE.get(artifact.content_type.partition(";")[0].strip()) or _BY_ENDING.get(ending)
    if found is None:
        why = (
            f"artifact {artifact.name!r} may be of any kind: say units.ndjson(…), "
            "units.csv_rows(…) or units.lines(…)"
        )
        raise BadOption("units", why)
    return found


def read_header(record: bytes) -> tuple[str, ...]:
    """The columns of a CSV file. Raises UsageError."""
    columns = tuple(_fields(record.removeprefix(_BOM).decode()))
    if len(set(columns)) < len(columns) or not all(columns):
        raise UsageError(f"The columns of a CSV file need names, each its own: {columns}.")
    return columns


def read_record(record: bytes, format: Format, columns: Sequence[str]) -> msgspec.Raw:
    """What a record says, as JSON. Raises ValueError if it says nothing."""
    match format:
        case Format.NDJSON:
            return msgspec.Raw(record.removeprefix(_BOM))
        case Format.LINES:
            return msgspec.Raw(msgspec.json.encode(record.removeprefix(_BOM).decode()))
        case Format.CSV:
            fields = _fields(record.decode())
            if len(fields) != len(columns):
                raise ValueError(f"it has {len(fields)} columns, and the header {len(columns)}")
            return msgspec.Raw(msgspec.json.encode(dict(zip(columns, fields, strict=True))))


def shown(record: bytes, format: Format, columns: Sequence[str]) -> msgspec.Raw:
    """A record as it is kept if its unit fails: as JSON, or as text if that is impossible."""
    try:
        document = read_record(record, format, columns)
        return msgspec.Raw(codec.encode(codec.decode(document), what="unit"))
    except (ValueError, RecursionError, BadPayload, PayloadTooLarge):
        text = record.decode(errors="replace").replace("\0", "�")
        return msgspec.Raw(codec.encode(text[:10_000], what="unit"))


def _fields(text: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text, newline="\n"), strict=True))
    except csv.Error as error:
        raise ValueError(f"it is no row of a CSV file: {error}") from error
