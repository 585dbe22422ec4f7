"""Schedules that are declared in code, and those of job files: stored when a worker starts.

What the code says wins: a schedule whose declaration has changed is changed; whether it is paused
is the operators' affair and stays. A schedule that has left the code is reported and goes on until
somebody deletes it (`windlass schedules prune`): during a roll-out, old and new code run side by
side, and another program on the same store has schedules of its own. The one exception is a job
file that is deleted, or loses its `schedule`, while its folder is watched: whoever edits a file
under a running worker means it.

A declaration that cannot be stored (its job is unknown, its arguments are wrong) is reported, and
the others are stored. One whose last slot has passed is not made anew.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from windlass.client import Request, Scope
from windlass.domain.scheduling.definition import define_schedule
from windlass.domain.scheduling.rows import (
    NewSchedule,
    PutOutcome,
    ScheduleFilter,
    ScheduleOrigin,
    ScheduleRef,
    ScheduleRow,
    Stored,
)
from windlass.errors import BadOption, StoreBusy, UsageError
from windlass.files.definition import Plan
from windlass.requester import Requester
from windlass.schedules.deleting import delete_wholly
from windlass.schedules.view import Schedule
from windlass.schedules.wanted import ScheduleTerms, Wanted
from windlass.store.flow import Flow

if TYPE_CHECKING:
    from windlass.files.registry import Jobs
    from windlass.job import Job

log = logging.getLogger(__name__)

FILE = "file:"
_PAGE = 1000
_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule that the code declares; `app.schedules.get(declared.key)` reads it."""

    key: str
    job: str
    input: Mapping[str, Any] | None = None
    terms: ScheduleTerms
    request: Request | None = None  # where the job was at hand

    def wanted(self, request: Request) -> Wanted:
        """The definition, once the job is known."""
        return Wanted.of(request, self.key, ScheduleOrigin.CODE, **self.terms)


@dataclass(slots=True, kw_only=True)
class SyncReport:
    """What storing the declared schedules did; by key, but `left`."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failed: dict[str, UsageError] = field(default_factory=dict)
    terms: dict[str, dict[str, str]] = field(default_factory=dict)  # of what was written
    busy: StoreBusy | None = None  # some are not stored yet: somebody has them locked
    left: Sequence[ScheduleRow] = ()  # stored as declared in code, which does not declare them

    @property
    def news(self) -> bool:
        """Whether anything was written."""
        return bool(self.created or self.changed or self.removed)


class Declarations:
    """What the code of one application declares."""

    def __init__(self, scope: Scope, jobs: "Jobs", requester: Requester) -> None:
        self._scope = scope
        self._jobs = jobs
        self._requester = requester
        self._declared: dict[str, Declared] = {}
        self._reported: set[str] = set()

    def declare(
        self,
        job: "str | Job[Any, Any, Any]",
        key: str | None,
        input: Mapping[str, Any] | None,
        terms: ScheduleTerms,
    ) -> Declared:
        """Check a declaration and keep it; raises BadOption, BadArguments."""
        request = self._requester.asked_here(job, input)
        name = job if isinstance(job, str) else job.name
        key = name if key is None else key
        declared = Declared(key=key, job=name, input=input, terms=terms, request=request)
        anything = request or Request.of_nothing(name)
        define_schedule(self._scope.sources.now(), **declared.wanted(anything).timing)
        if key in self._declared:
            raise BadOption("key", f"two schedules have the key {key!r}: give one of them another")
        if key.startswith(FILE):
            raise BadOption("key", f"{FILE!r} begins the keys of job files' own schedules")
        self._declared[key] = declared
        return declared

    def forget(self, keys: Sequence[str]) -> None:
        """Declare these no longer; what is stored stays."""
        for key in keys:
            del self._declared[key]

    def sync(self) -> Flow[SyncReport]:
        """Store what is declared; report what is stored as declared, and is not any more."""
        report = SyncReport()
        declared = self._all()
        if declared or self._jobs.withdrawn or self._jobs.folder is not None:
            stored = yield from self._stored()
            yield from self._put(declared, stored, report)
            yield from self._remove(declared, stored, report)
            report.left = [row for key, row in stored.items() if key not in declared]
            self._log_report(report)
        return report

    def prune(self) -> Flow[Sequence[ScheduleRow]]:
        """Delete the schedules that have left the code."""
        left = yield from self.left()
        for row in left:
            yield from delete_wholly(self._scope.store, row.ref)
        return left

    def left(self) -> Flow[Sequence[ScheduleRow]]:
        """The schedules that have left the code."""
        declared = self._all()
        stored = yield from self._stored()
        return [row for key, row in stored.items() if key not in declared]

    # -- inside -----------------------------------------------------------------------------

    def _all(self) -> Mapping[str, Declared]:
        files = (_of_file(name, plan) for name, plan in self._jobs.plans().items())
        return {**self._declared, **{declared.key: declared for declared in files}}

    def _stored(self) -> Flow[dict[str, ScheduleRow]]:
        found: dict[str, ScheduleRow] = {}
        before: str | None = None
        while True:
            page: Sequence[ScheduleRow] = yield self._scope.store.operations.list_schedules(
                ScheduleFilter(
                    tenant=self._scope.tenant,
                    origin=ScheduleOrigin.CODE,
                    before=before,
                    limit=_PAGE,
                )
            )
            found.update((row.key or row.id, row) for row in page)
            if len(page) < _PAGE:
                return found
            before = page[-1].id

    def _put(
        self,
        declared: Mapping[str, Declared],
        stored: dict[str, ScheduleRow],
        report: SyncReport,
    ) -> Flow[None]:
        new: list[NewSchedule] = []
        now = (yield self._scope.store.operations.due_schedules(0)).now
        for key, one in declared.items():
            row = stored.pop(key, None)
            try:
                made = yield from self._new(one, row, now)
            except UsageError as error:
                report.failed[key] = error
                continue
            if made is not None:
                new.append(made)
        for some in _batches(new):
            yield from self._store(some, report)

    def _store(self, some: Sequence[NewSchedule], report: SyncReport) -> Flow[None]:
        """Store these; one that somebody has locked does not keep the others from it."""
        try:
            put = self._scope.store.operations.put_schedules(some, patient=False)
            answers: Sequence[Stored] = yield put
        except StoreBusy as error:
            if len(some) == 1:
                report.busy = error
                return
            for one in some:
                yield from self._store([one], report)
            return
        for item, answer in zip(some, answers, strict=True):
            if answer.what in (PutOutcome.CREATED, PutOutcome.CHANGED):
                report.terms[item.key or item.id] = _shown_terms(answer.row)
            kept = {
                PutOutcome.CREATED: report.created,
                PutOutcome.CHANGED: report.changed,
            }.get(answer.what, report.unchanged)
            kept.append(item.key or item.id)

    def _new(
        self, one: Declared, row: ScheduleRow | None, now: datetime
    ) -> Flow[NewSchedule | None]:
        request = one.request
        if request is None:
            request = yield from self._requester.asked(one.job, one.input)
        wanted = one.wanted(request)
        if row is None:  # perhaps somebody made one of this key at run time: it is ours now
            ref = ScheduleRef(tenant=self._scope.tenant, key=one.key)
            row = yield self._scope.store.operations.get_schedule(ref)
        schedule = wanted.define(now, row)
        if row is None and schedule.next_slot(now) is None:
            log.info("schedule is over, not made", extra={"schedule": one.key})
            return None
        return wanted.new(self._scope.sources.new_id(), self._scope.tenant, schedule, now)

    def _remove(
        self, declared: Mapping[str, Declared], stored: dict[str, ScheduleRow], report: SyncReport
    ) -> Flow[None]:
        withdrawn = self._jobs.withdrawn
        for name in sorted(withdrawn):
            key = FILE + name
            row = stored.pop(key, None)
            if key not in declared and row is not None:
                try:
                    yield from delete_wholly(self._scope.store, row.ref)
                except StoreBusy as error:
                    report.busy = error
                    continue
                report.removed.append(key)
            withdrawn.discard(name)

    def _log_report(self, report: SyncReport) -> None:
        for what, keys in (
            ("schedule made", report.created),
            ("schedule changed", report.changed),
            ("schedule removed with its file", report.removed),
        ):
            for key in keys:
                # Code and job files have different defaults: what counts is said.
                log.info(what, extra={"schedule": key, **report.terms.get(key, {})})
        for key, error in report.failed.items():
            log.error("schedule not stored", extra={"schedule": key, "error": str(error)})
        for row in report.left:
            name = row.key or row.id
            if name not in self._reported:
                self._reported.add(name)
                # Of a job that is not here, it may well be another program's.
                level = logging.WARNING if row.job in self._jobs else logging.INFO
                log.log(
                    level,
                    "schedule is not in this code; `windlass schedules prune` deletes such",
                    extra={"schedule": name, "job": row.job},
                )


def _of_file(name: str, plan: Plan) -> Declared:
    terms = ScheduleTerms(
        cron=plan.cron,
        interval=plan.interval,
        timezone=plan.timezone,
        overlap=plan.overlap,
        catch_up=plan.catch_up,
    )
    return Declared(key=FILE + name, job=name, terms=terms)


def _shown_terms(row: ScheduleRow) -> dict[str, str]:
    view = Schedule(row)
    return {
        "when": view.when,
        "overlap": row.overlap.value,
        "catch_up": str(view.timetable.catch_up),
    }


def _batches(new: Sequence[NewSchedule]) -> Iterator[Sequence[NewSchedule]]:
    for first in range(0, len(new), _AT_ONCE):
        yield new[first : first + _AT_ONCE]
