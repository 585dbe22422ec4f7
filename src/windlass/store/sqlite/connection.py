"""Opens the file and runs transactions on it.

Every write transaction is ``begin immediate``, here and nowhere else: one that first reads and
then writes would be refused at once, without waiting, when another has committed in between. A
call that needs only one statement has no transaction around it.
Waiting for the lock is ours, not SQLite's: short random pauses until a generous deadline, so
that no "database is locked" reaches a user. The log is flushed at each commit
(``synchronous=full``) and there is no switch for less; files are never mapped into memory.
Nothing is acknowledged, and nothing answered, from a file that is no longer under its name
(:mod:`.custody`).
"""

import concurrent.futures.thread  # noqa: F401 - its hook at forks must run after ours, see below
import contextlib
import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

import apsw

from windlass.errors import SchemaMismatch, StoreError, StoreUnavailable
from windlass.sources import Sources
from windlass.store.callers_transaction import Parameters, ended_by_itself, forked
from windlass.store.sqlite import database_errors, migrate
from windlass.store.sqlite.custody import (
    Custody,
    Loss,
    OpenFiles,
    await_whole_log,
    gone,
    has_moved,
)
from windlass.store.sqlite.files import name_of
from windlass.store.sqlite.forks import gate
from windlass.store.sqlite.open_transaction import AtOnce, OpenTransaction, Row, StoreClock, queries
from windlass.store.sqlite.sharing import keep_sqlite3_out

T = TypeVar("T")

BUSY_SECONDS = 30.0
_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.02


class Connection:
    """One connection to the file, opened when first used; used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        sources: Sources,
        clock: StoreClock,
        busy_seconds: float = BUSY_SECONDS,
        schema: migrate.Schema | None = None,
        custody: Custody | None = None,
    ) -> None:
        self.path = path
        self._sources = sources
        self._clock = clock
        self._schema = schema or migrate.Schema()
        self._custody = custody or Custody(path)
        self._files: OpenFiles | None = None  # what is open
        self._busy_seconds = busy_seconds
        self._lock = threading.Lock()
        self._open: apsw.Connection | None = None
        self._current = False  # whether the schema was seen to be ours
        self._forked = False  # it was open when this process was forked off, and is another's
        _living[id(self)] = self

    def write(
        self,
        body: Callable[[OpenTransaction], T],
        at_once: AtOnce[T] | None = None,
    ) -> T:
        """Run one write transaction, or one statement if that is enough (:meth:`at_once`)."""
        with gate, self._lock:
            # Both ends inside: whoever presses Ctrl-C at one of them leaves no lock behind.
            try:
                done = None if at_once is None else self._at_once(at_once)
                if done is not None:
                    return done
                self._begin()
                result = body(self.transaction())
                self.commit()
            except BaseException as error:  # noqa: BLE001 - raised again, as the caller's error
                self.fail(error)
            return result

    def read(self, body: Callable[[OpenTransaction], T]) -> T:
        """Run reads on one snapshot, which is let go before this returns."""
        with gate, self._lock:
            result, lost = self._read_handle(body)
            if lost is not None:
                self._part()
                result, lost = self._read_handle(body)  # of what is under the name now
            if lost is not None:
                self._part()
                raise gone(lost, committed=False)
            return result

    def migrate(self) -> tuple[int, int]:
        """Bring the schema up to date; return the versions before and after."""
        with gate, self._lock:
            if self._current:
                self._drop()  # no triggers of ours while tables are changed
            connection = self._connected()
            return self._patiently(lambda: migrate.migrate(connection, self._clock.now()))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with gate, self._lock:
            self._drop()

    def retire(self) -> None:
        """Close the file unless it is being used; the next use opens it again."""
        # Before a fork nobody enters. But who was inside for longer than the fork's patience, or
        # is at home in this thread, may be using it: with the lock, or in a transaction.
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._open is not None and not self._open.in_transaction:
                self._custody.leave(self._open, self._files)
                self._open.close(True)
                self._open, self._current = None, False
        except apsw.Error:
            return  # busy in another thread, and the child is told that it is open
        except BaseException:
            self._open, self._current = None, False  # Ctrl-C, and nobody else has it
            raise
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """In a process just forked off: let nobody use, or even close, what the parent has open.

        One reference too many, on purpose: at exit Python would close whatever it can reach, and
        the end of a transaction that is the parent's would be written into memory that they share.
        """
        if self._open is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._open))
            self._open, self._forked = None, True
            gate.lose(self.path)

    def at_once(self, body: AtOnce[T]) -> T | None:
        """Run what writes by one statement at most, and so needs no transaction around it.

        The file's lock is held while SQLite runs that statement, and not while this thread waits
        for Python's. ``body`` returns None if it needs a transaction after all: it has written
        nothing then. Otherwise it returns a function that reads the answer. That one may be
        repeated, because the file may be busy; what is written by then is not written again.
        Not for callers that hold the write lock.
        """
        with self._lock:
            return self._at_once(body)

    # The parts of a write, for the writer thread, which puts several calls into one.

    def begin(self) -> None:
        """Take the write lock."""
        with self._lock:
            self._begin()

    def try_begin(self) -> bool:
        """Take the write lock if it is free at this moment."""
        with self._lock, self.explained():
            try:
                self._present().execute(queries()["begin_write"])
            except database_errors.BUSY:
                return False
            return True

    def execute(self, sql: str, parameters: Parameters) -> list[Row]:
        """Run a statement that is not ours in the open transaction, which it may not end."""
        connection = self._handle()
        connection.authorizer = _refuse_ends
        try:
            # Not from the cache: the authorizer is asked when a statement is prepared.
            with self.explained():
                return connection.execute(sql, parameters, can_cache=False).fetchall()
        except StoreError as error:
            if isinstance(error.__cause__, apsw.AuthError):
                raise ended_by_itself() from error
            raise
        finally:
            connection.authorizer = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise SQLite's errors as the caller is to be told of them."""
        try:
            yield
        except apsw.Error as error:
            raise self.explain(error) from error

    def check_open(self) -> None:
        """Refuse to go on where SQLite has given up the transaction, as it does on some errors."""
        self._refuse_forked()
        if not self.in_transaction:
            raise StoreError(f"The transaction in {self.path} was rolled back after an error.")

    def transaction(self) -> OpenTransaction:
        """Return the open transaction, at the present instant."""
        return OpenTransaction(self._handle(), self._clock)

    def commit(self) -> None:
        """Make the transaction durable; on an error nothing of it is.

        Unless the file was moved away at this very moment: then StoreUnavailable says so.
        """
        connection = self._handle()
        self._patiently(lambda: connection.execute(queries()["commit"]))
        self._check_committed()

    def undo(self, error: BaseException) -> BaseException:
        """Roll back what is open; return the error as the caller is to be told of it."""
        told = self.explain(error)  # while the files are those that it happened to
        connection = self._open
        if connection is not None and connection.in_transaction:
            try:
                connection.execute(queries()["rollback"])
            except apsw.Error:
                self._drop()
        if isinstance(error, database_errors.FATAL):
            self._drop()
        return told

    def explain(self, error: BaseException) -> BaseException:
        """Return the error as the caller is to be told of it."""
        if isinstance(error, UnicodeDecodeError):  # whatever we write as text is UTF-8
            error = database_errors.damaged(f"text that cannot be read: {error.reason}")
        if isinstance(error, apsw.Error):
            told = self._outgrown(error) or self._misplaced(error)
            told = told or database_errors.translate(error, str(self.path))
            told.__cause__ = error
            return told
        return error

    def _outgrown(self, error: apsw.Error) -> StoreError | None:
        """A statement that no longer fits: a newer program may have changed the schema."""
        if not isinstance(error, apsw.SQLError) or self._open is None:
            return None
        found, ours = migrate.version_of(self._open), migrate.migrations()[-1].version
        return SchemaMismatch(found, ours) if found > ours else None

    def _misplaced(self, error: apsw.Error) -> StoreError | None:
        """An error that comes from using files that are no longer the store's."""
        lost = self._lost() if isinstance(error, database_errors.FATAL) else None
        return None if lost is None else gone(lost, committed=False)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open: SQLite itself gives one up on some errors."""
        return self._open is not None and self._open.in_transaction

    def fail(self, error: BaseException) -> NoReturn:
        """Roll back what is open and raise the error as the caller is to be told of it."""
        raise self.undo(error)

    def _at_once(self, body: AtOnce[T]) -> T | None:
        connection = self._present()
        answer = self._patiently(lambda: body(OpenTransaction(connection, self._clock)))
        if answer is None:
            return None
        self._check_committed()
        try:
            return self._patiently(answer)
        except UnicodeDecodeError as error:
            self.fail(error)  # damage, and not for the caller to try again in another way

    def _begin(self) -> None:
        connection = self._present()
        self._patiently(lambda: connection.execute(queries()["begin_write"]))

    def _present(self) -> apsw.Connection:
        """Return a connection to what is under the file's name now, its schema up to date."""
        if self._open is not None and self._lost() is not None:
            self._part()
        return self._handle()

    def _handle(self) -> apsw.Connection:
        """Return the open connection, its schema up to date."""
        connection = self._connected()
        if not self._current:
            self._patiently(lambda: self._schema.ensure(connection, self._clock.now()))
            self._patiently(lambda: self._custody.learn(connection))
            self._patiently(lambda: connection.execute(queries()["arm"]))
            self._current = True
        return connection

    def _check_committed(self) -> None:
        """Refuse to acknowledge what was written to files that are no longer the store's."""
        lost = self._lost()
        if lost is not None:
            self._part()
            raise gone(lost, committed=True)

    def _lost(self) -> Loss | None:
        """What has become of the files that are, or were just, open, if anything has."""
        return None if self._files is None else self._files.lost()

    def _part(self) -> None:
        """Close what is no longer the store, also where others of this process have it open."""
        for other in _all():
            if other is not self and other.path == self.path:
                other.retire()
        self._drop()

    def _connected(self) -> apsw.Connection:
        self._refuse_forked()
        if self._open is None:
            with gate.using(self.path):
                self._open = self._connect()
        return self._open

    def _refuse_forked(self) -> None:
        if self._forked:
            gate.refuse_lost(self.path)
            raise forked()

    def _connect(self) -> apsw.Connection:
        database_errors.check_version(apsw.sqlite_lib_version())
        keep_sqlite3_out(_open_files)
        self._custody.prepare()
        await_whole_log(self.path)
        flags = apsw.SQLITE_OPEN_READWRITE
        try:
            connection = apsw.Connection(name_of(self.path), flags=flags, statementcachesize=256)
        except apsw.Error as error:
            raise database_errors.translate(error, str(self.path)) from error
        try:
            self._patiently(lambda: self._custody.recognise(connection))
            self._patiently(lambda: configure(connection, str(self.path)))
            self._patiently(lambda: migrate.version_of(connection))  # now it has its log open
            self._files = OpenFiles(self.path)
            if has_moved(connection):
                raise StoreUnavailable(f"{self.path} was moved while it was opened: try again.")
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _read_handle(self, body: Callable[[OpenTransaction], T]) -> tuple[T, Loss | None]:
        connection = self._handle()
        try:
            result = self._patiently(lambda: self._read_once(connection, body))
        except UnicodeDecodeError as error:
            raise self.explain(error) from error
        return result, self._lost()

    def _read_once(self, connection: apsw.Connection, body: Callable[[OpenTransaction], T]) -> T:
        try:
            connection.execute(queries()["begin_read"])
            result = body(OpenTransaction(connection, self._clock))
            if connection.in_transaction:
                connection.execute(queries()["commit"])
        except BaseException:
            if connection.in_transaction:
                connection.execute(queries()["rollback"])
            raise
        return result

    def _patiently(self, action: Callable[[], T]) -> T:
        """Do something that may find the file locked: repeat it until the deadline."""
        deadline = None
        pause = _FIRST_PAUSE
        while True:
            try:
                return action()
            except database_errors.BUSY as error:
                now = time.monotonic()  # whoever holds the lock does not share a test's clock
                if deadline is None:
                    deadline = now + self._busy_seconds
                elif now >= deadline:
                    self.fail(error)
            except apsw.Error as error:
                self.fail(error)
            time.sleep(pause * (0.5 + self._sources.jitter()))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _drop(self) -> None:
        self._current = False
        if self._open is not None:
            # It counts as open until it is closed: a fork may have lost its patience.
            try:
                with contextlib.suppress(apsw.Error):
                    self._custody.leave(self._open, self._files)
                    self._open.close(True)
            finally:
                self._open = self._files = None


def _before_fork() -> None:
    gate.shut()
    for connection in _all():
        connection.retire()


def _in_child() -> None:
    gate.renew()
    for connection in _all():
        connection.abandon()


def _all() -> list[Connection]:
    """What lives; other threads may be adding to it."""
    return [found for found in (ref() for ref in _living.valuerefs()) if found is not None]


_living: "weakref.WeakValueDictionary[int, Connection]" = weakref.WeakValueDictionary()


def _open_files() -> list[Path]:
    """The files that this process has open at the moment."""
    return [each.path for each in _all() if each._open is not None]


if hasattr(os, "register_at_fork"):
    # The last to register is the first to run before a fork. The standard library's executors take
    # nothing on between their hook and the fork, and would not let a transaction on a loop end.
    os.register_at_fork(before=_before_fork, after_in_parent=gate.reopen, after_in_child=_in_child)


def configure(connection: apsw.Connection, path: str) -> None:
    """Set what each connection needs; the journal's mode stays in the file."""
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # Plans must not depend on the values bound: otherwise SQLite prepares a statement anew at
    # each use, which took ten times as long as running it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    mode = connection.pragma("journal_mode")
    if mode != "wal":
        mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise StoreError(f"{path} cannot use a write-ahead log: choose a file on a local disk.")
    # Some of these answer with a row, and what follows such a one runs only when it is fetched.
    connection.execute(queries()["settings"]).fetchall()


def _refuse_ends(operation: int, *_: str | None) -> int:
    """Let a caller's statement do anything but end the transaction that it is in."""
    ends = operation == apsw.SQLITE_TRANSACTION
    return apsw.SQLITE_DENY if ends else apsw.SQLITE_OK
