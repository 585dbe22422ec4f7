"""Reads: records by id, attempts, events, what is left to do."""

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.run import Attempt, Backlog, Event, RunRecord, RunRef
from windlass.domain.states import Failure, Intent, Status
from windlass.store.sqlite.database_errors import damaged
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.values import (
    blob_or_none,
    from_json,
    from_json_or_none,
    from_micros,
    from_micros_or_none,
    hex_list,
    to_detail,
    to_error,
    to_id,
    to_id_or_none,
    to_json_or_none,
    to_options,
    to_raw,
    to_texts,
)

MOST_COUNTED = 100_000


def get_run(tx: OpenTransaction, run: RunRef) -> RunRecord | None:
    """Return one run with its attempts."""
    found = get_runs(tx, run.tenant, [run.id])
    return found[0] if found else None


def has_ended(tx: OpenTransaction, run: RunRef) -> bool | None:
    """Return whether a run has ended; None: there is none."""
    blob = blob_or_none(run.id)
    found = None if blob is None else tx.fetch_one("has_ended", (run.tenant, blob))
    return None if found is None else bool(found[0])


def look_for_ends(tx: OpenTransaction, tenant: str, ids: Sequence[str]) -> Mapping[str, bool]:
    """Return which of several runs have ended; unknown ids are left out."""
    blobs = [blob for blob in map(blob_or_none, ids) if blob is not None]
    rows = tx.fetch("look_for_ends", (hex_list(blobs), tenant))
    return {to_id(blob): bool(ended) for blob, ended in rows}


def get_runs(tx: OpenTransaction, tenant: str, ids: Sequence[str]) -> Sequence[RunRecord]:
    """Return several runs, newest id first; unknown ids are left out."""
    blobs = {blob for blob in map(blob_or_none, ids) if blob is not None}
    return [_record(row) for row in tx.fetch("get_runs", (hex_list(list(blobs)), tenant))]


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
    ready, running, retrying, scheduled, oldest, paused = row or (0, 0, 0, 0, None, 0)
    return Backlog(
        ready=ready,
        running=running,
        retrying=retrying,
        scheduled=scheduled,
        oldest_ready_at=from_micros_or_none(oldest),
        paused=paused,
    )


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
        created_at, scheduled_for, updated_at, input_, key, tags, options, trace, metadata,
        enqueued_by, result, error,
        failure, intent, reason, why, waits, due_at, expires_at, deadline_at, running_since,
        started_at, finished_at, stale_at, discarded_at, worker, fraction, message, detail,
        told_at, schedule, slot, parent, root, attempts_text,
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
        trace=trace, metadata=to_raw(metadata), enqueued_by=to_id_or_none(enqueued_by),
        result=to_raw(result), error=to_error(error),
        failure=None if failure is None else Failure(failure),
        intent=None if intent is None else Intent(intent),
        reason=reason, waiting_for=why, waits=to_texts(waits),
        due_at=from_micros_or_none(due_at),
        expires_at=from_micros_or_none(expires_at), deadline_at=from_micros_or_none(deadline_at),
        started_at=last.started_at if started is None and last is not None else started,
        finished_at=from_micros_or_none(finished_at), stale_at=from_micros_or_none(stale_at),
        discarded_at=from_micros_or_none(discarded_at),
        worker=last.worker if worker is None and last is not None else worker,
        progress=fraction, progress_message=message,
        progress_detail=to_detail(detail), progress_at=from_micros_or_none(told_at),
        schedule=to_id_or_none(schedule), slot=from_micros_or_none(slot),
        parent=to_id_or_none(parent), root=to_id_or_none(root), attempts=attempts,
    )  # fmt: skip
