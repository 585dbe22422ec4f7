"""How a run moves: its position row is deleted, another written, or its outcome recorded.

The twin of PostgreSQL's `windlass.make_moves`. A caller names the run's place and the verb; the
rules (`domain/states.py`, `domain/event.py`) decide which status follows and what is recorded.
The moves of a transaction are collected row by row, and applied table by table, one statement for
many rows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, assert_never

from windlass.domain.event import EFFECTS, AttemptOutcome, Effect, EventType
from windlass.domain.outcome import ErrorInfo
from windlass.domain.states import (
    Failure,
    Status,
    Verb,
    advance,
    is_paused_next,
    under_intent,
)
from windlass.errors import BadArguments
from windlass.store.sqlite.failure_runs import FailureRuns
from windlass.store.sqlite.open_transaction import OpenTransaction, Row
from windlass.store.sqlite.pages import Told, add_to_feed
from windlass.store.sqlite.positions import FOREVER, Position
from windlass.store.sqlite.values import to_json, to_json_or_none

_DELETES = {
    Status.QUEUED: "delete_ready",
    Status.SCHEDULED: "delete_timer",
    Status.WAITING: "delete_timer",
    Status.PAUSED: "delete_timer",
    Status.RUNNING: "delete_lease",
}


class End(NamedTuple):
    """What is known of the end of an attempt, or of a run."""

    failure: Failure | None = None
    reason: str | None = None
    result: str | None = None
    error: ErrorInfo | None = None
    counts: bool = False  # as a failure of the handler
    timed_out: bool = False
    version: str | None = None


_NOTHING = End()
_NO_LEASE: Any = {
    "worker_no": None, "started_at": None, "started_seq": None, "intent": None, "reason": None,
}  # fmt: skip


class Moves:
    """The moves of one transaction. Each takes the run's next ``seq`` for its event."""

    def __init__(self, tx: OpenTransaction) -> None:
        self._tx = tx
        self._now = tx.now
        self._left: dict[str, list[Row]] = {}
        self._rows: dict[str, list[Row]] = {}
        self._succeeded: list[Told] = []
        self._failure_runs = FailureRuns(tx)
        self._to_pause: list[tuple[Position, str | None]] = []

    def add(
        self,
        place: Position,
        verb: Verb,
        *,
        at: int | None = None,
        end: End = _NOTHING,
        data: dict[str, Any] | None = None,
        waits: Sequence[str] = (),
    ) -> Status:
        """Move a run; return its new status.

        ``at`` is when a wait is over; if that has come (or there is none), the run is queued.
        ``waits`` are the steps in which it sleeps or waits.
        What stays in its status stays in its place.
        ``data`` is that of the event, unless the run ends by it.
        """
        deed = under_intent(verb, place.wanted)
        status = advance(place.status, deed, run=place.id.hex(), stale=True)
        if deed is Verb.CONTINUE:
            place, data = self._go_on(place, end)
        if at is None and status is place.status:
            at = place.at
        elif status is Status.QUEUED:
            at = self._now
        effect = EFFECTS[deed]
        if effect.wait is not None and (at is None or at <= self._now):
            status, at = advance(status, Verb.DUE), self._now
        delete = _DELETES.get(place.status)
        if delete is not None:
            self._left.setdefault(delete, []).append((place.tenant, place.id))
        attempt = None if place.worker_no is None else EFFECTS[verb].attempt
        if attempt is not None and status is not Status.SUCCEEDED:
            self._record_attempt(place, attempt, end)
        moved = place._replace(
            failures=place.failures + end.counts,
            crash_count=place.crash_count + (attempt is AttemptOutcome.CRASHED),
            seq=place.seq + 1,
            at=at,
            why=effect.wait or place.why,
            waits=to_json(waits) if waits else place.waits,
        )
        self._arrive(moved, status, effect, end, data)
        if is_paused_next(status, place.wanted):
            self._to_pause.append((moved._replace(status=status), place.reason))
        return status

    def apply(self) -> None:
        """Write everything collected. The old positions go first: they are the mutex.

        What was to be paused when it left its lease is put aside after that, where it has gone.
        """
        for rows in (self._left, self._rows):
            for name, many in rows.items():
                self._tx.execute_many(name, many)
        add_to_feed(self._tx, EventType.SUCCEEDED, self._succeeded)
        self._failure_runs.write()
        self._left, self._rows, self._succeeded = {}, {}, []
        to_pause, self._to_pause = self._to_pause, []
        for place, reason in to_pause:
            self.put_aside(place._replace(**_NO_LEASE), reason)
        if to_pause:
            self.apply()

    def put_aside(self, place: Position, reason: str | None) -> None:
        """Pause a run that is in its queue or has a timer; it remembers what its timer was."""
        name = (place.tenant, place.id)
        if place.why == "held" and self._tx.fetch_one("is_follower", name) is None:
            # Nobody would let it go while it is paused: it counts as one that may run.
            self._add("free_child", name)
        elif place.status is Status.QUEUED:
            place = place._replace(waits=None)  # what it waited for has come
        else:
            place = place._replace(was_why=place.why, was_at=place.at)
        data = None if reason is None else {"reason": reason}
        self.add(place, Verb.PAUSE, at=FOREVER, data=data)
        self._add("wake_batch", name)

    def _arrive(
        self, place: Position, status: Status, effect: Effect, end: End, data: dict[str, Any] | None
    ) -> None:
        match status:
            case Status.QUEUED:
                self._add("insert_ready", (*place.carried, place.at))
            case Status.SCHEDULED | Status.WAITING | Status.PAUSED:
                timer = (place.at, place.why, place.waits, place.was_why, place.was_at)
                self._add("insert_timer", (*place.carried, *timer))
            case Status.SUCCEEDED:
                # The record says all of it: there is no row of the attempt, nor of the event.
                self._end_run(place, status, None, end)
                self._succeeded.append((place.tenant, place.id, place.seq, place.attempt))
                return
            case Status.FAILED:
                failure = end.failure or effect.failure
                assert failure is not None
                self._end_run(place, status, failure, end)
                self._bury(place, status, failure, end.error)
                data = {"failure": failure}
                handled_by = self._failure_runs.start(place, failure, end.error)
                if handled_by is not None:
                    data["handled_by"] = handled_by
            case Status.CANCELED:
                self._end_run(place, status, None, end)
                self._bury(place, status, None, end.error)
                heard = (data or {}).get("heard")
                said = {"reason": end.reason, "heard": heard}
                data = {name: value for name, value in said.items() if value is not None} or None
            case Status.RUNNING:
                raise AssertionError(f"nothing moves to {status} here")
            case _:
                assert_never(status)
        self._add(
            "insert_event",
            (place.tenant, place.id, place.seq, effect.event, self._now, place.attempt,
             None if data is None else to_json(data)),
        )  # fmt: skip

    def _go_on(self, place: Position, end: End) -> tuple[Position, dict[str, Any]]:
        """Keep input and steps of a run as a generation; what is left begins anew."""
        if end.result is None or not end.result.lstrip().startswith("{"):
            why = "was given result, which is not an object: a run has an input"
            raise BadArguments("continued", why, "result")
        run = place.tenant, place.id
        known = self._tx.fetch_one("next_generation", run)
        generation = 1 if known is None else known[0]
        kept = (generation, place.attempt, place.seq + 1, self._now, *run)
        self._add("keep_input", kept)
        self._add("change_input", (end.result, *run))
        self._add("keep_steps", (generation, *run))
        self._add("keep_signals", (generation, *run))
        return place._replace(failures=0, crash_count=0), {"generation": generation}

    def _record_attempt(self, lease: Position, outcome: AttemptOutcome, end: End) -> None:
        self._add(
            "insert_attempt",
            (lease.tenant, lease.id, lease.attempt, lease.token, lease.worker_no,
             AttemptOutcome.TIMEOUT if end.timed_out else outcome, lease.started_seq,
             lease.seq + 1, lease.started_at, self._now, to_json_or_none(end.error), end.version),
        )  # fmt: skip

    def _end_run(self, place: Position, status: Status, failure: Failure | None, end: End) -> None:
        error = to_json_or_none(end.error) if status is Status.FAILED else None
        reason = end.reason if status is Status.CANCELED else None
        result = end.result if status is Status.SUCCEEDED else None
        self._add(
            "end_run",
            (status, failure, error, reason, result, place.attempt, place.failures,
             place.crash_count, place.token, place.seq, place.started_seq, place.started_at,
             self._now, place.worker_no, end.version, place.tenant, place.id),
        )  # fmt: skip

    def _bury(
        self, place: Position, status: Status, failure: Failure | None, error: ErrorInfo | None
    ) -> None:
        self._add(
            "insert_failure",
            (place.tenant, place.id, place.job, place.queue, status, failure,
             None if error is None else error.type,
             None if error is None else error.fingerprint, self._now),
        )  # fmt: skip

    def _add(self, name: str, row: Row) -> None:
        self._rows.setdefault(name, []).append(row)
