"""Pages of the feed, for events that the record or the lease tells of: they have no row."""

from collections.abc import Iterable, Mapping, Sequence

from windlass.domain.event import EventType
from windlass.store.sqlite.open_transaction import OpenTransaction

Told = tuple[str, bytes, int, int]
"""An event's tenant, subject, seq and attempt."""


def add_to_feed(tx: OpenTransaction, kind: EventType, events: Iterable[Told]) -> None:
    """Put events of one type into the feed."""
    pages: dict[tuple[str, int, int], list[bytes]] = {}
    for tenant, subject, seq, attempt in events:
        pages.setdefault((tenant, seq, attempt), []).append(subject)
    insert_pages(tx, kind, pages)


def insert_pages(
    tx: OpenTransaction, kind: EventType, pages: Mapping[tuple[str, int, int], Sequence[bytes]]
) -> None:
    """Write a page for each tenant, seq and attempt: its subjects, in that order."""
    rows = [
        (tx.now, tenant, kind, seq, attempt, b"".join(subjects), None)
        for (tenant, seq, attempt), subjects in pages.items()
    ]
    tx.execute_many("insert_page", rows)


def insert_pages_about(
    tx: OpenTransaction,
    kind: EventType,
    of: tuple[str, int, int],
    subjects: Sequence[bytes],
    data: str,
) -> None:
    """Write a page of events that have the same tenant, seq, attempt and data."""
    tenant, seq, attempt = of
    row = (tx.now, tenant, kind, seq, attempt, b"".join(subjects), data)
    tx.execute_many("insert_page", [row])
