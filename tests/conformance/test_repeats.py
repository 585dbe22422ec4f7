"""Which calls may be repeated when their reply is lost: the same on both stores."""

from __future__ import annotations

from typing import Any

from tests.conformance.kit import ABSENT, make_worker
from windlass.domain.run import Held, RunFilter, RunRef, Want
from windlass.domain.timetable import ScheduleFilter, ScheduleRef
from windlass.store.interface import Call, Operations
from windlass.store.postgres.operations import PostgresOperations
from windlass.store.postgres.schedules import PostgresSchedules
from windlass.store.scheduling import ScheduleOperations
from windlass.store.sqlite.operations import SqliteOperations
from windlass.store.sqlite.schedule_calls import SqliteSchedules

RUN, HELD, SCHEDULE = RunRef("default", ABSENT), Held("default", ABSENT, 1), ScheduleRef(key="k")


def _sweep(ops: Operations, *, reap: bool) -> Call[Any]:
    return ops.sweep(dispatch=True, expire=True, reap=reap, max_crashes=3, limit=1)


def _repeatable(ops: Operations, schedules: ScheduleOperations) -> dict[str, bool]:
    calls: dict[str, Call[Any]] = {
        "sync_jobs": ops.sync_jobs([]),
        "register": ops.register(make_worker(), 30.0),
        "claim": ops.cycle("w", 1, [], Want(limit=1, jobs=("greet",))),
        "finish": ops.cycle("w", 1, [], None),
        "renew": ops.renew("w", 30.0, [], 0),
        "retire": ops.retire("w"),
        "list_workers": ops.list_workers(),
        "sweep": _sweep(ops, reap=False),
        "reap": _sweep(ops, reap=True),
        "unpublished": ops.unpublished(1.0, 1),
        "progress": ops.progress(HELD, None, None),
        "cancel": ops.cancel(RUN, None),
        "retry": ops.retry(RUN, None),
        "reschedule": ops.reschedule(RUN, delay=1.0),
        "discard": ops.discard("default", [ABSENT]),
        "list_runs": ops.list_runs(RunFilter()),
        "delete_artifact": ops.artifacts.delete("default", ABSENT),
        "put_schedules": schedules.put([]),
        "list_schedules": schedules.list(ScheduleFilter()),
        "enable_schedule": schedules.set_enabled(SCHEDULE, True),
        "delete_schedule": schedules.delete(SCHEDULE),
        "forget_slots": schedules.forget_slots(),
        "due": schedules.due(1),
        "fire": schedules.fire([]),
        "release": schedules.release_waiting(1),
        "slots": schedules.slots(SCHEDULE, None, 1),
    }
    return {name: call.repeatable for name, call in calls.items()}


def test_both_stores_repeat_the_same_calls() -> None:
    repeatable = _repeatable(SqliteOperations(), SqliteSchedules())

    assert repeatable == _repeatable(PostgresOperations(), PostgresSchedules())
    assert {name for name, may in repeatable.items() if not may} == {
        "claim", "retry", "reschedule", "discard", "delete_artifact",
    }  # fmt: skip
