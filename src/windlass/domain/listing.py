"""What a listing asks for, and what it answers.

A listing walks one index backwards by id, or a few of them at once: that of a key, a schedule, a
tag or a job, or the tables of the statuses. What the index does not say is looked up run by run. A
filter that hardly any run fits must not hold a statement for minutes: one call looks at
`MOST_WALKED` runs at most, and says where the next one goes on.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from windlass.domain.run import DEFAULT_TENANT, RunRecord
from windlass.domain.states import FINISHED, Failure, Status

MOST_WALKED = 5_000
MOST_LISTED = 1_000
GROWTH = 4  # how much further the next look goes, where the first found too few
HAVE_WORKER = frozenset({Status.RUNNING, *FINISHED})
# The statuses whose runs are in a table of their own, so that they are found without the others.
APART = frozenset(
    {Status.SCHEDULED, Status.QUEUED, Status.RUNNING, Status.FAILED, Status.CANCELED}
    | {Status.WAITING, Status.PAUSED}
)


class RunFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a listing asks for. Newest first by id; ``before`` is the last id seen."""

    tenant: str = DEFAULT_TENANT
    status: Status | tuple[Status, ...] | None = None
    job: str | None = None
    queue: str | None = None
    tag: str | None = None
    key: str | None = None
    schedule: str | None = None  # the id
    worker: str | None = None  # that holds the run, or ended it
    failure: Failure | None = None
    error: str | None = None  # the type of the error it failed with, with or without its module
    created_from: datetime | None = None
    created_to: datetime | None = None
    finished_from: datetime | None = None
    finished_to: datetime | None = None
    dead: bool = False  # failed, and neither retried nor discarded
    before: str | None = None
    limit: int = 50

    @property
    def statuses(self) -> frozenset[Status] | None:
        """The statuses that a run may have which fits; None: any."""
        wanted = None if self.status is None else as_statuses(self.status)
        if self.dead or self.failure is not None or self.error is not None:
            wanted = frozenset({Status.FAILED}) & (wanted or {Status.FAILED})
        if wanted is None:
            return None
        if self.finished_from is not None or self.finished_to is not None:
            wanted &= FINISHED
        return wanted if self.worker is None else wanted & HAVE_WORKER


class RunPage(list[RunRecord]):
    """A page of a listing, newest first. To go on, ask for what is before ``next``; None: there is
    nothing more. A page that has a ``next`` may be short, even empty."""

    def __init__(self, records: Iterable[RunRecord], next: str | None) -> None:
        super().__init__(records)
        self.next = next


class FoundIds(msgspec.Struct, frozen=True):
    """The ids of such a page alone."""

    ids: tuple[str, ...]
    next: str | None = None


def as_statuses(given: Status | Iterable[Status]) -> frozenset[Status]:
    """One status, or several."""
    return frozenset({given} if isinstance(given, Status) else given)
