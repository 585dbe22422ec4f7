"""The audit log on PostgreSQL: see `store/operations/audit.py`."""

from collections.abc import Sequence

from windlass.domain.audit import AuditEntry
from windlass.store.postgres.statement import Statement, every


def list_audit(
    tenant: str, *, subject: str | None, actor: str | None, before: int | None, limit: int
) -> Statement[Sequence[AuditEntry]]:
    """Entries of the log, the latest first."""
    return Statement("list_audit", (tenant, subject, actor, before, limit), every(AuditEntry))
