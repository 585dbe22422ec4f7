"""Shards follow their batch: they pause with it, and go on with it. See `domain/batch.py`."""

from typing import NamedTuple

from windlass.domain.batch import SHARDS
from windlass.domain.run import RunRef
from windlass.store.sqlite.control import pause_run, resume_run
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.values import to_id


class Led(NamedTuple):
    """What a look at a batch has done to its shards."""

    paused: bool = False  # the batch is: none that is held may go
    asked: int = 0  # shards that run, and are to pause
    ready: tuple[RunRef, ...] = ()


def lead_shards(tx: OpenTransaction, tenant: str, run: bytes, limit: int) -> Led:
    """Pause the shards of a batch that is paused; let those go on that were, if it is not.

    Nothing is done for a run that is no batch. What is beyond the limit is left for the next look.
    """
    name = (tenant, run)
    if tx.fetch_one("is_batch", name) is None:
        return Led()
    paused = tx.fetch_one("is_paused", name) is not None
    statement = "shards_to_pause" if paused else "shards_to_resume"
    shards = tx.fetch(statement, (*name, SHARDS, limit + 1))
    asked, ready = 0, []
    for (shard,) in shards[:limit]:
        ref = RunRef(tenant, to_id(shard))
        tx.execute("mark_paused", (int(paused), tenant, shard))
        if tx.fetch_one("ended_child", (tenant, shard)) is not None:
            continue
        if paused:
            asked += pause_run(tx, ref, "its batch was paused")
        elif resume_run(tx, ref):
            ready.append(ref)
    if len(shards) > limit:
        tx.execute("insert_wake", name)
    return Led(paused, asked, tuple(ready))
