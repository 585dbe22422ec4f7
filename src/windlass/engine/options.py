"""How a worker works: its times, its seats, and whose runs it takes."""

from dataclasses import dataclass

from windlass.config import DEFAULT_ARTIFACT_LIMIT
from windlass.domain.retention import DEFAULT_STORE_TERMS, StoreTerms
from windlass.domain.run import DEFAULT_TENANT
from windlass.domain.runlog import RUN_LOGS

RESEND_AFTER = 10.0
"""Seconds after which a run that a transport did not deliver is sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of a worker; times are in seconds."""

    lease: float = 30.0
    renew: float = 10.0
    sweep: float = 5.0
    drain: float = 25.0
    poll: float = 1.0
    max_crashes: int = 3
    max_steps: int = 1024
    concurrency: int = 100
    threads: int = 10
    process_seats: int = 2
    suspect_seats: int = 8
    cancel_grace: float = 5.0
    recycle_runs: int | None = None
    recycle_memory: int | None = None  # megabytes
    queues: tuple[str, ...] | None = None
    result_limit: int = 1024 * 1024
    artifacts: str | None = None  # where they are kept
    artifact_limit: int = DEFAULT_ARTIFACT_LIMIT
    retention: StoreTerms = DEFAULT_STORE_TERMS
    resend_after: float = RESEND_AFTER
    report: float = 1.0  # at least so long between two writes of progress, or of logs
    run_logs: int = RUN_LOGS  # lines of each attempt that are kept
    tenant: str = DEFAULT_TENANT  # whose job definitions these are; runs of all are claimed
