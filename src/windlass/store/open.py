"""Chooses the store by the URL; a driver is imported only when it is needed."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from windlass.config import Settings
from windlass.errors import BadOption, UsageError
from windlass.sources import Sources
from windlass.store.interface import Store

if TYPE_CHECKING:
    from windlass.store.postgres.pooled import Lenders


def open_store(settings: Settings, sources: Sources) -> Store:
    """The store of an application. Opens no connection."""
    if settings.url.startswith("sqlite:"):
        from windlass.store.sqlite.store import SqliteStore

        return SqliteStore(settings.url, sources=sources, ballast=settings.ballast)
    if find_spec("psycopg") is None:
        raise UsageError("PostgreSQL needs its driver: pip install 'windlass[postgres]'.")
    from windlass.store.postgres.store import PostgresStore

    # A call that hangs must be given up well before the lease that waits for it runs out.
    stall = min(10.0, max(1.0, settings.lease / 3))
    return PostgresStore(settings.url, sources=sources, stall=stall, schema=settings.schema)


def url_of_pool(pool: object) -> str:
    """Where a connection pool leads that the application has handed in."""
    return _lenders(pool).url


def open_on_pool(store: Store, pool: object, *, compare: bool) -> Store:
    """The same store on the connections of a pool.

    `compare`: the store's URL was given beside the pool, so they may lead to two databases.
    """
    lenders = _lenders(pool)
    from windlass.store.postgres.pooled import PooledStore
    from windlass.store.postgres.store import PostgresStore

    if not isinstance(store, PostgresStore):
        raise BadOption("pool", f"it is for PostgreSQL, and the store is {store.place}")
    return PooledStore(store, lenders, compare=compare)


def store_of_workers(store: Store) -> Store:
    """The same store on connections that an application cannot use up."""
    found: Store = getattr(store, "apart", store)  # only a store on a pool has another one
    return found


def _lenders(pool: object) -> "Lenders":
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise UsageError("A connection pool needs its package: pip install 'windlass[pool]'.")
    from windlass.store.postgres.pooled import Lenders

    return Lenders.read(pool)
