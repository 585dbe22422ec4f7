"""Control: what an operator asks of a run, and what a handler tells of its progress."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from windlass.domain.event import EventType
from windlass.domain.job import MOST_ATTEMPTS
from windlass.domain.run import Held, Options, ProgressReply, ProgressWrite, RunRecord, RunRef
from windlass.domain.states import TIMERS, Intent, Status, Verb, advance, resumed_by
from windlass.duration import MAX_SECONDS
from windlass.errors import BadArguments, RunNotFound, StepNotRecorded
from windlass.store.sqlite.audit import note_audit
from windlass.store.sqlite.changing import Told, edit_input
from windlass.store.sqlite.followers import let_go
from windlass.store.sqlite.keys import keep_key
from windlass.store.sqlite.moves import End, Moves
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.places import (
    live_place,
    record_now,
    refuse_too_late,
    waiting_place,
)
from windlass.store.sqlite.positions import Position, lease_of
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    micros_of,
    to_blob,
    to_id,
    to_json,
    to_json_or_none,
    to_micros,
    to_options,
    to_texts,
)

_TOO_LATE = datetime(9999, 12, 31, tzinfo=UTC)


def cancel(
    tx: OpenTransaction, run: RunRef, reason: str | None, *, by: str | None = None
) -> RunRecord:
    """End a run that waits; ask for the end of one that runs."""
    note_audit(tx, run, "cancel", by, reason)
    return stop_run(tx, run, reason)


def stop_run(tx: OpenTransaction, run: RunRef, reason: str | None) -> RunRecord:
    """The same for a parent, or a schedule, that ends it: they are no operators."""
    waits = waiting_place(tx, run)
    if waits is not None:
        moves = Moves(tx)
        moves.add(waits, Verb.CANCEL, end=End(reason=reason))
        moves.apply()
        return record_now(tx, run)
    row = tx.fetch_one("get_lease", (run.tenant, to_blob(run.id)))
    if row is not None:
        advance(Status.RUNNING, Verb.CANCEL, run=run.id)
        _request_end(tx, lease_of(row), reason)
        return record_now(tx, run)
    record = record_now(tx, run)
    if record.status is not Status.CANCELED:
        advance(record.status, Verb.CANCEL, run=run.id)
    return record


def pause(
    tx: OpenTransaction, run: RunRef, reason: str | None, *, by: str | None = None
) -> RunRecord:
    """Stop a run that does not run for now; ask a running one to stop."""
    note_audit(tx, run, "pause", by, reason)
    pause_run(tx, run, reason)
    return record_now(tx, run)


def pause_run(tx: OpenTransaction, run: RunRef, reason: str | None) -> bool:
    """The same for its batch, which is no operator; returns whether a worker is to be told."""
    place = live_place(tx, run, Verb.PAUSE)
    if place.status is Status.RUNNING:
        if place.wanted is None:
            _want(tx, place, Intent.PAUSE, reason, EventType.PAUSE_REQUESTED)
            return True
    elif place.status is not Status.PAUSED:
        moves = Moves(tx)
        moves.put_aside(place, reason)
        moves.apply()
    return False


def resume(tx: OpenTransaction, run: RunRef, *, by: str | None = None) -> RunRecord:
    """Let a paused run go on where it was; take the request to pause a running one back."""
    note_audit(tx, run, "resume", by)
    resume_run(tx, run)
    return record_now(tx, run)


def resume_run(tx: OpenTransaction, run: RunRef) -> bool:
    """The same for its batch; returns whether it may be claimed now."""
    place = live_place(tx, run, Verb.RESUME)
    if place.wanted is Intent.PAUSE:
        _want(tx, place, None, None, EventType.RESUMED)
    elif place.status is Status.PAUSED:
        back, verb = _come_back(tx, place)
        status = advance(Status.PAUSED, verb)
        moves = Moves(tx)
        moves.add(back, verb, at=back.at, data={"to": status})
        moves.apply()
        tx.execute("wake_batch", (run.tenant, back.id))
        if back.why == "held":
            # A follower: what it comes after may have ended meanwhile.
            tx.execute("insert_wake", (run.tenant, back.id))
        return status is Status.QUEUED
    return False


def terminate(
    tx: OpenTransaction, run: RunRef, reason: str | None, *, by: str | None = None
) -> RunRecord:
    """End a run now; a running one loses its lease."""
    note_audit(tx, run, "terminate", by, reason)
    end_now(tx, run, "terminated" if reason is None else reason)
    name = (run.tenant, to_blob(run.id))
    if tx.execute("force_batch", name):
        # Its shards end with it, also if it was canceled before, and one of them does not react.
        tx.execute("insert_wake", name)
    return record_now(tx, run)


def end_now(tx: OpenTransaction, run: RunRef, reason: str) -> None:
    """The same for its batch, which is no operator."""
    if record_now(tx, run).status is not Status.CANCELED:
        moves = Moves(tx)
        moves.add(live_place(tx, run, Verb.TERMINATE), Verb.TERMINATE, end=End(reason=reason))
        moves.apply()


def restart(
    tx: OpenTransaction, run: RunRef, step: str | None, *, by: str | None = None
) -> RunRecord:
    """Let a run that does not run begin anew, from its start or from a step."""
    place = waiting_place(tx, run)
    if place is None:
        place = _reopen(tx, run, Verb.RESTART)
    else:
        advance(place.status, Verb.RESTART, run=run.id)
    told = None if step is None else {"step": step}
    _leave_hold(tx, place)
    let_go(tx, place)
    _forget_steps(tx, place, step)
    moves = Moves(tx)
    place = place._replace(failures=0, crash_count=0, waits=None, was_why=None, was_at=None)
    moves.add(place, Verb.RESTART, data=told)
    moves.apply()
    note_audit(tx, run, "restart", by, detail=told)
    return record_now(tx, run)


def _leave_hold(tx: OpenTransaction, place: Position) -> None:
    """A child that its siblings held back counts as one that may run from now on."""
    if place.why == "held":
        tx.execute("free_child", (place.tenant, place.id))


def _forget_steps(tx: OpenTransaction, place: Position, step: str | None) -> None:
    """Forget all steps of a run, or one and those recorded after it. Raises StepNotRecorded.

    They stay as records of their events. What they have started goes with them; a sweep cancels
    what of it lives. Signals that they took may be taken again.
    """
    name, attempt, seq = (place.tenant, place.id), place.attempt, None
    if step is not None:
        ((known, seq),) = tx.fetch("seq_of_step", (*name, attempt, step))
        if not known:
            raise StepNotRecorded(to_id(place.id), step)
    for (path,) in tx.fetch("steps_from", (*name, attempt, step, seq)):
        tx.execute("forget_step", (attempt, *name, path))
        tx.execute("forget_children", (attempt, *name, path))
        tx.execute("free_signals", (*name, path))
    tx.execute("delete_progress", name)
    if tx.fetch("children_to_cancel", (*name, 1, 0, 1)):
        tx.execute("insert_wake", name)


def retry(
    tx: OpenTransaction,
    run: RunRef,
    max_attempts: int | None,
    input: msgspec.Raw | None = None,
    *,
    by: str | None = None,
) -> RunRecord:
    """Reopen a finished run: queued, with a fresh budget."""
    note_audit(tx, run, "retry", by, detail=None if input is None else {"changed": ["input"]})
    if max_attempts is not None and not 1 <= max_attempts <= MOST_ATTEMPTS:
        raise BadArguments("retry", "takes max_attempts of 1 to 1,000,000", "max_attempts")
    place = _reopen(tx, run, Verb.RETRY, max_attempts)
    told: Told = {} if max_attempts is None else {"max_attempts": max_attempts}
    if input is not None and (difference := edit_input(tx, run, input)) is not None:
        told["input"] = difference
    let_go(tx, place)
    moves = Moves(tx)
    moves.add(place, Verb.RETRY, data=told or None)
    moves.apply()
    return record_now(tx, run)


def reschedule(
    tx: OpenTransaction,
    run: RunRef,
    at: datetime | None,
    delay: float | None,
    by: str | None = None,
) -> RunRecord:
    """Move a run that waits to another time; reopen one that ended, for that time."""
    due = max(tx.now, _chosen(tx.now, at, delay))
    note_audit(tx, run, "reschedule", by, detail={"at": from_micros(due)})
    moves = Moves(tx)
    place = waiting_place(tx, run)
    if place is None:
        place = _reopen(tx, run, Verb.RESCHEDULE)
    else:
        advance(place.status, Verb.RESCHEDULE, run=run.id)
        times = [at for at in (place.expires_at, place.deadline_at) if at is not None]
        refuse_too_late(run, min(times, default=None), due)
        _leave_hold(tx, place)
    let_go(tx, place)
    moves.add(place, Verb.RESCHEDULE, at=due, data={"at": from_micros(due)})
    moves.apply()
    tx.execute("move_run", (due, place.tenant, place.id))
    return record_now(tx, run)


def reprioritize(
    tx: OpenTransaction,
    run: RunRef,
    *,
    priority: int | None,
    queue: str | None,
    by: str | None = None,
) -> RunRecord:
    """Give a run that waits another place among those that wait."""
    chosen = {"priority": priority, "queue": queue}
    detail = {name: value for name, value in chosen.items() if value is not None}
    note_audit(tx, run, "reprioritize", by, detail=detail)
    place = waiting_place(tx, run)
    if place is None:
        advance(record_now(tx, run).status, Verb.REPRIORITIZE, run=run.id)
        raise AssertionError("a run that does not wait cannot be given another place")
    place = place._replace(
        queue=place.queue if queue is None else queue,
        rank=place.rank if priority is None else -priority,
    )
    moves = Moves(tx)
    moves.add(place, Verb.REPRIORITIZE, data={"priority": -place.rank, "queue": place.queue})
    moves.apply()
    tx.execute("place_run", (place.queue, -place.rank, place.tenant, place.id))
    return record_now(tx, run)


def discard(tx: OpenTransaction, tenant: str, runs: Sequence[str], *, by: str | None = None) -> int:
    """Take failed runs off the list of dead letters; return how many were on it."""
    discarded = 0
    for run in runs:
        name = (tenant, blob_or_none(run))
        if tx.execute("discard_failure", (tx.now, *name)):
            for seq, attempt in tx.fetch("discard_seq", name):
                event = (*name, seq, EventType.DISCARDED, tx.now, attempt, None)
                tx.execute("insert_event", event)
            note_audit(tx, RunRef(tenant, run), "discard", by)
            discarded += 1
    return discarded


def record_progress(tx: OpenTransaction, reports: Sequence[ProgressWrite]) -> ProgressReply:
    """Write the latest progress of runs, each under the token of its lease."""
    lost = []
    for report in reports:
        if not holds(tx, report.held):
            lost.append(report.held)
            continue
        detail = to_json_or_none(report.detail)
        told = (report.fraction, report.message, detail, tx.now)
        tx.execute("put_progress", (report.tenant, to_blob(report.id), *told))
    return ProgressReply(lost=lost)


def holds(tx: OpenTransaction, held: Held) -> bool:
    """Whether the lease is still there: what writes under it asks first."""
    found = tx.fetch_one("lease_token", (held.tenant, blob_or_none(held.id)))
    return found == (held.token,)


def _reopen(
    tx: OpenTransaction, run: RunRef, verb: Verb, max_attempts: int | None = None
) -> Position:
    """Take a run out of its end; to give it its position is for the caller."""
    blob = to_blob(run.id)
    row = tx.fetch_one("run_state", (run.tenant, blob))
    if row is None:
        raise RunNotFound(run.id)
    status, stale_at, job, queue, rank, attempt, token, seq, options, schedule, slot = row[:11]
    current = record_now(tx, run).status if status is None else Status(status)
    advance(current, verb, run=run.id, stale=stale_at is not None)
    chosen = to_options(options) or Options()
    if chosen.frees_key:
        keep_key(tx, (run.tenant, job), blob, *row[11:])
    if max_attempts is not None:
        options = to_json(msgspec.structs.replace(chosen, max_attempts=max_attempts))
    tx.execute("keep_success", (run.tenant, blob))
    seq += tx.execute("keep_stale", (run.tenant, blob))
    tx.execute("reopen_run", (options, run.tenant, blob))
    tx.execute("delete_failure", (run.tenant, blob))
    tx.execute("forget_failed_steps", (attempt, run.tenant, blob))
    forced = tx.fetch_one("is_forced", (run.tenant, blob)) is not None
    tx.execute("forget_failed_children", (attempt, run.tenant, blob, int(forced)))
    tx.execute("reopen_batch", (run.tenant, blob))
    if tx.fetch("children_to_cancel", (run.tenant, blob, 1, 0, 1)):
        tx.execute("insert_wake", (run.tenant, blob))
    if schedule is not None:
        tx.execute("revive_live", (slot, blob, run.tenant, schedule))
    return Position(current, run.tenant, blob, job, queue, rank, attempt, 0, 0, token, seq)


def _chosen(now: int, at: datetime | None, delay: float | None) -> int:
    """The instant that an operator has chosen."""
    if (at is None) == (delay is None):
        raise BadArguments("reschedule", "takes either a time or a delay")
    if delay is not None:
        if not 0 <= delay <= MAX_SECONDS:  # which also refuses NaN
            raise BadArguments("reschedule", "takes a delay of 0 s to 100 years", "delay")
        return now + micros_of(delay)
    assert at is not None
    if at >= _TOO_LATE:
        why = "takes a time from the year 1 to the last day but one of 9999"
        raise BadArguments("reschedule", why, "at")
    return to_micros(at)


def _want(
    tx: OpenTransaction, lease: Position, intent: Intent | None, reason: str | None, told: EventType
) -> None:
    """Note what an operator wants of a running run, or that they want it no more."""
    name = (lease.tenant, lease.id)
    tx.execute("put_intent", (intent, reason, *name))
    data = None if reason is None else {"reason": reason}
    event = (lease.seq + 1, told, tx.now, lease.attempt, to_json_or_none(data))
    tx.execute("insert_event", (*name, *event))


def _come_back(tx: OpenTransaction, place: Position) -> tuple[Position, Verb]:
    """Where a paused run was, and by which verb it goes there."""
    before = TIMERS.get(place.was_why, Status.SCHEDULED) if place.was_why else Status.QUEUED
    come = place.was_at is None or place.was_at <= tx.now
    if not come and before is Status.WAITING:
        name = (place.tenant, place.id)
        come = any(
            tx.fetch_one("answered_wait", (*name, path)) is not None
            for path in to_texts(place.waits)
        )
    back = place._replace(why=place.was_why, at=place.was_at, was_why=None, was_at=None)
    return back, resumed_by(before, come=come)


def _request_end(tx: OpenTransaction, lease: Position, reason: str | None) -> None:
    name = (lease.tenant, lease.id)
    first = lease.wanted is not Intent.CANCEL
    tx.execute("request_cancel", (reason, lease.seq + first, *name))
    if first:
        data = None if reason is None else {"reason": reason}
        event = (lease.seq + 1, EventType.CANCEL_REQUESTED, tx.now, lease.attempt)
        tx.execute("insert_event", (*name, *event, to_json_or_none(data)))
