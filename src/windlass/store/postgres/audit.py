"""The audit log on PostgreSQL: see `store/operations/audit.py`."""

from collections.abc import Sequence

from windlass.domain.audit import AuditEntry
from windlass.store.postgres.statement import Statement, every


def list_audit(
    tenant: str,
    *,
    kind: str | None,
    subject: str | None,
    actor: str | None,
    before: int | None,
    limit: int,
) -> Statement[Sequence[AuditEntry]]:
    """Entries of the log, the latest first."""
    parameters = (tenant, subject, actor, before, limit, kind)
    return Statement("list_audit", parameters, every(AuditEntry))
