"""The verbs of schedules, in two faces over the same flows. A schedule is named by key or by id."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from windlass.client import Run
from windlass.domain.rules import Moment
from windlass.domain.run import Event
from windlass.domain.timetable import Overlap, SlotRow
from windlass.requester import Requester
from windlass.schedules.declared import Declarations, Declared, SyncReport
from windlass.schedules.flows import Backfilled, Flows, ListSchedules
from windlass.schedules.view import Schedule
from windlass.schedules.wanted import ScheduleTerms
from windlass.store.flow import Flow, arun_flow, run_flow

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.job import Job

T = TypeVar("T")


class Schedules:
    """Make, look, change, pause, resume, trigger, backfill, delete; `app.schedules`."""

    def __init__(self, app: "Windlass", requester: Requester) -> None:
        self._app = app
        self._flows = Flows(app, requester)
        self._declarations = Declarations(app, requester)

    def declare(
        self,
        job: "str | Job[Any, Any, Any]",
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Declared:
        """As `app.schedule`."""
        return self._declarations.declare(job, key, input, terms)

    def sync(self) -> SyncReport:
        """Store what the code and its job files declare, as each worker does when it starts."""
        report = run_flow(self._app.store, self._declarations.sync())
        if report.news:
            self._app.store.notify()
        return report

    async def announce(self) -> None:
        """As `sync`, in async code."""
        report = await arun_flow(self._app.store, self._declarations.sync())
        if report.news:
            await self._app.store.anotify()

    def left(self) -> Sequence[Schedule]:
        """The schedules that are stored as declared, and that this code does not declare."""
        return [Schedule(row) for row in run_flow(self._app.store, self._declarations.left())]

    def prune(self) -> Sequence[Schedule]:
        """Delete those, and return them. They may be another program's: look first."""
        return [Schedule(row) for row in run_flow(self._app.store, self._declarations.prune())]

    def put(
        self,
        job: "str | Job[Any, Any, Any]",
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Schedule:
        """Make a schedule, or change the one that has this key to what is said here.

        One that is known and the same is left as it is, and one that is paused stays so.
        """
        return self._told(self._flows.put(job, key, input, terms))

    async def aput(
        self,
        job: "str | Job[Any, Any, Any]",
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Schedule:
        """As `put`, in async code."""
        return await self._atold(self._flows.put(job, key, input, terms))

    def get(self, schedule: str) -> Schedule:
        """Read one, by key or id; raises ScheduleNotFound."""
        return Schedule(run_flow(self._app.store, self._flows.find(schedule)))

    async def aget(self, schedule: str) -> Schedule:
        """As `get`, in async code."""
        return Schedule(await arun_flow(self._app.store, self._flows.find(schedule)))

    def list(self, **query: Unpack[ListSchedules]) -> Sequence[Schedule]:
        """A page of schedules, newest first; the next page: before=the last one's id."""
        call = self._app.store.schedules.list(self._flows.filter(query))
        return [Schedule(row) for row in self._app.store.run(call)]

    async def alist(self, **query: Unpack[ListSchedules]) -> Sequence[Schedule]:
        """As `list`, in async code."""
        call = self._app.store.schedules.list(self._flows.filter(query))
        return [Schedule(row) for row in await self._app.store.arun(call)]

    def change(
        self,
        schedule: str,
        *,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Schedule:
        """Change some of its terms, or its input; what is not named stays."""
        return self._told(self._flows.change(schedule, input, terms))

    async def achange(
        self,
        schedule: str,
        *,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Schedule:
        """As `change`, in async code."""
        return await self._atold(self._flows.change(schedule, input, terms))

    def pause(self, schedule: str) -> Schedule:
        """Let no slot of it fire until it is resumed."""
        return self._told(self._flows.pause(schedule))

    async def apause(self, schedule: str) -> Schedule:
        """As `pause`, in async code."""
        return await self._atold(self._flows.pause(schedule))

    def resume(self, schedule: str) -> Schedule:
        """Go on with the first slot after now; those of the pause are neither run nor missed."""
        return self._told(self._flows.resume(schedule))

    async def aresume(self, schedule: str) -> Schedule:
        """As `resume`, in async code."""
        return await self._atold(self._flows.resume(schedule))

    def trigger(self, schedule: str, *, overlap: str | Overlap | None = None) -> Run | None:
        """Make a run of it now, besides its slots; it works on a paused one as well.

        Its policy counts, unless `overlap` is given: where an earlier run is live and the policy
        is "skip" it raises ScheduleBusy; where it is "queue" it returns None, and the run is made
        when that one has ended.
        """
        return self._told(self._flows.trigger(schedule, overlap))

    async def atrigger(self, schedule: str, *, overlap: str | Overlap | None = None) -> Run | None:
        """As `trigger`, in async code."""
        return await self._atold(self._flows.trigger(schedule, overlap))

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
        return self._told(self._flows.backfill(schedule, start, end, overlap))

    async def abackfill(
        self,
        schedule: str,
        start: Moment,
        end: Moment | None = None,
        *,
        overlap: str | Overlap | None = None,
    ) -> Backfilled:
        """As `backfill`, in async code."""
        return await self._atold(self._flows.backfill(schedule, start, end, overlap))

    def delete(self, schedule: str) -> None:
        """Delete it and the record of its slots; its runs stay. Raises ScheduleNotFound."""
        run_flow(self._app.store, self._flows.delete(schedule))

    async def adelete(self, schedule: str) -> None:
        """As `delete`, in async code."""
        await arun_flow(self._app.store, self._flows.delete(schedule))

    def slots(
        self, schedule: str, *, before: datetime | None = None, limit: int = 50
    ) -> Sequence[SlotRow]:
        """What became of its slots, newest first."""
        return run_flow(self._app.store, self._flows.slots(schedule, before, limit))

    async def aslots(
        self, schedule: str, *, before: datetime | None = None, limit: int = 50
    ) -> Sequence[SlotRow]:
        """As `slots`, in async code."""
        return await arun_flow(self._app.store, self._flows.slots(schedule, before, limit))

    def events(self, schedule: str, *, after: int = 0, limit: int = 1000) -> Sequence[Event]:
        """Its history, in order: made, changed, paused, missed, skipped."""
        return run_flow(self._app.store, self._flows.events(schedule, after, limit))

    async def aevents(self, schedule: str, *, after: int = 0, limit: int = 1000) -> Sequence[Event]:
        """As `events`, in async code."""
        return await arun_flow(self._app.store, self._flows.events(schedule, after, limit))

    def _told(self, flow: Flow[T]) -> T:
        result = run_flow(self._app.store, flow)
        self._app.store.notify()  # so that schedulers look again
        return result

    async def _atold(self, flow: Flow[T]) -> T:
        result = await arun_flow(self._app.store, flow)
        await self._app.store.anotify()
        return result
