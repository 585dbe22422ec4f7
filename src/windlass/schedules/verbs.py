"""What an application does with schedules, each verb written once, as a flow.

``faces.py`` has the two faces of each, and is generated from this file. A schedule is named by key
or by id. Each verb looks a schedule up, decides, and has the store guard what was decided: by the
schedule's version where a slot was computed from its rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from windlass.client.filters import MOST_PER_PAGE
from windlass.client.run import Run
from windlass.client.scope import Scope, Verbs
from windlass.domain.open_enum import member_of
from windlass.domain.run import Event, RunRecord, RunRef
from windlass.domain.scheduling.definition import check_new, parse_overlap
from windlass.domain.scheduling.firing import by_hand
from windlass.domain.scheduling.rows import (
    DueReply,
    Fired,
    FireReply,
    Overlap,
    ScheduleFilter,
    ScheduleOrigin,
    ScheduleRef,
    ScheduleRow,
    SlotRow,
    Stored,
)
from windlass.domain.scheduling.rules import MICROSECOND, Moment, parse_moment
from windlass.errors import BadOption, ScheduleBusy, ScheduleNotFound
from windlass.requester import Requester
from windlass.schedules.declared import Declarations, SyncReport
from windlass.schedules.deleting import delete_wholly
from windlass.schedules.view import Schedule
from windlass.schedules.wanted import ScheduleTerms, Wanted, changed_terms
from windlass.store.flow import Flow, Hint

if TYPE_CHECKING:
    from windlass.job import Job

MOST_BACKFILLED = 10_000
_AT_ONCE = 100
_TRIES = 20  # of a change that meets another


class ListSchedules(TypedDict, total=False):
    """What a listing of schedules may be narrowed by."""

    job: str
    enabled: bool
    origin: ScheduleOrigin | str
    before: str
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """What became of the slots of a backfill; those that had their run already are not in it."""

    runs: Sequence[Run]
    waiting: Sequence[datetime]  # they get their run once no earlier one is live
    skipped: Sequence[datetime]


class ScheduleVerbs(Verbs):
    """Make, look, change, pause, resume, trigger, backfill, delete."""

    __slots__ = ("_asides", "_declarations", "_requester")

    def __init__(self, scope: Scope, requester: Requester, declarations: Declarations) -> None:
        super().__init__(scope)
        self._requester = requester
        self._declarations = declarations
        self._asides = count(1)

    def sync(self) -> Flow[SyncReport]:
        """Store what the code and its job files declare, as each worker does when it starts.

        Raises StoreBusy where somebody has one of the schedules locked; the others are stored.
        """
        report = yield from self._declarations.sync()
        if report.news:
            yield Hint()
        if report.busy is not None:
            raise report.busy
        return report

    def left(self) -> Flow[Sequence[Schedule]]:
        """List stored schedules that some code declared, and that this code does not declare."""
        return [Schedule(row) for row in (yield from self._declarations.left())]

    def prune(self) -> Flow[Sequence[Schedule]]:
        """Delete what `left` lists, and return it. Look first: it may be another program's."""
        return [Schedule(row) for row in (yield from self._declarations.prune())]

    def put(
        self,
        job: "str | Job[Any, Any, Any]",
        *,
        key: str | None = None,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Flow[Schedule]:
        """Make a schedule, or change the one with this key to what you say here.

        One that is known and the same is left as it is, and one that is paused stays so.
        """
        request = yield from self._requester.asked(job, input)
        wanted = Wanted.of(request, key, **terms)
        now = yield from self._now()
        known = None if key is None else (yield self._by_key(key))
        schedule = wanted.define(now, known)
        if known is None:
            check_new(schedule, now)
        new = wanted.new(self._scope.sources.new_id(), self._scope.tenant, schedule, now)
        stored: Sequence[Stored] = yield self._scope.store.operations.put_schedules([new])
        yield Hint()  # so that schedulers look again
        return Schedule(stored[0].row)

    def get(self, schedule: str) -> Flow[Schedule]:
        """Read a schedule by its key or id. Raises ScheduleNotFound."""
        return Schedule((yield from self._find(schedule)))

    def list(self, **query: Unpack[ListSchedules]) -> Flow[Sequence[Schedule]]:
        """List schedules, newest first; for the next page, pass the last one's id as `before`."""
        rows = yield self._scope.store.operations.list_schedules(_filter(self._scope.tenant, query))
        return [Schedule(row) for row in rows]

    def change(
        self,
        schedule: str,
        *,
        input: Mapping[str, Any] | None = None,
        **terms: Unpack[ScheduleTerms],
    ) -> Flow[Schedule]:
        """Change some terms of a schedule, or its input; the others stay as they are."""
        row = yield from self._find(schedule)
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
        changed = wanted.define(now, row)
        if given:
            check_new(changed, now)
        new = wanted.new(row.id, row.tenant, changed, now)
        stored: Sequence[Stored] = yield self._scope.store.operations.put_schedules([new])
        yield Hint()
        return Schedule(stored[0].row)

    def pause(self, schedule: str) -> Flow[Schedule]:
        """Pause a schedule: no slot fires until it is resumed."""
        row = yield from self._find(schedule)
        paused = yield self._scope.store.operations.enable_schedule(row.ref, False)
        found = Schedule(_there(schedule, paused))
        yield Hint()
        return found

    def resume(self, schedule: str) -> Flow[Schedule]:
        """Resume a schedule with the first slot after now; those of the pause are not missed."""
        for _ in range(_TRIES):
            row = yield from self._find(schedule)
            if row.enabled:
                return Schedule(row)
            now = yield from self._now()
            slot = Schedule(row).timetable.next_slot(now)
            resumed = yield self._scope.store.operations.enable_schedule(
                row.ref, True, slot, row.version
            )
            if _there(schedule, resumed).enabled:
                yield Hint()
                return Schedule(resumed)
        raise ScheduleBusy(schedule, "it is being changed over and over")

    def trigger(self, schedule: str, *, overlap: str | Overlap | None = None) -> Flow[Run | None]:
        """Make a run now, in addition to the slots; works for a paused schedule too.

        Its policy counts, unless `overlap` is given: where an earlier run is live and the policy
        is "skip" it raises ScheduleBusy; where it is "queue" it returns None, and the run is made
        when that one has ended.
        """
        row = yield from self._find(schedule)
        policy = None if overlap is None else parse_overlap(overlap)
        aside = 0 * MICROSECOND
        for _ in range(_TRIES):
            now = yield from self._now()
            result = yield from self._fire(row, [now + aside], policy)
            if not result.lost and (result.fired or result.waiting or result.skipped):
                break
            # Deleted, or somebody is at it just now, or this instant has its run: clocks of tests
            # stand still between two triggers.
            row = yield from self._find(schedule)
            aside = next(self._asides) * MICROSECOND
        else:
            raise ScheduleBusy(schedule, "it is being changed over and over")
        if result.skipped:
            raise ScheduleBusy(schedule, "an earlier run of it is live")
        runs = yield from self._runs(run.run for run in result.fired)
        yield Hint()
        return runs[0] if runs else None

    def backfill(
        self,
        schedule: str,
        start: Moment,
        end: Moment | None = None,
        *,
        overlap: str | Overlap | None = None,
    ) -> Flow[Backfilled]:
        """Make the runs of past slots, from `start` to `end` (both included; now unless given).

        A slot that has its run is passed over, so repeating it is harmless. Where the schedule
        allows overlap all of them are made at once, else one after the other, as by "queue".
        """
        row = yield from self._find(schedule)
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
                row = yield from self._find(schedule)
                continue
            slots = slots[_AT_ONCE:]
            fired += [run.run for run in result.fired]
            waiting += result.waiting
            skipped += result.skipped
        runs = yield from self._runs(fired)
        yield Hint()
        return Backfilled(runs=runs, waiting=waiting, skipped=skipped)

    def delete(self, schedule: str) -> Flow[None]:
        """Delete a schedule and the record of its slots; its runs stay. Raises ScheduleNotFound."""
        row = yield from self._find(schedule)
        yield from delete_wholly(self._scope.store, row.ref)

    def slots(
        self, schedule: str, *, before: datetime | None = None, limit: int = 50
    ) -> Flow[Sequence[SlotRow]]:
        """List the slots of a schedule, newest first, and what became of each."""
        row = yield from self._find(schedule)
        page = self._scope.store.operations.list_slots(row.ref, before, limit)
        found: Sequence[SlotRow] = yield page
        return found

    def events(self, schedule: str, *, after: int = 0, limit: int = 1000) -> Flow[Sequence[Event]]:
        """List the events of a schedule in order: made, changed, paused, missed, skipped."""
        row = yield from self._find(schedule)
        subject = RunRef(row.tenant, row.id)
        found = yield self._scope.store.operations.list_events(subject, after, limit)
        events: Sequence[Event] = found
        return events

    def _by_key(self, key: str) -> Any:
        ref = ScheduleRef(tenant=self._scope.tenant, key=key)
        return self._scope.store.operations.get_schedule(ref)

    def _find(self, name: str) -> Flow[ScheduleRow]:
        """By key, and else by id: a key may look like an id."""
        given: object = name  # callers without a type checker pass anything
        if not isinstance(given, str) or not name or "\x00" in name:
            raise ScheduleNotFound(str(name)[:100])
        row: ScheduleRow | None = yield self._by_key(name)
        if row is None:
            ref = ScheduleRef(tenant=self._scope.tenant, id=name)
            row = yield self._scope.store.operations.get_schedule(ref)
        return _there(name, row)

    def _now(self) -> Flow[datetime]:
        """The store's time: slots are computed by no other."""
        reply: DueReply = yield self._scope.store.operations.due_schedules(0)
        return reply.now

    def _fire(
        self, row: ScheduleRow, slots: Sequence[datetime], overlap: Overlap | None
    ) -> Flow[Fired]:
        job = yield self._scope.store.operations.get_job(row.tenant, row.job)
        decision = by_hand(row, slots, job, self._scope.sources.new_id, overlap)
        reply: FireReply = yield self._scope.store.operations.fire_schedules([decision])
        return reply.results[0]

    def _runs(self, ids: Iterable[str]) -> Flow[Sequence[Run]]:
        wanted = [*ids]
        found: dict[str, RunRecord] = {}
        for first in range(0, len(wanted), MOST_PER_PAGE):
            page = wanted[first : first + MOST_PER_PAGE]
            records = yield self._scope.store.operations.get_runs(self._scope.tenant, page)
            found.update((record.id, record) for record in records)
        return [Run(self._scope, found[run], created=True) for run in wanted if run in found]


def _filter(tenant: str, query: ListSchedules) -> ScheduleFilter:
    given: dict[str, Any] = {k: v for k, v in query.items() if v is not None}
    for name in given:
        if name not in ListSchedules.__annotations__:
            known = ", ".join(ListSchedules.__annotations__)
            raise BadOption(name, f"there is no such option; there are {known}")
    if "origin" in given:
        given["origin"] = member_of("origin", ScheduleOrigin, given["origin"])
    return ScheduleFilter(tenant=tenant, **given)


def _there(name: str, row: ScheduleRow | None) -> ScheduleRow:
    if row is None:
        raise ScheduleNotFound(name[:100])
    return row


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
