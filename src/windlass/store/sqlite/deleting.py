"""Deleting runs, with everything that hangs on them: see `domain/retention.py`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from windlass.domain.event import EventType
from windlass.domain.states import Status
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.pages import insert_pages_about
from windlass.store.sqlite.values import to_json, to_texts

_OF_A_RUN = (
    "drop_artifacts", "drop_events", "drop_attempts", "drop_steps", "drop_generations",
    "drop_signals", "drop_logs", "drop_progress", "delete_failure", "drop_child", "drop_follows",
    "drop_batch", "drop_shards", "drop_unit_failures", "drop_units", "drop_staged", "drop_run",
)  # fmt: skip
"""What goes by the run's id alone; the record last, so that nobody is woken by a child's end."""


class Dropped(NamedTuple):
    """What became of runs that were to go."""

    runs: int
    kept: int
    locations: tuple[str, ...]


class _Ended(NamedTuple):
    id: bytes
    job: str
    status: str
    key: str | None
    tags: str | None
    attempt: int
    seq: int
    stale_at: int | None
    links: int | None
    schedule: bytes | None
    slot: int | None

    @property
    def next_seq(self) -> int:
        """The number of its next event; that of a success keeps one free for run.stale."""
        told = self.stale_at is not None and self.status == Status.SUCCEEDED
        return self.seq + 1 + told


def drop_runs(tx: OpenTransaction, tenant: str, runs: Iterable[bytes]) -> Dropped:
    """Delete those that have ended and that nobody needs."""
    # One after the other: a child that goes may be what its parent was kept for.
    going: list[_Ended] = []
    kept = 0
    locations: list[str] = []
    for blob in runs:
        row = tx.fetch_one("ended_run", (tenant, blob))
        if row is None:
            continue
        run = _Ended(blob, *row)
        if _is_needed(tx, tenant, run):
            kept += 1
            continue
        locations += [place for (place,) in tx.fetch("locations_of", (tenant, blob))]
        going.append(run)
    _tell(tx, tenant, going)
    names = [(tenant, run.id) for run in going]
    tx.execute_many(
        "delete_tag", [(tenant, tag, r.id) for r in going if r.tags for tag in to_texts(r.tags)]
    )
    keys: list[Row] = [
        (tenant, run.job, run.key, run.id, tx.now) for run in going if run.key is not None
    ]
    tx.execute_many("drop_key", keys)
    tx.execute_many("keep_gone_key", [key[:4] for key in keys])
    slots: list[Row] = [
        (tenant, run.schedule, run.slot, run.id) for run in going if run.schedule is not None
    ]
    tx.execute_many("drop_live", slots)
    for statement in _OF_A_RUN:
        tx.execute_many(statement, names)
    return Dropped(len(going), kept, tuple(locations))


def _is_needed(tx: OpenTransaction, tenant: str, run: _Ended) -> bool:
    name = (tenant, run.id)
    if run.links and tx.fetch_one("needed_by_links", name) == (1,):
        return True
    if tx.fetch_one("needed_by_follower", name) == (1,):
        return True
    return run.status == Status.FAILED and tx.fetch_one("needed_by_handler", name) == (1,)


def _tell(tx: OpenTransaction, tenant: str, runs: Sequence[_Ended]) -> None:
    """Put it into the feed: all that is left of them."""
    pages: dict[tuple[int, int, str, str], list[bytes]] = {}
    for run in runs:
        about = (run.next_seq, run.attempt, run.job, run.status)
        pages.setdefault(about, []).append(run.id)
    for (seq, attempt, job, status), subjects in pages.items():
        data = to_json({"job": job, "status": status})
        insert_pages_about(tx, EventType.DELETED, (tenant, seq, attempt), subjects, data)
