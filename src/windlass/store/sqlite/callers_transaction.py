"""A transaction of the caller's in the file: ``with app.transaction() as tx``.

It is the store's own SQLite that writes: two copies of SQLite in one process, Python's module
``sqlite3`` beside ours, would each drop the other's locks on the file whenever they close it. So
the caller's statements go through ``tx.execute``, on a connection that is lent for as long as the
transaction lasts.

The transaction has the file's write lock from its first moment. Another write of the same task or
thread would wait for a lock that it holds itself, and is refused with a word on what to do. So is
a blocking one on a thread whose loop has another task in a transaction: that could never end. Async
code waits for the lock on the loop and does the rest in one thread, which is enough: whoever has
the lock is the only one.

It counts as inside SQLite for as long as it lasts: a fork elsewhere in the process waits for its
end (:mod:`.forks`).

A task that is canceled, however often, leaves its transaction only when that has ended: the lock
is nobody's then. Canceled while the thread commits, it hears of that once the commit is done.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from windlass.domain.run import Finish, Held, NewRun, ProgressWrite
from windlass.domain.step import Step, StepWrite
from windlass.errors import BadOption, LeaseLost, StoreUnavailable, UsageError
from windlass.store.callers_transaction import Joined, Parameters, Rows, over
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.enqueue import enqueue
from windlass.store.sqlite.finish import join_finish
from windlass.store.sqlite.forks import Stay, gate
from windlass.store.sqlite.runs import get_runs
from windlass.store.sqlite.steps import join_step

P = ParamSpec("P")
T = TypeVar("T")

_PAUSE = 0.002
_MOST_IDLE = 4


class SqliteTransaction:
    """One open transaction, in blocking code. Placeholders are SQLite's: ``?``, ``:name``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stay = Stay(gate)
        self._actions: list[Callable[[], None]] = []
        self._lost: LeaseLost | None = None
        self.path = connection.path
        self.over = False

    def execute(self, sql: str, parameters: Parameters = ()) -> Rows:
        """Run a statement on tables of your own; return its rows."""
        self._check()
        return self._connection.execute(sql, parameters)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is done inside if it raises, and nothing else."""
        self._check()
        with self._connection.explained(), self._connection.transaction().savepoint():
            yield

    def after_commit(self, action: Callable[[], None]) -> None:
        """Do something when, and only if, the transaction has been committed."""
        self._actions.append(action)

    def enqueue(self, runs: Sequence[NewRun]) -> Joined:
        """Enqueue runs, all or none; what was done before stands if they are refused."""
        with self.savepoint():
            tx = self._connection.transaction()
            answers = enqueue(tx, runs)
            known = [answer.id for answer in answers if not answer.created]
            return Joined(answers, get_runs(tx, runs[0].tenant, known) if known else ())

    def step(self, held: Held, path: str, write: StepWrite | None) -> Step | None:
        """Look for a step, or record it. If the lease is lost, nothing here is committed."""
        self._check()
        with self._connection.explained():
            try:
                return join_step(self._connection.transaction(), held, path, write)
            except LeaseLost as error:
                self._lost = error
                raise

    def finish(self, end: Finish, told: ProgressWrite | None) -> None:
        """Record the end of an attempt. If the lease is lost, nothing here is committed."""
        self._check()
        with self._connection.explained():
            try:
                join_finish(self._connection.transaction(), end, told)
            except LeaseLost as error:
                self._lost = error
                raise

    def begin(self) -> None:
        """Wait for the write lock."""
        with gate:
            self._connection.begin()
            self._stay.begin()

    def try_begin(self) -> bool:
        """Take the write lock if it is free at this moment."""
        with gate:
            if not self._connection.try_begin():
                return False
            self._stay.begin()
            return True

    def end(self, error: BaseException | None) -> None:
        """Commit, or undo everything after an error; raises what the commit does."""
        self.over = True
        lost = self._lost if error is None else None
        why = error or lost
        try:
            if why is None:
                self._connection.check_open()
                self._connection.commit()
            else:
                self._connection.undo(why)
        finally:
            self._stay.end()
        if lost is not None:
            raise lost  # though somebody has caught it

    def committed(self) -> None:
        """Do what was to be done then."""
        for action in self._actions:
            action()

    def _check(self) -> None:
        if self.over:
            raise over()
        self._connection.check_open()


class AsyncSqliteTransaction:
    """The asynchronous twin: the same, in a thread."""

    def __init__(self, blocking: SqliteTransaction, owner: "Transactions") -> None:
        self._blocking = blocking
        self._call, self._see_through = owner.call, owner.see_through
        self._actions: list[Callable[[], Awaitable[None]]] = []
        self.path = blocking.path

    async def execute(self, sql: str, parameters: Parameters = ()) -> Rows:
        """Run a statement on tables of your own; return its rows."""
        return await self._call(self._blocking.execute, sql, parameters)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Undo what is done inside if it raises, and nothing else."""
        savepoint = self._blocking.savepoint()
        try:
            await self._see_through(savepoint.__enter__)
            yield
        except BaseException as error:
            await self._see_through(_leave, savepoint, error)
            raise
        await self._see_through(savepoint.__exit__, None, None, None)

    def after_commit(self, action: Callable[[], Awaitable[None]]) -> None:
        """Do something when, and only if, the transaction has been committed."""
        self._actions.append(action)

    async def enqueue(self, runs: Sequence[NewRun]) -> Joined:
        """Enqueue runs, all or none; what was done before stands if they are refused."""
        return await self._call(self._blocking.enqueue, runs)

    async def step(self, held: Held, path: str, write: StepWrite | None) -> Step | None:
        """Look for a step, or record it. If the lease is lost, nothing here is committed."""
        return await self._call(self._blocking.step, held, path, write)

    async def finish(self, end: Finish, told: ProgressWrite | None) -> None:
        """Record the end of an attempt. If the lease is lost, nothing here is committed."""
        await self._call(self._blocking.finish, end, told)

    async def committed(self) -> None:
        """Do what was to be done then."""
        for action in self._actions:
            await action()


def _abandon(connection: Connection, tx: SqliteTransaction, error: BaseException) -> None:
    tx.end(error)
    connection.close()


def _enter(tx: SqliteTransaction) -> None:
    _open.set((*[other for other in _open.get() if not other.over], tx))


def _leave(savepoint: AbstractContextManager[None], error: BaseException) -> None:
    # It raises the error again, here in the thread; the caller does so where it belongs.
    try:
        savepoint.__exit__(type(error), error, error.__traceback__)
    except type(error) as same:
        if same is not error:
            raise


class Transactions:
    """Begins and ends transactions; what it has open belongs to one process."""

    def __init__(
        self, path: Path, connection: Callable[[], Connection], busy_seconds: float
    ) -> None:
        self._path = path
        self._connection = connection
        self._busy_seconds = busy_seconds
        self._idle: list[Connection] = []
        self._thread: ThreadPoolExecutor | None = None

    @contextmanager
    def begin(self) -> Iterator[SqliteTransaction]:
        """Open a transaction; it is committed at the end, rolled back if anything is raised."""
        self.refuse_inside("begin another transaction", "tx.savepoint() undoes a part of one")
        self.refuse_blocking()
        connection = self._take()
        tx = SqliteTransaction(connection)
        try:
            tx.begin()
            _enter(tx)
            with _held(self._path):
                yield tx
        except BaseException as error:
            self._end(connection, tx, error)
            raise
        self._end(connection, tx, None)
        tx.committed()

    @asynccontextmanager
    async def abegin(self) -> AsyncIterator[AsyncSqliteTransaction]:
        """As :meth:`begin`, on the loop."""
        self.refuse_inside("begin another transaction", "tx.savepoint() undoes a part of one")
        connection = self._take()
        tx = SqliteTransaction(connection)
        try:
            await self._lock(tx)
        except BaseException as error:
            # Who was canceled does not see whether the thread got the lock after all.
            self._executor().submit(_abandon, connection, tx, error)
            raise
        _enter(tx)
        atx = AsyncSqliteTransaction(tx, self)
        try:
            with _held(self._path):
                yield atx
        except BaseException as error:
            await self.see_through(self._end, connection, tx, error)
            raise
        try:
            await self.see_through(self._end, connection, tx, None)
        except asyncio.CancelledError:
            await atx.committed()  # it is
            raise
        await atx.committed()

    @property
    def around(self) -> bool:
        """Whether one is open around the running code."""
        return any(not tx.over and tx.path == self._path for tx in _open.get())

    def refuse_inside(self, what: str, instead: str) -> None:
        """Refuse what would wait for a lock that this very task or thread holds."""
        if self.around:
            raise UsageError(f"Inside app.transaction() it is not possible to {what}: {instead}.")

    def refuse_blocking(self) -> None:
        """Refuse to wait on this thread for a lock that cannot be let go without it."""
        here = threading.get_ident()
        if any(hold.thread == here and hold.path == self._path for hold in list(_holds)):
            raise UsageError(
                "Another task of this thread is inside app.transaction(), and could never leave it "
                "while a blocking call waits for the file: use `await job.aenqueue(...)`, "
                "`async with app.transaction()`, or asyncio.to_thread for what has no async twin."
            )

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something in the thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor(), lambda: function(*args, **kwargs))

    async def see_through(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something in the thread and wait for its end, however often the caller is canceled.

        What has not begun would else be dropped, and what has begun be overtaken. The caller hears
        that it was canceled afterwards, unless there is worse to tell.
        """
        loop = asyncio.get_running_loop()
        doing = loop.run_in_executor(self._executor(), lambda: function(*args, **kwargs))
        canceled: asyncio.CancelledError | None = None
        while not doing.done():
            try:
                await asyncio.wait([doing])
            except asyncio.CancelledError as error:
                canceled = error
        result = doing.result()
        if canceled is not None:
            raise canceled
        return result

    def close(self) -> None:
        """Close what is idle, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()
        while self._idle:
            self._idle.pop().close()

    async def _lock(self, tx: SqliteTransaction) -> None:
        deadline = time.monotonic() + self._busy_seconds
        while not await self._try(tx):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"{self._path} is locked by another process for too long.")
            await asyncio.sleep(_PAUSE)

    async def _try(self, tx: SqliteTransaction) -> bool:
        with _held(self._path):  # the thread may have it before the task hears of that
            return await self.call(tx.try_begin)

    def _end(
        self, connection: Connection, tx: SqliteTransaction, error: BaseException | None
    ) -> None:
        try:
            tx.end(error)
        finally:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    def _take(self) -> Connection:
        return self._idle.pop() if self._idle else self._connection()

    def _executor(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "windlass-sqlite-transaction")
        return self._thread


class _Hold(NamedTuple):
    """The lock of a file that is had, or about to be, by a task of the loop in a thread."""

    path: Path
    thread: int
    key: object


@contextmanager
def _held(path: Path) -> Iterator[None]:
    hold = _Hold(path, threading.get_ident(), object())
    with suppress(RuntimeError):
        asyncio.get_running_loop()  # where there is none, another thread may well end it
        _holds.add(hold)
    try:
        yield
    finally:
        _holds.discard(hold)


_holds: set[_Hold] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_holds.clear)  # the threads are the parent's


_open: ContextVar[tuple[SqliteTransaction, ...]] = ContextVar("windlass_transactions", default=())
"""The transactions that are open around the running code."""


Own = TypeVar("Own", SqliteTransaction, AsyncSqliteTransaction)


def check_joined(connection: object, kind: type[Own], path: Path) -> Own:
    """The transaction that a run is to be enqueued in; raises BadOption where it cannot be."""
    if isinstance(connection, kind):
        if connection.path != path:
            raise BadOption("connection", f"it is in {connection.path}, and the runs are in {path}")
        return connection
    if isinstance(connection, SqliteTransaction):
        raise BadOption("connection", "it was begun by `with`, and blocks: use enqueue")
    if isinstance(connection, AsyncSqliteTransaction):
        raise BadOption("connection", "it was begun by `async with`: use aenqueue")
    name = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise BadOption(
        "connection",
        f"{name} cannot be used with a store in a SQLite file, because two copies of SQLite in one "
        "process drop each other's locks: write `with app.transaction() as tx`, run your own "
        "statements by tx.execute, and give connection=tx",
    )
