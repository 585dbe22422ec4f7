"""A schedule as somebody wants it, before it is known what is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

import msgspec

from windlass.client import Request, Using
from windlass.domain.job import check_key
from windlass.domain.scheduling.definition import (
    Every,
    ScheduleDefinition,
    Timing,
    define_schedule,
    parse_overlap,
)
from windlass.domain.scheduling.rows import (
    NewSchedule,
    Overlap,
    ScheduleOptions,
    ScheduleOrigin,
    ScheduleRow,
)
from windlass.errors import BadOption


class ScheduleTerms(Timing, total=False):
    """What a schedule may say: when it runs, and what happens while an earlier run is live."""

    overlap: str | Overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A schedule's definition, all of it checked but what depends on the time."""

    job: str
    input: bytes
    options: ScheduleOptions
    timing: Timing
    overlap: Overlap = Overlap.ALLOW
    key: str | None = None
    origin: ScheduleOrigin = ScheduleOrigin.RUNTIME

    @classmethod
    def of(
        cls,
        request: Request,
        key: str | None = None,
        origin: ScheduleOrigin = ScheduleOrigin.RUNTIME,
        **terms: Unpack[ScheduleTerms],
    ) -> "Wanted":
        """Of the run that each slot shall make, and when."""
        given: dict[str, Any] = dict(terms)
        overlap = given.pop("overlap", None)
        return cls(
            job=request.job,
            input=request.input,
            options=schedule_options(request.using),
            timing=Timing(**given),  # type: ignore[typeddict-item]  # checked by define_schedule
            overlap=Overlap.ALLOW if overlap is None else parse_overlap(overlap),
            key=None if key is None else check_key(key),
            origin=origin,
        )

    def define(self, now: datetime, stored: ScheduleRow | None = None) -> ScheduleDefinition:
        """When it runs; one that is stored keeps the instant from which an interval counts."""
        schedule = define_schedule(now, **self.timing)
        given = {name for name in ("anchor", "start") if self.timing.get(name) is not None}
        if stored is None or given or not isinstance(schedule.rule, Every):
            return schedule
        try:
            before = ScheduleDefinition.from_json(stored.rule).rule
        except BadOption:  # what is stored cannot be read any more: all the more reason to write
            return schedule
        if isinstance(before, Every) and before.interval == schedule.rule.interval:
            return msgspec.structs.replace(schedule, rule=before)
        return schedule

    def new(
        self, ident: str, tenant: str, schedule: ScheduleDefinition, now: datetime
    ) -> NewSchedule:
        """What the store is to keep."""
        return NewSchedule(
            id=ident,
            tenant=tenant,
            key=self.key,
            job=self.job,
            rule=msgspec.Raw(msgspec.json.encode(schedule.to_json())),
            input=msgspec.Raw(self.input),
            options=self.options,
            overlap=self.overlap,
            origin=self.origin,
            next_slot=schedule.next_slot(now),
        )


def schedule_options(using: Using) -> ScheduleOptions:
    """What `job.using(...)` says of each run; a run's own time and key make no sense here."""
    for name, value in (("delay", using.delay), ("at", using.at), ("key", using.key)):
        if value is not None:
            raise BadOption(name, "a schedule says itself when its runs start, each slot once")
    if using.connection is not None:
        raise BadOption("connection", "a schedule makes its runs itself, later")
    if using.expires_at is not None:
        raise BadOption("expires", "give a length of time: each run expires so long after its slot")
    if using.deadline_at is not None:
        raise BadOption("deadline", "give a length of time: each run has so long from its slot on")
    own = using.options
    return ScheduleOptions(
        queue=using.queue,
        priority=using.priority,
        tags=using.tags,
        max_attempts=None if own is None else own.max_attempts,
        timeout=None if own is None else own.timeout,
        expires=using.expires_in,
        deadline=using.deadline_in,
        trace=using.trace,
        metadata=None if using.metadata is None else msgspec.json.decode(using.metadata),
    )


def changed_terms(schedule: ScheduleDefinition, changes: Mapping[str, Any]) -> Timing:
    """The terms of a schedule with some of them changed; those not named stay."""
    kinds = {"once", "interval", "cron"}
    known: dict[str, Any] = {
        "start": schedule.start,
        "end": schedule.end,
        "max_runs": schedule.max_runs,
        "spread": schedule.spread,
        "catch_up": schedule.catch_up,
    }
    stored = msgspec.structs.asdict(schedule.rule)
    if not kinds & changes.keys():
        known |= {"once": stored.get("at")} if "at" in stored else stored
    elif "cron" in changes and "timezone" in stored:
        known["timezone"] = stored["timezone"]
    return Timing(**{**known, **changes})  # type: ignore[typeddict-item]
