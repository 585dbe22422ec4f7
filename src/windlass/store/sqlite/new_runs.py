"""New runs as rows: their records, first positions and pages, and when they are due."""

from windlass.domain.event import EventType
from windlass.domain.run import Enqueued, NewRun
from windlass.domain.states import Status
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.pages import insert_pages
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    micros_of,
    new_blob,
    raw_text,
    to_json,
    to_json_or_none,
    to_micros,
)


class Batch:
    """New runs: their rows are bound once, and copied by SQLite to where else they belong."""

    def __init__(self, tx: OpenTransaction) -> None:
        self._tx = tx
        self._times = Times(tx.now)
        self._runs: list[Row] = []
        self._tags: list[Row] = []
        self._due: dict[str, list[bytes]] = {}  # those that are due at once, by tenant
        self._delayed = False

    def add(self, run: NewRun) -> Enqueued:
        """Take a run into the batch and answer for it."""
        times = self._times
        blob = new_blob(run.id, run.job)
        due = times.due(run)
        self._runs.append(record_of(run, blob, times, due))
        if run.tags:
            self._tags += tags_of(run, blob)
        if due > times.now:
            self._delayed = True
        else:
            self._due.setdefault(run.tenant, []).append(blob)
        return times.answer(run, due)

    def write(self) -> None:
        """Write the rows."""
        if not self._runs:
            return
        new = self._tx.insert_many("enqueue_run", self._runs)
        self._tx.execute("enqueue_ready", new)
        if self._delayed:
            self._tx.execute("enqueue_timers", new)
            self._tx.execute("enqueue_delayed", new)
        pages = {(tenant, 1, 0): blobs for tenant, blobs in self._due.items()}
        insert_pages(self._tx, EventType.ENQUEUED, pages)
        if self._tags:
            self._tx.execute_many("enqueue_tag", self._tags)

    def write_at_once(self) -> None:
        """Write the rows by one statement, which takes longer for each than many of them do."""
        if not self._runs:
            return
        page_at = {(tenant, blobs[0]): b"".join(blobs) for tenant, blobs in self._due.items()}
        rows = [(*row, page_at.get(row[:2])) for row in self._runs]
        self._tx.insert_at_once("enqueue_at_once", rows)


class Times:
    """When the runs of one transaction are due, expire and must be done."""

    __slots__ = ("_instant", "now")

    def __init__(self, now: int) -> None:
        self.now = now
        self._instant = from_micros(now)

    def due(self, run: NewRun) -> int:
        """When it may start: now, or later."""
        if run.at is not None:
            return max(self.now, to_micros(run.at))
        return self.now if run.delay is None else self.now + micros_of(run.delay)

    def expires_at(self, run: NewRun) -> int | None:
        """When it is no longer worth starting."""
        if run.expires_in is not None:
            return self.now + micros_of(run.expires_in)
        return None if run.expires_at is None else to_micros(run.expires_at)

    def deadline_at(self, run: NewRun) -> int | None:
        """When it must be done."""
        if run.deadline_in is not None:
            return self.now + micros_of(run.deadline_in)
        return None if run.deadline_at is None else to_micros(run.deadline_at)

    def answer(self, run: NewRun, due: int) -> Enqueued:
        """The answer to the caller, for a run that was made."""
        delayed = due > self.now
        return Enqueued(
            id=run.id,
            created=True,
            status=Status.SCHEDULED if delayed else Status.QUEUED,
            created_at=self._instant,
            scheduled_for=from_micros(due) if delayed else self._instant,
        )


def record_of(run: NewRun, blob: bytes, times: Times, scheduled_for: int) -> Row:
    """The columns of enqueue_run, and the first of enqueue_at_once and fire_run."""
    return (
        run.tenant, blob, run.job, run.job_version, run.queue, run.priority,
        raw_text(run.input), to_json_or_none(run.options), run.key,
        to_json(run.tags) if run.tags else None, run.trace,
        None if run.metadata is None else raw_text(run.metadata),
        None if run.enqueued_by is None else blob_or_none(run.enqueued_by),
        times.now, scheduled_for,
        times.expires_at(run), times.deadline_at(run),
    )  # fmt: skip


def tags_of(run: NewRun, blob: bytes) -> list[Row]:
    """The rows of enqueue_tag."""
    return [(run.tenant, tag, blob) for tag in dict.fromkeys(run.tags)]
