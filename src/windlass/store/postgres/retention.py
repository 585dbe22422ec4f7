"""Retention on PostgreSQL: see `store/operations/retention.py`."""

from collections.abc import Sequence

import msgspec

from windlass.domain.retention import Growth, Pruned, StoreTerms, Tidied
from windlass.store.postgres.ids import only_ids
from windlass.store.postgres.statement import Statement, one

_encode = msgspec.json.Encoder().encode


def tidy(terms: StoreTerms, limit: int) -> Statement[Tidied]:
    """Do what is due of the chores."""
    return Statement("tidy", (_encode(terms).decode(), limit), one(Tidied))


def delete_runs(tenant: str, runs: Sequence[str]) -> Statement[Pruned]:
    """Delete runs by hand."""
    return Statement("delete_runs", (tenant, list(only_ids(runs))), one(Pruned))


def measure_growth(tenant: str) -> Statement[Growth]:
    """How large the store is."""
    return Statement("measure_growth", (tenant,), one(Growth))
