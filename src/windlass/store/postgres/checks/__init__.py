"""What can be wrong with a PostgreSQL server, one module for each kind of thing."""

from collections.abc import Sequence

from windlass.sources import Sources
from windlass.store.checks import Check
from windlass.store.postgres.checks import (
    clock,
    durability,
    pooling,
    room,
    schema,
    server,
    sessions,
    settings,
    vacuum,
)
from windlass.store.postgres.checks.asking import Asking
from windlass.store.postgres.connections import SyncPool
from windlass.store.postgres.target import Target


def checks(target: Target, pool: SyncPool, sources: Sources) -> Sequence[Check]:
    """All of them, in the order of the report."""
    ask = Asking(pool)
    return [
        *server.checks(ask),
        *schema.checks(ask),
        *durability.checks(ask),
        *settings.checks(ask),
        *clock.checks(ask, sources.clock),
        *pooling.checks(target, pool),
        *sessions.checks(ask),
        *vacuum.checks(ask),
        *room.checks(ask, target),
    ]
