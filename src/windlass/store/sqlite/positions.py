"""Positions: where a live run is, and what it carries from there to the next."""

from typing import NamedTuple

from windlass.domain.states import TIMERS, Intent, Status
from windlass.store.sqlite.open_transaction import Row

FOREVER = 253_402_214_400_000_000
"""When a timer is due that has no limit of time: the end of the year 9999."""


class Position(NamedTuple):
    """Where a run is: what every position carries and hands on, and its lease if it has one."""

    status: Status
    tenant: str
    id: bytes
    job: str
    queue: str
    rank: int
    attempt: int
    failures: int
    crash_count: int
    token: int
    seq: int
    deadline_at: int | None = None
    expires_at: int | None = None
    worker_no: int | None = None
    started_at: int | None = None
    started_seq: int | None = None
    intent: str | None = None
    reason: str | None = None
    at: int | None = None  # since when it is ready, or when it is due
    why: str | None = None  # what it waits for
    waits: str | None = None  # the steps in which it sleeps or waits, as JSON
    was_why: str | None = None  # of one that is paused: what it waited for before
    was_at: int | None = None  # and when it was due

    @property
    def wanted(self) -> Intent | None:
        """What an operator wants of the run."""
        return None if self.intent is None else Intent(self.intent)

    @property
    def carried(self) -> Row:
        """What a position hands on, in the order of the statements that insert one."""
        return self[1:13]

    @property
    def claimed(self) -> Row:
        """The same for a lease: what was claimed once has started in time, and expires no more."""
        return self[1:12]


def lease_of(row: Row) -> Position:
    """Return a row of the statements that read ``leases`` as a value."""
    return Position(Status.RUNNING, *row)


def ready_of(row: Row) -> Position:
    """Return a row of the statements that read ``ready`` as a value."""
    return Position(Status.QUEUED, *row)


def timer_of(row: Row) -> Position:
    """Return a row of the statements that read ``timers`` as a value."""
    place = Position(Status.SCHEDULED, *row)
    status = TIMERS.get(place.why or "")
    return place if status is None else place._replace(status=status)
