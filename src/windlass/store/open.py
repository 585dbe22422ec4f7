"""Chooses the store by the URL; a driver is imported only when it is needed."""

from importlib.util import find_spec

from windlass.config import Settings
from windlass.errors import UsageError
from windlass.sources import Sources
from windlass.store.interface import Store


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
    return PostgresStore(settings.url, sources=sources, stall=stall)
