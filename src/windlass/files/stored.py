"""A job as the store knows it, wherever its code is."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass import codec
from windlass.domain.run import JobRecord, RunDefaults


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job as the last worker that knew it defined it."""

    name: str
    tenant: str
    queue: str
    priority: int
    max_attempts: int
    timeout: float | None
    """In seconds."""
    retry: dict[str, Any]
    parameters: tuple[dict[str, Any], ...] | None
    """What its runs take, each with its `name` and whether it is `required`; None: anything."""
    default_input: Any
    defaults: dict[str, Any]
    """What its runs have unless their enqueue says otherwise; times in seconds."""
    on_failure: str | None
    """The job that handles failures of its runs."""
    version: str | None
    created_at: datetime
    """When a worker first had it."""
    updated_at: datetime
    """When its definition last changed."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; times as ISO 8601 in UTC."""
        return asdict(self) | {
            "created_at": codec.instant_text(self.created_at),
            "updated_at": codec.instant_text(self.updated_at),
        }


def stored_job(record: JobRecord) -> StoredJob:
    """What the store says, in the types of an application."""
    return StoredJob(
        name=record.name,
        tenant=record.tenant,
        queue=record.queue,
        priority=record.priority,
        max_attempts=record.max_attempts,
        timeout=record.timeout,
        retry=record.retry,
        parameters=record.parameters,
        default_input=codec.decode(record.default_input),
        defaults=msgspec.to_builtins(record.defaults or RunDefaults()),
        on_failure=None if record.on_failure is None else record.on_failure.job,
        version=record.version,
        created_at=record.created_at.astimezone(UTC),
        updated_at=record.updated_at.astimezone(UTC),
    )
