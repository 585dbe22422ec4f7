"""Where the units of a batch come from: artifacts, and sources for the usual cases.

`csv_rows`, `ndjson` and `lines` say how an artifact is written, as in
`job.enqueue(units=ndjson(artifact))`.
`by_key`, `by_page`, `read_csv` and `read_ndjson` are sources, for `@app.batch(source=…)`.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from windlass import codec
from windlass.domain.artifact import Artifact
from windlass.domain.records import (
    FileUnits,
    Format,
    Record,
    Splitter,
    read_header,
    read_record,
)
from windlass.errors import BadOption, UsageError

__all__ = [
    "by_key",
    "by_page",
    "csv_rows",
    "lines",
    "ndjson",
    "read_csv",
    "read_ndjson",
]

_CHUNK = 1024 * 1024


def ndjson(artifact: Artifact) -> FileUnits:
    """The lines of an artifact, each a JSON document, as units."""
    return FileUnits(artifact=artifact, format=Format.NDJSON)


def csv_rows(artifact: Artifact) -> FileUnits:
    """The rows of an artifact in CSV as units: dicts by the columns that its first row names.

    The values are text; they become what the function's annotation says (a dataclass, a TypedDict).
    """
    return FileUnits(artifact=artifact, format=Format.CSV)


def lines(artifact: Artifact) -> FileUnits:
    """The lines of an artifact as units, as text. Blank ones are left out."""
    return FileUnits(artifact=artifact, format=Format.LINES)


def by_key(
    fetch: Callable[..., Any], *, key: Callable[[Any], Any], size: int = 500
) -> Callable[..., Any]:
    """A source of rows in the order of a key: `fetch(after, size)` returns the next of them.

    `after` is None at first, then the key of the last row; a key of several columns is a tuple.
    Fewer than `size` rows are the last ones. What else `fetch` takes is given when the batch is
    enqueued. An async function may be given too.
    """

    if inspect.iscoroutinefunction(fetch):

        async def arows(cursor: Any, **given: Any) -> AsyncIterator[tuple[Any, Any]]:
            after, rows = _key_of(cursor), None
            while rows is None or len(rows) >= size:
                rows = await fetch(after, size, **given)
                for row in rows:
                    after = key(row)
                    yield row, after

        return _shaped(arows, fetch, taken=2)

    def rows(cursor: Any, **given: Any) -> Iterator[tuple[Any, Any]]:
        after, found = _key_of(cursor), None
        while found is None or len(found) >= size:
            found = fetch(after, size, **given)
            for row in found:
                after = key(row)
                yield row, after

    return _shaped(rows, fetch, taken=2)


def by_page(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """A source of pages: `fetch(token)` returns the units of a page, and the token of the next.

    The first token is None, and so is the one after the last page. A shard that goes on in the
    middle of a page fetches that page again and leaves out what is done. What else `fetch` takes is
    given when the batch is enqueued. An async function may be given too.
    """
    if inspect.iscoroutinefunction(fetch):

        async def apages(cursor: Any, **given: Any) -> AsyncIterator[tuple[Any, Any]]:
            token, done = cursor or (None, 0)
            while True:
                units, following = _checked(await fetch(token, **given))
                for n, unit in enumerate(units[done:], done + 1):
                    yield unit, (token, n)
                if following is None:
                    return
                token, done = following, 0

        return _shaped(apages, fetch, taken=1)

    def pages(cursor: Any, **given: Any) -> Iterator[tuple[Any, Any]]:
        token, done = cursor or (None, 0)
        while True:
            units, following = _checked(fetch(token, **given))
            for n, unit in enumerate(units[done:], done + 1):
                yield unit, (token, n)
            if following is None:
                return
            token, done = following, 0

    return _shaped(pages, fetch, taken=1)


def read_csv(cursor: int | None, path: str) -> Iterator[tuple[dict[str, str], int]]:
    """A source of the rows of a CSV file that the worker can read, as dicts of text."""
    columns: tuple[str, ...] = ()
    for record in _records(path, Format.CSV, 0):
        columns = read_header(record.data)
        cursor = cursor or record.end
        break
    for record in _records(path, Format.CSV, cursor or 0):
        yield _value(record, Format.CSV, columns, path), record.end


def read_ndjson(cursor: int | None, path: str) -> Iterator[tuple[Any, int]]:
    """A source of the lines of a file that the worker can read, each a JSON document."""
    for record in _records(path, Format.NDJSON, cursor or 0):
        yield _value(record, Format.NDJSON, (), path), record.end


def _records(path: str, format: Format, offset: int) -> Iterator[Record]:
    splitter = Splitter(format, offset)
    with Path(path).open("rb") as file:
        file.seek(offset)
        while chunk := file.read(_CHUNK):
            yield from splitter.feed(chunk)
    yield from splitter.finish()


def _value(record: Record, format: Format, columns: tuple[str, ...], path: str) -> Any:
    try:
        return codec.decode(read_record(record.data, format, columns), what="line")
    except ValueError as error:
        raise UsageError(
            f"The record of {path} that ends at byte {record.end:,} is wrong: {error}"
        ) from error


def _key_of(cursor: Any) -> Any:
    return tuple(cursor) if isinstance(cursor, list) else cursor


def _checked(page: Any) -> tuple[list[Any], Any]:
    if not isinstance(page, tuple) or len(page) != 2:
        raise UsageError("A function that fetches pages must return (units, next token or None).")
    return list(page[0]), page[1]


def _shaped(source: Any, fetch: Callable[..., Any], *, taken: int) -> Callable[..., Any]:
    """A source that takes the cursor, and what its function takes besides its first arguments."""
    parameters = list(inspect.signature(fetch).parameters.values())
    if len(parameters) < taken:
        wanted = "(after, size)" if taken > 1 else "(token)"
        raise BadOption("fetch", f"{fetch!r} must take {wanted}")
    functools.update_wrapper(source, fetch)
    cursor = inspect.Parameter("cursor", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    source.__signature__ = inspect.Signature([cursor, *parameters[taken:]])
    shaped: Callable[..., Any] = source
    return shaped
