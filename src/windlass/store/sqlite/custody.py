"""Is what we have open still the store that others find under its name?

A file that is deleted, renamed or replaced stays usable for whoever has it open, and so does its
log. A commit would be durable there, and lost: nobody else ever finds it. SQLite does not look. So
each connection remembers which files it has open (device and inode of the database, of its log and
of the log's index), and compares them with what is under their names:

- before a transaction begins: whatever was open is closed, and what is under the name is opened;
- after a commit, before it is acknowledged; and after a read, before it is answered.

So whatever is acknowledged was in the file under its name at that moment. In between nothing is
looked at: the write lock would be held meanwhile. If the file is moved just then, the caller gets
an error that leaves the outcome open, although the file may have it.

**Coming back.** A process stays with the store that it began with. A store is known by the instant
at which its schema was made, and the process remembers the last page that it has seen there: a
file that is not the same store, or an older copy of it, is refused until the right one is back or
the process is restarted. Otherwise tokens of leases that this process holds could come to life a
second time, and an empty file would be taken for a store without work. Nothing is made anew where
there was a store.

**A log without its index**, or an index without its log, is what is left when somebody removes one
of them under those who have the file open. Whoever opens the file then would write a second log
that the others do not know. So such a file is opened only when nobody else has it open. When the
last one closes it SQLite moves what is in the removed log into the file, and nothing is lost.
"""

import ctypes
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from windlass import guard
from windlass.errors import StoreUnavailable
from windlass.store.sqlite import database_errors
from windlass.store.sqlite.files import COMPANIONS, name_of, prepare_file
from windlass.store.sqlite.open_transaction import queries

LOG, INDEX, _ = COMPANIONS
_PATIENCE = 2.0  # seconds for others to open or close both
_PAUSE = 0.01

_Identity = tuple[int, int] | None


class Loss(NamedTuple):
    """What happened to a file that is open."""

    name: str
    replaced: bool  # there is another under its name
    is_log: bool

    @property
    def what(self) -> str:
        """What happened, as the beginning of a sentence."""
        if self.replaced:
            return f"{self.name} was replaced by another file while it was in use"
        return f"{self.name} was deleted or renamed, or its folder was, while it was in use"


class OpenFiles:
    """The files that one connection has open, by device and inode."""

    __slots__ = ("_found",)

    def __init__(self, path: Path) -> None:
        names = (str(path), f"{path}{LOG}", f"{path}{INDEX}")
        self._found = [(name, _identity(name)) for name in names]

    def lost(self) -> Loss | None:
        """The first of them that is no longer under its name."""
        for name, known in self._found:
            found = _identity(name)
            if found != known:
                return Loss(name, found is not None, name is not self._found[0][0])
        return None


def _identity(name: str) -> _Identity:
    try:
        found = os.stat(name)  # noqa: PTH116 - three of these at each commit, and a path is slow
    except OSError:
        return None
    return found.st_dev, found.st_ino


def has_moved(connection: apsw.Connection) -> bool:
    """Whether SQLite finds another file under the name of the one that it has open."""
    answer = ctypes.c_int(0)
    connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(answer))
    return bool(answer.value)


class Custody:
    """The store that a process began with; all of its connections share this."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made_at: int | None = None
        self._seen = 0

    @property
    def known(self) -> bool:
        """Whether this process has used the store."""
        return self._made_at is not None

    def prepare(self) -> None:
        """Make the file, for its owner alone, where there has never been one."""
        self.require()
        prepare_file(self._path)

    def require(self) -> None:
        """Refuse to go on without the file where there has been one, or with one not for tests."""
        guard.check(f"sqlite:///{self._path}")
        if self.known and not self._path.exists():
            raise StoreUnavailable(
                f"{self._path} is gone: put it back, together with its {LOG} file, or restart "
                "this process to begin with an empty one."
            )

    def recognise(self, connection: apsw.Connection) -> None:
        """Refuse a file that is not the store that this process began with."""
        try:
            made_at = _made_at(connection) if self.known else None
        except apsw.NotADBError:
            made_at = None
        if made_at != self._made_at:
            raise StoreUnavailable(
                f"{self._path} is not the store that this process has used until now: put that "
                "file back, or restart this process to use this one."
            )
        if self.known and _last_page(connection) < self._seen:
            raise StoreUnavailable(
                f"{self._path} is an older copy of the store, without what this process has seen "
                "there: put the newer one back, or restart every process that uses it."
            )

    def learn(self, connection: apsw.Connection) -> None:
        """Remember which store it is."""
        if not self.known:
            self._made_at = _made_at(connection)

    def leave(self, connection: apsw.Connection, files: OpenFiles | None) -> None:
        """Remember how far the store has come, before a connection to it is closed."""
        if self.known and not connection.in_transaction:
            with suppress(apsw.Error):
                self._seen = max(self._seen, _last_page(connection))
        lost = None if files is None else files.lost()
        if lost is not None and lost.is_log and lost.replaced:
            # Another's log is beside the file: ours must not be moved into it on closing.
            with suppress(apsw.Error):
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def _made_at(connection: apsw.Connection) -> int | None:
    if not connection.execute(queries()["has_versions"]).fetchall():
        return None
    found: int | None = connection.execute(queries()["made_at"]).get
    return found


def _last_page(connection: apsw.Connection) -> int:
    return int(connection.execute(queries()["last_page"]).get)


def gone(loss: Loss, *, committed: bool) -> StoreUnavailable:
    """The error of a loss."""
    doubt = "Whether the last change is kept is in doubt" if committed else "Nothing was changed"
    if loss.is_log:
        advice = "Stop every process that has the database open, then start again"
        return StoreUnavailable(f"{loss.what}. {doubt}. {advice}.")
    return StoreUnavailable(f"{loss.what}. {doubt}. Put it back, or restart every process.")


def await_whole_log(path: Path) -> None:
    """Wait until a log has its index, and an index its log; make sure of it if all are gone.

    Raises StoreUnavailable where somebody goes on using a file that has lost one of them.
    """
    deadline = time.monotonic() + _PATIENCE  # whoever opens it does not share a test's clock
    while _half(path) is not None:
        try:
            _clear(path)
        except database_errors.BUSY:
            missing = _half(path)
            if missing is not None and time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"{missing} was removed while {path} was in use, and somebody still has that "
                    "open: stop every process that does (lsof names them), then start again."
                ) from None
            time.sleep(_PAUSE)
        except apsw.Error as error:
            raise database_errors.translate(error, str(path)) from error


def _half(path: Path) -> str | None:
    """The name of the one that is missing; None where both are there, or neither."""
    log, index = f"{path}{LOG}", f"{path}{INDEX}"
    found = [_identity(name) is not None for name in (log, index)]
    if found[0] == found[1] or not path.exists():
        return None
    return index if found[0] else log


def _clear(path: Path) -> None:
    """Remove both if nobody has the file open; raises BusyError otherwise.

    A connection that has the file to itself needs no index, and removes the log when it closes.
    """
    probe = apsw.Connection(name_of(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        probe.pragma("locking_mode", "exclusive")
        probe.execute(queries()["begin_exclusive"])
        with suppress(FileNotFoundError):
            Path(f"{path}{INDEX}").unlink()
        probe.execute(queries()["rollback"])
    finally:
        probe.close(True)
