"""Retention: the chores of janitors. `domain/retention.py` has the protocol."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from windlass.ages import DAY, Age, Ages
from windlass.domain.event import EventType
from windlass.domain.retention import (
    EVERY,
    Growth,
    Pruned,
    RetentionTerms,
    StoreTerms,
    Tidied,
    lap_of,
    pause_of,
    slack_of,
)
from windlass.domain.states import Status
from windlass.store.mending import read_row
from windlass.store.sqlite.deleting import drop_runs
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.pages import add_to_feed
from windlass.store.sqlite.values import (
    PAST_LAST_ID,
    blob_or_none,
    from_micros_or_none,
    micros_of,
    to_json,
)

OF_THE_STORE = ("jobs", "feed", "audit", "slots", "keys")
_LOOKED = 5  # runs that are looked at, for each that may be changed


@dataclass(slots=True, kw_only=True)
class _Chore:
    kind: str
    tenant: str
    job: str
    lap_at: int
    lapping: int
    terms: str | None
    mark: str | None


class _Seen(NamedTuple):
    id: bytes
    status: str | None
    finished_at: int | None
    stale_at: int | None


@dataclass(slots=True)
class _Round:
    """One call of a janitor."""

    terms: StoreTerms
    limit: int
    stale: int = 0
    deleted: int = 0
    pages: int = 0
    audit: int = 0
    slots: int = 0
    keys: int = 0
    locations: tuple[str, ...] = ()
    spent: int = 0

    @property
    def left(self) -> int:
        return self.limit - self.spent


def tidy(tx: OpenTransaction, terms: StoreTerms, limit: int) -> Tidied:
    """Do what is due, a piece of it."""
    here = _Round(terms, limit)
    if tx.fetch_one("has_chores") is None:
        tx.execute_many("add_chore", [(kind, "", "", 0) for kind in OF_THE_STORE])
    while here.left > 0:
        row = tx.fetch_one("due_chore", (tx.now,))
        if row is None:
            break
        chore = _Chore(**dict(zip(_Chore.__slots__, row, strict=True)))
        pause = _DO[chore.kind](tx, here, chore) if chore.kind in _DO else DAY
        due = tx.now + micros_of(pause)
        told = (due, chore.lap_at, chore.lapping, chore.terms, chore.mark)
        tx.execute("put_chore", (*told, chore.kind, chore.tenant, chore.job))
        here.spent += 1
    return Tidied(
        stale=here.stale,
        deleted=here.deleted,
        pages=here.pages,
        audit=here.audit,
        slots=here.slots,
        keys=here.keys,
        locations=here.locations,
        more=tx.fetch_one("any_chore", (tx.now,)) is not None,
    )


def delete_runs(tx: OpenTransaction, tenant: str, runs: Sequence[str]) -> Pruned:
    """Delete runs by hand."""
    blobs = [blob for blob in map(blob_or_none, runs) if blob is not None]
    dropped = drop_runs(tx, tenant, blobs)
    return Pruned(deleted=dropped.runs, kept=dropped.kept, locations=dropped.locations)


def measure_growth(tx: OpenTransaction, tenant: str) -> Growth:
    """Return how large the file is."""
    ((size, free),) = tx.fetch("store_bytes")
    oldest = tx.fetch_one("oldest_run", (tenant,))
    return Growth(
        bytes=size, reusable=free, oldest=from_micros_or_none(oldest[0] if oldest else None)
    )


def _find_jobs(tx: OpenTransaction, here: _Round, chore: _Chore) -> float:
    tenant, job = "", ""
    while row := (
        tx.fetch_one("next_job", (tenant, job)) or tx.fetch_one("next_tenant", (tenant,))
    ):
        tenant, job = row
        for kind in ("stale", "delete"):
            tx.execute("add_chore", (kind, tenant, job, tx.now))
    return EVERY


def _walk(tx: OpenTransaction, here: _Round, chore: _Chore) -> float:
    """Go on with a walk over the runs of a job; its pause is 0 while there is more to see."""
    kept = _kept(tx, here, chore)
    ages = kept.stale if chore.kind == "stale" else kept.delete
    said, age = to_json(kept), ages.shortest()
    if said != chore.terms or (
        age is not None and not chore.lapping and tx.now - chore.lap_at >= micros_of(lap_of(age))
    ):
        chore.terms, chore.mark, chore.lapping, chore.lap_at = said, None, 1, tx.now
    if age is None:
        return EVERY
    low = bytes.fromhex(chore.mark) if chore.mark else b""
    old = _id_at(tx.now - micros_of(age + slack_of(age)))
    high = PAST_LAST_ID if chore.lapping else old
    if chore.kind == "delete" and kept.keep_last:
        first = tx.fetch_one("nth_newest", (chore.tenant, chore.job, kept.keep_last - 1))
        high = min(high, b"" if first is None else first[0])
    most, looked = here.left, here.left * _LOOKED
    rows = tx.fetch("walk_old", (chore.tenant, chore.job, low, high, looked))
    seen = [_Seen(*row) for row in rows]
    due = [run.id for run in seen if _is_due(tx, chore, ages, run)]
    here.spent += min(most, len(due)) + len(seen) // _LOOKED
    if due:
        _ACT[chore.kind](tx, here, chore.tenant, due[:most])
    if len(due) > most or len(seen) == looked:
        chore.mark = (due[most - 1] if len(due) > most else seen[-1].id).hex()
        return 0.0
    chore.mark = (min(high, old) if chore.lapping else max(low, high)).hex()
    chore.lapping = 0
    return pause_of(age)


def _kept(tx: OpenTransaction, here: _Round, chore: _Chore) -> RetentionTerms:
    row = tx.fetch_one("job_retention", (chore.tenant, chore.job))
    if row is None or row[0] is None:
        return here.terms.runs
    return read_row(row[0], RetentionTerms)


def _is_due(tx: OpenTransaction, chore: _Chore, ages: Ages, run: _Seen) -> bool:
    if run.status is None or (chore.kind == "stale" and run.stale_at is not None):
        return False
    age: Age = getattr(ages, run.status, None)  # of a status that we do not know: never
    return age is not None and (run.finished_at or 0) <= tx.now - micros_of(age)


def _make_stale(tx: OpenTransaction, here: _Round, tenant: str, runs: Sequence[bytes]) -> None:
    told = []
    for blob in runs:
        for status, seq, attempt in tx.fetch("make_stale", (tx.now, tenant, blob)):
            success = status == Status.SUCCEEDED
            told.append((tenant, blob, seq + success, attempt))
            if not success:
                event = (tenant, blob, seq, EventType.STALE, tx.now, attempt, None)
                tx.execute("insert_event", event)
    add_to_feed(tx, EventType.STALE, told)
    here.stale += len(told)


def _drop(tx: OpenTransaction, here: _Round, tenant: str, runs: Sequence[bytes]) -> None:
    dropped = drop_runs(tx, tenant, runs)
    here.deleted += dropped.runs
    here.locations += dropped.locations


def _drop_pages(tx: OpenTransaction, here: _Round, chore: _Chore) -> float:
    """Delete the oldest pages, and mark how far, for whoever reads from before."""
    if here.terms.feed is None:
        return EVERY
    before = tx.now - micros_of(here.terms.feed)
    old = []
    for row in tx.fetch("oldest_pages", (here.left,)):
        if row[3] >= before:
            break
        old.append(row)
    if old:
        era, n, k, _ = old[-1]
        chore.mark = f"{era}:{n}:{k}"
        here.pages += tx.execute("drop_pages", (n,))
        here.spent += len(old)
    return EVERY if here.left > 0 else 0.0


def _drop_audit(tx: OpenTransaction, here: _Round, chore: _Chore) -> float:
    before = None if here.terms.audit is None else tx.now - micros_of(here.terms.audit)
    deleted = _some(tx, here, "drop_audit", before)
    here.audit += deleted
    return EVERY if here.left > 0 else 0.0


def _drop_slots(tx: OpenTransaction, here: _Round, chore: _Chore) -> float:
    before = None if here.terms.slots is None else tx.now - micros_of(here.terms.slots)
    here.slots += _some(tx, here, "drop_slots_before", before)
    return EVERY if here.left > 0 else 0.0


def _drop_keys(tx: OpenTransaction, here: _Round, chore: _Chore) -> float:
    here.keys += _some(tx, here, "drop_expired_keys", tx.now)
    return EVERY if here.left > 0 else 0.0


def _some(tx: OpenTransaction, here: _Round, statement: str, before: int | None) -> int:
    """Delete at most as many rows as are left to this round, those from before a time."""
    if before is None:
        return 0
    most = here.left
    deleted = tx.execute(statement, {"before": before, "now": before, "limit": most})
    here.spent += deleted
    return deleted


def _id_at(micros: int) -> bytes:
    """The smallest UUIDv7 of an instant."""
    return (max(0, micros) // 1000).to_bytes(6) + bytes(10)


_DO: dict[str, Callable[[OpenTransaction, _Round, _Chore], float]] = {
    "jobs": _find_jobs,
    "stale": _walk,
    "delete": _walk,
    "feed": _drop_pages,
    "audit": _drop_audit,
    "slots": _drop_slots,
    "keys": _drop_keys,
}
_ACT: dict[str, Callable[[OpenTransaction, _Round, str, Sequence[bytes]], None]] = {
    "stale": _make_stale,
    "delete": _drop,
}
