"""The audit log: who did what to a run, a queue or a job, when and why.

Each verb of an operator adds an entry, in the transaction that does what the verb says: an entry is
there if and only if that was done. A verb that is repeated and changes nothing is noted as well:
somebody asked for it. Entries are added and never changed.
"""

from datetime import datetime
from typing import Any

import msgspec

UNKNOWN = "unknown"
"""Who acted, where the caller did not say."""
LONGEST_ACTOR = 200


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody has done something."""

    number: int
    at: datetime
    actor: str
    verb: str
    kind: str
    """What `subject` names: ``run``, ``queue`` or ``job``."""
    subject: str
    reason: str | None = None
    detail: dict[str, Any] | None = None
    """What else is known of it; never an input or a payload."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown
