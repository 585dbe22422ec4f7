"""What a look at a store tells of workers and of work, for operators.

Every answer says when it was taken (``seen_at``), by the store's clock: ages and what is left of
a lease are told by that, never by the clock of whoever asks.
"""

from datetime import datetime
from typing import Any

import msgspec


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a worker holds."""

    tenant: str
    id: str
    job: str
    queue: str
    attempt: int
    started_at: datetime


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, and what it is doing. A dead one is known until its runs are taken back."""

    id: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...] | None  # None: every queue
    jobs: tuple[str, ...]
    seats: int
    started_at: datetime
    renewed_at: datetime | None  # None: it has not been heard of since this was not yet noted
    alive_until: datetime
    seen_at: datetime
    blocked_since: datetime | None = None  # since when its event loop has not answered
    blocked_tenant: str | None = None
    blocked_run: str | None = None  # the run whose handler blocks it, where that is known
    busy: int  # all that it holds; `running` may be a part of that
    running: tuple[Running, ...] = ()  # the oldest first

    @property
    def alive(self) -> bool:
        """Whether its leases are valid."""
        return self.alive_until > self.seen_at

    @property
    def lease_left(self) -> float:
        """Seconds until its lease runs out; below zero, for how long it has been dead."""
        return (self.alive_until - self.seen_at).total_seconds()

    @property
    def blocked(self) -> float | None:
        """For how many seconds its event loop has not answered."""
        if self.blocked_since is None:
            return None
        return (self.seen_at - self.blocked_since).total_seconds()

    def serves(self, queue: str, job: str) -> bool:
        """Whether it would take a run of this job in this queue."""
        return job in self.jobs and (self.queues is None or queue in self.queues)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown | {"alive": self.alive, "lease_left": self.lease_left}


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a job is ready in a queue."""

    queue: str
    job: str
    waiting: int  # as far as the queue was looked through
    oldest_at: datetime
    seen_at: datetime
    paused: int = 0  # of these, in a paused queue or of a paused job

    @property
    def seconds(self) -> float:
        """For how long the oldest has been ready."""
        return (self.seen_at - self.oldest_at).total_seconds()


class Overdue(msgspec.Struct, frozen=True, kw_only=True):
    """A run that should no longer be running."""

    tenant: str
    id: str
    job: str
    worker: str
    started_at: datetime
    timeout: float | None
    alive_until: datetime | None  # of its worker; None: there is no such worker any more
    seen_at: datetime

    @property
    def abandoned(self) -> bool:
        """Whether its worker is dead: it waits to be reaped."""
        return self.alive_until is None or self.alive_until <= self.seen_at
