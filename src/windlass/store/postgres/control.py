"""What operators do to runs, on PostgreSQL: see `store/operations/control.py`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from windlass.domain.bulk import BULK_VERBS, Applied
from windlass.domain.changes import Changes
from windlass.domain.run import RunRecord, RunRef
from windlass.domain.states import Status
from windlass.errors import RunNotFound, StoreBusy
from windlass.store.postgres.ids import id_or_nobody, only_ids
from windlass.store.postgres.literals import plain_array
from windlass.store.postgres.sqlstates import SQLSTATES
from windlass.store.postgres.statement import Statement, one, value


def cancel(run: RunRef, reason: str | None, *, by: str | None) -> Statement[RunRecord]:
    """End a run, or ask for its end."""
    return _to_run("cancel", run, reason, by)


def pause(run: RunRef, reason: str | None, *, by: str | None) -> Statement[RunRecord]:
    """Stop a run for now."""
    return _to_run("pause", run, reason, by)


def resume(run: RunRef, *, by: str | None) -> Statement[RunRecord]:
    """Let a paused run go on."""
    return _to_run("resume", run, by)


def terminate(run: RunRef, reason: str | None, *, by: str | None) -> Statement[RunRecord]:
    """End a run now."""
    return _to_run("terminate", run, reason, by)


def restart(run: RunRef, step: str | None, *, by: str | None) -> Statement[RunRecord]:
    """Let a run begin anew."""
    return _to_run("restart", run, step, by)


def retry(
    run: RunRef, max_attempts: int | None, input: msgspec.Raw | None, *, by: str | None
) -> Statement[RunRecord]:
    """Reopen a run."""
    return _to_run("retry", run, max_attempts, None if input is None else _text(input), by)


def reschedule(
    run: RunRef, *, at: datetime | None, delay: float | None, by: str | None
) -> Statement[RunRecord]:
    """Move a run in time."""
    return _to_run("reschedule", run, at, delay, by)


def reprioritize(
    run: RunRef, *, priority: int | None, queue: str | None, by: str | None
) -> Statement[RunRecord]:
    """Give a run another priority or queue."""
    return _to_run("reprioritize", run, priority, queue, by)


def change(run: RunRef, changes: Changes, *, by: str | None) -> Statement[RunRecord]:
    """Change a run that waits."""
    return _to_run("change", run, _text(changes), by)


def discard(tenant: str, runs: Sequence[str], *, by: str | None) -> Statement[int]:
    """Take failed runs off the list of dead letters."""
    return Statement("discard", (tenant, plain_array(only_ids(runs)), by), value)


def apply_to_many(
    verb: str, tenant: str, runs: Sequence[str], arguments: Mapping[str, Any]
) -> Statement[Sequence[Applied]]:
    """Apply a verb to several runs."""
    unknown = [Applied(run, error=RunNotFound(run)) for run in set(runs) - {*only_ids(runs)}]
    parameters = (BULK_VERBS[verb].name, tenant, plain_array(only_ids(runs)), _text(arguments))
    return Statement(
        "apply_to_many", parameters, lambda rows: [*unknown, *(_applied(*row) for row in rows)]
    )


def _applied(run: str, status: str | None, refusal: str | None, detail: str | None) -> Applied:
    if refusal is None and status is not None:
        return Applied(run, Status(status))
    known = SQLSTATES.get(refusal or "")
    if known is None:  # of a lock, not of ours
        return Applied(run, error=StoreBusy(f"Another transaction holds run {run}."))
    return Applied(run, error=known(*msgspec.json.decode(detail or "[]")))


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _to_run(verb: str, run: RunRef, *parameters: object) -> Statement[RunRecord]:
    name = (run.tenant, id_or_nobody(run.id))
    return Statement(verb, (*name, *parameters), one(RunRecord), about=run.id)
