"""The store in one SQLite file.

Nothing is opened until first used. The sync face runs on the calling thread and needs no
other; the async face hands writes to one writer thread (:mod:`.writer`) and reads inline, on
a connection of its own, because a read takes microseconds and a thread switch more. Renewals
have a connection of their own as well: on one that they shared with the sync face, a listing that
takes half a minute would cost a worker all of its leases.

Connections belong to one process, and are closed before it forks (:mod:`.forks`); each side then
opens its own. What could not be closed the child leaves alone for ever, and the file with it:
using, or even closing, a connection of the parent's would corrupt the file under it.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from windlass.domain.run import Finish, Held, NewRun, ProgressWrite
from windlass.domain.step import Step, StepWrite
from windlass.errors import StoreFull, StoreUnavailable
from windlass.offloop import off_loop
from windlass.sources import Sources
from windlass.store.blocking import BlockingCalls
from windlass.store.callers_transaction import Joined, TransactionScope
from windlass.store.checks import Check
from windlass.store.interface import Migration, Wakeups
from windlass.store.operations import Access, Call, Operations
from windlass.store.sqlite.backup import backup
from windlass.store.sqlite.ballast import Ballast
from windlass.store.sqlite.callers_transaction import (
    AsyncSqliteTransaction,
    SqliteTransaction,
    Transactions,
    check_joined,
)
from windlass.store.sqlite.checks import checks
from windlass.store.sqlite.connection import BUSY_SECONDS, Connection
from windlass.store.sqlite.custody import Custody
from windlass.store.sqlite.files import parse_path
from windlass.store.sqlite.forks import gate
from windlass.store.sqlite.migrate import Schema, look_at_version
from windlass.store.sqlite.open_transaction import StoreClock
from windlass.store.sqlite.operations import bind
from windlass.store.sqlite.wakeups import Bell
from windlass.store.sqlite.writer import Writer

T = TypeVar("T")


class _Process:
    """What one process has open."""

    def __init__(
        self, connection: Callable[[], Connection], bell: Bell, transactions: Transactions
    ) -> None:
        self.pid = os.getpid()
        self.blocking = connection()  # the sync face: reads and writes
        self.renewing = connection()  # heartbeats, which wait for nothing but the file's lock
        self.reading = connection()  # the loop's own reads
        self.scanning = connection()  # reads that take longer, in a thread
        self.writer = Writer(connection())
        self.bell = bell
        self.transactions = transactions
        self.opened = False  # whether the file was opened and found in order


class SqliteStore:
    """A :class:`windlass.store.interface.Store` in one file, shared by processes of one host."""

    migrates_itself = True
    writes_abreast = 1
    batch = 500  # nobody else writes meanwhile: some ten milliseconds

    def __init__(
        self,
        place: str | Path,
        *,
        sources: Sources | None = None,
        busy_seconds: float = BUSY_SECONDS,
        ballast: int = 0,
    ) -> None:
        self.path = parse_path(place)
        self._sources = sources or Sources.system()
        self.blocking = BlockingCalls(self._sources.clock)
        self._clock = StoreClock(self._sources.clock)
        self._busy_seconds = busy_seconds
        self._custody = Custody(self.path)
        self._ballast = Ballast(self.path, ballast, self._custody.prepare)
        self._schema = Schema()
        self.operations = Operations()
        self._process = self._new_process()

    def admit(self, write: str) -> None:
        """Refuse what would wait for a lock that the caller itself, or nobody, holds."""
        gate.refuse_lost(self.path)
        self._own().transactions.refuse_inside(
            f"write by a transaction of its own ({write})",
            "give connection=tx to what you enqueue, and do the rest before or after",
        )

    def run(self, call: Call[T]) -> T:
        """Run a call on this thread."""
        with self.blocking.watch():
            return self._run(call)

    async def arun(self, call: Call[T]) -> T:
        """Run a call without blocking the loop."""
        ours, access = bind(call), call.operation.access
        own = self._own()
        if access is Access.WRITE:
            self._begin(call)
        if access is Access.WRITE or not (own.opened or own.transactions.around):
            # Opening the file, and making its tables, is for the thread as well. Inside a
            # transaction of the caller both are done, and the thread would wait for its lock.
            try:
                result = await own.writer.submit(ours)
            except StoreFull:
                if not self._make_room(call):
                    raise
                result = await own.writer.submit(ours)
            own.opened = True
            return result
        if access is Access.READ:
            try:
                return own.reading.read(ours.body)
            except StoreUnavailable:
                own.opened = False
                raise
        # With the caller's context: inside a transaction of its own it does not wait for a fork.
        return await off_loop(lambda: own.scanning.read(ours.body), "windlass-sqlite-scan")

    def join(self, connection: object, runs: Sequence[NewRun]) -> Joined:
        """Enqueue in a transaction that :meth:`transaction` began."""
        self._ballast.lay()
        return check_joined(connection, SqliteTransaction, self.path).enqueue(runs)

    async def ajoin(self, connection: object, runs: Sequence[NewRun]) -> Joined:
        """As :meth:`join`, on the loop."""
        self._ballast.lay()
        return await check_joined(connection, AsyncSqliteTransaction, self.path).enqueue(runs)

    def join_step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None:
        """A step in a transaction that :meth:`transaction` began."""
        return check_joined(connection, SqliteTransaction, self.path).step(held, path, write)

    async def ajoin_step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None:
        """As :meth:`join_step`, on the loop."""
        joined = check_joined(connection, AsyncSqliteTransaction, self.path)
        return await joined.step(held, path, write)

    def join_finish(self, connection: object, finish: Finish, told: ProgressWrite | None) -> None:
        """The end of an attempt in a transaction that :meth:`transaction` began."""
        check_joined(connection, SqliteTransaction, self.path).finish(finish, told)

    async def ajoin_finish(
        self, connection: object, finish: Finish, told: ProgressWrite | None
    ) -> None:
        """As :meth:`join_finish`, on the loop."""
        await check_joined(connection, AsyncSqliteTransaction, self.path).finish(finish, told)

    def transaction(self) -> TransactionScope:
        """A transaction on a connection of its own."""
        gate.refuse_lost(self.path)
        own = self._own()
        return TransactionScope(own.transactions.begin, own.transactions.abegin)

    def notify(self) -> None:
        """Hint to workers that something became ready."""
        self._own().bell.ring()

    async def anotify(self) -> None:
        """As :meth:`notify`: it never waits."""
        self._own().bell.ring()

    async def listen(self) -> Wakeups:
        """Start receiving hints."""
        return self._own().bell.listen()

    @property
    def place(self) -> str:
        """The file's URL."""
        return f"sqlite:///{self.path}"

    def checks(self, *, full: bool = False) -> Sequence[Check]:
        """What can be wrong with the file, its disk and the SQLite that reads it."""
        return checks(self.path, self._own().blocking.read, full=full)

    def migrate(self) -> Migration:
        """Bring the schema up to date."""
        return Migration(*self._own().blocking.migrate())

    def outdated(self) -> Sequence[str]:
        """Nothing: there are no functions in a file."""
        return ()

    def schema_version(self) -> tuple[int, int]:
        """The version as found, without making the file, and as needed."""
        return look_at_version(self.path)

    def backup(self, place: Path, *, replace: bool) -> int:
        """Copy one snapshot of the file; writers go on."""
        return backup(self.path, place, self._custody, replace=replace)

    def close(self) -> None:
        """Close what the sync face opened; the next call opens it again."""
        self._own().blocking.close()
        self._own().renewing.close()
        self._own().transactions.close()

    async def aclose(self) -> None:
        """Finish what is queued and close everything."""
        own = self._own()
        await own.writer.close()
        own.blocking.close()
        own.renewing.close()
        own.transactions.close()
        own.reading.close()
        own.scanning.close()
        own.bell.close()
        if self._process is own:  # else another loop has closed it, and somebody begun anew
            self._process = self._new_process()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, call: Call[T]) -> T:
        ours = bind(call)
        own = self._own()
        if call.operation.access is not Access.WRITE:
            return own.blocking.read(ours.body)
        self._begin(call)
        own.transactions.refuse_blocking()
        connection = own.renewing if call.operation.urgent else own.blocking
        try:
            return connection.write(ours.body, ours.at_once)
        except StoreFull:
            if not self._make_room(call):
                raise
        return connection.write(ours.body, ours.at_once)

    def _begin(self, call: Call[T]) -> None:
        """Refuse what cannot go well: new work on a full disk, a wait for a lock of our own."""
        self.admit(call.name)
        if call.operation.new_work:
            self._ballast.lay()

    def _make_room(self, call: Call[T]) -> bool:
        """Let go of the ballast, though not for new work. Nothing of the call was written."""
        return not call.operation.new_work and self._ballast.drop()

    def _new_process(self) -> _Process:
        def connection() -> Connection:
            return Connection(
                self.path,
                self._sources,
                self._clock,
                self._busy_seconds,
                self._schema,
                self._custody,
            )

        transactions = Transactions(self.path, connection, self._busy_seconds)
        return _Process(connection, Bell(self.path, self._sources), transactions)

    def _own(self) -> _Process:
        if self._process.pid != os.getpid():
            # One reference too many, on purpose: the parent's connections must not even be
            # closed here, and at exit Python would do that to whatever it can reach.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._process))
            self._process = self._new_process()
        return self._process
