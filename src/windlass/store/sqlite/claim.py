"""Claim: the heads of queues become leases of one worker."""

from collections.abc import Sequence

from windlass.domain.event import EventType
from windlass.domain.run import Claimed, Mark, RunRef, Want
from windlass.errors import StoreError
from windlass.store.sqlite.moves import ready_of
from windlass.store.sqlite.transaction import Row, Transaction
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    read_options,
    to_blob,
    to_id,
    to_json,
    to_raw,
)

_BEFORE_ALL = (-(2**63), -(2**63), b"")
_UNBOUNDED = -1


class Claim:
    """One claim of one worker: what was taken, and how far each queue was read."""

    def __init__(self, tx: Transaction, worker: str, claim_no: int, want: Want) -> None:
        self._tx = tx
        self._worker = worker
        self._claim_no = claim_no
        self._want = want
        self._jobs = to_json(want.jobs)
        self.claimed: list[Claimed] = []
        self.marks: dict[str, Mark] = {}
        self.stops: dict[str, Mark] = {}
        self.queues: tuple[str, ...] = ()  # found where none were named, in the order of the look

    def take(self) -> None:
        """Take as many runs as are wanted and there."""
        if self._want.ids is not None:
            self._take_ids(self._want.ids)
            return
        for queue in self._queues():
            missing = self._want.limit - len(self.claimed)
            if missing <= 0:
                break
            self._take_heads(queue, missing)

    def _queues(self) -> Sequence[str]:
        if self._want.queues is not None:
            return self._want.queues
        found = [queue for (queue,) in self._tx.fetch("ready_queues")]
        turn = self._want.turn % len(found) if found else 0
        self.queues = tuple(found[turn:] + found[:turn])
        return self.queues

    def _take_heads(self, queue: str, limit: int) -> None:
        window = self._want.window
        rank, ready_at, blob = self._after(queue)
        look = {
            "queue": queue, "rank": rank, "ready_at": ready_at, "id": blob,
            "window": _UNBOUNDED if window is None else window,
        }  # fmt: skip
        rows = self._tx.fetch(
            "claim_heads", look | {"jobs": self._jobs, "now": self._tx.now, "limit": limit}
        )
        if window is not None and len(rows) < limit:
            end = self._tx.fetch_one("window_end", look)  # while what is taken is still there
            if end is not None:
                self.stops[queue] = _mark(*end)
        if not rows:
            return
        moved = self._move_range(queue, rows[0], rows[-1])
        if moved != len(rows):
            raise StoreError(f"A claim of {queue!r} found {len(rows)} runs and moved {moved}.")
        self.claimed += [_claimed(row, self._tx.now) for row in rows]
        last = rows[-1]
        self.marks[queue] = _mark(last[11], last[12], last[1])

    def _after(self, queue: str) -> tuple[int, int, bytes]:
        mark = self._want.after.get(queue)
        if mark is None:
            return _BEFORE_ALL
        return mark.rank, int(mark.ready_at), to_blob(mark.id)

    def _move_range(self, queue: str, first: Row, last: Row) -> int:
        stretch = {
            "queue": queue, "jobs": self._jobs, "now": self._tx.now,
            "rank": first[11], "ready_at": first[12], "id": first[1], "tenant": first[0],
            "last_rank": last[11], "last_ready_at": last[12], "last_id": last[1],
            "last_tenant": last[0],
        }  # fmt: skip
        self._tx.execute(
            "lease_range", stretch | {"worker": self._worker, "claim_no": self._claim_no}
        )
        self._tx.execute("start_range", stretch)
        return self._tx.execute("unready_range", stretch)

    def _take_ids(self, refs: Sequence[RunRef]) -> None:
        jobs = frozenset(self._want.jobs)
        queues = self._want.queues
        rows = []
        for ref in dict.fromkeys(refs):
            blob = blob_or_none(ref.id)
            row = blob and self._tx.fetch_one("claim_id", (ref.tenant, blob, self._tx.now))
            if row and row[2] in jobs and (queues is None or row[3] in queues):
                rows.append(row)
            if len(rows) >= self._want.limit:
                break
        self._move_each([(row[0], row[1]) for row in rows])
        self.claimed += [_claimed(row, self._tx.now) for row in rows]

    def _move_each(self, names: Sequence[tuple[str, bytes]]) -> None:
        now = self._tx.now
        leases, events = [], []
        for row in self._tx.fetch_many("get_ready", names):
            place = ready_of(row)
            attempt, seq = place.attempt + 1, place.seq + 1
            place = place._replace(attempt=attempt, token=place.token + 1, seq=seq)
            leases.append((*place.claimed, self._worker, self._claim_no, now))
            events.append((place.tenant, place.id, seq, EventType.STARTED, now, attempt, None))
        self._tx.execute_many("delete_ready", names)
        self._tx.execute_many("insert_lease", leases)
        self._tx.execute_many("insert_event", events)


def _mark(rank: int, ready_at: int, blob: bytes) -> Mark:
    return Mark(rank, str(ready_at), to_id(blob))


def _claimed(row: Row, now: int) -> Claimed:
    options, flaw = read_options(row[9])
    deadline = row[15]
    return Claimed(
        tenant=row[0],
        id=to_id(row[1]),
        job=row[2],
        queue=row[3],
        token=row[4],
        attempt=row[5],
        failures=row[6],
        crash_count=row[7],
        input=to_raw(row[8]),
        options=options,
        trace=row[10],
        schedule=None if row[13] is None else to_id(row[13]),
        slot=None if row[14] is None else from_micros(row[14]),
        deadline_at=None if deadline is None else from_micros(deadline),
        deadline_in=None if deadline is None else (deadline - now) / 1_000_000,
        flaw=flaw,
    )
