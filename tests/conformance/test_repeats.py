"""Which calls may be repeated when their reply is lost."""

from __future__ import annotations

from typing import Any

from tests.conformance.kit import ABSENT, make_worker
from windlass.domain.changes import Changes
from windlass.domain.listing import RunFilter
from windlass.domain.run import Held, RunRef, Want
from windlass.domain.scheduling.rows import ScheduleFilter, ScheduleRef
from windlass.store.operations import Call, Operations

RUN, HELD, SCHEDULE = RunRef("default", ABSENT), Held("default", ABSENT, 1), ScheduleRef(key="k")


def _sweep(ops: Operations, *, reap: bool) -> Call[Any]:
    return ops.sweep(dispatch=True, expire=True, reap=reap, max_crashes=3, limit=1)


def _repeatable(ops: Operations) -> dict[str, bool]:
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
        "record_progress": ops.record_progress([]),
        "cancel": ops.cancel(RUN, None),
        "retry": ops.retry(RUN, None),
        "reschedule": ops.reschedule(RUN, delay=1.0),
        "reprioritize": ops.reprioritize(RUN, priority=1),
        "change": ops.change(RUN, Changes(timeout=None)),
        "discard": ops.discard("default", [ABSENT]),
        "list_runs": ops.list_runs(RunFilter()),
        "delete_artifact": ops.delete_artifact("default", ABSENT),
        "put_schedules": ops.put_schedules([]),
        "list_schedules": ops.list_schedules(ScheduleFilter()),
        "enable_schedule": ops.enable_schedule(SCHEDULE, True),
        "delete_schedule": ops.delete_schedule(SCHEDULE),
        "forget_slots": ops.forget_slots(),
        "due": ops.due_schedules(1),
        "fire": ops.fire_schedules([]),
        "release": ops.release_waiting(1),
        "slots": ops.list_slots(SCHEDULE, None, 1),
    }
    return {name: call.repeatable for name, call in calls.items()}


def test_only_these_are_not_repeated() -> None:
    assert {name for name, may in _repeatable(Operations()).items() if not may} == {
        "claim", "retry", "reschedule", "discard", "delete_artifact",
    }  # fmt: skip
