"""Keeps Python's own `sqlite3` away from a file that Windlass has open in the same process.

SQLite's locks on a file are POSIX locks, which belong to the process: when any part of it closes a
descriptor of the file, all of its locks on that file are gone. One SQLite library knows that and
keeps descriptors open. Two of them in one process (apsw, which Windlass uses, and the one behind
the module sqlite3, which Django and SQLAlchemy use) do not know of each other: one closes a
connection, the other writes without its lock, and two writers damage the file. So a connection by
sqlite3 to such a file is refused before it is made. Python announces each (PEP 578), and an
exception of the listener keeps it from being opened.

A connection that was made before Windlass opened the file is not found here. The doctor finds it:
:mod:`.two_libraries`.
"""

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from windlass.errors import UsageError

_CONNECT = "sqlite3.connect"
_URI = "file:"


@cache  # a listener is for as long as the process lives, so one is enough
def keep_sqlite3_out(open_files: Callable[[], Iterable[Path]]) -> None:
    """From now on refuse connections by sqlite3 to the files that are open at that moment."""

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event == _CONNECT:
            _refuse_shared(arguments[0], open_files())

    sys.addaudithook(heard)


def _refuse_shared(database: object, files: Iterable[Path]) -> None:
    wanted = _identity(_path_of(database))
    for file in files:
        if wanted is not None and wanted == _identity(file):
            raise UsageError(
                f"{file} is open in this process by Windlass, so the module sqlite3 (also under "
                "SQLAlchemy or Django) cannot open it here: SQLite would lose its locks, and the "
                "file would be damaged. Use app.transaction(), or a file of your own."
            )


def _path_of(database: object) -> str | bytes | None:
    """The file that was named; None where that cannot be told."""
    if not isinstance(database, (str, bytes, os.PathLike)):
        return None
    name: str | bytes = os.fspath(database)
    if isinstance(name, str) and name.startswith(_URI):
        path = unquote(name.removeprefix(_URI).partition("?")[0].partition("#")[0])
        return f"/{path.lstrip('/')}" if path.startswith("//") else path
    return name


def _identity(path: str | bytes | Path | None) -> tuple[int, int] | None:
    try:
        found = None if path is None else os.stat(path)  # noqa: PTH116 - it may be bytes
    except (OSError, ValueError):
        return None
    return None if found is None else (found.st_dev, found.st_ino)
