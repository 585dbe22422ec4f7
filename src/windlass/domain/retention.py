"""Retention: when what is over goes away, and what it may take with it.

A run that has ended becomes *stale* `stale_after` its end: its record says so (`stale_at`), and so
does the event `run.stale`. It is deleted `delete_after` its end, with everything that hangs on it;
what is left is the event `run.deleted` in the feed. Both lengths are those of its job and status,
and are stored with the job's definition, so that the janitor of any worker knows them.

**Never deleted:** a run that has not ended; one that has children whose records are there, or a
parent that has not ended (a tree goes from its leaves); one that another run comes after which has
not ended; one whose failure handler's run has not ended; the last `keep_last` runs of its job.

**Chores.** The table `chores` has a row for each thing that is looked after, with the time when it
is due and a mark of how far it was done. Whoever takes a chore locks its row, skipping locked ones,
does a bounded piece of it, and moves mark and time in the same transaction. So any number of
janitors share the work, none does a piece twice, and one that dies has done nothing of its piece.

| kind | of | does |
|---|---|---|
| jobs | the store | finds the jobs that have runs; each gets the next two |
| stale, delete | a job | the two stages, in walks over the job's runs by id |
| feed, audit, slots, keys | the store | the oldest pages, audit rows and slots; expired keys |

**Walks.** Ids begin with the time at which they were made. So a walk goes from its mark to the ids
that are old enough, and looks at no run twice. What it cannot do yet it leaves behind: runs that
live long, that others need, or whose id tells the wrong time. Therefore a walk begins again at the
first id, and goes to the last, once a *lap* has passed: the shortest length of its stage, at least
a minute and at most a day. If the lengths change, it begins again at once.

**History.** A success tells of `run.stale` by its record: the seq after its own is kept free. Of
the others there is an event row. All of these are paged by whoever makes them stale.

**The feed** goes from its oldest place on. The mark of its chore says how far, and is moved by the
transaction that deletes: a reader that goes on from a place before it gets `EventsDeleted`. A
subscription whose place is kept in the store will hold this chore back: the place is here.

Rows go before bytes: those of artifacts are removed by whoever deleted their rows, once that is
committed. If it dies before, the sweep of artifacts finds them.
"""

from datetime import datetime
from typing import Final

import msgspec

from windlass.ages import (
    DAY,
    DELETE_AFTER,
    STALE_AFTER,
    Age,
    AgeGiven,
    Ages,
    ages_option,
)
from windlass.config import Settings
from windlass.errors import BadOption

MOST_KEPT: Final = 100_000


class RetentionTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The retention of a job's runs, as it is stored with its definition."""

    stale: Ages
    delete: Ages
    keep_last: int = 0


class StoreTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a janitor needs to know: the terms for runs of jobs that say nothing, and for the rest.

    `feed` is the age at which pages of the feed go, `audit` and `slots` likewise; None: never.
    """

    runs: RetentionTerms
    feed: Age = 30 * DAY
    audit: Age = 365 * DAY
    slots: Age = 90 * DAY


class Tidied(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of a janitor did."""

    stale: int = 0
    deleted: int = 0
    pages: int = 0
    audit: int = 0
    slots: int = 0
    keys: int = 0
    locations: tuple[str, ...] = ()
    """Of artifacts whose rows are gone: their bytes may go."""
    more: bool = False
    """There is more to be done now."""


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What became of runs that were to be deleted: how many were, and how many stay for others."""

    deleted: int = 0
    kept: int = 0
    locations: tuple[str, ...] = ()


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How large a store is, and the oldest run of a tenant."""

    bytes: int
    reusable: int = 0
    """Bytes of them that are free inside, for what comes next; known on SQLite."""
    oldest: datetime | None = None
    """When the oldest run was made that is there."""


DEFAULT_TERMS: Final = RetentionTerms(stale=STALE_AFTER, delete=DELETE_AFTER)
DEFAULT_STORE_TERMS: Final = StoreTerms(runs=DEFAULT_TERMS)

EVERY: Final = 60.0
"""Seconds between two looks at a chore that is done."""


def lap_of(age: float) -> float:
    """After how many seconds a walk begins again; `age` is the shortest length of its stage."""
    return min(DAY, max(EVERY, age))


def slack_of(age: float) -> float:
    """By how many seconds a walk stays behind: most runs end that soon after they were made."""
    return min(3600.0, age / 20)


def pause_of(age: float) -> float:
    """The seconds until a walk looks again, once it has seen all that is old enough."""
    return min(EVERY, max(1.0, age / 10))


def terms_of(settings: Settings) -> StoreTerms:
    """What an application's settings say."""
    return StoreTerms(
        runs=RetentionTerms(stale=settings.stale_after, delete=settings.delete_after),
        feed=settings.delete_feed_after,
        audit=settings.delete_audit_after,
        slots=settings.delete_slots_after,
    )


class Retention:
    """How long the runs of a job are kept: `@app.job(retention=Retention(delete_after="90d"))`.

    `stale_after` and `delete_after` count from the end of a run: a duration, `"never"`, or a dict
    by status, `{"succeeded": "1d", "failed": "90d"}`. What is not said is as the settings of the
    application say. The newest `keep_last` runs of the job stay, however old they are.
    """

    __slots__ = ("_delete", "_stale", "keep_last")

    def __init__(
        self,
        *,
        stale_after: AgeGiven | None = None,
        delete_after: AgeGiven | None = None,
        keep_last: int | None = None,
    ) -> None:
        """Raises BadOption."""
        for name, value in (("stale_after", stale_after), ("delete_after", delete_after)):
            if value is not None:
                ages_option(name, value, STALE_AFTER)
        given: object = keep_last  # whatever the annotation says
        if given is not None and (type(given) is not int or not 0 <= given <= MOST_KEPT):
            why = f"{keep_last!r} is not a whole number from 0 to {MOST_KEPT:,}"
            raise BadOption("keep_last", why)
        self._stale = stale_after
        self._delete = delete_after
        self.keep_last = keep_last

    def terms(self, base: RetentionTerms) -> RetentionTerms:
        """What is stored: what is not said here is as the base has it."""
        return RetentionTerms(
            stale=base.stale if self._stale is None else ages_option("", self._stale, base.stale),
            delete=base.delete
            if self._delete is None
            else ages_option("", self._delete, base.delete),
            keep_last=base.keep_last if self.keep_last is None else self.keep_last,
        )

    def keeping(self, count: int) -> "Retention":
        """The same; it keeps so many of the last runs if it does not say."""
        kept = count if self.keep_last is None else self.keep_last
        return Retention(stale_after=self._stale, delete_after=self._delete, keep_last=kept)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Retention) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        stale, delete, keep = self._said()
        return f"Retention(stale_after={stale!r}, delete_after={delete!r}, keep_last={keep!r})"

    def _said(self) -> tuple[object, object, int | None]:
        return self._stale, self._delete, self.keep_last
