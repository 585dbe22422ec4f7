"""Units that are staged for a batch before there is a run. See `domain/batch.py`."""

from collections.abc import Sequence

import msgspec

from windlass.domain.batch import UnitPage
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.values import blob_or_none, micros_of, to_blob, to_json

_decode = msgspec.json.Decoder(tuple[msgspec.Raw, ...]).decode


def list_units(tx: OpenTransaction, tenant: str, batch: str, n: int) -> UnitPage:
    """Return the page that has a unit."""
    row = tx.fetch_one("units_at", (tenant, blob_or_none(batch), n))
    return UnitPage() if row is None else UnitPage(first=row[0], units=_decode(row[1]))


def stage_units(
    tx: OpenTransaction,
    tenant: str,
    batch: str,
    first: int,
    units: Sequence[msgspec.Raw],
    within: float,
) -> None:
    """Keep units for a batch that is to be enqueued."""
    name = (tenant, to_blob(batch))
    tx.execute("put_staged", (*name, tx.now + micros_of(within)))
    tx.execute("put_units", (*name, first, len(units), to_json(list(units))))


def seal_units(tx: OpenTransaction, tenant: str, batch: str, total: int, within: float) -> bool:
    """Return whether all units are there, and keep them a while longer."""
    name = (tenant, to_blob(batch))
    tx.execute("extend_staged", (tx.now + micros_of(within), *name))
    ((count,),) = tx.fetch("count_units", name)
    return bool(count == total)


def drop_units(tx: OpenTransaction, tenant: str, batch: str) -> bool:
    """Delete what was staged for a batch that has no run."""
    name = (tenant, to_blob(batch))
    if tx.fetch_one("is_run", name) is not None:
        return False
    tx.execute("delete_units", (*name, -1))
    return tx.execute("delete_staged", name) > 0


def sweep_units(tx: OpenTransaction, limit: int) -> int:
    """Delete staged units whose time is over; those of a run are no longer staged."""
    deleted = 0
    while deleted < limit and (name := tx.fetch_one("overdue_staged", (tx.now,))) is not None:
        if tx.fetch_one("is_run", name) is None:
            pages = tx.execute("delete_units", (*name, limit - deleted))
            deleted += pages
            if deleted >= limit:
                break
        tx.execute("delete_staged", name)
    return deleted
