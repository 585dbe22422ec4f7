"""What can be wrong with a file, its disk and the SQLite that reads it.

The file is looked at through a connection that cannot write: a checkup makes no file, changes no
schema and mends nothing.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from windlass.domain.checkup import Finding, Limits, error, fine, note, warning
from windlass.store.checks import Check, Needs
from windlass.store.room import judge_room
from windlass.store.sqlite import database_errors
from windlass.store.sqlite.files import REMOTE, filesystem_of, mounts
from windlass.store.sqlite.holder import look_at_lock
from windlass.store.sqlite.integrity import look_fully, look_quickly, reading
from windlass.store.sqlite.open_transaction import OpenTransaction, queries
from windlass.store.sqlite.two_libraries import look_at_sharing

T = TypeVar("T")

_FULL = 2
_OTHERS = 0o077


Read = Callable[[Callable[[OpenTransaction], Finding]], Finding]
"""Reads through a connection that the store has open."""


def checks(path: Path, read: Read, *, full: bool) -> Sequence[Check]:
    """All of them, in the order of the report."""
    return [
        Check(name="sqlite", look=lambda _: [judge_version(version())], needs=Needs.NOTHING),
        Check(name="file", look=lambda _: _file(path), needs=Needs.NOTHING, gives=Needs.STORE),
        Check(name="disk", look=lambda limits: _disk(path, limits), needs=Needs.NOTHING),
        Check(name="log", look=lambda limits: _log(path, limits), needs=Needs.STORE),
        Check(name="lock", look=lambda _: look_at_lock(path), needs=Needs.NOTHING),
        Check(name="sharing", look=lambda _: look_at_sharing(path), needs=Needs.STORE),
        _pages(path, full=full),
        Check(name="durability", look=lambda _: [read(_durability)]),
    ]


def _pages(path: Path, *, full: bool) -> Check:
    if full:
        return Check(name="pages", look=lambda _: look_fully(path), needs=Needs.STORE, patient=True)
    return Check(name="pages", look=lambda limits: look_quickly(path, limits), needs=Needs.STORE)


def version() -> str:
    """Of the SQLite that we use."""
    return apsw.sqlite_lib_version()


def judge_version(found: str) -> Finding:
    """Whether an SQLite can be trusted."""
    major, minor, patch = (*(int(part) for part in found.split(".")), 0, 0)[:3]
    if database_errors.loses_commits((major, minor, patch)):
        text = f"SQLite {found} may lose what it has committed (its WAL-reset bug)."
        return error(text, "Install apsw 3.51.3 or later.")
    return fine(f"SQLite is {found}, without the WAL-reset bug.")


def judge_filesystem(path: Path, table: str) -> Finding:
    """Whether the file is on a disk of this machine, by a table as in /proc/mounts."""
    kind = filesystem_of(path, table)
    if kind in REMOTE:
        return error(
            f"{path} is on a network disk ({kind}), where processes would damage it.",
            "Move it to a local disk, or use PostgreSQL.",
        )
    if not kind:
        return note(f"It cannot be told which file system {path} is on.", "Use a local disk.")
    return fine(f"{path} is on a local disk ({kind}).")


def _file(path: Path) -> Iterator[Finding]:
    if not path.exists():
        advice = "Name another by --url; it is made when a worker starts or something is enqueued."
        yield error(f"There is no file {path}.", advice)
        return
    yield judge_filesystem(path, mounts())
    mode = path.stat().st_mode & 0o777
    if mode & _OTHERS:
        text = f"Others than its owner may read or write {path} ({mode:o})."
        yield note(text, f"Unless that is wanted: chmod 600 {path}")


def _disk(path: Path, limits: Limits) -> Iterator[Finding]:
    folder = path.parent
    if folder.exists():
        yield judge_room(shutil.disk_usage(folder).free, str(folder), limits)


def _log(path: Path, limits: Limits) -> Iterator[Finding]:
    mode = _journal_mode(path)
    if mode != "wal":
        yield warning(
            f"The journal of {path} is in mode {mode}: somebody changed it, or has just made it.",
            "Let nobody else set it; the next worker that opens the file sets it to wal again.",
        )
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > limits.log_bytes:
        yield warning(
            f"The write-ahead log has {size / 1024**2:,.0f} MiB: some process keeps a read "
            "transaction open, and it cannot be emptied.",
            "Find the process that has the file open (lsof), and let it end its transaction.",
        )
    elif mode == "wal":
        yield fine(f"The write-ahead log has {size / 1024**2:,.1f} MiB.")


def _journal_mode(path: Path) -> str:
    with reading(path) as connection:
        return str(connection.execute(queries()["journal_mode"]).get)


def _durability(tx: OpenTransaction) -> Finding:
    """As it is on a connection of ours: what is set there is not in the file."""
    (synchronous,) = tx.fetch_one("synchronous") or (0,)
    (mapped,) = tx.fetch_one("mmap_size") or (0,)
    return judge_settings(synchronous, mapped)


def judge_settings(synchronous: int, mapped: int) -> Finding:
    """Whether a connection flushes each commit, and maps nothing into memory."""
    if synchronous < _FULL:
        text = f"synchronous is {synchronous}: a power cut loses what was acknowledged."
        return error(text, "Something has changed Windlass' settings of SQLite: find out what.")
    if mapped:
        text = f"{mapped:,} bytes of the file are mapped into memory."
        return warning(text, "Something has changed Windlass' settings of SQLite: find out what.")
    return fine("Each commit is flushed to the disk (synchronous=full).")
