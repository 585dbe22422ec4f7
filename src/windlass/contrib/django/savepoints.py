"""A handler that breaks the test's transaction breaks its own part only.

In a TestCase all handlers share one transaction. After an error PostgreSQL refuses everything in
it, until somebody rolls back. In a worker, each handler has transactions of its own. So in a test
each attempt begins with a savepoint, and goes back to it if it leaves the transaction broken.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from windlass.context import Context, SyncContext

_IN_ERROR = 3  # of libpq's transaction states, as both drivers have them

Savepoints = list[tuple[Any, str]]


class HandlerSavepoints:
    """The hook; see :mod:`windlass.engine.around`."""

    @contextmanager
    def blocking(self, ctx: SyncContext) -> Iterator[None]:
        """Around a sync handler."""
        savepoints = _begin()
        try:
            yield
        finally:
            _end(savepoints)

    @asynccontextmanager
    async def awaited(self, ctx: Context) -> AsyncIterator[None]:
        """Around an async handler."""
        savepoints = await sync_to_async(_begin)()
        try:
            yield
        finally:
            await sync_to_async(_end)(savepoints)


def _begin() -> Savepoints:
    return [
        (connection, connection.savepoint())
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block and connection.vendor == "postgresql"
    ]


def _end(savepoints: Savepoints) -> None:
    for connection, savepoint in savepoints:
        state = connection.connection.info.transaction_status
        if state == _IN_ERROR or connection.needs_rollback:
            connection.needs_rollback = False
            connection.savepoint_rollback(savepoint)
        connection.savepoint_commit(savepoint)
