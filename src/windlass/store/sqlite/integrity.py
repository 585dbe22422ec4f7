"""Is the file damaged? SQLite's own checks, a quick one for every checkup and a full one.

The quick one reads every page of a table and its indexes, and compares neither with the other:
about 9 s for a gigabyte. So it goes table by table, those that grow last, and stops when its time
is over. The full one also compares each index with its table, and takes four times as long. Both
read one snapshot, and writers go on. What only a checksum would show, a bit that turns one value
into another, neither can find: SQLite has none.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from windlass.domain.checkup import Finding, Limits, error, fine, note
from windlass.store.sqlite import database_errors
from windlass.store.sqlite.custody import await_whole_log
from windlass.store.sqlite.files import name_of
from windlass.store.sqlite.forks import gate
from windlass.store.sqlite.open_transaction import queries

_BUSY_MILLISECONDS = 2_000
_TOLD = 3  # what is wrong with a file needs no more to be believed
_STEPS = 10_000  # of SQLite's machine, between two looks at the time
_ADVICE = "Stop every process that uses it, keep a copy of all its files, and restore a backup."


def look_quickly(path: Path, limits: Limits) -> Iterator[Finding]:
    """Look through the tables for as long as there is time."""
    deadline = time.monotonic() + limits.look
    with reading(path) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        left = [name for (name,) in connection.execute(queries()["tables"])]
        number = len(left)
        try:
            while left:
                found = connection.execute(queries()["quick_check"], (left[0],)).fetchall()
                if found != [("ok",)]:
                    yield _damaged(path, found)
                    return
                del left[0]
        except apsw.InterruptError:
            yield note(
                f"In {limits.look:.0f} s only {number - len(left)} of {number} tables could be "
                f"looked through for damage, and not {', '.join(left)}.",
                "`windlass doctor --full` looks through all of them, for as long as it takes.",
            )
        except apsw.CorruptError as problem:
            yield _damaged(path, [(str(problem),)])
        else:
            yield fine(f"No damage was found in {number} tables; --full looks closer.")


def look_fully(path: Path) -> Iterator[Finding]:
    """Look through everything, however long that takes."""
    with reading(path) as connection:
        try:
            found = connection.execute(queries()["integrity_check"]).fetchall()
            strays = connection.execute(queries()["foreign_key_check"]).fetchall()
        except apsw.CorruptError as problem:
            found, strays = [(str(problem),)], []
    if found != [("ok",)]:
        yield _damaged(path, found)
    elif strays:
        names = ", ".join(sorted({f"{table} without {parent}" for table, _, parent, _ in strays}))
        yield error(f"{path} has rows that belong to nothing ({names}).", _ADVICE)
    else:
        yield fine("No damage was found in any page, row or index.")


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """A connection that cannot write. Raises StoreError where the file cannot be read."""
    with gate.using(path):
        await_whole_log(path)
        try:
            connection = apsw.Connection(name_of(path), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                connection.set_busy_timeout(_BUSY_MILLISECONDS)
                yield connection
            finally:
                connection.close(True)
        except apsw.Error as problem:
            raise database_errors.translate(problem, str(path)) from problem


def _damaged(path: Path, found: Sequence[tuple[object, ...]]) -> Finding:
    told = "; ".join(" ".join(str(text).split()) for (text,) in found[:_TOLD])
    more = f"; and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    return error(f"{path} is damaged: {told}{more}.", _ADVICE)
