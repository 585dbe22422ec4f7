"""Connections to PostgreSQL: opened when first needed, none shared across a fork or a loop.

Two small pools, one for each face. Both hand out a connection for one call and take it back;
both forget what another process, or an event loop that is gone, has opened. A call in which
nothing moves for ``stall`` seconds is given up and its connection closed: a network that swallows
packets must not hold a worker longer than its lease. The server is told to cancel it, too. Large
calls have longer, see :mod:`windlass.store.postgres.patient`.
"""

import asyncio
import os
import select
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from windlass import guard
from windlass.errors import StoreError
from windlass.store.postgres.addresses import with_addresses
from windlass.store.postgres.naming import settle_in
from windlass.store.postgres.patient import (
    PatientAsyncConnection,
    PatientConnection,
    Silence,
    agive_up,
    discard,
    give_up,
    is_own,
    is_working,
)
from windlass.store.postgres.sqlstates import SQLSTATES
from windlass.store.postgres.target import Target
from windlass.store.queries import load_queries

C = TypeVar("C", bound=psycopg.AsyncConnection[Any])

LOOP_CONNECTIONS = 8
WORKER_CONNECTIONS: Mapping[str, int] = {
    "calls": LOOP_CONNECTIONS,
    "renewals": 1,
    "wake-ups": 1,
}
"""The most that a worker process holds at once, besides those of handlers that use the store."""

_MAX_IDLE = 4
_HALF_OPEN = 1.0  # seconds for a connection to open that nobody waits for any more
_OFTEN = 5  # statements that a caller repeats are prepared after so many times
_SQL = load_queries("postgres")


class _Idle(list[PatientConnection]):
    """The connections that nobody uses, and the process that opened them."""

    def __init__(self) -> None:
        super().__init__()
        self.pid = os.getpid()

    def take_all(self) -> list[PatientConnection]:
        taken = list(self)
        self.clear()
        return taken

    def close(self) -> None:
        """Close them, but for those of a parent, whose sockets they are."""
        if self.pid == os.getpid():
            for conn in self.take_all():
                conn.close()


class SyncPool:
    """Connections of the blocking face: as many as threads call at once.

    A program that drops its application without closing it leaves none of them open: they go with
    the pool. So do those of a thread that called once more while the application was closed.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._idle = _Idle()
        self._inherited: list[PatientConnection] = []
        weakref.finalize(self, self._idle.close).atexit = False
        _living.add(self)

    @property
    def schema(self) -> str:
        """The schema that its connections are about."""
        return self._target.schema

    @contextmanager
    def connection(self, within: float | None = None) -> Iterator[PatientConnection]:
        """Lend a connection in autocommit mode; one that may be broken is not taken back.

        `within` is for pools that are used up, as this one never is: seconds to wait.
        """
        conn = self._take() or self._open()
        try:
            yield conn
        except BaseException as error:
            if _is_unharmed(conn, error):
                self._take_back(conn)
            else:
                give_up(conn)
            raise
        self._take_back(conn)

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            idle = self._idle.take_all()
        for conn in idle:
            conn.close()

    def begin_anew(self) -> None:
        """In a process just forked off: another thread of the parent's may have had the lock.

        The sockets are the parent's: even closing them would speak on its behalf. So they are
        kept, unused, for as long as this process lives.
        """
        self._lock = threading.Lock()
        self._inherited, self._idle.pid = self._idle.take_all(), os.getpid()

    def _take_back(self, conn: PatientConnection) -> None:
        with self._lock:
            if not conn.closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(conn)
                return
        conn.close()

    def _take(self) -> PatientConnection | None:
        with self._lock:
            while self._idle:
                conn = self._idle.pop()
                if is_silent(conn):
                    return conn
                discard(conn)
        return None

    def _open(self) -> PatientConnection:
        guard.check(self._target.place)
        conn = PatientConnection.connect(
            self._target.conninfo, autocommit=True, prepare_threshold=None
        )
        conn.stall, conn.process = self._target.stall, os.getpid()
        settle_in(conn, self._target.schema)
        try:
            with _first_answer():
                _equip(conn, self._target, conn.execute(_SQL["new_session"]).fetchone())
        except BaseException:
            discard(conn)
            raise
        return conn


_living: "weakref.WeakSet[SyncPool]" = weakref.WeakSet()


def _in_child() -> None:
    for pool in list(_living):
        pool.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class AsyncPool:
    """Connections of the asynchronous face: at most ``size`` for each loop in use."""

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._size = size
        self._pid = os.getpid()
        self._shelves: dict[asyncio.AbstractEventLoop, _Shelf] = {}
        self._inherited: dict[asyncio.AbstractEventLoop, _Shelf] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def connection(
        self, within: float | None = None
    ) -> AsyncIterator[PatientAsyncConnection]:
        """As in the other pool; here each call is short, so nobody waits for long."""
        shelf = self._own()
        async with shelf.free:
            conn = shelf.take() or await self._open()
            try:
                yield conn
            except BaseException as error:
                if _is_unharmed(conn, error):
                    shelf.idle.append(conn)
                else:
                    self._give_up(conn)
                raise
            if not conn.closed:
                shelf.idle.append(conn)

    async def close(self) -> None:
        """Close what is idle, on every loop."""
        while conn := self._own().take():
            await conn.close()
        if self._leaving:
            loop = asyncio.get_running_loop()
            await asyncio.gather(*[task for task in self._leaving if task.get_loop() is loop])
        for shelf in list(self._shelves.values()):
            shelf.empty()

    def _give_up(self, conn: PatientAsyncConnection) -> None:
        """As :func:`give_up`, and nobody waits for it: they may have been canceled."""
        if not is_working(conn):
            discard(conn)
            return
        task = asyncio.get_running_loop().create_task(agive_up(conn), name="windlass-give-up")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _own(self) -> "_Shelf":
        """What this loop has; that of loops which are gone is forgotten."""
        if self._pid != os.getpid():
            # As in the other pool: not even closing them is for us.
            self._pid = os.getpid()
            self._inherited, self._shelves = self._shelves, {}
        loop = asyncio.get_running_loop()
        shelf = self._shelves.get(loop)
        if shelf is None:
            for other in [known for known in list(self._shelves) if known.is_closed()]:
                self._shelves.pop(other, _Shelf(0)).empty()
            shelf = self._shelves[loop] = _Shelf(self._size)
        return shelf

    async def _open(self) -> PatientAsyncConnection:
        guard.check(self._target.place)
        conninfo = await with_addresses(self._target.conninfo)
        conn = await whole(
            PatientAsyncConnection.connect(conninfo, autocommit=True, prepare_threshold=None)
        )
        conn.stall, conn.process = self._target.stall, os.getpid()
        settle_in(conn, self._target.schema)
        try:
            with _first_answer():
                cursor = await conn.execute(_SQL["new_session"])
                _equip(conn, self._target, await cursor.fetchone())
        except BaseException:  # whoever waited for it may have been canceled
            discard(conn)
            raise
        return conn


class _Shelf:
    """The connections of one loop: no other can use them."""

    def __init__(self, size: int) -> None:
        self.free = asyncio.Semaphore(size)
        self.idle: list[PatientAsyncConnection] = []

    def take(self) -> PatientAsyncConnection | None:
        """One that is idle and open; from any thread."""
        while self.idle:
            conn = self.idle.pop()
            if is_silent(conn):
                return conn
            discard(conn)
        return None

    def empty(self) -> None:
        """Drop what is idle."""
        while conn := self.take():
            discard(conn)


@contextmanager
def _first_answer() -> Iterator[None]:
    """Say what it may mean that a new connection was accepted and then nobody answered on it."""
    try:
        yield
    except Silence as silence:
        needed = sum(WORKER_CONNECTIONS.values())
        raise Silence(
            f"a connection was accepted, but {silence}; a pooler in session mode needs {needed} "
            "connections to the server for each worker process"
        ) from silence


def _equip(
    conn: PatientConnection | PatientAsyncConnection,
    target: Target,
    session: tuple[object, ...] | None,
) -> None:
    """Make a new connection ready for calls, by what its session says of itself."""
    if conn.info.encoding != "utf-8":
        raise StoreError(
            f"PostgreSQL speaks {conn.info.encoding} here although UTF8 was asked for: let the "
            "pooler pass client_encoding on, or reset it for the role and the database."
        )
    pid, _ = session or (None, None)
    conn.prepares = pid == conn.info.backend_pid if target.prepare is None else target.prepare
    conn.prepare_threshold = _OFTEN if conn.prepares else None
    conn.begins = needs_begin(session)


def needs_begin(session: tuple[object, ...] | None) -> bool:
    """Whether calls must say how their transaction is isolated, by a row of ``new_session``."""
    _, isolation = session or (None, None)
    return isolation != "read committed"


def answered_by(conn: PatientConnection) -> int:
    """The process of the server that answers at this moment."""
    (pid,) = conn.execute(_SQL["server_process"]).fetchone() or (0,)
    return int(str(pid))


def is_pooled(conn: PatientConnection) -> bool:
    """Whether there is a pooler in between.

    A pooler makes up the process id that a client gets when it connects. It has to: otherwise one
    client could cancel a statement of another. Behind a pooler, a statement that we prepared may be
    gone or, worse, be another client's of the same name: so it has to be known before the first is
    used.
    """
    return answered_by(conn) != conn.info.backend_pid


def _is_unharmed(conn: PatientConnection | PatientAsyncConnection, error: BaseException) -> bool:
    """Whether an error says nothing against its connection: one of ours, by its SQLSTATE.

    Of any other that is not known. A server that has become read-only, say, is no longer the one to
    talk to, and the next connection may lead to another. What a caller's transaction raises may
    leave more behind than a rollback undoes: a lock of the session's, say.
    """
    answer = isinstance(error, psycopg.Error) and error.sqlstate in SQLSTATES
    if not answer or conn.closed or not is_own(conn):
        return False
    return conn.info.transaction_status is TransactionStatus.IDLE


def is_silent(conn: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> bool:
    """Whether an idle connection is open and the server has said nothing since its last answer.

    Unasked it says one thing only: farewell (idle_session_timeout, a restart). A call that is sent
    all the same may see a broken connection instead, and does not know whether it was carried out.
    """
    if conn.closed:
        return False
    if not hasattr(select, "poll"):  # Windows
        return not select.select([conn.pgconn.socket], [], [], 0)[0]
    look = select.poll()
    look.register(conn.pgconn.socket, select.POLLIN)
    return not look.poll(0)


async def whole(connect: Coroutine[Any, Any, C]) -> C:
    """Open a connection; whoever is canceled meanwhile leaves none behind that is half open.

    It lives as long as somebody keeps the error, and the server waits for its password: a minute
    in which nobody can drop a database. So it is let open, for a moment, and closed then.
    """
    opening = asyncio.ensure_future(connect)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # By a callback: whoever is canceled a second time does not come back here.
        opening.add_done_callback(_close_unwanted)
        try:
            await asyncio.wait({opening}, timeout=_HALF_OPEN)
        finally:
            opening.cancel()
        raise


def _close_unwanted(opening: "asyncio.Future[Any]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().pgconn.finish()
