"""Batches: runs over many units, and the shards they are cut into. See `domain/batch.py`."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from windlass.domain.batch import (
    MOST_SHARDS,
    BatchCounts,
    BatchRow,
    FailedUnit,
    FilePlace,
    Flushed,
    NewBatch,
    Shard,
    ShardWrite,
)
from windlass.domain.run import Held, NewRun
from windlass.errors import BadArguments
from windlass.store.sqlite.control import holds
from windlass.store.sqlite.enqueue import enqueue
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.values import (
    blob_or_none,
    raw_text,
    to_blob,
    to_error,
    to_id,
    to_json,
    to_raw,
)


class _Place(NamedTuple):
    """Which shard of which batch a run is."""

    batch: bytes
    n: int
    root: bytes
    path: str


def open_batch(tx: OpenTransaction, held: Held, batch: NewBatch, anew: bool) -> BatchRow | None:
    """Make the batch that a run is, unless it is there; None: the lease is lost."""
    if not holds(tx, held):
        return None
    name = (held.tenant, to_blob(held.id))
    if anew:
        for statement in ("delete_batch", "delete_shards", "delete_unit_failures"):
            tx.execute(statement, name)
    tx.execute("put_batch", (*name, batch.total, batch.size, batch.shards))
    rows = [
        (*name, n, n * batch.size, min(batch.total or 0, (n + 1) * batch.size),
         to_json(FilePlace(unit=n * batch.size, offset=offset)))
        for n, offset in enumerate(batch.begins)
    ]  # fmt: skip
    tx.execute_many("put_shard", rows)
    ((total, size, shards, stopped),) = tx.fetch("get_batch_row", name)
    return BatchRow(total=total, size=size, shards=shards, stopped=stopped)


def open_shard(tx: OpenTransaction, held: Held) -> Shard | None:
    """Make the shard that a run is, unless it is there; None: the lease, or its place, is lost."""
    place = _place(tx, held)
    if place is None:
        return None
    name = (held.tenant, place.batch, place.n)
    tx.execute("open_shard", (place.n, *name[:2]))
    row = tx.fetch_one("get_shard", name)
    if row is None:
        return None
    n, first, until, succeeded, failed, where, done, stopped, input = row
    return Shard(
        batch=to_id(place.batch),
        n=n,
        first=first,
        until=until,
        succeeded=succeeded,
        failed=failed,
        place=to_raw(where),
        done=bool(done),
        stopped=stopped,
        input=to_raw(input),
    )


def flush_shard(tx: OpenTransaction, held: Held, shard: ShardWrite) -> Flushed | None:
    """Write down how far a shard is; None: the lease, or its place, is lost."""
    place = _place(tx, held)
    if place is None:
        return None
    batch = (held.tenant, place.batch)
    processed = shard.succeeded + shard.failed
    tx.execute("forgive_crashes", (held.tenant, to_blob(held.id), place.batch, place.n, processed))
    counts = (shard.succeeded, shard.failed, raw_text(shard.place), int(shard.done))
    if not tx.execute("flush_shard", (*counts, *batch, place.n)):
        raise BadArguments("flush_shard", "takes the lease of a shard that was opened", "held")
    rows = [
        (*batch, each.n, place.n, raw_text(each.unit), to_json(each.error))
        for each in shard.failures
    ]
    tx.execute_many("put_unit_failure", rows)
    if rows and shard.max_failed is not None:
        tx.execute("stop_batch", (*batch, shard.max_failed))
    ((stopped,),) = tx.fetch("batch_stopped", batch)
    return Flushed(stopped=stopped)


def split_shard(tx: OpenTransaction, held: Held, at: int, until: int, run: NewRun) -> bool | None:
    """Give the second part of a shard to a new one; None: the lease, or its place, is lost."""
    place = _place(tx, held)
    if place is None:
        return None
    batch = (held.tenant, place.batch)
    if tx.fetch_one("is_child_of", (held.tenant, to_blob(run.id), place.batch)) is not None:
        return True
    bindings = {
        "tenant": held.tenant, "batch": place.batch, "n": place.n, "path": place.path
    }  # fmt: skip
    row = tx.fetch_one("split_state", bindings)
    if row is None:
        return False
    end, next, shards, where, unfinished, parallel = row
    if end != until or not next < at < until or shards >= MOST_SHARDS:
        return False
    if parallel is None or unfinished >= parallel:
        return False
    tx.execute("shorten_shard", (at, *batch, place.n))
    tx.execute("add_shard", batch)
    tx.execute("put_shard", (*batch, shards, at, until, where))
    enqueue(tx, [run])
    child = (held.tenant, to_blob(run.id))
    tx.execute("insert_child", (*child, place.batch, place.root, place.path, shards, "live"))
    tx.execute("mark_child", child)
    return True


def get_batch(tx: OpenTransaction, tenant: str, run: str) -> BatchCounts | None:
    """Return how far a batch is."""
    row = tx.fetch_one("count_batch", (tenant, blob_or_none(run)))
    if row is None:
        return None
    total, succeeded, failed, shards, done, stopped = row
    return BatchCounts(
        total=total,
        succeeded=succeeded,
        failed=failed,
        shards=shards,
        shards_done=done,
        stopped=stopped,
    )


def list_failed_units(
    tx: OpenTransaction, tenant: str, run: str, after: int, limit: int
) -> Sequence[FailedUnit]:
    """Return the units of a batch that failed, by number."""
    found = []
    for n, shard, unit, error in tx.fetch(
        "list_failed_units", (tenant, blob_or_none(run), after, limit)
    ):
        told = to_error(error)
        assert told is not None, "a failed unit has an error"
        found.append(FailedUnit(n=n, shard=shard, unit=msgspec.Raw(unit), error=told))
    return found


def _place(tx: OpenTransaction, held: Held) -> _Place | None:
    row = tx.fetch_one("place_of_shard", (held.tenant, blob_or_none(held.id), held.token))
    return None if row is None else _Place(*row)
