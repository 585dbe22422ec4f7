"""Brings the file's schema up to date: at first use, or when asked.

All that is missing is applied in one transaction, which takes the write lock first and then looks
at the version. So several processes may open a new file at once: one of them makes the tables, the
others find them made; and nobody ever finds a file between two versions. It is also one flush to
the disk instead of one for each migration.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import apsw

from windlass.errors import SchemaMismatch
from windlass.store.queries import Script, load_migrations
from windlass.store.sqlite import database_errors
from windlass.store.sqlite.custody import await_whole_log
from windlass.store.sqlite.files import name_of
from windlass.store.sqlite.forks import gate
from windlass.store.sqlite.open_transaction import queries

_LOOK_MILLISECONDS = 5_000


@cache
def migrations() -> Sequence[Script]:
    """Return SQLite's migrations, read once."""
    return load_migrations("sqlite")


def version_of(connection: apsw.Connection) -> int:
    """Return the version of the schema in the file, 0 where there is none."""
    if not connection.execute(queries()["has_versions"]).fetchall():
        return 0
    return int(connection.execute(queries()["schema_version"]).get)


def look_at_version(path: Path) -> tuple[int, int]:
    """Return the version of a file's schema, 0 where there is none, and the one needed."""
    needed = migrations()[-1].version
    if not path.exists():
        return 0, needed
    with gate.using(path):
        await_whole_log(path)
        try:
            connection = apsw.Connection(name_of(path), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                connection.set_busy_timeout(_LOOK_MILLISECONDS)
                return version_of(connection), needed
            finally:
                connection.close(True)
        except apsw.Error as error:
            raise database_errors.translate(error, str(path)) from error


class Schema:
    """The schema as the connections of one store have found it.

    A store that has worked on a file goes on when a newer program migrates it: migrations only
    add, so that an old worker can finish. One that starts on a newer schema is refused.
    """

    def __init__(self) -> None:
        self._seen = False

    def ensure(self, connection: apsw.Connection, now: int) -> None:
        """Bring the schema up to date if it is not."""
        found, latest = version_of(connection), migrations()[-1].version
        if found < latest or (found > latest and not self._seen):
            migrate(connection, now)
        self._seen = True


def migrate(connection: apsw.Connection, now: int) -> tuple[int, int]:
    """Apply what is missing; return the versions before and after."""
    found, latest = version_of(connection), migrations()[-1].version
    if found > latest:
        raise SchemaMismatch(found, latest)
    if found < latest:
        found = _apply_missing(connection, now)
    return found, latest


def _apply_missing(connection: apsw.Connection, now: int) -> int:
    """Apply what is missing once nobody else can; return the version that was found then."""
    try:
        connection.execute(queries()["begin_write"])
        connection.execute(queries()["create_versions"])
        found = version_of(connection)
        for script in migrations():
            if script.version > found:
                connection.execute(script.text)
                connection.execute(queries()["insert_version"], (script.version, script.name, now))
        connection.execute(queries()["commit"])
    except BaseException:
        if connection.in_transaction:
            connection.execute(queries()["rollback"])
        raise
    return found
