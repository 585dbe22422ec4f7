"""Jobs: definitions as stored, so that other processes can enqueue by name."""

from collections.abc import Sequence

from windlass.domain.failed import FailureHandler
from windlass.domain.policy import Retry
from windlass.domain.retention import RetentionTerms
from windlass.domain.run import JobRecord, JobRow, RunDefaults
from windlass.errors import BadArguments, BadOption
from windlass.store.mending import read_row
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import (
    from_json,
    from_json_or_none,
    from_micros,
    raw_text,
    to_json,
    to_json_or_none,
    to_raw,
    to_texts,
)


def sync_jobs(tx: OpenTransaction, jobs: Sequence[JobRow], worker: str | None) -> None:
    """Insert or update job rows; rows equal to what is stored are not rewritten."""
    for job in jobs:
        _check_retry(job)
    tx.execute_many("sync_job", [_columns(job, tx.now) for job in jobs])
    if worker is not None:
        tx.execute("serve_jobs", (to_json([job.name for job in jobs]), worker))


def get_job(tx: OpenTransaction, tenant: str, name: str) -> JobRecord | None:
    """Return one job row."""
    row = tx.fetch_one("get_job", (tenant, name))
    return None if row is None else _job(row)


def list_jobs(tx: OpenTransaction, tenant: str) -> Sequence[JobRecord]:
    """Return all job rows of a tenant, by name."""
    return [_job(row) for row in tx.fetch("list_jobs", (tenant,))]


def _check_retry(job: JobRow) -> None:
    """Refuse a policy that nobody could follow: it is read when a run has failed, too late."""
    try:
        Retry.from_json(job.retry)
    except BadOption as error:
        raise BadArguments(job.name, f"was given retry, which {error.why}", "retry") from error


def _columns(job: JobRow, now: int) -> Row:
    return (
        job.tenant, job.name, job.queue, job.priority, job.max_attempts, job.timeout,
        to_json(job.retry), to_json_or_none(job.parameters), raw_text(job.default_input),
        to_json_or_none(job.defaults), to_json_or_none(job.on_failure),
        to_json_or_none(job.phases), to_json_or_none(job.retention), job.version, now,
    )  # fmt: skip


def _job(row: Row) -> JobRecord:
    (
        tenant, name, queue, priority, max_attempts, timeout, retry, parameters, default_input,
        defaults, on_failure, phases, retention, version, created_at, updated_at,
    ) = row  # fmt: skip
    known = from_json_or_none(parameters)
    return JobRecord(
        tenant=tenant,
        name=name,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        timeout=timeout,
        retry=from_json(retry),
        parameters=None if known is None else tuple(known),
        default_input=to_raw(default_input),
        defaults=None if defaults is None else read_row(defaults, RunDefaults),
        on_failure=None if on_failure is None else read_row(on_failure, FailureHandler),
        phases=to_texts(phases) or None,
        retention=None if retention is None else read_row(retention, RetentionTerms),
        version=version,
        created_at=from_micros(created_at),
        updated_at=from_micros(updated_at),
    )
