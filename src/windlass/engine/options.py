"""How a worker works: its times, its seats, and whose runs it takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.domain.job import Executor, JobSpec
from windlass.domain.run import DEFAULT_TENANT
from windlass.engine.lanes import Lane
from windlass.engine.sweeper import RESEND_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works; times in seconds."""

    lease: float = 30.0
    renew: float = 10.0
    sweep: float = 5.0
    drain: float = 25.0
    poll: float = 1.0
    max_crashes: int = 3
    concurrency: int = 100
    threads: int = 10
    queues: tuple[str, ...] | None = None
    result_limit: int = 1024 * 1024
    services: bool = True
    resend_after: float = RESEND_AFTER
    tenant: str = DEFAULT_TENANT  # whose job definitions these are; runs of all are claimed


def make_lanes(jobs: Sequence[JobSpec], options: WorkerOptions) -> dict[Executor, Lane]:
    """A lane for each executor that one of the jobs needs."""
    seats = {Executor.ASYNC: options.concurrency, Executor.THREAD: options.threads}
    lanes = {}
    for executor, count in seats.items():
        names = tuple(spec.name for spec in jobs if spec.executor is executor)
        if names:
            lanes[executor] = Lane(executor, count, names, options.queues)
    return lanes
