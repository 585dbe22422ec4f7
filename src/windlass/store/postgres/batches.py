"""Batches on PostgreSQL: see `store/operations/batches.py`."""

from collections.abc import Sequence
from typing import TypeVar

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
from windlass.store.postgres.ids import id_or_nobody
from windlass.store.postgres.statement import Reader, Row, Statement, every, first, nothing

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_units = msgspec.json.Decoder(tuple[msgspec.Raw, ...]).decode


def open_batch(held: Held, batch: NewBatch, anew: bool) -> Statement[BatchRow | None]:
    """The batch that a run is."""
    begins = _encode(batch.begins).decode()
    parameters = (*_lease(held), batch.total, batch.size, batch.shards, anew, begins)
    return Statement("open_batch", parameters, _kept(BatchRow), about=held.id)


def open_shard(held: Held) -> Statement[Shard | None]:
    """The shard that a run is."""
    return Statement("open_shard", _lease(held), _kept(Shard), about=held.id)


def flush_shard(held: Held, shard: ShardWrite) -> Statement[Flushed | None]:
    """Write down how far a shard is."""
    parameters = (*_lease(held), _encode(shard).decode())
    return Statement("flush_shard", parameters, _kept(Flushed), about=held.id)


def split_shard(held: Held, at: int, until: int, run: NewRun) -> Statement[bool | None]:
    """Give a part of a shard to a new one."""
    parameters = (*_lease(held), at, until, _encode(run).decode())

    def read(rows: Sequence[Row]) -> bool | None:
        return None if rows[0][0] is None else _truth(rows)

    return Statement("split_shard", parameters, read, about=held.id)


def list_units(tenant: str, batch: str, n: int) -> Statement[UnitPage]:
    """The page of staged units that has a unit."""

    def read(rows: Sequence[Row]) -> UnitPage:
        return UnitPage(first=int(rows[0][0]), units=_units(rows[0][1])) if rows else UnitPage()

    return Statement("list_units", (tenant, id_or_nobody(batch), n), read)


def stage_units(
    tenant: str, batch: str, first: int, units: Sequence[msgspec.Raw], within: float
) -> Statement[None]:
    """Keep units for a batch that is to be enqueued."""
    parameters = (tenant, id_or_nobody(batch), first, _encode(list(units)).decode(), within)
    return Statement("stage_units", parameters, nothing)


def seal_units(tenant: str, batch: str, total: int, within: float) -> Statement[bool]:
    """Whether all units are there that were staged."""
    return Statement("seal_units", (tenant, id_or_nobody(batch), total, within), _truth)


def drop_units(tenant: str, batch: str) -> Statement[bool]:
    """Delete what was staged for a batch."""
    return Statement("drop_units", (tenant, id_or_nobody(batch)), _truth)


def sweep_units(limit: int) -> Statement[int]:
    """Delete staged units whose time is over."""
    return Statement("sweep_units", (limit,), lambda rows: int(rows[0][0]))


def get_batch(tenant: str, run: str) -> Statement[BatchCounts | None]:
    """How far a batch is."""
    return Statement("get_batch", (tenant, id_or_nobody(run)), first(BatchCounts))


def list_failed_units(
    tenant: str, run: str, after: int, limit: int
) -> Statement[Sequence[FailedUnit]]:
    """The units of a batch that failed."""
    parameters = (tenant, id_or_nobody(run), after, limit)
    return Statement("list_failed_units", parameters, every(FailedUnit))


def _lease(held: Held) -> tuple[str, str | None, int]:
    return held.tenant, id_or_nobody(held.id), held.token


def _kept(kind: type[T]) -> Reader[T | None]:
    decode = msgspec.json.Decoder(kind).decode
    return lambda rows: None if rows[0][0] is None else decode(rows[0][0])


def _truth(rows: Sequence[Row]) -> bool:
    return bool(rows[0][0] == "true")
