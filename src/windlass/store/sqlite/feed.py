"""The feed: the events of all subjects, in the order in which they were committed.

A place is the text ``era:n:k``: the era, the number of the page, and the place in the page from 1.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from windlass.domain.envelope import About, EventFacts, NewEvent
from windlass.domain.event import EventType
from windlass.domain.run import FeedEvent, Held
from windlass.errors import BadOption, EventsDeleted
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.positions import lease_of
from windlass.store.sqlite.values import (
    blob_or_none,
    from_json_or_none,
    from_micros,
    from_micros_or_none,
    raw_text,
    to_error,
    to_id,
    to_micros,
)

_PLACE = re.compile(r"([0-9]{1,18}):([0-9]{1,18}):([0-9]{1,18})")
_BYTES = 16  # of an id
_SLACK = 60_000_000  # microseconds by which the times of neighbours may be out of order


class _Place(NamedTuple):
    era: int
    n: int
    k: int


_BEGINNING = _Place(1, 0, 0)


def list_feed(tx: OpenTransaction, after: str | None, limit: int) -> Sequence[FeedEvent]:
    """Return the events after a place, at most ``limit``."""
    place = _BEGINNING if after is None else _parse(after)
    if after is not None and (mark := tx.fetch_one("feed_mark")) is not None and mark[0]:
        gone = _parse(mark[0])
        if place < gone:
            raise EventsDeleted(after, mark[0])
    parts, left = [], limit
    # One page more than events: on the page of the place itself nothing may be left.
    for n, size in tx.fetch("feed_sizes", (place.n, place.era, limit + 1)):
        seen = place.k if n == place.n else 0
        taken = min(left, size - seen)
        if taken > 0:
            parts.append({"seen": seen, "taken": taken, "n": n})
            left -= taken
    rows = tx.fetch_many("feed_page", parts)
    return [event for row in rows for event in _events(row)]


def find_place(tx: OpenTransaction, at: datetime | None) -> str:
    """Return a place after all that there is, or before all that there has been since ``at``.

    That one is found by halving, as if times rose with the places: they do unless a clock is set.
    So the latest time of fifty pages counts, and it may be a minute too early.
    """
    first, last = tx.fetch_one("feed_ends") or (0, 0)
    if at is None:
        return f"1:{last}:{10**18 - 1}"
    wanted = to_micros(at) - _SLACK
    before, begins = first - 1, last + 1  # all up to here is too early; what begins here is not
    while before + 1 < begins:
        middle = (before + begins) // 2
        (latest,) = tx.fetch_one("feed_latest", (middle,)) or (None,)
        if latest is not None and latest < wanted:
            before = middle
        else:
            begins = middle
    return f"1:{begins}:0"


def list_event_facts(tx: OpenTransaction, tenant: str, of: Sequence[About]) -> Sequence[EventFacts]:
    """Return what is known of runs and schedules, and of one attempt of each."""
    asked = [
        {"tenant": tenant, "id": blob, "attempt": attempt}
        for ident, attempt in of
        if (blob := blob_or_none(ident)) is not None
    ]
    return [
        EventFacts(
            id=to_id(blob),
            attempt=attempt,
            job=job,
            queue=queue,
            worker=worker,
            started_at=from_micros_or_none(started_at),
            finished_at=from_micros_or_none(finished_at),
            error=to_error(error),
        )
        for blob, attempt, job, queue, worker, started_at, finished_at, error in tx.fetch_many(
            "event_facts", asked
        )
    ]


def emit(tx: OpenTransaction, held: Held, event: NewEvent) -> int | None:
    """Add an event to a run, under the token of its lease."""
    row = tx.fetch_one("get_lease", (held.tenant, blob_or_none(held.id)))
    lease = None if row is None else lease_of(row)
    if lease is None or lease.token != held.token:
        return None
    seq = lease.seq + 1
    tx.execute("take_seqs", (seq, lease.tenant, lease.id))
    told = (event.name, tx.now, lease.attempt, raw_text(event.data))
    tx.execute("insert_event", (lease.tenant, lease.id, seq, *told))
    return seq


def _parse(place: str) -> _Place:
    found = _PLACE.fullmatch(place)
    if found is None:
        raise BadOption("after", f"{place!r} is not a place in the feed of this store")
    return _Place(*map(int, found.groups()))


def _events(row: Row) -> Iterator[FeedEvent]:
    """The events on a page, or on the part of it that was read."""
    era, n, seen, tenant, kind, at, seq, attempt, subjects, data = row
    kind, at, data = EventType(kind), from_micros(at), from_json_or_none(data)
    for k, first in enumerate(range(0, len(subjects), _BYTES), start=seen + 1):
        yield FeedEvent(
            place=f"{era}:{n}:{k}",
            tenant=tenant,
            subject=to_id(subjects[first : first + _BYTES]),
            seq=seq,
            type=kind,
            at=at,
            attempt=attempt,
            data=data,
        )
