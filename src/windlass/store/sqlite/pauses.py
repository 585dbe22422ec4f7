"""Pauses of queues and jobs on SQLite: see `domain/pause.py`."""

from collections.abc import Sequence

from windlass.domain.audit import UNKNOWN
from windlass.domain.pause import PauseKind, WorkPause
from windlass.store.sqlite.audit import note_audit_of
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import from_micros


def pause_work(
    tx: OpenTransaction,
    tenant: str,
    kind: PauseKind,
    name: str,
    reason: str | None,
    *,
    by: str | None,
) -> WorkPause:
    """Pause a queue or a job."""
    tx.execute("insert_pause", (tenant, kind.value, name, tx.now, by or UNKNOWN, reason))
    note_audit_of(tx, tenant, kind.value, name, "pause", by, reason)
    (row,) = tx.fetch("get_pause", (kind.value, name, tenant))
    return _pause(row)


def settle_pauses(tx: OpenTransaction) -> None:
    """Wait for nothing: this transaction has the lock, so no claim is under way."""


def resume_work(
    tx: OpenTransaction, tenant: str, kind: PauseKind, name: str, *, by: str | None
) -> WorkPause | None:
    """Let a queue or a job go on."""
    rows = tx.fetch("get_pause", (kind.value, name, tenant))
    tx.execute("delete_pause", (kind.value, name, tenant))
    note_audit_of(tx, tenant, kind.value, name, "resume", by)
    return _pause(rows[0]) if rows else None


def list_pauses(tx: OpenTransaction, tenant: str | None) -> Sequence[WorkPause]:
    """Return what is paused."""
    return [_pause(row) for row in tx.fetch("list_pauses", {"tenant": tenant})]


def _pause(row: Row) -> WorkPause:
    tenant, kind, name, since, actor, reason = row
    return WorkPause(
        tenant=tenant,
        kind=PauseKind(kind),
        name=name,
        since=from_micros(since),
        by=actor,
        reason=reason,
    )
