"""A copy of the file while it is in use.

SQLite's own backup copies one snapshot, and writers go on meanwhile; copying the file by other
means would miss the log, and closing it would drop this process's locks. The copy is made beside
its destination, checked, flushed, and only then given its name: there is never half a backup.
"""

import contextlib
import os
import tempfile
import unicodedata
from pathlib import Path

import apsw

from windlass.errors import StoreError, StoreUnavailable, UsageError
from windlass.store.sqlite import database_errors
from windlass.store.sqlite.custody import Custody, await_whole_log, has_moved
from windlass.store.sqlite.files import BESIDE, COMPANIONS, name_of
from windlass.store.sqlite.forks import gate
from windlass.store.sqlite.open_transaction import queries

_PATIENCE_MILLISECONDS = 10_000


def backup(source: Path, place: Path, custody: Custody, *, replace: bool) -> int:
    """Copy the database to ``place``; return the bytes written.

    An existing file is replaced only if asked for, and never one that seems to be in use.
    """
    place = place.resolve()
    custody.require()
    if not source.exists():
        raise StoreError(f"There is no file {source}: name another store.")
    _check(source, place, replace=replace)
    try:
        # For its owner alone: it has everybody's inputs.
        descriptor, name = tempfile.mkstemp(prefix=f".{place.name}-", dir=place.parent)
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error.strerror}.") from error
    os.close(descriptor)
    try:
        with gate.using(source):
            await_whole_log(source)
            _copy(source, Path(name), custody)
        _flush(Path(name))
        _refuse_in_use(place)  # somebody may have opened it meanwhile
        Path(name).replace(place)
        _flush(place.parent)
    except apsw.Error as error:
        raise database_errors.translate(error, str(place)) from error
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error.strerror}.") from error
    finally:
        for end in ("", *COMPANIONS):
            with contextlib.suppress(FileNotFoundError):
                Path(name + end).unlink()
    return place.stat().st_size


def _check(source: Path, place: Path, *, replace: bool) -> None:
    """Refuse a place where the copy would do harm, or that somebody may still want."""
    if _is_same(place, source):
        raise UsageError(f"{place} is the store itself: name another file for its backup.")
    owner = _owner(place, source)
    if owner is not None:
        raise UsageError(f"{place} belongs to the database {owner}: name another file.")
    if place.is_dir():
        raise UsageError(f"{place} is a folder: name a file in it.")
    if place.exists() and not place.is_file():
        raise UsageError(f"{place} is not a regular file: name one for the backup.")
    if place.exists() and not replace:
        raise UsageError(f"{place} exists: name another file, or replace it by --force.")
    _refuse_in_use(place)


def _is_same(place: Path, other: Path) -> bool:
    """Whether both are one file, also where a file system does not tell capitals from others."""
    if place.exists() and other.exists():
        return place.samefile(other)
    if _folded(place.name) != _folded(other.name):
        return False
    ours, theirs = place.parent, other.parent
    return ours == theirs or (ours.exists() and theirs.exists() and ours.samefile(theirs))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _owner(place: Path, source: Path) -> Path | None:
    """The database that keeps something under this name: its log, for instance."""
    for end in (*COMPANIONS, *BESIDE):
        if _is_same(place, source.with_name(source.name + end)):
            return source
        base = Path(str(place)[: -len(end)])
        if _folded(place.name).endswith(end) and base.is_file():
            return base
    return None


def _refuse_in_use(place: Path) -> None:
    """Refuse a database that somebody has open, or whose log was left behind."""
    for name in (place.with_name(place.name + end) for end in COMPANIONS):
        if name.exists():  # SQLite would take it for the copy's own
            raise UsageError(
                f"{place} is a database in use, or was not closed: {name.name} is beside it. "
                "Name another file."
            )
    if not place.exists() or place.stat().st_nlink > 1:
        return  # of several names, only this one goes
    with gate.using(place):
        try:
            # By SQLite: closing a descriptor of our own would drop this process's locks on it.
            other = apsw.Connection(name_of(place), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                other.execute(queries()["begin_exclusive"])
                other.execute(queries()["rollback"])
            finally:
                other.close(True)
        except database_errors.BUSY:
            raise UsageError(f"{place} is a database in use: name another file.") from None
        except apsw.Error:
            return  # not a database: the caller has said that it may go


def _copy(source: Path, place: Path, custody: Custody) -> None:
    """Copy one snapshot, and look whether it is sound."""
    reading = apsw.Connection(name_of(source), flags=apsw.SQLITE_OPEN_READONLY)
    writing = apsw.Connection(name_of(place))
    try:
        reading.set_busy_timeout(_PATIENCE_MILLISECONDS)
        custody.recognise(reading)
        with writing.backup("main", reading, "main") as copying:
            while not copying.done:
                copying.step(-1)  # all at once: a snapshot that no writer can outdate
        if has_moved(reading):
            raise StoreUnavailable(f"{source} was moved while it was copied: put it back.")
        found = writing.pragma("integrity_check")
        if found != "ok":
            raise StoreError(f"The copy of {source} is not sound ({found}): is the disk?")
    finally:
        reading.close(True)
        writing.close(True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
