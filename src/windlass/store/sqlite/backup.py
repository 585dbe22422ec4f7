"""A copy of the file while it is in use.

SQLite's own backup copies one snapshot, and writers go on meanwhile; copying the file by other
means would miss the log, and closing it would drop this process's locks. The copy is made beside
its destination, checked, flushed, and only then given its name: there is never half a backup.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import apsw

from windlass.errors import StoreError, UsageError
from windlass.store.sqlite import faults
from windlass.store.sqlite.forks import gate

_PATIENCE_MILLISECONDS = 10_000


def backup(source: Path, place: Path, *, replace: bool) -> int:
    """Copy the database to ``place``; return the bytes written.

    An existing file is replaced only if asked for, and never one that seems to be in use.
    """
    place = place.resolve()
    _check(source, place, replace=replace)
    try:
        # For its owner alone: it has everybody's inputs.
        descriptor, name = tempfile.mkstemp(prefix=f".{place.name}-", dir=place.parent)
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error.strerror}.") from error
    os.close(descriptor)
    try:
        with gate.using(source):
            _copy(source, Path(name))
        _flush(Path(name))
        Path(name).replace(place)
        _flush(place.parent)
    except apsw.Error as error:
        raise faults.translate(error, str(place)) from error
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error.strerror}.") from error
    finally:
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(name + end).unlink()
    return place.stat().st_size


def _check(source: Path, place: Path, *, replace: bool) -> None:
    if place == source or (place.exists() and place.samefile(source)):
        raise UsageError(f"{place} is the store itself: name another file for its backup.")
    if place.is_dir():
        raise UsageError(f"{place} is a folder: name a file in it.")
    if place.exists() and not replace:
        raise UsageError(f"{place} exists: name another file, or replace it by --force.")
    if place.with_name(place.name + "-wal").exists():
        raise UsageError(f"{place} is a database in use: name another file.")


def _copy(source: Path, place: Path) -> None:
    """Copy one snapshot, and look whether it is sound."""
    reading = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    writing = apsw.Connection(str(place))
    try:
        reading.set_busy_timeout(_PATIENCE_MILLISECONDS)
        with writing.backup("main", reading, "main") as copying:
            while not copying.done:
                copying.step(-1)  # all at once: a snapshot that no writer can outdate
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
