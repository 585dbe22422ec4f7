"""In tests: were runs enqueued where the test looks for them?

A test gives its code a connection, the code enqueues on it, and the test looks through the store.
If the two lead to different databases, or the transaction is still open, the test finds nothing,
and an assertion that nothing was enqueued would hold. So in tests each enqueue on a connection of
the caller's notes where it was made.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from windlass import guard
from windlass.errors import BadOption, UsageError
from windlass.store.postgres.literals import plain_array
from windlass.store.queries import load_queries

Row = tuple[Any, ...]
Ask = Callable[[str, Sequence[str]], Row]
"""Runs a query through the store, and returns its only row."""

SQL = load_queries("postgres")


class Whereabouts:
    """Where a store is, and the transactions of others in which runs were enqueued."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._own: Row | None = None
        self._transactions: list[str] = []

    def note(self, database: str, server: str, name: str, transaction: str) -> None:
        """Runs are about to be enqueued there. Raises BadOption if the store is elsewhere."""
        if self._own is None:
            self._own = self._ask(SQL["whereabouts"], ())
        if (database, server) != self._own[:2]:
            raise BadOption(
                "connection",
                f"it leads to the database {name!r}, and this test's runs are in {self._own[2]!r}: "
                "give the code under test a connection to the latter",
            )
        self._transactions.append(transaction)

    def refuse_unseen(self) -> None:
        """Raise UsageError if runs were enqueued in a transaction that is still open elsewhere."""
        if not self._transactions:
            return
        (still_open,) = self._ask(SQL["still_open"], (plain_array(self._transactions),))
        self._transactions = msgspec.json.decode(still_open, type=list[str])
        if self._transactions:
            way = guard.way_to_test(
                "commit it first, or put the application into it by `with "
                "windlass.testing.in_transaction(app, connection):`"
            )
            raise UsageError(
                "Runs were enqueued in a transaction that is still open, where nobody else sees "
                f"them: {way}."
            )
