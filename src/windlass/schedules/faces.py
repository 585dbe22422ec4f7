"""The two faces of ScheduleVerbs: generated from schedules/verbs.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any, Unpack

    from windlass.client.run import Run
    from windlass.domain.run import Event
    from windlass.domain.scheduling.rows import (
        Overlap,
        SlotRow,
    )
    from windlass.domain.scheduling.rules import Moment
    from windlass.job import Job
    from windlass.schedules.declared import SyncReport
    from windlass.schedules.verbs import Backfilled, ListSchedules, ScheduleVerbs
    from windlass.schedules.view import Schedule
    from windlass.schedules.wanted import ScheduleTerms


class ScheduleFaces:
    """Every verb of ScheduleVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> ScheduleVerbs:
        """The flows."""
        ...

    def sync(self) -> SyncReport:
        """Store what the code and its job files declare, as each worker does when it starts.

        Raises StoreBusy where somebody has one of the schedules locked; the others are stored.
        """
        verbs = self._verbs
        return verbs.perform(verbs.sync())

    async def announce(self) -> SyncReport:
        """As `sync`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.sync())

    def left(self) -> Sequence[Schedule]:
        """List stored schedules that some code declared, and that this code does not declare."""
        verbs = self._verbs
        return verbs.perform(verbs.left())

    async def aleft(self) -> Sequence[Schedule]:
        """As `left`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.left())

    def prune(self) -> Sequence[Schedule]:
        """Delete what `left` lists, and return it. Look first: it may be another program's."""
        verbs = self._verbs
        return verbs.perform(verbs.prune())

    async def aprune(self) -> Sequence[Schedule]:
        """As `prune`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.prune())

    def put(
        self,
        job: str | Job[Any, Any, Any],
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Schedule:
        """Make a schedule, or change the one with this key to what you say here.

        One that is known and the same is left as it is, and one that is paused stays so.
        """
        verbs = self._verbs
        return verbs.perform(verbs.put(job, key=key, input=input, **terms))

    async def aput(
        self,
        job: str | Job[Any, Any, Any],
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Schedule:
        """As `put`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.put(job, key=key, input=input, **terms))

    def get(self, schedule: str) -> Schedule:
        """Read a schedule by its key or id. Raises ScheduleNotFound."""
        verbs = self._verbs
        return verbs.perform(verbs.get(schedule))

    async def aget(self, schedule: str) -> Schedule:
        """As `get`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.get(schedule))

    def list(self, **query: Unpack[ListSchedules]) -> Sequence[Schedule]:
        """List schedules, newest first; for the next page, pass the last one's id as `before`."""
        verbs = self._verbs
        return verbs.perform(verbs.list(**query))

    async def alist(self, **query: Unpack[ListSchedules]) -> Sequence[Schedule]:
        """As `list`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.list(**query))

    def change(
        self,
        schedule: str,
        *,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Schedule:
        """Change some terms of a schedule, or its input; the others stay as they are."""
        verbs = self._verbs
        return verbs.perform(verbs.change(schedule, input=input, **terms))

    async def achange(
        self,
        schedule: str,
        *,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Schedule:
        """As `change`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.change(schedule, input=input, **terms))

    def pause(self, schedule: str) -> Schedule:
        """Pause a schedule: no slot fires until it is resumed."""
        verbs = self._verbs
        return verbs.perform(verbs.pause(schedule))

    async def apause(self, schedule: str) -> Schedule:
        """As `pause`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.pause(schedule))

    def resume(self, schedule: str) -> Schedule:
        """Resume a schedule with the first slot after now; those of the pause are not missed."""
        verbs = self._verbs
        return verbs.perform(verbs.resume(schedule))

    async def aresume(self, schedule: str) -> Schedule:
        """As `resume`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.resume(schedule))

    def trigger(self, schedule: str, *, overlap: str | Overlap | None = None) -> Run | None:
        """Make a run now, in addition to the slots; works for a paused schedule too.

        Its policy counts, unless `overlap` is given: where an earlier run is live and the policy
        is "skip" it raises ScheduleBusy; where it is "queue" it returns None, and the run is made
        when that one has ended.
        """
        verbs = self._verbs
        return verbs.perform(verbs.trigger(schedule, overlap=overlap))

    async def atrigger(self, schedule: str, *, overlap: str | Overlap | None = None) -> Run | None:
        """As `trigger`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.trigger(schedule, overlap=overlap))

    def backfill(
        self,
        schedule: str,
        start: Moment,
        end: Moment | None = None,
        *,
        overlap: str | Overlap | None = None,
    ) -> Backfilled:
        """Make the runs of past slots, from `start` to `end` (both included; now unless given).

        A slot that has its run is passed over, so repeating it is harmless. Where the schedule
        allows overlap all of them are made at once, else one after the other, as by "queue".
        """
        verbs = self._verbs
        return verbs.perform(verbs.backfill(schedule, start, end, overlap=overlap))

    async def abackfill(
        self,
        schedule: str,
        start: Moment,
        end: Moment | None = None,
        *,
        overlap: str | Overlap | None = None,
    ) -> Backfilled:
        """As `backfill`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.backfill(schedule, start, end, overlap=overlap))

    def delete(self, schedule: str) -> None:
        """Delete a schedule and the record of its slots; its runs stay. Raises ScheduleNotFound."""
        verbs = self._verbs
        return verbs.perform(verbs.delete(schedule))

    async def adelete(self, schedule: str) -> None:
        """As `delete`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.delete(schedule))

    def slots(
        self, schedule: str, *, before: datetime | None = None, limit: int = 50
    ) -> Sequence[SlotRow]:
        """List the slots of a schedule, newest first, and what became of each."""
        verbs = self._verbs
        return verbs.perform(verbs.slots(schedule, before=before, limit=limit))

    async def aslots(
        self, schedule: str, *, before: datetime | None = None, limit: int = 50
    ) -> Sequence[SlotRow]:
        """As `slots`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.slots(schedule, before=before, limit=limit))

    def events(self, schedule: str, *, after: int = 0, limit: int = 1000) -> Sequence[Event]:
        """List the events of a schedule in order: made, changed, paused, missed, skipped."""
        verbs = self._verbs
        return verbs.perform(verbs.events(schedule, after=after, limit=limit))

    async def aevents(self, schedule: str, *, after: int = 0, limit: int = 1000) -> Sequence[Event]:
        """As `events`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.events(schedule, after=after, limit=limit))
