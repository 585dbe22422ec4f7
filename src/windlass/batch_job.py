"""A batch as an application holds it: enqueue it with its units."""

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.batches import BatchHandler, BatchSummary
from windlass.client import Request, Run
from windlass.client.enqueue import enqueue
from windlass.domain.artifact import Artifact
from windlass.domain.batch import MOST_PAGE, MOST_SHARDS, MOST_STAGED, PAGE_BYTES
from windlass.domain.records import FileUnits, format_of
from windlass.domain.units import encode_unit, wire_of
from windlass.errors import BadOption, UsageError
from windlass.job import Job, Membership
from windlass.store.flow import Flow, arun_flow, run_flow

_MOST_INLINE = 64 * 1024  # bytes of units that go with the input
_SEALED = 3600.0  # seconds that are left to enqueue a batch whose units are all there


class BatchJob(Job[..., ..., Any, BatchSummary]):
    """A function that is called for each of many units, by many workers: see `app.batch`.

    `enqueue(units=…)` takes a range, a list, or anything else that can be iterated over; what else
    the function takes is given by name, and is the same for all units. Calling it calls the
    function.
    """

    def __init__(self, membership: Membership, seal_timeout: float) -> None:
        super().__init__(membership)
        self._seal_timeout = seal_timeout

    @property
    def _handler(self) -> BatchHandler:
        handler = self.spec.handler
        assert isinstance(handler, BatchHandler)
        return handler

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, here and now, for one unit."""
        return self._handler.call.function(*args, **kwargs)

    def request(self, *args: Any, **kwargs: Any) -> Request[BatchSummary]:
        """Prepare a run for `app.enqueue_many`. The units must be a range, or a short list."""
        units, others = self._split(args, kwargs)
        wire = self._inline(units)
        if wire is None:
            raise BadOption(
                "units", "they are too many for one request: enqueue the batch by itself"
            )
        return self._requested(wire, others)

    def enqueue(self, *args: Any, **kwargs: Any) -> Run[BatchSummary]:
        """Enqueue the batch, and return its run without waiting for its end.

        `units` that do not fit into one request are stored some hundreds at a time; the run is
        there when all of them are. If iterating over them raises, nothing is enqueued.
        """
        units, others = self._split(args, kwargs)
        if isinstance(units, AsyncIterable):
            raise BadOption(
                "units", "they come from an async iterator: use `await job.aenqueue(…)`"
            )
        wire = self._inline(units)
        store = self._scope.store
        if wire is not None:
            return run_flow(store, self._enqueue(self._requested(wire, others)))
        staging = _Staging(self)
        self._requested({"staged": 0}, others)  # refuses what is wrong before anything is stored
        try:
            for unit in units:
                if (page := staging.add(unit)) is not None:
                    run_flow(store, page)
            return run_flow(store, staging.seal(others))
        except BaseException:
            run_flow(store, staging.drop())
            raise

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Run[BatchSummary]:
        """As `enqueue`, in async code; the units may come from an async iterator, too."""
        units, others = self._split(args, kwargs)
        wire = self._inline(units)
        store = self._scope.store
        if wire is not None:
            return await arun_flow(store, self._enqueue(self._requested(wire, others)))
        staging = _Staging(self)
        self._requested({"staged": 0}, others)
        try:
            if isinstance(units, AsyncIterable):
                async for unit in units:
                    if (page := staging.add(unit)) is not None:
                        await arun_flow(store, page)
            else:
                for unit in units:
                    if (page := staging.add(unit)) is not None:
                        await arun_flow(store, page)
            return await arun_flow(store, staging.seal(others))
        except BaseException:
            await arun_flow(store, staging.drop())
            raise

    def _split(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The units, and what is the same for all of them."""
        others = dict(kwargs)
        if self._handler.call.source is not None:
            if args or "units" in others:
                raise BadOption("units", f"batch {self.name!r} has a source: it takes none")
            return None, others
        if len(args) > 1 or (args and "units" in others):
            raise BadOption("units", "give the units first, or by name, and the rest by name")
        if not args and "units" not in others:
            raise BadOption("units", f"batch {self.name!r} needs them: enqueue(units=…)")
        units = args[0] if args else others.pop("units")
        if isinstance(units, (str, bytes, Mapping)) or not isinstance(
            units, (Iterable, AsyncIterable, Artifact, FileUnits)
        ):
            why = f"{type(units).__name__} is not a range, a list, or an iterable, nor an artifact"
            raise BadOption("units", why)
        return units, others

    def _inline(self, units: Any) -> Any:
        """The units as the input has them; None if they do not fit, or nobody knows how many."""
        if units is None:
            return {}
        if isinstance(units, Artifact):
            units = FileUnits(artifact=units, format=format_of(units))
        if isinstance(units, FileUnits):
            return {"artifact": units.artifact, "format": units.format}
        if isinstance(units, range):
            self._check_shards(len(units))
            return wire_of(units)
        if not isinstance(units, (list, tuple)) or len(units) > MOST_PAGE:
            return None
        found = [self._unit(unit) for unit in units]
        return found if sum(len(bytes(raw)) for raw in found) <= _MOST_INLINE else None

    def _unit(self, unit: object) -> msgspec.Raw:
        """A unit as it is stored, checked as the shard will read it."""
        raw = encode_unit(unit, self.name)
        self._handler.call.read_unit(raw)
        return raw

    def _check_shards(self, total: int) -> None:
        size = self._handler.terms.shard_size
        if total > MOST_SHARDS * size:
            least = -(-total // MOST_SHARDS)
            why = f"{size:,} makes too many shards of {total:,} units: use {least:,} or more"
            raise BadOption("shard_size", why)

    def _requested(self, wire: Any, others: Mapping[str, Any]) -> Request[BatchSummary]:
        given = dict(others) if self._handler.call.source is not None else {**others, "units": wire}
        return super().request(**given)


class _Staging:
    """Units on their way into the store, before there is a run."""

    def __init__(self, job: BatchJob) -> None:
        self._job = job
        (self._id,) = job._scope.sources.new_ids(1)
        self._page: list[msgspec.Raw] = []
        self._bytes = 0
        self._count = 0

    def add(self, unit: object) -> Flow[None] | None:
        """Take a unit; returns what is to be written now, if the page is full."""
        raw = self._job._unit(unit)
        self._page.append(raw)
        self._bytes += len(bytes(raw))
        if len(self._page) >= MOST_STAGED or self._bytes >= PAGE_BYTES:
            return self._write()
        return None

    def seal(self, others: Mapping[str, Any]) -> Flow[Run[BatchSummary]]:
        """Write the rest, and enqueue the run. Raises UsageError if it took too long."""
        yield from self._write()
        job, scope = self._job, self._job._scope
        job._check_shards(self._count)
        complete: bool = yield scope.store.operations.seal_units(
            scope.tenant, self._id, self._count, _SEALED
        )
        if not complete:
            raise UsageError(
                f"The units of batch {job.name!r} came too slowly: some are deleted already. "
                "Give the batch a longer seal_timeout."
            )
        request = job._requested({"staged": self._count}, others)
        runs = yield from enqueue(scope, [request], ids=[self._id])
        if runs[0].id != self._id:  # its key was taken
            yield from self.drop()
        return runs[0]

    def drop(self) -> Flow[None]:
        """Delete what was written, unless the run is there."""
        scope = self._job._scope
        yield scope.store.operations.drop_units(scope.tenant, self._id)

    def _write(self) -> Flow[None]:
        page, first = self._page, self._count
        self._page, self._bytes = [], 0
        if not page:
            return
        self._count += len(page)
        if self._count > MOST_SHARDS * self._job._handler.terms.shard_size:
            self._job._check_shards(self._count)
        scope = self._job._scope
        yield scope.store.operations.stage_units(
            scope.tenant, self._id, first, page, self._job._seal_timeout
        )
