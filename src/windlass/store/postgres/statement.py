"""One statement per operation: a call of a function, and how its rows are read.

It names no table, so it may be prepared: the plans of functions are pinned, or made at each call. A
plan that was made for a few rows, and kept, would read through the million that follow.

Each operation has a function of its name (`runs.py`, `control.py`, …) that packs the arguments and
returns a `Statement`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from windlass.errors import StoreError
from windlass.store.mending import UNREADABLE, read_row
from windlass.store.queries import load_queries

T = TypeVar("T")
Row = tuple[Any, ...]
Reader = Callable[[Sequence[Row]], T]


class Statement(Generic[T]):
    """One statement, in a transaction of its own, and how to read its rows.

    ``about`` is the run that it is about, as the caller named it. ``hints``: it can hint to workers
    with its commit; its last parameter asks for that, and the last column says whether it was done.
    """

    __slots__ = ("about", "hints", "name", "parameters", "read", "sql")

    def __init__(
        self,
        name: str,
        parameters: tuple[object, ...],
        read: Reader[T],
        *,
        about: str | None = None,
        hints: bool = False,
    ) -> None:
        self.name = name
        self.sql = load_queries("postgres")[name]
        self.parameters = parameters
        self.read = read
        self.about = about
        self.hints = hints

    def with_hint(self, sent: Callable[[], None]) -> "Statement[T]":
        """The same, with a hint; ``sent`` is called if that was given."""

        def read(rows: Sequence[Row]) -> T:
            if rows[0][-1] == "true":
                sent()
            return self.read(rows)

        return Statement(self.name, (*self.parameters[:-1], True), read, about=self.about)

    def answer(self, rows: Sequence[Row]) -> T:
        """Read the rows. Raises StoreError where they make no sense: by then it has been done."""
        try:
            return self.read(rows)
        except UNREADABLE as problem:
            raise StoreError(
                f"PostgreSQL has carried out {self.name}, but its answer cannot be read: {problem}"
            ) from problem

    @property
    def weight(self) -> int:
        """How much it carries: about so many bytes."""
        return sum([len(value) for value in self.parameters if isinstance(value, str)])


def nothing(rows: Sequence[Row]) -> None:
    """Read no answer."""


def value(rows: Sequence[Row]) -> Any:
    """Read one value."""
    return rows[0][0]


def one(kind: type[T]) -> Reader[T]:
    """Read one document."""
    return lambda rows: read_row(rows[0][0], kind)


def first(kind: type[T]) -> Reader[T | None]:
    """Read one document, or none."""
    return lambda rows: read_row(rows[0][0], kind) if rows else None


def every(kind: type[T]) -> Reader[Sequence[T]]:
    """Read a document of each row."""
    return lambda rows: [read_row(row[0], kind) for row in rows]
