"""What the tests of schedules are written with: a driver's hands on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.conformance.kit import JOB, QUEUE, Driver, raw
from windlass.domain.event import EventType
from windlass.domain.run import DEFAULT_TENANT, Event, NewRun, RunRef
from windlass.domain.scheduling.rows import (
    Decision,
    DueReply,
    Fired,
    Firing,
    NewSchedule,
    ReleaseReply,
    ScheduleFilter,
    ScheduleRef,
    ScheduleRow,
    SlotRow,
    Stored,
)
from windlass.store.operations.schedules import ScheduleOperations

MINUTE = timedelta(minutes=1)


def minute(number: int) -> datetime:
    """The slots of the tests: minutes of an hour long gone."""
    return datetime(2020, 2, 29, 12, 0, tzinfo=UTC) + number * MINUTE


class Desk:
    """Schedules, through a driver's face. A slot comes each minute from `minute(0)` on."""

    def __init__(self, drive: Driver) -> None:
        self.drive = drive
        self.call = drive.call

    @property
    def ops(self) -> ScheduleOperations:
        """Where calls are made."""
        return self.drive.store.operations

    def new(self, **fields: Any) -> NewSchedule:
        """A schedule that is not yet stored."""
        given: dict[str, Any] = {
            "id": self.drive.sources.new_id(), "job": JOB, "rule": raw({"every": 60}),
            "input": raw({"n": 1}), "next_slot": minute(0),
        }  # fmt: skip
        return NewSchedule(**(given | fields))

    def store(self, *schedules: NewSchedule) -> Sequence[Stored]:
        """Store these, in one call."""
        return self.call(self.ops.put_schedules(schedules))

    def put(self, **fields: Any) -> ScheduleRow:
        """Store one new schedule."""
        (stored,) = self.store(self.new(**fields))
        return stored.row

    def get(self, row: ScheduleRow) -> ScheduleRow:
        """A schedule that must be there, as it is now."""
        found = self.call(self.ops.get_schedule(row.ref))
        assert found is not None
        return found

    def list(self, **fields: Any) -> Sequence[str]:
        """The ids on one page of a listing."""
        return [row.id for row in self.call(self.ops.list_schedules(ScheduleFilter(**fields)))]

    def due(self, limit: int = 100) -> DueReply:
        """What is due."""
        return self.call(self.ops.due_schedules(limit))

    def run(self, row: ScheduleRow, **fields: Any) -> NewRun:
        """The run of a slot, not yet made."""
        given = {"tenant": row.tenant, "job": row.job, "queue": QUEUE, "input": row.input}
        return NewRun(id=self.drive.sources.new_id(), **(given | fields))

    def decide(
        self, row: ScheduleRow, number: int = 1, *, run: dict[str, Any] | None = None, **fields: Any
    ) -> Decision:
        """Fire the next so many slots of a schedule that is as it was read."""
        assert row.next_slot is not None
        slots = [row.next_slot + i * MINUTE for i in range(number)]
        given: dict[str, Any] = {
            "tenant": row.tenant, "id": row.id, "version": row.version,
            "expected_slot": row.next_slot, "next_slot": row.next_slot + number * MINUTE,
            "slots": tuple(Firing(slot=slot, run=self.run(row, **(run or {}))) for slot in slots),
        }  # fmt: skip
        return Decision(**(given | fields))

    def apply(self, *decisions: Decision) -> Sequence[Fired]:
        """Apply decisions, in one call."""
        return self.call(self.ops.fire_schedules(decisions)).results

    def fire(self, row: ScheduleRow, number: int = 1, **fields: Any) -> Fired:
        """Fire the next so many slots of a schedule, as it is now."""
        (fired,) = self.apply(self.decide(self.get(row), number, **fields))
        assert not fired.lost
        return fired

    def start(self, row: ScheduleRow, **fields: Any) -> RunRef:
        """Fire the next slot of a schedule; it must make a run."""
        (made,) = self.fire(row, **fields).fired
        return RunRef(made.tenant, made.run)

    def release(self, limit: int = 100) -> ReleaseReply:
        """Let slots that wait have their turn."""
        return self.call(self.ops.release_waiting(limit))

    def slots(
        self, row: ScheduleRow, before: datetime | None = None, limit: int = 200
    ) -> Sequence[SlotRow]:
        """What became of a schedule's slots, newest first."""
        return self.call(self.ops.list_slots(row.ref, before, limit))

    def outcomes(self, row: ScheduleRow) -> Sequence[str]:
        """What became of a schedule's slots, oldest first."""
        return [slot.outcome.value for slot in reversed(self.slots(row))]

    def events(self, row: ScheduleRow) -> Sequence[Event]:
        """A schedule's history."""
        return self.drive.events(RunRef(row.tenant, row.id))

    def trail(self, row: ScheduleRow) -> Sequence[EventType]:
        """What happened to a schedule, by name; its seq must be 1 to n."""
        return self.drive.trail(RunRef(row.tenant, row.id))


def by_key(key: str, tenant: str = DEFAULT_TENANT) -> ScheduleRef:
    """A schedule's name of the application's own."""
    return ScheduleRef(tenant=tenant, key=key)
