"""What operators do to runs, on PostgreSQL: see `store/operations/control.py`."""

from collections.abc import Sequence
from datetime import datetime

from windlass.domain.run import RunRecord, RunRef
from windlass.store.postgres.ids import id_or_nobody, only_ids
from windlass.store.postgres.literals import plain_array
from windlass.store.postgres.statement import Statement, one, value


def cancel(run: RunRef, reason: str | None) -> Statement[RunRecord]:
    """End a run, or ask for its end."""
    return _to_run("cancel", run, reason)


def retry(run: RunRef, max_attempts: int | None) -> Statement[RunRecord]:
    """Reopen a run."""
    return _to_run("retry", run, max_attempts)


def reschedule(run: RunRef, *, at: datetime | None, delay: float | None) -> Statement[RunRecord]:
    """Move a run in time."""
    return _to_run("reschedule", run, at, delay)


def reprioritize(run: RunRef, *, priority: int | None, queue: str | None) -> Statement[RunRecord]:
    """Give a run another priority or queue."""
    return _to_run("reprioritize", run, priority, queue)


def discard(tenant: str, runs: Sequence[str]) -> Statement[int]:
    """Take failed runs off the list of dead letters."""
    return Statement("discard", (tenant, plain_array(only_ids(runs))), value)


def _to_run(verb: str, run: RunRef, *parameters: object) -> Statement[RunRecord]:
    name = (run.tenant, id_or_nobody(run.id))
    return Statement(verb, (*name, *parameters), one(RunRecord), about=run.id)
