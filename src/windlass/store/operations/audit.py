"""The audit log: what operators did. Their verbs write it, see `domain/audit.py`."""

from collections.abc import Sequence

from windlass.domain.audit import AuditEntry
from windlass.store.operations.declare import read


class AuditOperations:
    """Reads the log."""

    @read()
    def list_audit(
        self,
        tenant: str,
        *,
        kind: str | None = None,
        subject: str | None = None,
        actor: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[AuditEntry]:
        """Entries, the latest first; of one subject, of one actor; those before a number.

        ``kind`` says what ``subject`` names (``run``, ``queue``, ``job``), and narrows that only.
        """
