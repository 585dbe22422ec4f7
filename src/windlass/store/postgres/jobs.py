"""What is known of jobs, on PostgreSQL: see `store/operations/jobs.py`."""

from collections.abc import Sequence

import msgspec

from windlass.domain.run import JobRecord, JobRow
from windlass.store.postgres.statement import Statement, every, first, nothing

_encode = msgspec.json.Encoder().encode


def sync_jobs(jobs: Sequence[JobRow], worker: str | None) -> Statement[None]:
    """Insert or update job rows."""
    return Statement("sync_jobs", (_encode(jobs).decode(), worker), nothing)


def get_job(tenant: str, name: str) -> Statement[JobRecord | None]:
    """One job row."""
    return Statement("get_job", (tenant, name), first(JobRecord))


def list_jobs(tenant: str) -> Statement[Sequence[JobRecord]]:
    """All job rows of a tenant."""
    return Statement("list_jobs", (tenant,), every(JobRecord))
