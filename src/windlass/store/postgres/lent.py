"""Connections that a pool of the application's lends, for one call each.

Two pools, one for each face, with the interface of our own (`connections.py`). A connection is used
through a view, and goes back idle. If a call leaves its state unknown, it goes back closed, and the
lender opens another. Where the lender cannot lend, our own connections serve: while it is not open
and, if it is async, on every event loop but its own.
"""

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout
from psycopg_pool import TooManyRequests as TooMany

from windlass import guard
from windlass.errors import StoreError, StoreUnavailable, UsageError
from windlass.store.postgres.connections import AsyncPool, SyncPool, is_silent, needs_begin
from windlass.store.postgres.database_errors import is_outage, one_line
from windlass.store.postgres.patient import (
    PatientAsyncConnection,
    PatientConnection,
    agive_up,
    discard,
    give_up,
    is_own,
    is_working,
)
from windlass.store.postgres.statement import Row
from windlass.store.postgres.target import Target
from windlass.store.postgres.views import AsyncView, View, async_view_of, view_of
from windlass.store.queries import load_queries

Lender = ConnectionPool[Any] | AsyncConnectionPool[Any]

_SQL = load_queries("postgres")


class LentPool(SyncPool):
    """Connections of the blocking face."""

    def __init__(
        self, target: Target, lender: ConnectionPool[Any], own: SyncPool, *, compare: bool
    ) -> None:
        """`compare`: make sure that the lender and our own connections lead to one database."""
        super().__init__(target)
        self._lender = lender
        self._own = own
        self._terms = _Terms(target, lender, compare=compare)

    @contextmanager
    def connection(self, within: float | None = None) -> Iterator[PatientConnection]:
        """Lend a connection in autocommit mode; `within`: seconds to wait for a free one."""
        lent = self._borrow(within)
        if lent is None:
            with self._own.connection() as conn:
                yield conn
            return
        view = view_of(lent, self.schema)
        try:
            view.autocommit = True
            if not self._terms.put_on(view, lent):
                self._terms.note(view, lent, view.execute(_SQL["new_session"]).fetchone())
            if self._terms.must_compare:
                with self._own.connection() as conn:
                    ours = conn.execute(_SQL["database_reached"]).fetchone()
                self._terms.compare(ours, view.execute(_SQL["database_reached"]).fetchone())
            yield view
        except BaseException as error:
            if not _is_clean(view, error):
                give_up(view)
            raise
        finally:
            if is_own(view):  # in a fork the session is the parent's
                self._lender.putconn(lent)

    def _borrow(self, within: float | None) -> "psycopg.Connection[Any] | None":
        self._terms.admit()
        for _ in range(self._lender.max_size + 1):  # all that it has may be dead
            if self._lender.closed:
                return None
            try:
                lent: psycopg.Connection[Any] = self._lender.getconn(within)
            except PoolClosed:
                return None
            except (PoolTimeout, TooMany) as error:
                raise _nothing_to_lend(self._lender, error) from error
            if _is_alive(lent):
                return lent
            lent.pgconn.finish()
            self._lender.putconn(lent)
        return None


class AsyncLentPool(AsyncPool):
    """Connections of the asynchronous face, on the event loop on which the lender was opened."""

    def __init__(
        self, target: Target, lender: AsyncConnectionPool[Any], own: AsyncPool, *, compare: bool
    ) -> None:
        super().__init__(target, 0)
        self._lender = lender
        self._own_pool = own
        self._terms = _Terms(target, lender, compare=compare)
        self._returning: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connection(
        self, within: float | None = None
    ) -> AsyncIterator[PatientAsyncConnection]:
        """Lend a connection in autocommit mode; `within`: seconds to wait for a free one."""
        lent = await self._borrow(within)
        if lent is None:
            async with self._own_pool.connection() as conn:
                yield conn
            return
        view = async_view_of(lent, self._target.schema)
        clean = True
        try:
            await view.set_autocommit(True)
            if not self._terms.put_on(view, lent):
                cursor = await view.execute(_SQL["new_session"])
                self._terms.note(view, lent, await cursor.fetchone())
            if self._terms.must_compare:
                async with self._own_pool.connection() as conn:
                    ours = await (await conn.execute(_SQL["database_reached"])).fetchone()
                cursor = await view.execute(_SQL["database_reached"])
                self._terms.compare(ours, await cursor.fetchone())
            yield view
        except BaseException as error:
            clean = _is_clean(view, error)
            raise
        finally:
            if is_own(view):
                await self._give_back(lent, view, clean=clean)

    async def close(self) -> None:
        """Wait for connections that are on their way back; the lender is not ours to close."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(*[task for task in self._returning if task.get_loop() is loop])

    async def _borrow(self, within: float | None) -> "psycopg.AsyncConnection[Any] | None":
        self._terms.admit()
        for _ in range(self._lender.max_size + 1):
            if self._lender.closed or home_of(self._lender) is not asyncio.get_running_loop():
                return None
            try:
                lent: psycopg.AsyncConnection[Any] = await self._lender.getconn(within)
            except PoolClosed:
                return None
            except (PoolTimeout, TooMany) as error:
                raise _nothing_to_lend(self._lender, error) from error
            if _is_alive(lent):
                return lent
            lent.pgconn.finish()
            await self._go_back(lent)
        return None

    async def _give_back(
        self, lent: "psycopg.AsyncConnection[Any]", view: AsyncView, *, clean: bool
    ) -> None:
        if clean:
            await self._go_back(lent)
        elif is_working(view):
            # Nobody waits for it: they may have been canceled.
            self._in_background(self._stop(lent, view))
        else:
            discard(view)
            await self._go_back(lent)

    async def _go_back(self, lent: "psycopg.AsyncConnection[Any]") -> None:
        # Whoever is canceled here must not take the connection away with them.
        await asyncio.shield(self._in_background(self._lender.putconn(lent)))

    async def _stop(self, lent: "psycopg.AsyncConnection[Any]", view: AsyncView) -> None:
        try:
            await agive_up(view)
        finally:
            await self._lender.putconn(lent)

    def _in_background(self, coroutine: Any) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(coroutine, name="windlass-give-back")
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)
        return task


class _Terms:
    """What both faces know of a lender, and of the connections that it has lent."""

    def __init__(self, target: Target, lender: Lender, *, compare: bool) -> None:
        self.must_compare = compare
        self._target = target
        self._lender = lender
        self._process: int | None = None  # in which it was open when we looked
        self._begins: weakref.WeakKeyDictionary[object, bool] = weakref.WeakKeyDictionary()
        self._look()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_calling_weakly(self))

    def admit(self) -> None:
        """Raise UsageError in tests, unless the store is one for tests, and in a forked child."""
        if guard.in_tests():
            guard.check(self._target.place)
        self._look()
        if self._process not in (None, os.getpid()) and not self._lender.closed:
            raise UsageError(
                f"The pool {self._lender.name!r} was opened before this process was forked, so its "
                "connections are the parent's: open the pool after the fork."
            )

    def put_on(self, view: View | AsyncView, lent: object) -> bool:
        """Make a view ready for calls; false if its session is not known yet."""
        if view.info.encoding != "utf-8":
            raise StoreError(
                f"The connections of the pool {self._lender.name!r} use {view.info.encoding}, and "
                "Windlass needs UTF8: leave client_encoding out of the pool's conninfo."
            )
        view.stall, view.process = self._target.stall, os.getpid()
        view.begins = self._begins.get(lent, False)
        return lent in self._begins

    def note(
        self, view: View | AsyncView, lent: object, session: tuple[object, ...] | None
    ) -> None:
        """Keep what a session that is lent for the first time says of itself."""
        view.begins = self._begins[lent] = needs_begin(session)

    def compare(self, ours: Row | None, theirs: Row | None) -> None:
        """Raise UsageError if the lender leads to another database than our own connections."""
        if ours is not None and theirs is not None and ours != theirs:
            raise UsageError(
                f"The pool {self._lender.name!r} leads to the database {theirs[0]!r}, and workers "
                f"would look for runs in {ours[0]!r} at {self._target.place}: name one database."
            )
        self.must_compare = False

    def _look(self) -> None:
        if self._process is None and not self._lender.closed:
            self._process = os.getpid()

    def before_fork(self) -> None:
        """Look for the last time before there are two processes."""
        self._look()


def _calling_weakly(terms: _Terms) -> Any:
    # What is called at forks can never be taken back.
    known = weakref.ref(terms)

    def look() -> None:
        found = known()
        if found is not None:
            found.before_fork()

    return look


def home_of(lender: AsyncConnectionPool[Any]) -> asyncio.AbstractEventLoop | None:
    """The event loop on which a pool was opened, where its tasks are; it does not say so itself.

    psycopg_pool has no public name for it: a test fails if a release lacks the private one.
    """
    tasks: list[asyncio.Task[None]] = lender._workers
    return tasks[0].get_loop() if tasks else None


def _is_alive(lent: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> bool:
    """Whether the server has not said farewell; it may have sent notifications to the owner."""
    try:
        while not lent.closed and not is_silent(lent):
            lent.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return not lent.closed


def _is_clean(view: View | AsyncView, error: BaseException) -> bool:
    """Whether a connection can go back as it is, after an error."""
    if view.closed or (isinstance(error, psycopg.Error) and is_outage(error)):
        return False
    return view.info.transaction_status is TransactionStatus.IDLE


def _nothing_to_lend(lender: Lender, error: psycopg.Error) -> StoreUnavailable:
    return StoreUnavailable(
        f"The pool {lender.name!r} has no free connection: {one_line(error)}. All of its "
        f"{lender.max_size} are in use, or PostgreSQL cannot be reached."
    )
