"""Reads: records by id, pages of a listing, events, counts."""

from collections.abc import Sequence
from typing import Any

from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.run import Attempt, Backlog, Event, RunFilter, RunRecord, RunRef
from windlass.domain.states import Failure, Intent, Status
from windlass.store.sqlite.database_errors import damaged
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import (
    EVER,
    MOST_LISTED,
    PAST_LAST_ID,
    blob_or_none,
    from_json,
    from_json_or_none,
    from_micros,
    from_micros_or_none,
    hex_list,
    to_error,
    to_id,
    to_json,
    to_json_or_none,
    to_micros,
    to_options,
    to_raw,
    to_texts,
)

MOST_COUNTED = 100_000

# Ids begin with the clock of whoever made them: a day of slack for clocks that are off.
_SLACK = 24 * 60 * 60 * 1_000_000

_LIVE = {
    Status.SCHEDULED: "list_scheduled",
    Status.QUEUED: "list_queued",
    Status.RUNNING: "list_running",
}


def get_run(tx: OpenTransaction, run: RunRef) -> RunRecord | None:
    """Return one run with its attempts."""
    found = get_runs(tx, run.tenant, [run.id])
    return found[0] if found else None


def has_ended(tx: OpenTransaction, run: RunRef) -> bool | None:
    """Return whether a run has ended; None: there is none."""
    blob = blob_or_none(run.id)
    found = None if blob is None else tx.fetch_one("has_ended", (run.tenant, blob))
    return None if found is None else bool(found[0])


def get_runs(tx: OpenTransaction, tenant: str, ids: Sequence[str]) -> Sequence[RunRecord]:
    """Return several runs, newest id first; unknown ids are left out."""
    blobs = {blob for blob in map(blob_or_none, ids) if blob is not None}
    return [_record(row) for row in tx.fetch("get_runs", (hex_list(list(blobs)), tenant))]


def list_runs(tx: OpenTransaction, query: RunFilter) -> Sequence[RunRecord]:
    """Return a page of runs, newest id first."""
    name = _listing(query)
    below = PAST_LAST_ID if query.before is None else blob_or_none(query.before)
    if name is None or below is None:
        return []
    start = -EVER if query.created_from is None else to_micros(query.created_from)
    end = EVER if query.created_to is None else to_micros(query.created_to)
    bindings = {
        "tenant": query.tenant,
        "below": min(below, _id_at(end + _SLACK)),
        "above": _id_at(start - _SLACK),
        "job": query.job,
        "queue": query.queue,
        "tag": query.tag,
        "status": Status.FAILED if query.dead or query.failure else query.status,
        "failure": query.failure,
        "dead": query.dead,
        "created_from": None if query.created_from is None else start,
        "created_to": None if query.created_to is None else end,
        "limit": min(query.limit, MOST_LISTED),
    }
    ids = [text for (text,) in tx.fetch(name, bindings)]
    rows = tx.fetch("get_runs", (to_json(ids), query.tenant))
    if len(rows) != len(ids):  # on one snapshot: a page is never silently short
        raise damaged(f"{len(ids) - len(rows)} of {len(ids)} listed runs have no record")
    return [_record(row) for row in rows]


def list_attempts(
    tx: OpenTransaction, run: RunRef, before: int | None, limit: int
) -> Sequence[Attempt]:
    """Return a run's ended attempts, the last one first."""
    rows = tx.fetch("list_attempts", (run.tenant, blob_or_none(run.id), before, limit))
    return [_attempt(row) for row in rows]


def list_events(tx: OpenTransaction, run: RunRef, after: int, limit: int) -> Sequence[Event]:
    """Return a run's events with seq > ``after``, in order."""
    rows = tx.fetch("list_events", (run.tenant, blob_or_none(run.id), after, limit))
    return [
        Event(
            seq=seq,
            type=EventType(kind),
            at=from_micros(at),
            attempt=attempt,
            data=from_json_or_none(data),
        )
        for seq, kind, at, attempt, data in rows
    ]


def backlog(
    tx: OpenTransaction, queues: Sequence[str] | None, jobs: Sequence[str] | None
) -> Backlog:
    """Return what is left to do, over all tenants; each count ends at MOST_COUNTED."""
    bindings = {
        "queues": to_json_or_none(queues),
        "jobs": to_json_or_none(jobs),
        "now": tx.now,
        "most": MOST_COUNTED,
    }
    row = tx.fetch_one("backlog", bindings)
    ready, running, retrying, scheduled, oldest = row or (0, 0, 0, 0, None)
    return Backlog(
        ready=ready,
        running=running,
        retrying=retrying,
        scheduled=scheduled,
        oldest_ready_at=from_micros_or_none(oldest),
    )


def _listing(query: RunFilter) -> str | None:
    """Return the name of the statement that walks the right table; None: nothing can match."""
    only_failed = query.dead or query.failure is not None
    if only_failed and query.status not in (None, Status.FAILED):
        return None
    if query.tag is not None:
        return "list_tagged"
    if only_failed or query.status in (Status.FAILED, Status.CANCELED):
        return "list_failures"
    if query.status is None:
        return "list_all" if query.job is None else "list_of_job"
    if query.status is Status.SUCCEEDED:
        return "list_succeeded" if query.job is None else "list_succeeded_of_job"
    return _LIVE.get(query.status)


def _id_at(micros: int) -> bytes:
    """Return the smallest UUIDv7 of an instant, or what is before or after all ids."""
    millis = micros // 1000
    if millis >= 2**48:
        return PAST_LAST_ID
    return max(0, millis).to_bytes(6, "big") + bytes(10)


def _attempts(text: str) -> tuple[Attempt, ...]:
    rows: list[list[Any]] = sorted(from_json(text))
    return tuple(_attempt(row) for row in rows)


def _attempt(row: Sequence[Any]) -> Attempt:
    attempt, token, worker, outcome, started_at, finished_at, error, version = row
    return Attempt(
        attempt=attempt,
        token=token,
        worker=worker,
        outcome=AttemptOutcome(outcome),
        started_at=from_micros(started_at),
        finished_at=from_micros(finished_at),
        error=to_error(error),
        version=version,
    )


def _record(row: Row) -> RunRecord:
    (
        tenant, blob, job, queue, status, priority, attempt, failures, crash_count, token,
        created_at, scheduled_for, updated_at, input_, key, tags, options, trace, result, error,
        failure, intent, reason, why, due_at, expires_at, deadline_at, running_since, started_at,
        finished_at, stale_at, discarded_at, worker, fraction, message, schedule,
        slot, attempts_text,
    ) = row  # fmt: skip
    if status is None:
        raise damaged(f"run {to_id(blob)} has not ended, and is nowhere")
    attempts = _attempts(attempts_text)
    last = attempts[-1] if attempts else None
    started = from_micros_or_none(started_at if running_since is None else running_since)
    return RunRecord(
        tenant=tenant, id=to_id(blob), job=job, queue=queue, status=Status(status),
        priority=priority, attempt=attempt, failures=failures, crash_count=crash_count,
        token=token, created_at=from_micros(created_at), scheduled_for=from_micros(scheduled_for),
        updated_at=from_micros(created_at if updated_at is None else updated_at),
        input=to_raw(input_), key=key, tags=to_texts(tags), options=to_options(options),
        trace=trace, result=to_raw(result), error=to_error(error),
        failure=None if failure is None else Failure(failure),
        intent=None if intent is None else Intent(intent),
        reason=reason, waiting_for=why, due_at=from_micros_or_none(due_at),
        expires_at=from_micros_or_none(expires_at), deadline_at=from_micros_or_none(deadline_at),
        started_at=last.started_at if started is None and last is not None else started,
        finished_at=from_micros_or_none(finished_at), stale_at=from_micros_or_none(stale_at),
        discarded_at=from_micros_or_none(discarded_at),
        worker=last.worker if worker is None and last is not None else worker,
        progress=fraction, progress_message=message,
        schedule=None if schedule is None else to_id(schedule), slot=from_micros_or_none(slot),
        attempts=attempts,
    )  # fmt: skip
