"""Is somebody's transaction open for too long?

It holds back the feed of events, and vacuum: rows that were claimed and finished long ago stay in
the tables, and every claim has to pass them.
"""

from collections.abc import Iterator

from windlass.domain.checkup import Finding, Limits, counted, fine, note, warning
from windlass.duration import format_duration
from windlass.store.checks import Check, Needs
from windlass.store.postgres.checks.asking import Asking


def checks(ask: Asking) -> Iterator[Check]:
    """Transactions of anybody."""
    yield Check(
        name="transactions", look=lambda limits: _check_transactions(ask, limits), needs=Needs.STORE
    )


def _check_transactions(ask: Asking, limits: Limits) -> Iterator[Finding]:
    told = [*_open(ask, limits), *_prepared(ask, limits), *_hidden(ask)]
    yield from told or [
        fine(f"No transaction is older than {format_duration(limits.transaction)}.")
    ]


def _open(ask: Asking, limits: Limits) -> Iterator[Finding]:
    for row in ask.rows("long_transactions", limits.transaction):
        pid, user, application, database, state, age = row
        named = f" ({application})" if application else ""
        yield warning(
            f"Process {pid} of {user}{named} in database {database} has had a transaction open "
            f"for {format_duration(age)} ({state}): it holds back vacuum and the feed.",
            f"Find out what it does; to end it: select pg_terminate_backend({pid}).",
        )


def _prepared(ask: Asking, limits: Limits) -> Iterator[Finding]:
    for name, owner, database, age in ask.rows("prepared_transactions", limits.transaction):
        yield warning(
            f"The prepared transaction {name!r} of {owner} in database {database} has been open "
            f"for {format_duration(age)}: it holds back vacuum and the feed.",
            f"End it: commit prepared '{name}', or rollback prepared '{name}'.",
        )


def _hidden(ask: Asking) -> Iterator[Finding]:
    (hidden,) = ask.row("hidden_sessions")
    if hidden:
        yield note(
            f"Of {counted(hidden, 'session')} of other users it cannot be seen how long their "
            "transactions have been open.",
            "Grant pg_read_all_stats to the role that looks.",
        )
