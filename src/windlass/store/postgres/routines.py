"""The functions and views in the database: made by the files, and found again as they were made.

They are not numbered like migrations: all of them are made anew whenever one of the files has
changed, or one of them is no longer as it was made (a fingerprint of each is kept). Afterwards the
schema has the functions of the files and no others: a changed list of arguments would leave the old
form beside the new one. Who was granted something has it still, by its name.

``PROTOCOL`` counts what the programs and the functions say to each other. Raise it in the release
after which an older program could not call the functions, or a newer one not the old functions; the
text alone may change as it likes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg import errors as pg

from windlass.store.postgres.expected import expected_views
from windlass.store.postgres.naming import execute_as_it_is
from windlass.store.queries import load_queries, read_folder

PROTOCOL = 1

_SQL = load_queries("postgres")
# A function that returns something else, names its arguments otherwise, or is a view with others'
# columns: it cannot be replaced, only made anew.
_CANNOT_REPLACE = (pg.InvalidFunctionDefinition, pg.InvalidTableDefinition, pg.WrongObjectType)


@cache
def files_checksum() -> str:
    """One checksum of all files."""
    text = "".join(text for _, text in read_folder("postgres", "functions"))
    return hashlib.sha256(text.encode()).hexdigest()


def find_outdated(conn: psycopg.Connection[Any]) -> Sequence[str]:
    """The signatures of those that are not as these files make them; all, if of another release."""
    recorded, is_ours = _recorded(conn)
    return differences(installed(conn), recorded if is_ours else {})


def bring_up_to_date(conn: psycopg.Connection[Any]) -> Sequence[str]:
    """Make what is missing or different; return the names of those that somebody had damaged."""
    recorded, is_ours = _recorded(conn)
    damaged = differences(installed(conn), recorded)
    if is_ours and not damaged:
        return ()
    granted = conn.execute(_SQL["granted"]).fetchall()
    try:
        with conn.transaction():
            _apply(conn)
    except _CANNOT_REPLACE:
        _execute_all(conn, conn.execute(_SQL["all_routines"]).fetchall())
        _apply(conn)
    stale = conn.execute(_SQL["stale_routines"], (list(expected_views()),)).fetchall()
    _execute_all(conn, stale)
    conn.execute(_SQL["revoke_public"])
    for grant in granted:
        _execute_all(conn, conn.execute(_SQL["lost_grants"], grant).fetchall())
    _record(conn)
    # In a database that an older release has left, differences are what an upgrade is for.
    return damaged if is_ours else ()


def _recorded(conn: psycopg.Connection[Any]) -> tuple[Mapping[str, str], bool]:
    """As they were made, and whether from these files."""
    rows = conn.execute(_SQL["recorded_routines"]).fetchall()
    sources = {(protocol, checksum) for _, _, protocol, checksum in rows}
    return {name: made for name, made, *_ in rows}, sources == {(PROTOCOL, files_checksum())}


def installed(conn: psycopg.Connection[Any]) -> Mapping[str, str]:
    """What is there, by signature, with fingerprints. Names depend on the search_path."""
    return dict(conn.execute(_SQL["installed_routines"]).fetchall())


def differences(there: Mapping[str, str], recorded: Mapping[str, str]) -> Sequence[str]:
    """The signatures of those that are missing, changed or not ours."""
    names = sorted({*there, *recorded})
    return tuple(name for name in names if there.get(name) != recorded.get(name))


def _apply(conn: psycopg.Connection[Any]) -> None:
    """Apply all of them: which ones no file defines is known by who wrote them last."""
    for _, text in read_folder("postgres", "functions"):
        conn.execute(text.encode())


def _record(conn: psycopg.Connection[Any]) -> None:
    conn.execute(_SQL["forget_routines"])
    for name, print_ in installed(conn).items():
        conn.execute(_SQL["record_routine"], (name, print_, PROTOCOL, files_checksum()))


def _execute_all(conn: psycopg.Connection[Any], statements: Sequence[tuple[str]]) -> None:
    for (statement,) in statements:
        execute_as_it_is(conn, statement)
