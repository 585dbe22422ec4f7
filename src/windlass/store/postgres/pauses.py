"""Pauses of queues and jobs on PostgreSQL: see `domain/pause.py`."""

from collections.abc import Sequence

from windlass.domain.pause import PauseKind, WorkPause
from windlass.store.postgres.statement import Statement, every, first, nothing, one


def pause_work(
    tenant: str, kind: PauseKind, name: str, reason: str | None, *, by: str | None
) -> Statement[WorkPause]:
    """Pause a queue or a job."""
    return Statement("pause_work", (tenant, kind.value, name, reason, by), one(WorkPause))


def settle_pauses() -> Statement[None]:
    """Wait until every claim has seen the pauses."""
    return Statement("settle_pauses", (), nothing)


def resume_work(
    tenant: str, kind: PauseKind, name: str, *, by: str | None
) -> Statement[WorkPause | None]:
    """Let a queue or a job go on."""
    return Statement("resume_work", (tenant, kind.value, name, by), first(WorkPause))


def list_pauses(tenant: str | None) -> Statement[Sequence[WorkPause]]:
    """What is paused."""
    return Statement("list_pauses", (tenant,), every(WorkPause))
