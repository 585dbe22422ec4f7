"""Runs over many units, cut into shards: see `domain/batch.py`."""

from collections.abc import Sequence

import msgspec

from windlass.domain.batch import (
    BatchCounts,
    BatchRow,
    FailedUnit,
    Flushed,
    NewBatch,
    Shard,
    ShardWrite,
    UnitPage,
)
from windlass.domain.run import Held, NewRun
from windlass.store.operations.declare import read, write


class BatchOperations:
    """The calls of batches, of their shards, and of those who enqueue and watch them."""

    @write(patient=True, for_handlers=True)
    def open_batch(self, held: Held, batch: NewBatch, anew: bool) -> BatchRow | None:
        """The batch that a run is, made if it is not there. None: the lease is lost.

        With ``anew``, what is known of its shards is forgotten; otherwise one that was stopped may
        go on.
        """

    @write(patient=True, for_handlers=True)
    def open_shard(self, held: Held) -> Shard | None:
        """The shard that a run is, made if it is not there. None: the lease, or its place, is lost.

        A new one has the range that its number means; one that was split has what it kept.
        """

    @write(patient=True, for_handlers=True)
    def flush_shard(self, held: Held, shard: ShardWrite) -> Flushed | None:
        """Write down how far a shard is, under its token. None: the lease, or its place, is
        lost."""

    @write(new_work=True, patient=True, for_handlers=True)
    def split_shard(self, held: Held, at: int, until: int, run: NewRun) -> bool | None:
        """Give the units from ``at`` to ``until``, the shard's end, to a new one.

        False: it ends elsewhere, is past that unit, or the batch has as many shards at work as it
        may. None: the lease, or its place, is lost. A call that is repeated is answered alike.
        """

    @read(for_handlers=True)
    def list_units(self, tenant: str, batch: str, n: int) -> UnitPage:
        """The page of staged units that has the unit ``n``; an empty one if none has."""

    @write(patient=True, new_work=True)
    def stage_units(
        self, tenant: str, batch: str, first: int, units: Sequence[msgspec.Raw], within: float
    ) -> None:
        """Keep units for a batch that is to be enqueued, within so many seconds."""

    @write(patient=True)
    def seal_units(self, tenant: str, batch: str, total: int, within: float) -> bool:
        """Whether all units are there that were staged; they are kept for so many seconds more."""

    @write(patient=True)
    def drop_units(self, tenant: str, batch: str) -> bool:
        """Delete what was staged for a batch; false if nothing was, or there is a run of that
        id."""

    @write()
    def sweep_units(self, limit: int) -> int:
        """Delete staged units whose time is over, at most so many pages; returns how many."""

    @read()
    def get_batch(self, tenant: str, run: str) -> BatchCounts | None:
        """How far a batch is; None if the run is none, or has not started."""

    @read()
    def list_failed_units(
        self, tenant: str, run: str, after: int, limit: int
    ) -> Sequence[FailedUnit]:
        """The units of a batch that failed, by number, after a number."""
