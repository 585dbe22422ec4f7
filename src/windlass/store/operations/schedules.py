"""What is done to schedules, and to their slots."""

from collections.abc import Sequence
from datetime import datetime

from windlass.domain.scheduling.rows import (
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
from windlass.store.operations.declare import read, scan, write


class ScheduleOperations:
    """The operations on schedules. What is due when is decided elsewhere; this guards it.

    Overlap is judged by the runs that are live when a slot fires, in the same transaction. A
    run's end does not touch the tables of schedules.
    """

    @write(patient=lambda schedules, patient: patient)
    def put_schedules(
        self, schedules: Sequence[NewSchedule], *, patient: bool = True
    ) -> Sequence[Stored]:
        """Store schedules, found by key or, without one, by id; answers in the order given.

        A known one whose job, rule, input, options, overlap and key are the same is left as it
        is. A changed one gets version + 1 and the ``next_slot`` given, unless it is paused;
        counters, history and whether it is enabled stay. Where the id names one schedule and
        the key another, nothing is written (``taken``).
        """

    @read()
    def get_schedule(self, ref: ScheduleRef) -> ScheduleRow | None:
        """One schedule."""

    @scan()
    def list_schedules(self, query: ScheduleFilter) -> Sequence[ScheduleRow]:
        """A page of schedules, newest id first."""

    @write(patient=True)
    def enable_schedule(
        self,
        ref: ScheduleRef,
        enabled: bool,
        next_slot: datetime | None = None,
        version: int | None = None,
    ) -> ScheduleRow | None:
        """Pause (``next_slot`` becomes null) or resume at ``next_slot``; returns the row.

        Nothing is changed where it is so already, nor where ``version`` is given and is not the
        row's: the slot was computed from another rule. None: there is no such schedule.
        """

    @write(patient=True)
    def delete_schedule(self, ref: ScheduleRef, limit: int = MOST_FORGOTTEN) -> bool:
        """Delete a schedule, what waits, and the record of its slots, at most ``limit`` of it: the
        rest is for :meth:`forget_slots`. Its runs and events stay."""

    @write()
    def forget_slots(self, limit: int = MOST_FORGOTTEN) -> bool:
        """Delete so much of what is left of the slots of schedules that were deleted, whoever
        deleted them; returns whether there may be more: call again."""

    @scan()
    def due_schedules(self, limit: int) -> DueReply:
        """Schedules whose next slot has come by the store's clock; locks and changes nothing."""

    @scan()
    def coming_schedules(self, after: ScheduleRef | None, limit: int) -> ComingReply:
        """The enabled schedules of all tenants that have a next slot, in the order of their names,
        from the one after ``after`` on: for whoever has to look at each of them."""

    @write(new_work=True, patient=lambda decisions: not any(d.advance for d in decisions))
    def fire_schedules(self, decisions: Sequence[Decision]) -> FireReply:
        """Apply decisions in one transaction, each wholly or not at all (``lost``).

        A slot makes one run at most, whoever decides, however often, by whatever clock: the
        advance from ``expected_slot`` is a compare-and-set, and a slot that is recorded is passed
        over. Repeating a call whose reply was lost reports ``lost`` for what it did.
        """

    @write(new_work=True)
    def release_waiting(self, limit: int) -> ReleaseReply:
        """Slots that wait become runs: the oldest of each enabled schedule without a live run."""

    @read()
    def list_slots(
        self, ref: ScheduleRef, before: datetime | None, limit: int
    ) -> Sequence[SlotRow]:
        """What became of a schedule's slots, newest first, before ``before``."""
