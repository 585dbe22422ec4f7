"""The audit log on SQLite: see `store/operations/audit.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.domain.audit import UNKNOWN, AuditEntry
from windlass.domain.run import RunRef
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import from_micros, to_json_or_none

_LAST = 2**63 - 1


def note_audit(
    tx: OpenTransaction,
    run: RunRef,
    verb: str,
    by: str | None,
    reason: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Note who did what to a run, and why."""
    note_audit_of(tx, run.tenant, "run", run.id, verb, by, reason, detail)


def note_audit_of(
    tx: OpenTransaction,
    tenant: str,
    kind: str,
    subject: str,
    verb: str,
    by: str | None,
    reason: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Note who did what to a run, a queue or a job (`kind`), and why."""
    entry = (tenant, tx.now, by or UNKNOWN, verb, kind, subject, reason)
    tx.execute("insert_audit", (*entry, to_json_or_none(detail or None)))


def list_audit(
    tx: OpenTransaction,
    tenant: str,
    *,
    kind: str | None,
    subject: str | None,
    actor: str | None,
    before: int | None,
    limit: int,
) -> Sequence[AuditEntry]:
    """Return entries of the log, the latest first."""
    until = _LAST if before is None else before
    if subject is not None:
        rows = tx.fetch("list_audit_of", (subject, tenant, until, kind, actor, limit))
    elif actor is not None:
        rows = tx.fetch("list_audit_by", (actor, tenant, until, limit))
    else:
        rows = tx.fetch("list_audit", (tenant, until, limit))
    return [_entry(row) for row in rows]


def _entry(row: Row) -> AuditEntry:
    number, at, actor, verb, kind, subject, reason, detail = row
    return AuditEntry(
        number=number,
        at=from_micros(at),
        actor=actor,
        verb=verb,
        kind=kind,
        subject=subject,
        reason=reason,
        detail=None if detail is None else msgspec.json.decode(detail),
    )
