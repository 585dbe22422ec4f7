"""What the verbs of schedules do, as flows: written once for both faces.

Each looks a schedule up, decides, and has the store guard what was decided: by the schedule's
version where a slot was computed from its rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from windlass.client import Run
from windlass.client.client import MOST_PER_PAGE
from windlass.domain.firing import by_hand
from windlass.domain.rules import MICROSECOND, Moment, parse_moment
from windlass.domain.run import Event, RunRecord, RunRef
from windlass.domain.schedule import check_new, parse_overlap
from windlass.domain.timetable import (
    DueReply,
    Fired,
    FireReply,
    Origin,
    Overlap,
    ScheduleFilter,
    ScheduleRef,
    ScheduleRow,
    SlotRow,
    Stored,
)
from windlass.errors import BadOption, ScheduleBusy, ScheduleNotFound
from windlass.requester import Requester
from windlass.schedules.deleting import delete_wholly
from windlass.schedules.view import Schedule
from windlass.schedules.wanted import ScheduleTerms, Wanted, changed_terms
from windlass.store.flow import Flow

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.job import Job

T = TypeVar("T")

MOST_BACKFILLED = 10_000
_AT_ONCE = 100
_TRIES = 20  # of a change that meets another


class ListSchedules(TypedDict, total=False):
    """What a listing of schedules may be narrowed by."""

    job: str
    enabled: bool
    origin: Origin | str
    before: str
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """What became of the slots of a backfill; those that had their run already are not in it."""

    runs: Sequence[Run]
    waiting: Sequence[datetime]  # they get their run once no earlier one is live
    skipped: Sequence[datetime]


class Flows:
    """The flows of one application."""

    def __init__(self, app: "Windlass", requester: Requester) -> None:
        self._app = app
        self._requester = requester
        self._asides = count(1)

    def put(
        self,
        job: "str | Job[Any, Any, Any]",
        key: str | None,
        input: Mapping[str, Any] | None,
        terms: ScheduleTerms,
    ) -> Flow[Schedule]:
        request = yield from self._requester.asked(job, input)
        wanted = Wanted.of(request, key, **terms)
        now = yield from self._now()
        known = None if key is None else (yield self._by_key(key))
        schedule = wanted.define(now, known)
        if known is None:
            check_new(schedule, now)
        new = wanted.new(self._app.sources.new_id(), self._tenant, schedule, now)
        stored: Sequence[Stored] = yield self._app.store.schedules.put([new])
        return Schedule(stored[0].row)

    def change(
        self, name: str, input: Mapping[str, Any] | None, terms: ScheduleTerms
    ) -> Flow[Schedule]:
        row = yield from self.find(name)
        given: dict[str, Any] = {k: v for k, v in terms.items() if v is not None}
        overlap = given.pop("overlap", row.overlap)
        view = Schedule(row)
        request = yield from self._requester.asked(row.job, view.input if input is None else input)
        now = yield from self._now()
        wanted = Wanted(
            job=row.job,
            input=request.input,
            options=row.options,
            timing=changed_terms(view.timetable, given),
            overlap=parse_overlap(overlap),
            key=row.key,
            origin=row.origin,
        )
        schedule = wanted.define(now, row)
        if given:
            check_new(schedule, now)
        new = wanted.new(row.id, row.tenant, schedule, now)
        stored: Sequence[Stored] = yield self._app.store.schedules.put([new])
        return Schedule(stored[0].row)

    def pause(self, name: str) -> Flow[Schedule]:
        row = yield from self.find(name)
        paused = yield self._app.store.schedules.set_enabled(row.ref, False)
        return Schedule(_there(name, paused))

    def resume(self, name: str) -> Flow[Schedule]:
        for _ in range(_TRIES):
            row = yield from self.find(name)
            if row.enabled:
                return Schedule(row)
            now = yield from self._now()
            slot = Schedule(row).timetable.next_slot(now)
            resumed = yield self._app.store.schedules.set_enabled(row.ref, True, slot, row.version)
            if _there(name, resumed).enabled:
                return Schedule(resumed)
        raise ScheduleBusy(name, "it is being changed over and over")

    def trigger(self, name: str, overlap: str | Overlap | None) -> Flow[Run | None]:
        row = yield from self.find(name)
        policy = None if overlap is None else parse_overlap(overlap)
        aside = 0 * MICROSECOND
        for _ in range(_TRIES):
            now = yield from self._now()
            result = yield from self._fire(row, [now + aside], policy)
            if not result.lost and (result.fired or result.waiting or result.skipped):
                break
            # Deleted, or somebody is at it just now, or this instant has its run: clocks of tests
            # stand still between two triggers.
            row = yield from self.find(name)
            aside = next(self._asides) * MICROSECOND
        else:
            raise ScheduleBusy(name, "it is being changed over and over")
        if result.skipped:
            raise ScheduleBusy(name, "an earlier run of it is live")
        runs = yield from self._runs(run.run for run in result.fired)
        return runs[0] if runs else None

    def backfill(
        self, name: str, start: Moment, end: Moment | None, overlap: str | Overlap | None
    ) -> Flow[Backfilled]:
        row = yield from self.find(name)
        now = yield from self._now()
        slots = _past_slots(Schedule(row), start, end, now)
        if overlap is not None:
            policy = parse_overlap(overlap)
        else:
            policy = Overlap.ALLOW if row.overlap is Overlap.ALLOW else Overlap.QUEUE
        fired: list[str] = []
        waiting: list[datetime] = []
        skipped: list[datetime] = []
        while slots:
            result = yield from self._fire(row, slots[:_AT_ONCE], policy)
            if result.lost:
                row = yield from self.find(name)
                continue
            slots = slots[_AT_ONCE:]
            fired += [run.run for run in result.fired]
            waiting += result.waiting
            skipped += result.skipped
        runs = yield from self._runs(fired)
        return Backfilled(runs=runs, waiting=waiting, skipped=skipped)

    def delete(self, name: str) -> Flow[None]:
        row = yield from self.find(name)
        yield from delete_wholly(self._app.store, row.ref)

    def slots(self, name: str, before: datetime | None, limit: int) -> Flow[Sequence[SlotRow]]:
        row = yield from self.find(name)
        found: Sequence[SlotRow] = yield self._app.store.schedules.slots(row.ref, before, limit)
        return found

    def events(self, name: str, after: int, limit: int) -> Flow[Sequence[Event]]:
        row = yield from self.find(name)
        subject = RunRef(row.tenant, row.id)
        found: Sequence[Event] = yield self._app.store.operations.list_events(subject, after, limit)
        return found

    @property
    def _tenant(self) -> str:
        return self._app.settings.tenant

    def _by_key(self, key: str) -> Any:
        return self._app.store.schedules.get(ScheduleRef(tenant=self._tenant, key=key))

    def find(self, name: str) -> Flow[ScheduleRow]:
        """By key, and else by id: a key may look like an id."""
        given: object = name  # callers without a type checker pass anything
        if not isinstance(given, str) or not name or "\x00" in name:
            raise ScheduleNotFound(str(name)[:100])
        row: ScheduleRow | None = yield self._by_key(name)
        if row is None:
            row = yield self._app.store.schedules.get(ScheduleRef(tenant=self._tenant, id=name))
        return _there(name, row)

    def _now(self) -> Flow[datetime]:
        """The store's time: slots are computed by no other."""
        reply: DueReply = yield self._app.store.schedules.due(0)
        return reply.now

    def _fire(
        self, row: ScheduleRow, slots: Sequence[datetime], overlap: Overlap | None
    ) -> Flow[Fired]:
        job = yield self._app.store.operations.get_job(row.tenant, row.job)
        decision = by_hand(row, slots, job, self._app.sources.new_id, overlap)
        reply: FireReply = yield self._app.store.schedules.fire([decision])
        return reply.results[0]

    def _runs(self, ids: Iterable[str]) -> Flow[Sequence[Run]]:
        wanted = [*ids]
        found: dict[str, RunRecord] = {}
        for first in range(0, len(wanted), MOST_PER_PAGE):
            page = wanted[first : first + MOST_PER_PAGE]
            records = yield self._app.store.operations.get_runs(self._tenant, page)
            found.update((record.id, record) for record in records)
        return [Run(self._app.client, found[run]) for run in wanted if run in found]

    def filter(self, query: ListSchedules) -> ScheduleFilter:
        given: dict[str, Any] = {k: v for k, v in query.items() if v is not None}
        for name in given:
            if name not in ListSchedules.__annotations__:
                known = ", ".join(ListSchedules.__annotations__)
                raise BadOption(name, f"there is no such option; there are {known}")
        if "origin" in given:
            given["origin"] = _origin(given["origin"])
        return ScheduleFilter(tenant=self._tenant, **given)


def _there(name: str, row: ScheduleRow | None) -> ScheduleRow:
    if row is None:
        raise ScheduleNotFound(name[:100])
    return row


def _origin(value: object) -> Origin:
    for origin in Origin:
        if origin == value:
            return origin
    raise BadOption("origin", f"{value!r} is none of {', '.join(Origin)}")


def _past_slots(
    schedule: Schedule, start: Moment, end: Moment | None, now: datetime
) -> list[datetime]:
    timetable = schedule.timetable
    first = parse_moment("start", start)
    last = now if end is None else parse_moment("end", end)
    if last > now:
        raise BadOption("end", f"{last.isoformat(' ')} has not come yet: there is nothing to make")
    if last < first:
        raise BadOption("end", f"{last.isoformat(' ')} is before the start")
    slots = timetable.slots_between(first - MICROSECOND, last, MOST_BACKFILLED + 1)
    if len(slots) > MOST_BACKFILLED:
        raise BadOption("start", f"that is more than {MOST_BACKFILLED:,} slots: take less at once")
    return slots
