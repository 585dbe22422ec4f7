"""Claim: the heads of queues become leases of one worker."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.domain.event import EventType
from windlass.domain.run import Claimed, Extras, Mark, RunRef, Want
from windlass.store.mending import readable
from windlass.store.sqlite.database_errors import damaged
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.pages import add_to_feed
from windlass.store.sqlite.positions import ready_of
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    from_micros_or_none,
    read_options,
    to_blob,
    to_id,
    to_id_or_none,
    to_json,
    to_raw,
    to_texts,
)

_BEFORE_ALL = (-(2**63), -(2**63), b"")
_UNBOUNDED = -1
_FEW = 4  # queues
_NO_EXTRAS = [None] * 6

_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode

Key = tuple[int, int, bytes]
"""Rank, ready_at and id: a place in the order of a queue."""


class _Taken(NamedTuple):
    """A run that was taken: the columns of `taken` and `claim_id`."""

    tenant: str
    id: bytes
    job: str
    queue: str
    token: int
    attempt: int
    failures: int
    crash_count: int
    input: str | None
    options: str | None
    trace: str | None
    rank: int
    ready_at: int
    schedule: bytes | None
    slot: int | None
    deadline_at: int | None
    tags: str | None
    key: str | None
    metadata: str | None
    enqueued_by: bytes | None
    scheduled_for: int | None  # where it is another time than ready_at
    is_child: int | None


class Claim:
    """One claim of one worker: what was taken, and how far each queue was read.

    The heads of queues are taken by rows of one statement (at_once.sql), and read afterwards.
    """

    def __init__(self, tx: OpenTransaction, worker: str, claim_no: int, want: Want) -> None:
        self._tx = tx
        self._worker = worker
        self._claim_no = claim_no
        self._want = want
        self._jobs = to_json(want.jobs)
        self._order: list[str] = []  # of the queues, without those named twice
        self._heads: list[tuple[str, Key]] = []  # queues that have something, and from where
        self._window = _UNBOUNDED if want.window is None else want.window
        self.claimed: list[Claimed] = []
        self.marks: dict[str, Mark] = {}
        self.stops: dict[str, Mark] = {}
        self.queues: tuple[str, ...] = ()  # found where none were named, in the order of the look
        self.searched = 0.0  # seconds that this took
        self.refused = False  # the worker is dead to the store, and gets nothing

    @classmethod
    def of(
        cls, tx: OpenTransaction, worker: str, claim_no: int, want: Want | None
    ) -> "Claim | None":
        """The claim that a worker makes, if it wants anything."""
        return None if want is None or want.limit <= 0 else cls(tx, worker, claim_no, want)

    def look(self, *, writes: bool) -> None:
        """Find the queues that have something for this worker: an idle one writes nothing.

        One that ``writes`` anyway does not look first, if its queues are few: each statement waits
        for Python's lock, which handlers have meanwhile, and that may be milliseconds.
        """
        if self._want.ids is not None:
            return
        self._order = list(dict.fromkeys(self._queues()))
        places = [(queue, self._after(queue)) for queue in self._order]
        if not writes or len(places) > _FEW:
            places = [place for place in places if not self._is_bare(*place)]
        self._heads = places

    def heads(self) -> list[Row]:
        """The rows of cycle_at_once that take the heads of the queues found."""
        return [self._row(*place) for place in self._heads]

    def take(self) -> None:
        """Read what was taken from the heads, after their rows are written; or take by name."""
        if self._want.ids is not None:
            if self._is_alive():
                self._take_ids(self._want.ids)
        elif self._heads:
            self._read()
        # Whoever was given something lives: the others are worth a look.
        if not self.claimed and not self._is_alive():
            self.refused, self.queues, self.stops = True, (), {}

    def _is_alive(self) -> bool:
        return self._tx.fetch_one("alive_worker", (self._worker, self._tx.now)) is not None

    def _take_ids(self, refs: Sequence[RunRef]) -> None:
        jobs = frozenset(self._want.jobs)
        queues = self._want.queues
        rows = []
        for ref in dict.fromkeys(refs):
            blob = blob_or_none(ref.id)
            found = blob and self._tx.fetch_one("claim_id", (ref.tenant, blob, self._tx.now))
            row = _Taken(*found) if found else None
            if row and row.job in jobs and (queues is None or row.queue in queues):
                rows.append(row)
            if len(rows) >= self._want.limit:
                break
        self._move_each([(row.tenant, row.id) for row in rows])
        self.claimed += [_claimed(row, self._tx.now) for row in rows]

    def _read(self) -> None:
        rows, now = self._tx.fetch("taken"), self._tx.now
        self.claimed = [_claimed(row, now) for row in rows]
        last_of = {run.queue: row for run, row in zip(self.claimed, rows, strict=True)}
        for queue, row in last_of.items():
            taken = _Taken(*row)
            self.marks[queue] = _mark(taken.rank, taken.ready_at, taken.id)
        for queue, *end in self._tx.fetch("stops"):
            self.stops[queue] = _mark(*end)
        if len(self.claimed) >= self._want.limit:
            last = self._order.index(self.claimed[-1].queue)
            for queue in self._order[last:]:  # not looked at any more
                self.stops.pop(queue, None)

    def _row(self, queue: str, place: Key) -> Row:
        rank, ready_at, blob = place
        return (
            "claim", None, None, None, self._tx.now, self._worker, self._claim_no, self._jobs,
            queue, rank, ready_at, blob, self._window, self._want.limit,
        )  # fmt: skip

    def _is_bare(self, queue: str, place: Key) -> bool:
        rank, ready_at, blob = place
        look = {
            "queue": queue, "rank": rank, "ready_at": ready_at, "id": blob,
            "window": self._window, "jobs": self._jobs,
        }  # fmt: skip
        if self._tx.fetch("claimable", look | {"now": self._tx.now}):
            return False
        if self._want.window is not None:
            end = self._tx.fetch_one("window_end", look)
            if end is not None:
                self.stops[queue] = _mark(*end)
        return True

    def _queues(self) -> Sequence[str]:
        if self._want.queues is not None:
            return self._want.queues
        began = time.perf_counter()
        found = [queue for (queue,) in self._tx.fetch("ready_queues")]
        self.searched = time.perf_counter() - began
        turn = self._want.turn % len(found) if found else 0
        self.queues = tuple(found[turn:] + found[:turn])
        return self.queues

    def _after(self, queue: str) -> Key:
        mark = self._want.after.get(queue)
        if mark is None:
            return _BEFORE_ALL
        return mark.rank, int(mark.ready_at), to_blob(mark.id)

    def _move_each(self, names: Sequence[tuple[str, bytes]]) -> None:
        leases, started = [], []
        for row in self._tx.fetch_many("get_ready", names):
            place = ready_of(row)
            attempt, seq = place.attempt + 1, place.seq + 1
            place = place._replace(attempt=attempt, token=place.token + 1, seq=seq)
            leases.append((*place.claimed, seq, self._worker, self._claim_no, self._tx.now))
            started.append((place.tenant, place.id, seq, attempt))
        self._tx.execute_many("delete_ready", names)
        self._tx.execute_many("insert_lease", leases)
        add_to_feed(self._tx, EventType.STARTED, started)


def _mark(rank: int, ready_at: int, blob: bytes) -> Mark:
    return Mark(rank, str(ready_at), to_id(blob))


def _claimed(row: Row, now: int) -> Claimed:
    # Taken apart at once, without the names of a _Taken: this is done for every run.
    (
        tenant, blob, job, queue, token, attempt, failures, crash_count, given, options, trace,
        rank, ready_at, schedule, slot, deadline_at, *extras,
    ) = row  # fmt: skip
    if given is None:
        raise damaged(f"run {to_id(blob)} was ready, and has no record")
    start = Claimed(
        tenant, to_id(blob), job, queue, token, attempt, failures, crash_count, to_raw(given),
        None, trace, None, rank, ready_at,
    )  # fmt: skip
    if options is None and schedule is None and deadline_at is None and extras == _NO_EXTRAS:
        return start  # most have none of them
    read, flaw = read_options(options)
    more, bad_extras = readable("metadata", _extras, extras)
    return msgspec.structs.replace(
        start,
        options=read,
        schedule=to_id_or_none(schedule),
        slot=None if slot is None else from_micros(slot),
        extras=more,
        deadline_at=None if deadline_at is None else from_micros(deadline_at),
        deadline_in=None if deadline_at is None else (deadline_at - now) / 1_000_000,
        flaw=flaw or bad_extras,
    )


def _extras(values: Sequence[Any]) -> Extras | None:
    if values == _NO_EXTRAS:
        return None
    tags, key, metadata, enqueued_by, scheduled_for, is_child = values
    return Extras(
        tags=None if tags is None else to_texts(tags),
        key=key,
        metadata=None if metadata is None else _decode_metadata(metadata),
        enqueued_by=to_id_or_none(enqueued_by),
        is_child=bool(is_child),
        scheduled_for=from_micros_or_none(scheduled_for),
    )
