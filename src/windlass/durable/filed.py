"""Units that are the records of an artifact: counted by the batch, read by its shards.

The batch reads the file once and notes where each shard begins: the place of a shard is the number
of a unit and the byte at which its record begins. A shard opens the file there, and flushes the
place of the next unit with its counts. A half that is split off starts with the place of the other
half, and skips the units that are not its own.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from windlass import codec
from windlass.domain.batch import MOST_SHARDS, FilePlace, Shard
from windlass.domain.records import (
    FileUnits,
    Format,
    Record,
    Splitter,
    read_header,
    read_record,
    shown,
)
from windlass.domain.units import UnitCall
from windlass.durable.tally import Tally, Unit
from windlass.errors import ArtifactDamaged, UsageError, WindlassError
from windlass.offloop import off_loop

Opening = Callable[..., Any]
"""`ctx.artifacts.open`, of either kind of handlers."""


@dataclass(slots=True)
class Census:
    """How many units a file has, and where each shard begins."""

    format: Format
    shard_size: int
    total: int = 0
    begins: list[int] = field(default_factory=list)
    _next: int = 0
    _wants_header: bool = field(init=False)
    _splitter: Splitter = field(init=False)

    def __post_init__(self) -> None:
        self._wants_header = self.format is Format.CSV
        self._splitter = Splitter(self.format)

    def feed(self, chunk: bytes) -> None:
        """Count the records that end here."""
        self._count(self._splitter.feed(chunk))

    def finish(self) -> None:
        """Count the last record, if it lacks its line end."""
        self._count(self._splitter.finish())

    def _count(self, records: Iterable[Record]) -> None:
        for record in records:
            if self._wants_header:
                read_header(record.data)
                self._wants_header = False
            else:
                if self.total % self.shard_size == 0:
                    self.begins.append(self._next)
                    if len(self.begins) > MOST_SHARDS:
                        raise UsageError(
                            f"The file makes more than {MOST_SHARDS:,} shards: give its batch a "
                            "larger shard_size."
                        )
                self.total += 1
            self._next = record.end


async def take_census(opening: Opening, file: FileUnits, shard_size: int) -> Census:
    """Read the whole artifact, which checks its sum too, and count its units."""
    census = Census(file.format, shard_size)
    async with opening(file.artifact) as reader:
        async for chunk in reader:
            await off_loop(partial(census.feed, chunk), "windlass-census")
    census.finish()
    return census


class Reading:
    """One attempt of a shard that reads a file: each record of its own becomes a unit."""

    def __init__(self, file: FileUnits, call: UnitCall, shard: Shard, tally: Tally) -> None:
        self._file = file
        self._call = call
        self._tally = tally
        place = msgspec.json.decode(shard.place, type=FilePlace)
        self._skip = tally.next - place.unit
        self._splitter = Splitter(file.format, place.offset)
        self._columns: tuple[str, ...] = ()
        self._offset = place.offset

    def follow(self, opening: Opening) -> Iterator[Unit]:
        """The units, for a function in a thread."""
        if self._file.format is Format.CSV:
            with opening(self._file.artifact, length=codec.MAX_BYTES) as reader:
                self._take_header(reader.read())
        with opening(self._file.artifact, offset=self._offset) as reader:
            for chunk in reader:
                yield from self._units(self._splitter.feed(chunk))
                if self._is_over:
                    return
        yield from self._units(self._splitter.finish())
        self._check_end()

    async def afollow(self, opening: Opening) -> AsyncIterator[Unit]:
        """The units, for an async function."""
        if self._file.format is Format.CSV:
            async with opening(self._file.artifact, length=codec.MAX_BYTES) as reader:
                self._take_header(await reader.read())
        async with opening(self._file.artifact, offset=self._offset) as reader:
            async for chunk in reader:
                for unit in self._units(self._splitter.feed(chunk)):
                    yield unit
                if self._is_over:
                    return
        for unit in self._units(self._splitter.finish()):
            yield unit
        self._check_end()

    @property
    def _is_over(self) -> bool:
        assert self._tally.until is not None, "the units of a file are counted"
        return self._tally.next >= self._tally.until

    def _check_end(self) -> None:
        if not self._is_over:
            why = f"it has no unit {self._tally.next:,}, which it had when they were counted"
            raise ArtifactDamaged(self._file.artifact.name, why)

    def _take_header(self, start: bytes) -> None:
        splitter = Splitter(self._file.format)
        first = next(splitter.feed(start), None) or next(splitter.finish())
        self._columns = read_header(first.data)

    def _units(self, records: Iterable[Record]) -> Iterator[Unit]:
        for record in records:
            if self._skip:
                self._skip -= 1
                continue
            if self._is_over:
                return
            n = self._tally.next
            yield Unit(
                n,
                partial(self._read, record.data),
                partial(self._shown, record.data),
                FilePlace(unit=n + 1, offset=record.end),
            )

    def _read(self, record: bytes) -> Any:
        document = read_record(record, self._file.format, self._columns)
        return self._call.read_unit(document, lax=self._file.format is Format.CSV)

    def _shown(self, record: bytes) -> msgspec.Raw:
        """The unit of a record as it is kept if it fails: with the types that its function wants,
        if it has come so far."""
        try:
            return msgspec.Raw(codec.encode(self._read(record), what="unit"))
        except (WindlassError, ValueError, TypeError):
            return shown(record, self._file.format, self._columns)
