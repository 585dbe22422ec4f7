"""The store of an application that has handed in a connection pool.

What the application calls borrows from the pool. Workers do not (:attr:`PooledStore.apart`): a pool
that handlers have used up would keep a worker from renewing its leases, and from recording the ends
for which those handlers wait.
"""

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from windlass.errors import BadOption
from windlass.store.checks import Check
from windlass.store.postgres.lent import AsyncLentPool, Lender, LentPool
from windlass.store.postgres.store import PostgresStore

# Arguments of psycopg's connect that say nothing of where to connect.
_NOT_WHERE = frozenset(inspect.signature(psycopg.Connection.connect).parameters)


class Lenders(NamedTuple):
    """The pools that an application has handed in: one for each face, or only for one of them."""

    sync: ConnectionPool[Any] | None
    aio: AsyncConnectionPool[Any] | None

    @classmethod
    def read(cls, given: object) -> "Lenders":
        """Tell the pools apart. Raises BadOption for anything else."""
        pools = list(given) if isinstance(given, list | tuple) else [given]
        sync = [pool for pool in pools if isinstance(pool, ConnectionPool)]
        aio = [pool for pool in pools if isinstance(pool, AsyncConnectionPool)]
        if not pools or len(sync) > 1 or len(aio) > 1 or len(sync) + len(aio) < len(pools):
            why = "give a ConnectionPool or an AsyncConnectionPool of psycopg_pool, or one of each"
            raise BadOption("pool", why)
        return cls(sync[0] if sync else None, aio[0] if aio else None)

    @property
    def url(self) -> str:
        """Where they lead. Raises BadOption if only the pool can know."""
        lender = self.sync or self.aio
        assert lender is not None
        try:
            given = _where(lender)
        except psycopg.ProgrammingError:  # not what it says: that may quote a password
            given = None
        if given is None:
            why = "it does not say where it leads, so give `url` too, for connections of a worker"
            raise BadOption("pool", why)
        return "postgresql:///?" + "&".join(f"{k}={quote(str(v), '')}" for k, v in given.items())


class PooledStore(PostgresStore):
    """All durable state, seen through borrowed connections."""

    def __init__(self, apart: PostgresStore, lenders: Lenders, *, compare: bool) -> None:
        """`apart` is the store on connections of its own. `compare`: make sure that the pools lead
        to the same database."""
        # All else is shared: a call through the pool wakes the workers of this process.
        vars(self).update(vars(apart))
        self.apart = apart
        compare = compare or None not in lenders
        if lenders.sync is not None:
            self._sync = LentPool(self._target, lenders.sync, apart._sync, compare=compare)
        if lenders.aio is not None:
            on_loop = partial(AsyncLentPool, self._target, lenders.aio, compare=compare)
            self._async, self._lent = on_loop(apart._async), on_loop(apart._lent)

    def checks(self, *, full: bool = False) -> Sequence[Check]:
        """What can be wrong with the server."""
        return self.apart.checks(full=full)

    def close(self) -> None:
        """Close our own connections; the pool is not ours to close."""
        self.apart.close()

    async def aclose(self) -> None:
        """As :meth:`close`, those of the event loop too."""
        for pool in (self._async, self._lent):
            if isinstance(pool, AsyncLentPool):
                await pool.close()
        await self.apart.aclose()


def _where(lender: Lender) -> Mapping[str, object] | None:
    """What a pool was told of the server; None where it asks a function each time."""
    conninfo, kwargs = lender.conninfo, lender.kwargs or {}
    if callable(conninfo) or callable(kwargs):
        return None
    known = {name: value for name, value in kwargs.items() if name not in _NOT_WHERE}
    found = conninfo_to_dict(make_conninfo(conninfo, **known))
    return {name: value for name, value in found.items() if value is not None}
