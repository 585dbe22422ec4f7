"""The flows of batches and shards. `domain/batch.py` has the protocol."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from windlass import codec
from windlass.current import current_run
from windlass.domain.batch import (
    MOST_PAGE,
    SHARDS,
    BatchCounts,
    BatchRow,
    Flushed,
    NewBatch,
    Shard,
    UnitPage,
)
from windlass.domain.child import PAGE
from windlass.domain.outcome import Cancel, Snooze
from windlass.domain.records import FileUnits
from windlass.domain.run import Held, NewRun
from windlass.domain.states import Status
from windlass.domain.step import Step, StepKind, StepState, StepWrite
from windlass.domain.units import UnitCall, Units
from windlass.durable.acts import UNITS, Body, StepFlow, Wait
from windlass.durable.children import RunRequest
from windlass.durable.filed import Census, Opening, Reading, take_census
from windlass.durable.ledger import Ledger
from windlass.durable.tally import Tally, Unit
from windlass.errors import BatchFailed, LeaseLost, UsageError
from windlass.sources import Sources
from windlass.store.operations import Operations

PLAN = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a batch is worked on."""

    shard_size: int
    parallel: int
    max_failed: int | None
    throttle: Callable[[], Any] | None
    split_after: float | None  # seconds that a shard must have left to be split
    seat_time: float  # seconds after which a shard gives its seat back


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a flow does its work: the run, and the calls that it makes for it."""

    ledger: Ledger
    operations: Operations
    held: Held
    sources: Sources
    opening: Opening  # opens an artifact


class Paused:
    """A shard that stopped because it was asked to pause; it has flushed."""


def run_batch(
    site: Site, terms: Terms, units: Units, request: Callable[[], RunRequest[Any]]
) -> StepFlow[BatchCounts]:
    """Start the shards of a batch, wait for them, and say what came of it. Raises BatchFailed."""
    ledger = site.ledger
    known = ledger.find(SHARDS, StepKind.CHILDREN)
    if known is None or not known.state.ended:
        shards = yield from _plan(site, terms, units, begins=known is None)
        write = StepWrite(
            path=SHARDS,
            kind=StepKind.CHILDREN,
            state=StepState.WAITING,
            value=msgspec.Raw(msgspec.json.encode({"parallel": terms.parallel})),
        )
        started = 0
        if known is not None:  # how far did the last attempt come?
            started = (yield from ledger.start(write, 0, (), terms.parallel)).started
        if started < max(shards, 1):
            for first in range(0, max(shards, 1), PAGE):
                runs = _runs(site, request, min(PAGE, shards - first))
                yield from ledger.start(write, first, runs, terms.parallel)
        known = yield from _ended(ledger)
    counts: BatchCounts | None = yield site.operations.get_batch(site.held.tenant, site.held.id)
    assert counts is not None, "a batch whose shards have started is there"
    # If it was the last flush that had one failure too many, all shards have succeeded.
    if known.state is StepState.FAILED or counts.stopped is not None:
        first_error = yield from _first_failure(ledger)
        raise BatchFailed(
            counts.processed, counts.failed, counts.total, counts.stopped, first_error
        )
    return counts


def _plan(site: Site, terms: Terms, units: Units, *, begins: bool) -> StepFlow[int]:
    """How many shards there are; a batch that begins, or is retried, is opened."""
    anew = site.ledger.find(PLAN, StepKind.VALUE) is None
    if not begins:
        counts: BatchCounts | None = yield site.operations.get_batch(site.held.tenant, site.held.id)
        if counts is not None:
            return counts.shards
    size, total, offsets = terms.shard_size, units.total, list[int]()
    if units.file is not None and anew:
        census: Census = yield Body(PLAN, take_census, (site.opening, units.file, size), {}, None)
        total, offsets = census.total, census.begins
    shards = 1 if total is None else -(-total // size)
    new = NewBatch(total=total, size=size, shards=shards, begins=offsets)
    row: BatchRow | None = yield site.operations.open_batch(site.held, new, anew)
    if row is None:
        raise LeaseLost(site.held.id, site.held.token)
    if anew:
        value = {"total": row.total, "shards": row.shards}
        done = StepWrite(
            path=PLAN,
            kind=StepKind.VALUE,
            state=StepState.DONE,
            value=msgspec.Raw(msgspec.json.encode(value)),
        )
        yield from site.ledger.record(done)
    return row.shards


def _runs(site: Site, request: Callable[[], RunRequest[Any]], count: int) -> list[NewRun]:
    by = current_run()
    ids = site.sources.new_ids(max(count, 0))
    return [request().new_run(id, site.held.tenant, by) for id in ids]


def _ended(ledger: Ledger) -> StepFlow[Step]:
    while True:
        known = yield from ledger.look_at_children(SHARDS, tolerant=False)
        if known.state.ended:
            return known
        yield Wait(SHARDS, None, None, signal=True)
        ledger.check(SHARDS)


def _first_failure(ledger: Ledger) -> StepFlow[str | None]:
    """What the first shard says that failed by an error, and was not just stopped with the rest."""
    after = -1
    while rows := (yield from ledger.children(SHARDS, after, PAGE)):
        after = rows[-1].n
        for row in rows:
            if row.status is Status.FAILED and row.error is not None:
                return f"Shard {row.n}: {row.error.type}: {row.error.message}"
    return None


def run_shard(
    site: Site,
    terms: Terms,
    call: UnitCall,
    request: Callable[[], RunRequest[Any]],
    body: Callable[..., Any],
    is_stopping: Callable[[], bool],
) -> StepFlow[Any]:
    """Work off the units of a shard; returns what its attempt comes to.

    `body` calls the function for units until it is time to flush: `run_units` or `arun_units`, with
    the function and its arguments bound.
    """
    shard: Shard | None = yield site.operations.open_shard(site.held)
    if shard is None:
        raise LeaseLost(site.held.id, site.held.token)
    ledger, monotonic = site.ledger, site.sources.clock.monotonic

    def stops() -> bool:
        return ledger.is_stopped() or ledger.is_pausing() or is_stopping()

    tally = Tally(shard, monotonic, stops)
    supply = Supply(site, call, shard)
    stopped, asked_at = shard.stopped, monotonic()
    while not tally.done:
        if stopped is not None:
            return Cancel("more units of the batch have failed than max_failed allows")
        if ledger.is_pausing():
            return Paused()
        if is_stopping() or (tally.has_begun and tally.seconds >= terms.seat_time):
            return Snooze(0)
        if (pause := _throttled(terms)) is not None:
            return Snooze(pause)
        stopped = yield from _stretch(site, terms, tally, supply, body)
        ledger.check(UNITS)
        if _should_split(terms, tally, monotonic() - asked_at):
            asked_at = monotonic()
            yield from _split(site, tally, shard, request)
    return {"succeeded": tally.succeeded, "failed": tally.failed}


def _stretch(
    site: Site, terms: Terms, tally: Tally, supply: "Supply", body: Callable[..., Any]
) -> StepFlow[str | None]:
    """Do units until it is time to flush, and flush; also if the attempt is to end here."""
    units = yield from supply.next(tally)
    try:
        if units is not None:
            yield Body(UNITS, body, (units, tally, supply.given), {}, None)
    except GeneratorExit:
        raise
    except BaseException:
        if tally.is_dirty:
            yield site.operations.flush_shard(site.held, tally.write(terms.max_failed))
        raise
    flushed: Flushed | None = yield site.operations.flush_shard(
        site.held, tally.write(terms.max_failed)
    )
    if flushed is None:
        raise LeaseLost(site.held.id, site.held.token)
    tally.flushed()
    return flushed.stopped


def _throttled(terms: Terms) -> Any:
    """For how long the batch is to wait, if it is."""
    pause = None if terms.throttle is None else terms.throttle()
    return None if pause is None or pause is False else pause


def _should_split(terms: Terms, tally: Tally, since: float) -> bool:
    """Whether to ask for a split now, so many seconds after the shard began, or asked last."""
    if terms.split_after is None or tally.until is None or tally.done:
        return False
    if since < min(1.0, terms.split_after):
        return False
    return tally.until - tally.next >= 2 and tally.seconds_left > terms.split_after


def _split(
    site: Site, tally: Tally, shard: Shard, request: Callable[[], RunRequest[Any]]
) -> StepFlow[None]:
    """Give the second half of what is left to a new shard, if the batch has room for one."""
    assert tally.until is not None
    at = tally.next + (tally.until - tally.next + 1) // 2
    (id,) = site.sources.new_ids(1)
    run = request().new_run(id, site.held.tenant, current_run())
    run = msgspec.structs.replace(run, enqueued_by=shard.batch)
    done: bool | None = yield site.operations.split_shard(site.held, at, tally.until, run)
    if done is None:
        raise LeaseLost(site.held.id, site.held.token)
    if done:
        tally.until = at


class Supply:
    """Where the units of a shard come from."""

    def __init__(self, site: Site, call: UnitCall, shard: Shard) -> None:
        self._site = site
        self._call = call
        self._shard = shard
        self._units = call.read_units(shard.input)
        self.given = call.read_arguments(shard.input)
        self._source: Any = None
        self._page = UnitPage()

    def next(self, tally: Tally) -> StepFlow[Any]:
        """Units to go on with, at most as many as are flushed at once; None: there are no more."""
        if self._units.file is not None:
            return self._from_file(self._units.file, tally)
        if self._units.total is None:
            return self._from_source(tally)
        assert tally.until is not None
        first, until = tally.next, min(tally.until, tally.next + MOST_PAGE)
        if self._units.numbers is not None:
            return self._numbers(self._units.numbers, first, until)
        if self._units.listed is not None:
            listed = self._units.listed[first:until]
            return iter([self._stored(first + k, raw) for k, raw in enumerate(listed)])
        if not 0 <= first - self._page.first < len(self._page.units):
            self._page = yield self._site.operations.list_units(
                self._site.held.tenant, self._shard.batch, first
            )
        found = self._page.units[first - self._page.first :][: until - first]
        if not found:
            raise UsageError(f"The units of batch {self._shard.batch} from {first:,} on are gone.")
        return iter([self._stored(first + k, raw) for k, raw in enumerate(found)])

    def _stored(self, n: int, raw: msgspec.Raw) -> Unit:
        return Unit(n, partial(self._call.read_unit, raw), lambda: raw)

    def _numbers(self, numbers: range, first: int, until: int) -> Iterator[Unit]:
        for n in range(first, until):
            value = numbers[n]
            yield Unit(n, partial(_same, value), partial(_encoded, value))

    def _from_file(
        self, file: FileUnits, tally: Tally
    ) -> Iterator[Unit] | AsyncIterator[Unit] | None:
        if tally.until is not None and tally.next >= tally.until:
            return None
        if self._source is None:
            reading = Reading(file, self._call, self._shard, tally)
            follow = reading.afollow if self._call.is_async else reading.follow
            self._source = follow(self._site.opening)
        found: Iterator[Unit] | AsyncIterator[Unit] = self._source
        return found

    def _from_source(self, tally: Tally) -> Iterator[Unit] | AsyncIterator[Unit]:
        if self._source is None:
            source = self._call.source
            assert source is not None, "a batch without a total has one"
            own = {name: self.given[name] for name in self._call.sources if name in self.given}
            self._source = source(codec.decode(self._shard.place), **own)
        if hasattr(self._source, "__anext__"):
            return self._afollow(tally)
        return self._follow(tally)

    def _follow(self, tally: Tally) -> Iterator[Unit]:
        for pair in self._source:
            yield self._pair(tally, pair)
        tally.done = True

    async def _afollow(self, tally: Tally) -> AsyncIterator[Unit]:
        async for pair in self._source:
            yield self._pair(tally, pair)
        tally.done = True

    def _pair(self, tally: Tally, pair: object) -> Unit:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise UsageError(
                f"The source of {self._call.arguments.job!r} must yield (unit, cursor)."
            )
        unit, place = pair
        return Unit(tally.next, partial(_same, unit), partial(_encoded, unit), place)


def _same(value: object) -> object:
    return value


def _encoded(value: object) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(value, what="unit"))
