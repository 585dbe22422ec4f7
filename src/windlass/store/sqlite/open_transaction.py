"""What an operation sees of the database: one open transaction, statements by name."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, repeat
from typing import Any, TypeAlias, TypeVar

import apsw

from windlass.sources import Clock
from windlass.store.queries import load_queries
from windlass.store.sqlite.values import to_micros

T = TypeVar("T")

Row = tuple[Any, ...]
Bindings = Sequence[Any] | Mapping[str, Any]

_SMALL = 1_000_000  # microseconds
# Rows per statement: with more, the thread needs Python's lock less often while it has the file's.
# Longer statements than these are not kept prepared.
_WIDEST = 256
MOST_AT_ONCE = 1024
_PARAMETER = re.compile(r":\w+")


@cache
def queries() -> Mapping[str, str]:
    """Return SQLite's statements by name, read once."""
    return load_queries("sqlite")


@cache
def _widened(sql: str, count: int) -> str:
    """Return an insert for many rows: its row of values, as often as that, bound by position."""
    head, values, row = sql.rpartition("values ")
    return f"{head}{values}{', '.join([_PARAMETER.sub('?', row)] * count)}"


def _widths(count: int) -> Iterator[int]:
    """Yield sizes that make up a count, by powers of two: few statements serve all counts."""
    size = _WIDEST
    while count:
        while count >= size:
            yield size
            count -= size
        size //= 2


class StoreClock:
    """The clock that is written: the program's, in microseconds, not going back by a little.

    Small corrections let it stand still, so that a run's events do not go back in time. Where the
    machine's clock was set, it follows: processes on one file share that clock, and one that kept
    to the old time would take those that start now for dead.
    """

    __slots__ = ("_clock", "_last")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def now(self) -> int:
        """Return the microseconds since 1970."""
        now = to_micros(self._clock.now())
        if now < self._last < now + _SMALL:
            return self._last
        self._last = now
        return now


class OpenTransaction:
    """One open transaction and the instant at which it happens."""

    __slots__ = ("_clock", "_connection", "_queries", "now")

    def __init__(self, connection: apsw.Connection, clock: StoreClock) -> None:
        self._connection = connection
        self._queries = queries()
        self._clock = clock
        self.now = clock.now()

    def tick(self) -> None:
        """Look at the clock again, before a write that reads without the lock prepared.

        Others may have written meanwhile, and long after these reads began: what is claimed must
        not have started before it was enqueued.
        """
        self.now = self._clock.now()

    def execute(self, name: str, bindings: Bindings = ()) -> int:
        """Run a statement, return how many rows it changed."""
        self._connection.execute(self._queries[name], bindings)
        return self._connection.changes()

    def execute_many(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row, bound by position."""
        self._connection.executemany(self._queries[name], rows)

    def insert_many(self, name: str, rows: Sequence[Sequence[Any]]) -> tuple[int, int]:
        """Insert rows into a table that has rowids, return the first and the last of them.

        Many rows per statement: SQLite spends less than half as long on each, and holds up no
        other thread while it does. Each new row gets the number after the greatest.
        """
        done = 0
        for count in _widths(len(rows)):
            part = rows[done : done + count]
            self._connection.execute(_widened(self._queries[name], count), list(chain(*part)))
            done += count
        last = self._connection.last_insert_rowid()
        return last - done + 1, last

    def insert_at_once(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows, at most MOST_AT_ONCE, by one statement, which is atomic.

        The next power of two is filled up with rows of null: few statements serve all counts.
        """
        width = 1 << (len(rows) - 1).bit_length()
        padding = repeat(None, (width - len(rows)) * len(rows[0]))
        self._connection.execute(_widened(self._queries[name], width), list(chain(*rows, padding)))

    def fetch(self, name: str, bindings: Bindings = ()) -> list[Row]:
        """Return all rows of a statement."""
        return self._connection.execute(self._queries[name], bindings).fetchall()

    def fetch_many(self, name: str, rows: Iterable[Bindings]) -> list[Row]:
        """Return what a statement finds for each of many bindings."""
        return self._connection.executemany(self._queries[name], rows).fetchall()

    def fetch_one(self, name: str, bindings: Bindings = ()) -> Row | None:
        """Return the only row of a statement, or None."""
        rows = self._connection.execute(self._queries[name], bindings).fetchall()
        return rows[0] if rows else None

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is done inside if it raises, and nothing else."""
        self._connection.execute(self._queries["savepoint"])
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute(self._queries["undo_savepoint"])
                self._connection.execute(self._queries["release_savepoint"])
            raise
        self._connection.execute(self._queries["release_savepoint"])


AtOnce: TypeAlias = Callable[[OpenTransaction], Callable[[], T] | None]
"""A call that writes by one statement at most: see ``Connection.at_once``."""
