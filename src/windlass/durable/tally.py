"""What one attempt of a shard has done: counted unit by unit, flushed together."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any

import msgspec

from windlass import codec
from windlass.domain.batch import MOST_PAGE, Shard, ShardWrite, UnitFailure
from windlass.domain.outcome import describe_error
from windlass.errors import LeaseLost

_TURN = 0.02  # seconds after which units on a loop let others run
_FLUSH = 1.0  # seconds after which a shard writes down how far it is
_MOST_FAILURES = 100  # of one flush: errors are large
_MOST_FAILED_BYTES = 4 * 1024 * 1024  # and so may units be


class Unit:
    """One unit: its number, how to read it, and, of a source, the place after it."""

    __slots__ = ("n", "place", "raw", "read")

    def __init__(
        self,
        n: int,
        read: Callable[[], Any],
        raw: Callable[[], msgspec.Raw],
        place: object = None,
    ) -> None:
        self.n = n
        self.read = read
        self.raw = raw
        self.place = place


class Tally:
    """The counts of a shard. `with tally.count(unit):` counts what becomes of a unit."""

    def __init__(
        self, shard: Shard, monotonic: Callable[[], float], is_interrupted: Callable[[], bool]
    ) -> None:
        self._shard = shard
        self._monotonic = monotonic
        self._is_interrupted = is_interrupted
        self.succeeded = shard.succeeded
        self.failed = shard.failed
        self.until = shard.until
        self.done = shard.done
        self._place: object = None
        self._failures: list[UnitFailure] = []
        self._failed_bytes = 0
        self._unit: Unit | None = None
        self._flushed_at = monotonic()
        self._flushed = self.processed
        self.began_at = self._flushed_at
        self._began = self.processed

    @property
    def processed(self) -> int:
        """How many units are done."""
        return self.succeeded + self.failed

    @property
    def next(self) -> int:
        """The number of the unit that comes next."""
        return self._shard.first + self.processed

    @property
    def has_begun(self) -> bool:
        """Whether this attempt has done a unit: one that did none must not leave its seat."""
        return self.processed > self._began

    @property
    def seconds(self) -> float:
        """For how long this attempt has been at it."""
        return self._monotonic() - self.began_at

    @property
    def seconds_left(self) -> float:
        """How long the rest will take, at the pace of this attempt; 0 if nobody can tell."""
        done = self.processed - self._began
        if self.until is None or not done:
            return 0.0
        return (self.until - self.next) * self.seconds / done

    @property
    def due(self) -> bool:
        """Whether it is time to flush."""
        return (
            self.processed - self._flushed >= MOST_PAGE
            or len(self._failures) >= _MOST_FAILURES
            or self._failed_bytes >= _MOST_FAILED_BYTES
            or self._monotonic() - self._flushed_at >= _FLUSH
            or self._is_interrupted()
        )

    def count(self, unit: Unit) -> "Tally":
        """Count what becomes of a unit, in a `with` block: an error in it is recorded."""
        self._unit = unit
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        unit = self._unit
        assert unit is not None, "a unit is counted"
        if error is None:
            self.succeeded += 1
        elif isinstance(error, Exception) and not isinstance(error, LeaseLost):
            self.failed += 1
            told = UnitFailure(n=unit.n, unit=unit.raw(), error=describe_error(error))
            self._failures.append(told)
            self._failed_bytes += len(bytes(told.unit))
        else:
            return False
        self._place = unit.place
        return True

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to flush."""
        return self.processed > self._flushed or self.done

    def write(self, max_failed: int | None) -> ShardWrite:
        """What is to be flushed."""
        self.done = self.done or (self.until is not None and self.next >= self.until)
        return ShardWrite(
            succeeded=self.succeeded,
            failed=self.failed,
            place=self._encoded_place(),
            done=self.done,
            failures=tuple(self._failures),
            max_failed=max_failed,
        )

    def flushed(self) -> None:
        """What was done so far is written."""
        self._flushed, self._flushed_at = self.processed, self._monotonic()
        self._failures.clear()
        self._failed_bytes = 0

    def _encoded_place(self) -> msgspec.Raw:
        if self._place is None:
            return self._shard.place
        return msgspec.Raw(codec.encode(self._place, what="cursor of a source"))


def run_units(call: Callable[[Any], Any], units: Iterable[Unit], tally: Tally) -> None:
    """Call a function for units, in this thread, until it is time to flush."""
    for unit in units:
        with tally.count(unit):
            call(unit.read())
        if tally.due:
            return


async def arun_units(
    call: Callable[[Any], Awaitable[Any]],
    units: Iterable[Unit] | AsyncIterable[Unit],
    tally: Tally,
) -> None:
    """The same on the loop, which others need as well."""
    loop = asyncio.get_running_loop()
    turn = loop.time()
    if isinstance(units, AsyncIterable):
        async for unit in units:
            with tally.count(unit):
                await call(unit.read())
            if tally.due:
                return
            if loop.time() - turn > _TURN:
                await asyncio.sleep(0)
                turn = loop.time()
        return
    for unit in units:
        with tally.count(unit):
            await call(unit.read())
        if tally.due:
            return
        if loop.time() - turn > _TURN:
            await asyncio.sleep(0)
            turn = loop.time()
