"""Handlers find database connections that work, and leave none behind that do not.

Django does this around a request: it closes connections that are broken or older than CONN_MAX_AGE.
A worker has no requests, so the hook here does it around each attempt, in whatever worker.

**Sync handlers** keep their thread, and so their connections (Django has one set for each thread).
A connection that is kept from one handler to the next (CONN_MAX_AGE) may have died in between. A
page can be reloaded by its user, a run cannot. So the connection is tried before the handler
starts, as with CONN_HEALTH_CHECKS.

**Async handlers** reach the ORM through a thread of `sync_to_async`. Left alone, all of them share
one thread and one connection, which nobody could close without taking it from the others. So each
attempt that uses the ORM gets a thread of its own, as each request does under ASGI, and its
connections are closed at the end. Where the caller's thread does the work (below `async_to_sync`,
as in Django's async tests), it keeps doing it, and is treated like a sync handler's thread.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections

from windlass.context import Context, SyncContext


class FreshConnections:
    """The hook; see :mod:`windlass.engine.around`."""

    @contextmanager
    def blocking(self, ctx: SyncContext) -> Iterator[None]:
        """Around a sync handler, in its thread."""
        callers = prepare_connections()
        try:
            yield
        finally:
            release_connections(callers)

    @asynccontextmanager
    async def awaited(self, ctx: Context) -> AsyncIterator[None]:
        """Around an async handler."""
        if _borrows_thread():
            callers = await sync_to_async(prepare_connections)()
            try:
                yield
            finally:
                await sync_to_async(release_connections)(callers)
            return
        async with ThreadSensitiveContext() as context:
            try:
                yield
            finally:
                # Only if the handler has used its thread: most never do.
                if context in SyncToAsync.context_to_thread_executor:
                    await sync_to_async(connections.close_all)()


def prepare_connections() -> frozenset[str]:
    """Close what is too old, and what does not answer. Returns the aliases that are the caller's:
    inside a transaction of its own, as in Django's TestCase, to which nothing may be done."""
    callers = set()
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            callers.add(connection.alias)
            continue
        connection.close_if_unusable_or_obsolete()
        if connection.connection is not None and not connection.is_usable():
            connection.close()
    return frozenset(callers)


def release_connections(callers: frozenset[str]) -> None:
    """Close what is broken or too old, and what the handler left inside a transaction."""
    for connection in connections.all(initialized_only=True):
        if connection.alias in callers:
            continue
        if connection.in_atomic_block:
            connection.close()
            del connections[connection.alias]  # it would wait for the end of the transaction
        else:
            connection.close_if_unusable_or_obsolete()


def _borrows_thread() -> bool:
    """Whether sync_to_async goes to a thread that is not the attempt's to choose."""
    inherited = SyncToAsync.thread_sensitive_context.get(None)
    return inherited is not None or getattr(AsyncToSync.executors, "current", None) is not None
