"""Will the schedules make their runs, and will somebody run those?"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from windlass.app import Windlass
from windlass.domain.checkup import Finding, Limits, counted, error, fine, warning
from windlass.domain.scheduling.rows import ScheduleFilter, ScheduleRow, SlotOutcome
from windlass.errors import BadOption
from windlass.schedules import Schedule
from windlass.store.checks import Check

_LISTED = 1_000
_MOST = 10
_SLOTS = 100


def checks(app: Windlass) -> Iterator[Check]:
    """Rules, slots and who serves their jobs."""
    yield Check(name="schedules", look=lambda limits: _check_schedules(app, limits))


def _check_schedules(app: Windlass, limits: Limits) -> Iterator[Finding]:
    query = ScheduleFilter(tenant=app.settings.tenant, limit=_LISTED)
    rows = app.store.run(app.store.operations.list_schedules(query))
    now = app.store.run(app.store.operations.due_schedules(1)).now
    awake = [row for row in rows if row.enabled and row.next_slot is not None]
    told = [
        *_unreadable(rows),
        *_overdue(awake, now, limits),
        *_missed(app, rows, now, limits),
        *_unserved(app, awake),
    ]
    yield from told[:_MOST]
    if not told:
        yield fine(
            f"{counted(len(awake), 'schedule')} on, nothing wrong." if rows else "There are none."
        )


def _unreadable(rows: Sequence[ScheduleRow]) -> Iterator[Finding]:
    for row in rows:
        try:
            _ = Schedule(row).timetable
        except BadOption as problem:
            yield error(
                f"Schedule {_name(row)} cannot be read: {problem.why}.",
                f"Define it anew, or run `windlass schedules delete {_name(row)}`.",
            )


def _overdue(awake: Sequence[ScheduleRow], now: datetime, limits: Limits) -> Iterator[Finding]:
    late = [row for row in awake if (now - (row.next_slot or now)).total_seconds() > limits.late]
    if late:
        slot = (late[0].next_slot or now).astimezone(UTC)
        yield warning(
            f"{counted(len(late), 'schedule')} with slots that nobody fired: "
            f"{_name(late[0])} that of {slot:%Y-%m-%d %H:%M:%S}Z.",
            "Start a `windlass worker` without --no-services.",
        )


def _missed(
    app: Windlass, rows: Sequence[ScheduleRow], now: datetime, limits: Limits
) -> Iterator[Finding]:
    since = now - timedelta(seconds=limits.recent)
    for row in [row for row in rows if row.missed][:_MOST]:
        slots = app.store.run(app.store.operations.list_slots(row.ref, None, _SLOTS))
        missed = [s for s in slots if s.outcome is SlotOutcome.MISSED and s.at > since]
        if missed:
            yield warning(
                f"Schedule {_name(row)} missed {counted(len(missed), 'slot')} lately, the last one "
                f"at {missed[0].slot.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z.",
                "Keep a worker running at those times; `catch_up` decides what is made up for.",
            )


def _unserved(app: Windlass, awake: Sequence[ScheduleRow]) -> Iterator[Finding]:
    alive = [worker for worker in app.workers(runs=0) if worker.alive]
    if not alive:
        return  # told by the check of workers
    queues = {
        job.name: job.queue for job in app.store.run(app.store.operations.list_jobs(_tenant(app)))
    }
    for row in awake:
        queue = row.options.queue or queues.get(row.job)
        if not any(w.serves(queue, row.job) if queue else row.job in w.jobs for w in alive):
            yield warning(
                f"No worker serves {row.job!r}, which schedule {_name(row)} makes runs of.",
                "Deploy the code that has the job, or pause the schedule.",
            )


def _tenant(app: Windlass) -> str:
    return app.settings.tenant


def _name(row: ScheduleRow) -> str:
    return row.key or row.id
