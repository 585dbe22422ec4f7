"""Batches as jobs: `@app.batch(shard_size=500, parallel=8)`. `domain/batch.py` has the protocol.

A batch is two jobs. Runs of the first, which has the name of the function, start shards and wait
for them. Runs of the second, `<name>.shard`, are the shards: on the loop if the function is async,
and in a thread otherwise.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from windlass.context import Context, SyncContext
from windlass.domain.batch import SHARDS, BatchCounts
from windlass.domain.units import UnitCall
from windlass.durable import batching
from windlass.durable.acts import UNITS
from windlass.durable.batching import Paused, Site, Terms
from windlass.durable.tally import Tally, Unit, arun_units, run_units
from windlass.duration import Duration, parse_duration
from windlass.errors import BadOption
from windlass.job import Job

SHARD = "shard"
_MOST_PARALLEL = 10_000
_LARGEST = 1_000_000
_SEAT = 300.0
_SPLIT = 10.0


class BatchOptions(TypedDict, total=False):
    """What the definition of a batch may say besides what every job may."""

    shard_size: int
    parallel: int
    max_failed: int | None
    throttle: Callable[[], Any] | None
    source: Callable[..., Any] | None
    on_complete: Job[Any, Any, Any, Any] | None
    split_after: Duration | None
    seat_time: Duration
    seal_timeout: Duration


class BatchSummary(TypedDict):
    """What a batch returns, and its `on_complete` job is given."""

    run: str
    total: int
    succeeded: int
    failed: int


class BatchHandler:
    """The handler of a batch: it starts the shards and waits for them, without a seat."""

    shards: Job[Any, Any, Any, Any]  # set once both jobs are defined

    def __init__(
        self,
        call: UnitCall,
        terms: Terms,
        on_complete: Job[Any, Any, Any, Any] | None,
        module: str,
    ) -> None:
        self.call = call
        self.terms = terms
        self._on_complete = on_complete
        self.functions = (call.function, *([call.source] if call.source else []))
        self.__name__ = call.function.__name__
        self.__qualname__ = call.function.__qualname__
        self.__module__ = module
        self.__doc__ = call.function.__doc__
        self.__signature__ = call.signature.replace(return_annotation=dict[str, Any])

    async def __call__(self, ctx: Context, /, *args: Any, **kwargs: Any) -> BatchSummary:
        work, desk = ctx._durable()
        units = self.call.read_units(ctx._claimed.input)
        site = _site(ctx, desk)
        counts: BatchCounts = await work.run(
            SHARDS,
            lambda: batching.run_batch(site, self.terms, units, self.shards.request),
        )
        assert counts.total is not None, "all shards have come to their end"
        summary = BatchSummary(
            run=ctx.run_id,
            total=counts.total,
            succeeded=counts.succeeded,
            failed=counts.failed,
        )
        if self._on_complete is not None:
            await ctx.start(self._on_complete, summary)
        return summary


class _Shard:
    """The handler of a shard; `batch` is what it is a part of."""

    def __init__(self, batch: BatchHandler) -> None:
        self.batch = batch
        self.functions = batch.functions
        self.__name__ = f"{batch.__name__}_{SHARD}"
        self.__qualname__ = f"{batch.__qualname__}.{SHARD}"
        self.__module__ = batch.__module__
        self.__doc__ = f"A shard of the batch {batch.__name__}."

    def _flow(self, ctx: Any, desk: Any, body: Callable[..., Any]) -> Any:
        batch, site = self.batch, _site(ctx, desk)

        def stopping() -> bool:
            return bool(ctx.stopping)

        return lambda: batching.run_shard(
            site, batch.terms, batch.call, batch.shards.request, body, stopping
        )

    def _bound(self, ctx: Any, given: dict[str, Any]) -> Callable[[Any], Any]:
        """The function, with the context and what is the same for all units."""
        call = self.batch.call
        own = {name: value for name, value in given.items() if name in call.own}
        first = (ctx,) if call.takes_context else ()
        return functools.partial(call.function, *first, **own)


class BlockingShard(_Shard):
    """A shard of a plain function, in a thread."""

    def __call__(self, ctx: SyncContext) -> Any:
        work, desk = ctx._durable()

        def body(units: Iterable[Unit], tally: Tally, given: dict[str, Any]) -> None:
            run_units(self._bound(ctx, given), units, tally)

        while True:
            came = work.run(UNITS, self._flow(ctx, desk, body))
            if not isinstance(came, Paused):
                return came
            work.checkpoint(UNITS)


class AwaitedShard(_Shard):
    """A shard of an async function, on the loop."""

    async def __call__(self, ctx: Context) -> Any:
        work, desk = ctx._durable()

        async def body(units: Iterable[Unit], tally: Tally, given: dict[str, Any]) -> None:
            await arun_units(self._bound(ctx, given), units, tally)

        while True:
            came = await work.run(UNITS, self._flow(ctx, desk, body))
            if not isinstance(came, Paused):
                return came
            await work.checkpoint(UNITS)


def make_batch(
    function: Callable[..., Any], options: BatchOptions, name: str, module: str
) -> tuple[BatchHandler, BlockingShard | AwaitedShard]:
    """The handlers of a batch and of its shards. Raises BadOption for what cannot be one."""
    source = options.get("source")
    call = UnitCall.of(function, source, name)
    if source is not None and inspect.isasyncgenfunction(source) and not call.is_async:
        raise BadOption("source", f"that of {name!r} is async, and its function is not")
    split = options.get("split_after", _SPLIT)
    throttle = options.get("throttle")
    if throttle is not None and not callable(throttle):
        raise BadOption("throttle", f"{throttle!r} cannot be called")
    terms = Terms(
        shard_size=_count("shard_size", options.get("shard_size", 1000), 1, _LARGEST),
        parallel=_count("parallel", options.get("parallel", 8), 1, _MOST_PARALLEL),
        max_failed=_limit(options.get("max_failed")),
        throttle=throttle,
        split_after=None if split is None else parse_duration(split),
        seat_time=parse_duration(options.get("seat_time", _SEAT)),
    )
    batch = BatchHandler(call, terms, options.get("on_complete"), module)
    return batch, AwaitedShard(batch) if call.is_async else BlockingShard(batch)


def _site(ctx: Any, desk: Any) -> Site:
    return Site(
        ledger=desk.ledger,
        operations=ctx._store.operations,
        held=ctx._held,
        sources=desk.sources,
        opening=ctx.artifacts.open,
    )


def _limit(given: int | None) -> int | None:
    return None if given is None else _count("max_failed", given, 0, 10**15)


def _count(option: str, given: object, least: int, most: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        raise BadOption(option, f"{given!r} is not a number of {least:,} to {most:,}")
    return given
