"""What is known of a run, in the words and types of an application."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from windlass import codec
from windlass.current import trace_of
from windlass.domain.outcome import ErrorInfo
from windlass.domain.progress import Units
from windlass.domain.run import Attempt, RunRecord, RunRef
from windlass.domain.states import Failure, Intent, Status


class RunView:
    """What was last read of a run."""

    __slots__ = ("_record",)

    def __init__(self, record: RunRecord) -> None:
        self._record = record

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._record.id

    @property
    def tenant(self) -> str:
        """The owner of the run."""
        return self._record.tenant

    @property
    def job(self) -> str:
        """The job's name."""
        return self._record.job

    @property
    def queue(self) -> str:
        """The queue in which it waits."""
        return self._record.queue

    @property
    def status(self) -> Status:
        """Its status, which also equals its text: `run.status == "queued"`."""
        return self._record.status

    @property
    def priority(self) -> int:
        """Its priority; larger is more urgent."""
        return self._record.priority

    @property
    def attempt(self) -> int:
        """How often it was started."""
        return self._record.attempt

    @property
    def failures(self) -> int:
        """How often its handler failed; `max_attempts` limits it."""
        return self._record.failures

    @property
    def crash_count(self) -> int:
        """How often its worker, or its child process, died; `max_crashes` limits it."""
        return self._record.crash_count

    @property
    def key(self) -> str | None:
        """The key that it was enqueued with, if any."""
        return self._record.key

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._record.tags

    @property
    def trace(self) -> str:
        """The trace it belongs to: as given, that of the run that enqueued it, or its own id."""
        return trace_of(self._record)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata that it was enqueued with."""
        noted: dict[str, Any] | None = codec.decode(self._record.metadata)
        return noted or {}

    @property
    def parent(self) -> str | None:
        """The id of the run that has started it as its child, if one has: see `ctx.run`."""
        return self._record.parent

    @property
    def root(self) -> str | None:
        """The id of the run that its whole tree has grown from; None if it is no child."""
        return self._record.root

    @property
    def enqueued_by(self) -> str | None:
        """The id of the run in whose handler it was enqueued, if it was in one."""
        return self._record.enqueued_by

    @property
    def asked_by(self) -> str | None:
        """Who asked for it, if that was said: see `app.acting_as`."""
        return None if self._record.options is None else self._record.options.asked_by

    @property
    def again_of(self) -> str | None:
        """The id of the run that it was made from, if it is one that was run again."""
        return None if self._record.options is None else self._record.options.again_of

    @property
    def input(self) -> dict[str, Any]:
        """The arguments by name, as plain JSON."""
        value = codec.decode(self._record.input)
        return value if isinstance(value, dict) else {"": value}

    @property
    def raw_result(self) -> Any:
        """What the handler returned, as plain JSON; None until the run has succeeded."""
        return codec.decode(self._record.result)

    @property
    def error(self) -> ErrorInfo | None:
        """The error that ended the run, or that of its last failed attempt while it is retried."""
        if self._record.error is not None:
            return self._record.error
        if self.status is Status.SUCCEEDED:
            return None
        return next((a.error for a in reversed(self.attempts) if a.error is not None), None)

    @property
    def failure(self) -> Failure | None:
        """Why a failed run failed."""
        return self._record.failure

    @property
    def reason(self) -> str | None:
        """Why it was canceled, if a reason was given."""
        return self._record.reason

    @property
    def cancel_requested(self) -> bool:
        """Whether it is running and was asked to end."""
        return self._record.intent is Intent.CANCEL

    @property
    def pause_requested(self) -> bool:
        """Whether it is running and was asked to pause."""
        return self._record.intent is Intent.PAUSE

    @property
    def progress(self) -> float | None:
        """How far it is, from 0 to 1, as its handler last reported."""
        return self._record.progress

    @property
    def units(self) -> Units | None:
        """The units of work that the handler has told of: counts, rate, time left. None if it has
        not. `str(run.units)` is a line for people."""
        detail = self._record.progress_detail
        return None if detail is None else detail.units

    @property
    def phase(self) -> str | None:
        """The phase of a pipeline in which it is, or was last; see `phases` for all of them."""
        detail = self._record.progress_detail
        return detail.phases[detail.place] if detail is not None and detail.phases else None

    @property
    def progress_message(self) -> str | None:
        """What it is doing, as its handler last reported."""
        return self._record.progress_message

    @property
    def created_at(self) -> datetime:
        """When it was enqueued."""
        return _utc(self._record.created_at)

    @property
    def scheduled_for(self) -> datetime:
        """When it was meant to start, without backoffs: as enqueued, or as last rescheduled."""
        return _utc(self._record.scheduled_for)

    @property
    def schedule(self) -> str | None:
        """The id of the schedule that made it, if one did."""
        return self._record.schedule

    @property
    def slot(self) -> datetime | None:
        """The slot of its schedule that it was made for."""
        return None if self._record.slot is None else _utc(self._record.slot)

    @property
    def waits(self) -> tuple[str, ...]:
        """The paths of the durable steps in which it sleeps or waits now, without a worker.

        A run that sleeps, or whose step will be tried again, is `scheduled`; one that waits for a
        signal is `waiting`. Empty for every other run.
        """
        return self._record.waits

    @property
    def due_at(self) -> datetime | None:
        """When it will be queued, while it is scheduled; while it is waiting, when it goes on at
        the latest, None if it waits without an end."""
        return None if self._record.due_at is None else _utc(self._record.due_at)

    @property
    def expires_at(self) -> datetime | None:
        """By when it must have started."""
        return None if self._record.expires_at is None else _utc(self._record.expires_at)

    @property
    def deadline_at(self) -> datetime | None:
        """By when it must be done."""
        return None if self._record.deadline_at is None else _utc(self._record.deadline_at)

    @property
    def started_at(self) -> datetime | None:
        """When its current or last attempt started."""
        return None if self._record.started_at is None else _utc(self._record.started_at)

    @property
    def finished_at(self) -> datetime | None:
        """When it ended for good."""
        return None if self._record.finished_at is None else _utc(self._record.finished_at)

    @property
    def stale_at(self) -> datetime | None:
        """When it became stale, if it did: it is to be deleted, see `Retention`."""
        return None if self._record.stale_at is None else _utc(self._record.stale_at)

    @property
    def updated_at(self) -> datetime:
        """When its last event happened."""
        return _utc(self._record.updated_at)

    @property
    def worker(self) -> str | None:
        """The worker that runs it, or ran it last."""
        return self._record.worker

    @property
    def attempts(self) -> Sequence[Attempt]:
        """The latest hundred attempts that have ended, oldest first; `attempt` counts all."""
        return self._record.attempts

    @property
    def ref(self) -> RunRef:
        """Its full name."""
        return RunRef(self._record.tenant, self._record.id)

    @property
    def record(self) -> RunRecord:
        """All that was read."""
        return self._record

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values; times are ISO 8601 in UTC."""
        return as_dict(self)


_SHOWN = (
    *("id", "tenant", "job", "queue", "status", "priority", "attempt", "failures"),
    *("crash_count", "key", "tags", "trace", "metadata", "enqueued_by", "asked_by", "again_of"),
    *("parent", "root"),
    *("input", "result", "failure", "reason", "progress"),
    *("progress_message", "phase", "created_at", "schedule", "slot", "scheduled_for"),
    *("waits", "due_at", "expires_at", "deadline_at"),
    *("started_at", "finished_at", "updated_at", "worker"),
)
_READ_AS = {"result": "raw_result"}


def as_dict(run: RunView) -> dict[str, Any]:
    """A run for `--json` and the like: plain values, times as ISO 8601 in UTC."""
    found = {name: _plain(getattr(run, _READ_AS.get(name, name))) for name in _SHOWN}
    error = run.error
    found["error"] = None if error is None else {"type": error.type, "message": error.message}
    units = run.units
    found["units"] = None if units is None else {
        "done": units.done, "failed": units.failed, "total": units.total, "rate": units.rate,
        "left": units.left,
    }  # fmt: skip
    found["attempts"] = [
        {
            "attempt": a.attempt,
            "outcome": a.outcome.value,
            "worker": a.worker,
            "version": a.version,
            "started_at": _plain(a.started_at),
            "finished_at": _plain(a.finished_at),
            "error": None
            if a.error is None
            else {
                "type": a.error.type,
                "message": a.error.message,
                "traceback": a.error.traceback,
            },
        }
        for a in run.attempts
    ]
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return codec.instant_text(value)
    return list(value) if isinstance(value, tuple) else value


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
