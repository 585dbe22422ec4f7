"""Records of a file: cut alike however the bytes arrive, and from any record on."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import codec
from windlass.domain.records import Format, Record, Splitter, read_header, read_record, shown
from windlass.errors import UsageError


def cut(data: bytes, format: Format, sizes: list[int], offset: int = 0) -> list[Record]:
    splitter, found, at = Splitter(format, offset), list[Record](), offset
    for size in [*sizes, len(data)]:
        found += splitter.feed(data[at : at + size])
        at = min(len(data), at + size)
    return [*found, *splitter.finish()]


LINES = st.lists(st.text("ab\"', \r\t", max_size=6), max_size=8)


@given(LINES, st.booleans(), st.lists(st.integers(1, 7), max_size=20))
def test_chunks_make_no_difference(rows: list[str], ended: bool, sizes: list[int]) -> None:
    data = "\n".join(rows).encode() + b"\n" * ended
    for format in (Format.LINES, Format.CSV):
        whole = cut(data, format, [])
        assert cut(data, format, sizes) == whole
        for n, record in enumerate(whole):  # a reader may begin after any record
            assert cut(data, format, sizes, record.end) == whole[n + 1 :]
    assert [r.data.decode() for r in cut(data, Format.LINES, sizes)] == [
        row.removesuffix("\r") for row in rows if row.removesuffix("\r").strip()
    ]


@given(st.lists(st.lists(st.text('a"\n, ü\u2028', min_size=1, max_size=5), min_size=2, max_size=2)))
def test_csv_is_what_the_library_reads(rows: list[list[str]]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    header, *records = cut(file.getvalue().encode(), Format.CSV, [3, 5])
    columns = read_header(header.data)
    found = [codec.decode(read_record(r.data, Format.CSV, columns)) for r in records]
    assert found == [dict(zip("ab", row, strict=True)) for row in rows]


def test_what_is_no_file_of_records_is_refused() -> None:
    with pytest.raises(UsageError, match="does a quote lack its end"):
        cut(b'a,b\n1,"' + b"x\n" * codec.MAX_BYTES, Format.CSV, [])
    with pytest.raises(UsageError, match="need names"):
        read_header(b"a,,b")


def test_whatever_fails_can_be_kept() -> None:
    assert codec.decode(shown(b'{"a": 1}', Format.NDJSON, ())) == {"a": 1}
    assert codec.decode(shown(b'"a\\u0000"', Format.NDJSON, ())) == '"a\\u0000"'
    assert codec.decode(shown(b"{no \x00\xff", Format.NDJSON, ())) == "{no ��"
    assert codec.decode(shown(b"1,2", Format.CSV, ("a",))) == "1,2"
