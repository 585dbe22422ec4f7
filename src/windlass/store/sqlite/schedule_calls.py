"""Every operation on schedules as a call: which function, on which kind of transaction."""

from collections.abc import Sequence
from datetime import datetime

from windlass.domain.timetable import (
    MOST_FORGOTTEN,
    ComingReply,
    Decision,
    DueReply,
    FireReply,
    NewSchedule,
    ReleaseReply,
    ScheduleFilter,
    ScheduleRef,
    ScheduleRow,
    SlotRow,
    Stored,
)
from windlass.store.interface import Call
from windlass.store.sqlite import firing, schedules
from windlass.store.sqlite.operations import Kind, SqliteCall


class SqliteSchedules:
    """The operations of :class:`windlass.store.scheduling.ScheduleOperations`."""

    def put(self, new: Sequence[NewSchedule], *, patient: bool = True) -> Call[Sequence[Stored]]:
        return SqliteCall(
            "put_schedules", Kind.WRITE, lambda tx: schedules.put(tx, new), repeatable=True
        )

    def get(self, ref: ScheduleRef) -> Call[ScheduleRow | None]:
        return SqliteCall(
            "get_schedule", Kind.READ, lambda tx: schedules.get(tx, ref), repeatable=True
        )

    def list(self, query: ScheduleFilter) -> Call[Sequence[ScheduleRow]]:
        return SqliteCall(
            "list_schedules", Kind.SCAN, lambda tx: schedules.list_all(tx, query), repeatable=True
        )

    def set_enabled(
        self,
        ref: ScheduleRef,
        enabled: bool,
        next_slot: datetime | None = None,
        version: int | None = None,
    ) -> Call[ScheduleRow | None]:
        return SqliteCall(
            "enable_schedule",
            Kind.WRITE,
            lambda tx: schedules.set_enabled(tx, ref, enabled, next_slot, version),
            repeatable=True,
        )

    def delete(self, ref: ScheduleRef, limit: int = MOST_FORGOTTEN) -> Call[bool]:
        return SqliteCall(
            "delete_schedule",
            Kind.WRITE,
            lambda tx: schedules.delete(tx, ref, limit),
            repeatable=True,
        )

    def forget_slots(self, limit: int = MOST_FORGOTTEN) -> Call[bool]:
        return SqliteCall(
            "forget_slots",
            Kind.WRITE,
            lambda tx: schedules.forget_slots(tx, limit),
            repeatable=True,
        )

    def due(self, limit: int) -> Call[DueReply]:
        return SqliteCall(
            "due_schedules", Kind.SCAN, lambda tx: schedules.due(tx, limit), repeatable=True
        )

    def coming(self, after: ScheduleRef | None, limit: int) -> Call[ComingReply]:
        return SqliteCall(
            "coming_schedules",
            Kind.SCAN,
            lambda tx: schedules.coming(tx, after, limit),
            repeatable=True,
        )

    def fire(self, decisions: Sequence[Decision]) -> Call[FireReply]:
        return SqliteCall(
            "fire_schedules", Kind.WRITE, lambda tx: firing.fire(tx, decisions), repeatable=True
        )

    def release_waiting(self, limit: int) -> Call[ReleaseReply]:
        return SqliteCall(
            "release_waiting",
            Kind.WRITE,
            lambda tx: firing.release_waiting(tx, limit),
            repeatable=True,
        )

    def slots(
        self, ref: ScheduleRef, before: datetime | None, limit: int
    ) -> Call[Sequence[SlotRow]]:
        return SqliteCall(
            "list_slots",
            Kind.READ,
            lambda tx: schedules.slots(tx, ref, before, limit),
            repeatable=True,
        )
