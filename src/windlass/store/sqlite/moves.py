"""How a run moves: its position row is deleted, another written, or its outcome recorded.

The moves of a transaction are collected row by row, where they are decided, and applied table
by table, one statement for many rows.
"""

from typing import Any, NamedTuple

from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import ErrorInfo
from windlass.domain.states import Failure, Intent, Status
from windlass.store.sqlite.transaction import Row, Transaction
from windlass.store.sqlite.values import to_json, to_json_or_none


class Position(NamedTuple):
    """What every position row carries and hands on."""

    tenant: str
    id: bytes
    job: str
    queue: str
    rank: int
    attempt: int
    failures: int
    crash_count: int
    token: int
    seq: int
    deadline_at: int | None
    expires_at: int | None


class Lease(NamedTuple):
    """A lease: a position, who holds it, and what an operator wants of it."""

    tenant: str
    id: bytes
    job: str
    queue: str
    rank: int
    attempt: int
    failures: int
    crash_count: int
    token: int
    seq: int
    deadline_at: int | None
    worker: str
    started_at: int
    intent: str | None
    reason: str | None

    @property
    def wanted(self) -> Intent | None:
        """What an operator wants of the run."""
        return None if self.intent is None else Intent(self.intent)


Place = Position | Lease


def lease_of(row: Row) -> Lease:
    """Return a row of the lease statements as a value."""
    return Lease._make(row)


def position_of(row: Row) -> Position:
    """Return a row of the position statements as a value."""
    return Position._make(row[:12])


class Moves:
    """The moves of one transaction. Each takes the run's next ``seq`` for its event."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._now = tx.now
        self._rows: dict[str, list[Row]] = {}

    def leave(self, table: str, place: Place) -> None:
        """Give up a position; ``table`` is the singular that its delete statement names."""
        self._add(f"delete_{table}", (place.tenant, place.id))

    def end_attempt(
        self,
        lease: Lease,
        outcome: AttemptOutcome,
        error: ErrorInfo | None = None,
        version: str | None = None,
    ) -> None:
        """Give up a lease and record the attempt made under it."""
        self.leave("lease", lease)
        self._add(
            "insert_attempt",
            (lease.tenant, lease.id, lease.attempt, lease.token, lease.worker, outcome,
             lease.started_at, self._now, to_json_or_none(error), version),
        )  # fmt: skip

    def to_ready(
        self,
        place: Place,
        event: EventType,
        data: dict[str, Any] | None = None,
        *,
        failures: int | None = None,
        crash_count: int | None = None,
    ) -> None:
        """Put the run into its queue, behind those that are ready already."""
        self._add("insert_ready", (*self._carried(place, failures, crash_count), self._now))
        self._tell(place, event, data)

    def to_timer(
        self, place: Place, due_at: int, why: str, event: EventType, data: dict[str, Any],
        *, failures: int | None = None,
    ) -> None:  # fmt: skip
        """Let the run wait until ``due_at``."""
        self._add("insert_timer", (*self._carried(place, failures, None), due_at, why))
        self._tell(place, event, data)

    def succeed(self, lease: Lease, result: str | None) -> None:
        """End the run with a result."""
        self._add(
            "succeed_run",
            (result, lease.attempt, lease.failures, lease.crash_count, lease.token,
             lease.seq + 1, lease.started_at, self._now, lease.tenant, lease.id),
        )  # fmt: skip
        self._tell(lease, EventType.SUCCEEDED, None)

    def fail(
        self,
        place: Place,
        failure: Failure,
        error: ErrorInfo | None = None,
        *,
        failures: int | None = None,
        crash_count: int | None = None,
    ) -> None:
        """End the run as failed: it becomes a dead letter."""
        self._end(place, Status.FAILED, failure, error, None, failures, crash_count)
        self._bury(place, Status.FAILED, failure, error)
        self._tell(place, EventType.FAILED, {"failure": failure})

    def cancel(
        self,
        place: Place,
        reason: str | None,
        error: ErrorInfo | None = None,
        *,
        failures: int | None = None,
        crash_count: int | None = None,
    ) -> None:
        """End the run as canceled."""
        self._end(place, Status.CANCELED, None, None, reason, failures, crash_count)
        self._bury(place, Status.CANCELED, None, error)
        self._tell(place, EventType.CANCELED, None if reason is None else {"reason": reason})

    def apply(self) -> None:
        """Write everything collected. The old positions go first: they are the mutex."""
        for name in sorted(self._rows, key=lambda name: not name.startswith("delete_")):
            self._tx.execute_many(name, self._rows[name])
        self._rows = {}

    def _end(
        self, place: Place, status: Status, failure: Failure | None,
        error: ErrorInfo | None, reason: str | None, failures: int | None,
        crash_count: int | None,
    ) -> None:  # fmt: skip
        self._add(
            "end_run",
            (status, failure, to_json_or_none(error), reason, place.attempt,
             place.failures if failures is None else failures,
             place.crash_count if crash_count is None else crash_count,
             place.token, place.seq + 1, self._started_at(place), self._now,
             place.tenant, place.id),
        )  # fmt: skip

    def _started_at(self, place: Place) -> int | None:
        if isinstance(place, Lease):
            return place.started_at
        if place.attempt == 0:
            return None
        row = self._tx.fetch_one("last_start", (place.tenant, place.id))
        return None if row is None else row[0]

    def _bury(
        self, place: Place, status: Status, failure: Failure | None,
        error: ErrorInfo | None,
    ) -> None:  # fmt: skip
        self._add(
            "insert_failure",
            (place.tenant, place.id, place.job, place.queue, status, failure,
             None if error is None else error.type,
             None if error is None else error.fingerprint, self._now),
        )  # fmt: skip

    def _tell(self, place: Place, event: EventType, data: dict[str, Any] | None) -> None:
        self._add(
            "insert_event",
            (place.tenant, place.id, place.seq + 1, event, self._now, place.attempt,
             None if data is None else to_json(data)),
        )  # fmt: skip

    @staticmethod
    def _carried(place: Place, failures: int | None, crash_count: int | None) -> Row:
        return (
            place.tenant, place.id, place.job, place.queue, place.rank, place.attempt,
            place.failures if failures is None else failures,
            place.crash_count if crash_count is None else crash_count,
            place.token, place.seq + 1, place.deadline_at,
            # What was claimed once has started in time.
            place.expires_at if isinstance(place, Position) else None,
        )  # fmt: skip

    def _add(self, name: str, row: Row) -> None:
        self._rows.setdefault(name, []).append(row)
