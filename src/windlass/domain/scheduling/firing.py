"""From a schedule's row to what is to be done about it: the runs that its slots make.

Pure: the scheduler, the trigger of an operator and a backfill differ in which slots they take, and
in whether the schedule moves on.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from windlass.domain.job import DEFAULT_QUEUE
from windlass.domain.run import JobRow, NewRun, Options
from windlass.domain.scheduling.definition import ScheduleDefinition, ScheduleState, due, realigned
from windlass.domain.scheduling.rows import Decision, Firing, Overlap, ScheduleRow
from windlass.errors import BadOption

NewId = Callable[[], str]


def schedule_of(row: ScheduleRow) -> ScheduleDefinition:
    """Read the rule of a row; raises BadOption where it makes no sense (any more)."""
    if row.flaw is not None:
        raise BadOption("schedule", row.flaw, "stored schedule")
    return ScheduleDefinition.from_json(row.rule)


def state_of(row: ScheduleRow) -> ScheduleState:
    """Where a schedule is; raises as `schedule_of`."""
    return ScheduleState(
        schedule=schedule_of(row),
        next_slot=row.next_slot,
        last_slot=row.last_slot,
        fired=row.fired,
    )


def decide(row: ScheduleRow, now: datetime, job: JobRow | None, new_id: NewId) -> Decision:
    """What is to happen to a schedule that the store has found to be due."""
    state = state_of(row)
    found = due(state, now)
    return Decision(
        tenant=row.tenant,
        id=row.id,
        version=row.version,
        expected_slot=row.next_slot,
        next_slot=found.next_slot,
        slots=_firings(row, state.schedule, found.slots_to_fire, job, new_id),
        missed=found.slots_missed,
        missed_count=found.missed_count,
        missed_at_least=found.missed_at_least,
    )


def realign(row: ScheduleRow, now: datetime) -> Decision | None:
    """Move the slot to come where the zone data of today have it; None: it is there.

    Never back to before somebody last changed or resumed it, whatever a clock that is off says.
    """
    slot = realigned(state_of(row), max(now, row.updated_at))
    if slot == row.next_slot:
        return None
    return Decision(
        tenant=row.tenant,
        id=row.id,
        version=row.version,
        expected_slot=row.next_slot,
        next_slot=slot,
    )


def by_hand(
    row: ScheduleRow,
    slots: Iterable[datetime],
    job: JobRow | None,
    new_id: NewId,
    overlap: Overlap | None = None,
) -> Decision:
    """Make runs of slots because somebody says so; the schedule stays where it is."""
    schedule = schedule_of(row)
    return Decision(
        tenant=row.tenant,
        id=row.id,
        slots=_firings(row, schedule, slots, job, new_id),
        overlap=overlap,
        advance=False,
    )


def _firings(
    row: ScheduleRow,
    schedule: ScheduleDefinition,
    slots: Iterable[datetime],
    job: JobRow | None,
    new_id: NewId,
) -> tuple[Firing, ...]:
    offset = schedule.offset(row.id)
    return tuple(
        Firing(slot=slot, run=_run(row, new_id(), slot + offset if offset else None, job))
        for slot in slots
    )


def _run(row: ScheduleRow, ident: str, at: datetime | None, job: JobRow | None) -> NewRun:
    """The run of one slot: the job's definition, with what the schedule overrides."""
    own = row.options
    queue, priority = (job.queue, job.priority) if job is not None else (DEFAULT_QUEUE, 0)
    options = None
    if own.max_attempts is not None or own.timeout is not None:
        options = Options(max_attempts=own.max_attempts, timeout=own.timeout)
    return NewRun(
        id=ident,
        tenant=row.tenant,
        job=row.job,
        job_version=None if job is None else job.version,
        queue=own.queue or queue,
        priority=priority if own.priority is None else own.priority,
        input=msgspec.Raw(row.input),
        options=options,
        tags=own.tags,
        at=at,
        expires_in=own.expires,
        deadline_in=own.deadline,
        trace=own.trace,
        metadata=None if own.metadata is None else msgspec.Raw(msgspec.json.encode(own.metadata)),
    )
