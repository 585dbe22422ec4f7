"""The values of schedules that cross the store's seam.

What a schedule means (which slots are due, which are missed) is decided by
:mod:`windlass.domain.scheduling.definition`. The store keeps its ``rule`` as an opaque document,
and guards what was decided: a schedule moves from ``expected_slot`` to ``next_slot`` at most once,
and a slot makes at most one run.
"""

from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

import msgspec

from windlass.domain.open_enum import OpenEnum
from windlass.domain.run import DEFAULT_TENANT, NewRun
from windlass.domain.states import Status
from windlass.errors import BadArguments

MOST_WAITING = 100
"""How many slots of one schedule may wait for the end of an earlier run."""

MOST_FORGOTTEN = 1_000
"""How many slots of a schedule that is deleted go in one transaction."""


class Overlap(StrEnum):
    """What happens at a slot while an earlier run of the schedule is live.

    Live is every run that has not ended: queued, running, or waiting to be tried again.
    """

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_RUNNING = "cancel_running"


class ScheduleOrigin(OpenEnum):
    """Who made a schedule."""

    CODE = "code"
    RUNTIME = "runtime"


class SlotOutcome(OpenEnum):
    """What became of a slot."""

    FIRED = "fired"  # it has a run
    MISSED = "missed"  # nobody was there when it was due
    SKIPPED = "skipped"  # an earlier run was live, or too many slots were waiting
    WAITING = "waiting"  # it gets a run once no earlier one is live


class PutOutcome(StrEnum):
    """What a put did."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    TAKEN = "taken"  # the id names one schedule and the key another: nothing was written


class ScheduleRef(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule by its id or, where there is none, by its key."""

    tenant: str = DEFAULT_TENANT
    id: str | None = None
    key: str | None = None


class ScheduleOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the runs of a schedule override of their job's definition."""

    queue: str | None = None
    priority: int | None = None
    tags: tuple[str, ...] = ()
    max_attempts: int | None = None
    timeout: float | None = None
    expires: float | None = None  # seconds after its slot's run was made
    deadline: float | None = None  # the same
    trace: str | None = None
    metadata: dict[str, Any] | None = None


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule to be stored: a new one, or the new definition of one that is known."""

    id: str
    job: str
    rule: msgspec.Raw
    input: msgspec.Raw
    tenant: str = DEFAULT_TENANT
    key: str | None = None
    options: ScheduleOptions = ScheduleOptions()
    overlap: Overlap = Overlap.ALLOW
    origin: ScheduleOrigin = ScheduleOrigin.RUNTIME
    enabled: bool = True  # of a new one; one that is known stays as it is
    next_slot: datetime | None = None  # of a new or changed one, where it is enabled


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as stored. ``updated_at`` is when somebody last changed it."""

    tenant: str
    id: str
    job: str
    rule: msgspec.Raw
    input: msgspec.Raw
    overlap: Overlap
    enabled: bool
    origin: ScheduleOrigin
    fired: int
    missed: int
    skipped: int
    version: int
    created_at: datetime
    updated_at: datetime
    key: str | None = None
    options: ScheduleOptions = ScheduleOptions()
    next_slot: datetime | None = None  # None: paused, or nothing is left to come
    last_slot: datetime | None = None  # the latest that was decided, whatever became of it
    flaw: str | None = None  # why part of it could not be read, and has a default instead

    @property
    def ref(self) -> ScheduleRef:
        """The schedule's name."""
        return ScheduleRef(tenant=self.tenant, id=self.id)


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one :class:`NewSchedule`: what was done, and the row as it is now."""

    what: PutOutcome
    row: ScheduleRow


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing asks for. Newest first by id; ``before`` is the last id seen."""

    tenant: str = DEFAULT_TENANT
    job: str | None = None
    enabled: bool | None = None
    origin: ScheduleOrigin | None = None
    before: str | None = None
    limit: int = 50


class DueReply(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules whose next slot has come, the longest overdue first."""

    now: datetime
    rows: tuple[ScheduleRow, ...] = ()
    next_slot: datetime | None = None  # the earliest that has not come yet
    more: bool = False  # the limit was hit: fire these and ask again
    waiting: bool = False  # there are slots for ``release_waiting``, now or later


class ComingReply(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schedules that have a slot to come."""

    now: datetime
    rows: tuple[ScheduleRow, ...] = ()


class FiredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a slot has made."""

    tenant: str
    schedule: str
    slot: datetime
    run: str
    status: Status  # queued, or scheduled where it is spread


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """A slot and the run it is to make.

    The run starts at once, or at ``run.at`` where that is later than now (spread). It has no
    key: the slot is its key.
    """

    slot: datetime
    run: NewRun

    def fired_by(self, decision: "Decision", now: datetime) -> FiredRun:
        """The run that was made at the instant ``now``."""
        later = self.run.at is not None and self.run.at > now
        return FiredRun(
            tenant=decision.tenant,
            schedule=decision.id,
            slot=self.slot,
            run=self.run.id,
            status=Status.SCHEDULED if later else Status.QUEUED,
        )


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to happen to a schedule, as decided from the row that ``due`` returned.

    It counts only if the schedule is still as that row says: enabled, of the same ``version``,
    and due at ``expected_slot``. Slots are in order, each once.

    ``advance=False`` is for an operator's hand (trigger, backfill): the schedule stays where it
    is, whatever its version and though it be paused, and a slot that was missed or skipped gets
    its run after all.
    """

    tenant: str
    id: str
    version: int = 0
    expected_slot: datetime | None = None
    next_slot: datetime | None = None
    slots: tuple[Firing, ...] = ()
    missed: tuple[datetime, ...] = ()  # those that are recorded one by one
    missed_count: int = 0  # all of them …
    missed_at_least: bool = False  # … or those that were counted, and there were more
    overlap: Overlap | None = None  # None: as the schedule says
    advance: bool = True

    def __post_init__(self) -> None:
        if any(a.slot >= b.slot for a, b in pairwise(self.slots)):
            raise ValueError("the slots of a decision must be in order, each once")
        if any(f.run.tenant != self.tenant for f in self.slots):
            raise ValueError("a schedule's run is of the same tenant")
        if any(f.run.key is not None or f.run.delay is not None for f in self.slots):
            raise ValueError("a schedule's run has neither key nor delay")
        if self.missed_count < len(self.missed):
            raise ValueError("missed_count must count all that were missed")


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one :class:`Decision`.

    ``lost``: nothing was done, because the schedule is not (or no longer) as the decision
    expected, or because somebody else is at it just now. Slots that had their run already are
    in none of the lists; unless, in an operator's decision, it is the very run that the decision
    has for them: then the call is a repeated one, and is answered as it was.
    """

    lost: bool = False
    fired: tuple[FiredRun, ...] = ()
    skipped: tuple[datetime, ...] = ()
    waiting: tuple[datetime, ...] = ()
    canceled: tuple[str, ...] = ()  # live runs whose end was asked for


class FireReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the decisions did, in the order given."""

    now: datetime
    results: tuple[Fired, ...]


class ReleaseReply(msgspec.Struct, frozen=True, kw_only=True):
    """Slots that were waiting and have their run now, one of each schedule."""

    now: datetime
    fired: tuple[FiredRun, ...] = ()
    more: bool = False  # the limit was hit: call again at once


class SlotRow(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a slot, and when that was written."""

    slot: datetime
    outcome: SlotOutcome
    at: datetime
    run: str | None = None


def bad_id(schedule: NewSchedule) -> BadArguments:
    """The error of a schedule whose id is none."""
    why = f"has a schedule with the id {schedule.id!r}, which is not a UUID"
    return BadArguments(schedule.job, why, "id")
