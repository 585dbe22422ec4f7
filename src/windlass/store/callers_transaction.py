"""Transactions that belong to the caller, and what a store does in them.

A run that is enqueued in a transaction of the caller's exists if and only if that commits: the
store writes through the caller's connection, and neither begins, commits nor rolls back. The
connection is one of the caller's own driver, where the store can be reached by one, or what
:meth:`~windlass.store.interface.Store.transaction` gives.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from windlass.domain.run import Enqueued, RunRecord
from windlass.errors import UsageError

Rows = list[tuple[Any, ...]]
Parameters = Sequence[Any] | Mapping[str, Any]


class Joined(NamedTuple):
    """What became of runs that were enqueued in the caller's transaction.

    ``known``: the runs that exist already, as that transaction sees them.
    """

    answers: Sequence[Enqueued]
    known: Sequence[RunRecord]


@runtime_checkable
class Transaction(Protocol):
    """One open transaction of the store's own, in blocking code."""

    def execute(self, sql: str, parameters: Parameters = ()) -> Rows:
        """Run a statement on tables of your own; return its rows."""
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """Undo what is done inside if it raises, and nothing else."""
        ...

    def after_commit(self, action: Callable[[], None]) -> None:
        """Do something when, and only if, the transaction has been committed."""
        ...


@runtime_checkable
class AsyncTransaction(Protocol):
    """One open transaction of the store's own, in async code."""

    async def execute(self, sql: str, parameters: Parameters = ()) -> Rows:
        """Run a statement on tables of your own; return its rows."""
        ...

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """Undo what is done inside if it raises, and nothing else."""
        ...

    def after_commit(self, action: Callable[[], Awaitable[None]]) -> None:
        """Do something when, and only if, the transaction has been committed."""
        ...


class TransactionScope:
    """``with`` and ``async with``: commits at the end, rolls back if anything is raised."""

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Transaction]],
        abegin: Callable[[], AbstractAsyncContextManager[AsyncTransaction]],
    ) -> None:
        self._begin = begin
        self._abegin = abegin
        self._open: AbstractContextManager[Transaction] | None = None
        self._aopen: AbstractAsyncContextManager[AsyncTransaction] | None = None

    def __enter__(self) -> Transaction:
        self._refuse_twice()
        self._open = self._begin()
        return self._open.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._open is not None
        self._open.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncTransaction:
        self._refuse_twice()
        self._aopen = self._abegin()
        return await self._aopen.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._aopen is not None
        await self._aopen.__aexit__(kind, error, trace)

    def _refuse_twice(self) -> None:
        if self._open is not None or self._aopen is not None:
            raise UsageError("This transaction was used before: ask app.transaction() for another.")


def forked() -> UsageError:
    """The error of a process that uses a connection from before its fork."""
    return UsageError(
        "This connection was opened before a fork, by another process, which still uses it: "
        "begin a transaction of your own here, or begin it after the fork."
    )


def over() -> UsageError:
    """The error of a caller who uses a transaction after its end."""
    return UsageError("This transaction is over: ask app.transaction() for another.")


def undone() -> UsageError:
    """The error of a caller who goes on after a statement that made PostgreSQL undo everything."""
    return UsageError(
        "A statement failed in this transaction, and its error was caught: PostgreSQL has undone "
        "all of the transaction. Let the error leave the with statement, or put what may fail into "
        "tx.savepoint()."
    )


def ended_by_itself() -> UsageError:
    """The error of a caller whose own statement ended the transaction."""
    return UsageError(
        "A statement ended the transaction that app.transaction() began: leave its begin, commit "
        "and rollback to the with statement, and use tx.savepoint() to undo a part."
    )
