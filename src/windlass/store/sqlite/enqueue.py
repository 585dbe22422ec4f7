"""Enqueue: records, their first position and page; keys that make a repeat harmless."""

from collections.abc import Callable, Sequence
from itertools import chain, islice

import apsw

from windlass.domain.event import EventType
from windlass.domain.run import Enqueued, NewRun
from windlass.domain.states import Status
from windlass.errors import BadArguments
from windlass.store.sqlite.keys import Known
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.pages import insert_pages
from windlass.store.sqlite.values import (
    blob_or_none,
    from_micros,
    micros_of,
    new_blob,
    raw_text,
    to_id,
    to_json,
    to_json_or_none,
    to_micros,
)

_FEW = 8  # runs that are enqueued by one statement: more of them are quicker in a transaction

Name = tuple[str, bytes]
"""A run's tenant and id."""

_NO_LENGTHS = (None, None, None, None)


def enqueue(
    tx: OpenTransaction, runs: Sequence[NewRun], *, patient: bool = True
) -> Sequence[Enqueued]:
    """Insert runs, all or none; answer in the order given."""
    _check_all_lengths(runs)
    if not any(run.key is not None for run in runs):
        try:
            return _insert_all(tx, runs)
        except apsw.ConstraintError:
            pass  # an id is known already, in the store or in this batch: look at each
    return _insert_unknown(tx, runs)


def enqueue_at_once(
    tx: OpenTransaction, runs: Sequence[NewRun], *, patient: bool = True
) -> Callable[[], Sequence[Enqueued]] | None:
    """As :func:`enqueue`, by one statement; None if that is not possible: nothing was done."""
    if len(runs) > _FEW or any(run.key is not None for run in runs):
        return None
    _check_all_lengths(runs)
    batch = Batch(tx)
    answers = [batch.add(run) for run in runs]
    try:
        batch.write_at_once()
    except apsw.ConstraintError:
        return None  # an id is known already
    return lambda: answers


def enqueue_together(
    tx: OpenTransaction, batches: Sequence[Sequence[NewRun]]
) -> Sequence[Sequence[Enqueued]]:
    """Enqueue several batches as one, all or none; answer for each of them."""
    return _dealt(enqueue(tx, list(chain(*batches))), batches)


def enqueue_together_at_once(
    tx: OpenTransaction, batches: Sequence[Sequence[NewRun]]
) -> Callable[[], Sequence[Sequence[Enqueued]]] | None:
    """As :func:`enqueue_together`, by one statement, if that is possible."""
    answer = enqueue_at_once(tx, list(chain(*batches)))
    return None if answer is None else lambda: _dealt(answer(), batches)


def _dealt(
    answers: Sequence[Enqueued], batches: Sequence[Sequence[NewRun]]
) -> Sequence[Sequence[Enqueued]]:
    left = iter(answers)
    return [list(islice(left, len(batch))) for batch in batches]


def _insert_all(tx: OpenTransaction, runs: Sequence[NewRun]) -> Sequence[Enqueued]:
    """Insert runs of which none is known; a ConstraintError leaves nothing behind."""
    batch = Batch(tx)
    answers = [batch.add(run) for run in runs]
    if len(runs) == 1:
        batch.write()  # its first statement is the one that can fail
    else:
        with tx.savepoint():
            batch.write()
    return answers


def _insert_unknown(tx: OpenTransaction, runs: Sequence[NewRun]) -> Sequence[Enqueued]:
    """Insert the runs whose id and key are free; answer with the run that exists for others."""
    batch = Batch(tx)
    known = Known(tx)
    answers: list[Enqueued | Name] = []
    for run in runs:
        owner = known.owner(run)
        answers.append(batch.add(run) if owner is None else (run.tenant, owner))
    batch.write()
    known.write()
    # An owner may have come earlier in this batch: it can be read once that is written.
    return [a if isinstance(a, Enqueued) else _existing(tx, a) for a in answers]


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


def _check_all_lengths(runs: Sequence[NewRun]) -> None:
    for run in runs:
        lengths = (run.delay, run.key_ttl, run.expires_in, run.deadline_in)
        if lengths != _NO_LENGTHS:
            _check_lengths(run)
        if run.key is None and run.frees_key:
            raise BadArguments(run.job, "was enqueued with unique, which needs a key", "unique")


def _check_lengths(run: NewRun) -> None:
    for name in ("delay", "key_ttl", "expires_in", "deadline_in"):
        seconds = getattr(run, name)
        if seconds is not None and not seconds >= 0:  # which also refuses NaN
            raise BadArguments(run.job, f"was enqueued with {name}={seconds}", name)


def _existing(tx: OpenTransaction, owner: Name) -> Enqueued:
    ((status, created_at, scheduled_for),) = tx.fetch("existing_run", owner)
    return Enqueued(
        id=to_id(owner[1]),
        created=False,
        status=Status(status),
        created_at=from_micros(created_at),
        scheduled_for=from_micros(scheduled_for),
    )
