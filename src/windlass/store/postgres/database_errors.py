"""What a database error means, and whether to try again: the only retry loop's judgement.

- A private SQLSTATE is an answer: it becomes the error it stands for.
- A deadlock, a serialisation failure or a timeout of the server's (statement_timeout,
  idle_session_timeout, …) undid the whole call: it is repeated, always.
- A lock that another transaction holds for too long (lock_timeout; our functions set their own) did
  so too: the call is repeated if it is patient. One of a worker's is not: others wait for it.
- A lost connection leaves the outcome unknown: the call is repeated only if it is repeatable.
  A server that has become a standby takes no writes: another may have its name by now.
- A value that the server cannot hold is the caller's trouble (StoreRefused).
- Everything else is a misconfiguration or trouble of the server's own, and is raised as it is.
"""

from typing import Any

import msgspec
import psycopg
from psycopg import errors as pg

from windlass.duration import format_duration
from windlass.errors import (
    RunNotFound,
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    WindlassError,
)
from windlass.sources import Sources
from windlass.store.operations import Call
from windlass.store.postgres.outage import Outage
from windlass.store.postgres.sqlstates import SQLSTATES

_UNDONE = (
    pg.SerializationFailure,
    pg.DeadlockDetected,
    pg.QueryCanceled,
    pg.TransactionTimeout,
    pg.IdleInTransactionSessionTimeout,
    pg.IdleSessionTimeout,  # the session had ended before the call came
)
_FULL = (pg.DiskFull, pg.OutOfMemory)
# The schema or a part of it is not there: another version, none at all, or somebody's deed.
_CHANGED = (pg.InvalidSchemaName, pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn)
CHANGED = frozenset(kind.sqlstate for kind in _CHANGED)
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_MOST_TRIES = 100


class Patience:
    """Judges the errors of one call, and says how long to wait before the next try."""

    def __init__(
        self,
        call: Call[object],
        about: str | None,
        sources: Sources,
        limit: float,
        longest: float,
        expected: int,
        outage: Outage,
    ) -> None:
        """`about`: the run that it is about, as the caller named it."""
        self._call = call
        self._about = about
        self._sources = sources
        self._deadline = sources.clock.monotonic() + limit
        self._longest = min(longest, _LONGEST_PAUSE)
        self._pause = _FIRST_PAUSE
        self._tries = 0
        self._expected = expected
        self._outage = outage

    def after(self, error: psycopg.Error) -> float:
        """Return the seconds to wait before trying again, or raise what the error means."""
        self._tries += 1
        again = (
            isinstance(error, _UNDONE)
            or (isinstance(error, pg.LockNotAvailable) and self._call.patient)
            or (is_outage(error) and self._call.repeatable)
        )
        late = self._sources.clock.monotonic() > self._deadline or self._tries >= _MOST_TRIES
        if not again or late:
            raise self._meaning(error) from error
        if self._tries > 1 and is_outage(error):  # a connection that is lost alone is no outage
            self._outage.begin(one_line(error))
        pause = self._pause * (0.5 + self._sources.jitter() / 2)
        self._pause = min(self._pause * 2, self._longest)
        return pause

    def _meaning(self, error: psycopg.Error) -> WindlassError:
        known = SQLSTATES.get(error.sqlstate or "")
        if known is RunNotFound and self._about is not None:
            return RunNotFound(self._about)  # as the caller wrote it
        if known is not None:
            return known(*msgspec.json.decode(error.diag.message_detail or "[]"))
        if isinstance(error, _CHANGED):
            return missing_part(
                error.sqlstate or "", error.diag.message_primary or "", self._expected
            )
        return of_statement(error, self._call.name)


def of_statement(error: psycopg.Error, name: str = "a statement") -> StoreError:
    """What an error means that says nothing of ours."""
    if is_outage(error):
        standby = isinstance(error, pg.ReadOnlySqlTransaction)
        how = "takes no writes" if standby else "cannot be reached"
        return StoreUnavailable(f"PostgreSQL {how}: {one_line(error)}")
    if isinstance(error, pg.LockNotAvailable):
        return locked(name)
    if isinstance(error, _UNDONE):
        return StoreUnavailable(f"PostgreSQL gave up on {name}: {one_line(error)}")
    if isinstance(error, _FULL):
        return StoreFull(f"PostgreSQL has no room: {one_line(error)}")
    # 22 bad data, 23 a constraint, 54 a limit of the program: of the rows, not of the server
    kind = StoreRefused if (error.sqlstate or "")[:2] in {"22", "23", "54"} else StoreError
    return kind(f"PostgreSQL refused {name}: {one_line(error)}")


def missing_part(
    sqlstate: str, text: str, expected: int, *, callers: bool = False
) -> SchemaMismatch:
    """What it means that something of ours is not there, where the version says that it should.

    `callers`: the connection is the caller's, and may lead to another database than the store's.
    """
    if sqlstate == pg.InvalidSchemaName.sqlstate:
        return SchemaMismatch(None, expected, callers=callers)
    what = "functions" if sqlstate == pg.UndefinedFunction.sqlstate else "schema"
    return SchemaMismatch(expected, expected, what, text)


def locked(name: str, holder: str | None = None) -> StoreBusy:
    """The error of a call that waited for a lock in vain; `holder` is who probably has it."""
    remedy = f", probably {holder}: end it, or try again." if holder else ": try again later."
    return StoreBusy(
        f"PostgreSQL gave up on {name} because another transaction holds a lock that it needs"
        f"{remedy}"
    )


def named_holder(row: tuple[Any, ...] | None) -> str | None:
    """A row of ``lock_holder`` in words; not everybody may know what a session is and does."""
    if row is None:
        return None
    pid, application, age = row
    known = f" ({application})" if application else ""
    return f"process {pid}{known}" + (f", open for {format_duration(age)}" if age else "")


def is_outgrown(error: psycopg.Error) -> bool:
    """Whether a part of the schema is missing: it may have been changed by a newer program."""
    return isinstance(error, _CHANGED)


def is_outage(error: psycopg.Error) -> bool:
    """Whether the connection, and not the statement, is at fault."""
    if error.sqlstate is None:
        # psycopg's own: refused, reset, timed out, closed under our hands.
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    # 08 connection exception, 57P0x shutdown or crash, 53300 too many connections,
    # 25006 read-only: it is a standby now
    state = error.sqlstate
    return state[:2] == "08" or state[:4] == "57P0" or state in {"53300", "25006"}


def one_line(error: BaseException) -> str:
    """An error's text on one line."""
    return " ".join(str(error).split()) or type(error).__name__
