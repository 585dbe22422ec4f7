"""What is known of a run, in the words and types of an application."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from windlass import codec
from windlass.domain.outcome import ErrorInfo
from windlass.domain.run import Attempt, RunRecord, RunRef
from windlass.domain.states import Failure, Intent, Status


class RunView:
    """What was last read of a run."""

    __slots__ = ("_record",)

    def __init__(self, record: RunRecord) -> None:
        self._record = record

    @property
    def id(self) -> str:
        """The id, to keep and to ask with."""
        return self._record.id

    @property
    def tenant(self) -> str:
        """Its owner."""
        return self._record.tenant

    @property
    def job(self) -> str:
        """The job's name."""
        return self._record.job

    @property
    def queue(self) -> str:
        """The lane in which it waits."""
        return self._record.queue

    @property
    def status(self) -> Status:
        """Where it stands; equal to its text, `run.status == "queued"`."""
        return self._record.status

    @property
    def priority(self) -> int:
        """Larger is more urgent."""
        return self._record.priority

    @property
    def attempt(self) -> int:
        """How often it was started."""
        return self._record.attempt

    @property
    def failures(self) -> int:
        """How often its handler failed: what max_attempts limits."""
        return self._record.failures

    @property
    def crash_count(self) -> int:
        """How often its worker died under it."""
        return self._record.crash_count

    @property
    def key(self) -> str | None:
        """Its dedupe key."""
        return self._record.key

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._record.tags

    @property
    def input(self) -> dict[str, Any]:
        """The arguments, by name, as JSON has them."""
        value = codec.decode(self._record.input)
        return value if isinstance(value, dict) else {"": value}

    @property
    def result(self) -> Any:
        """What the handler returned, as JSON has it; None until it succeeded."""
        return codec.decode(self._record.result)

    @property
    def error(self) -> ErrorInfo | None:
        """The error that ended it, or the latest one, of its `attempts`, while it is retried."""
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
        """Why it was canceled, where a reason was given."""
        return self._record.reason

    @property
    def cancel_requested(self) -> bool:
        """Whether it runs and was asked to end."""
        return self._record.intent is Intent.CANCEL

    @property
    def progress(self) -> float | None:
        """How far it is, from 0 to 1, as its handler last told."""
        return self._record.progress

    @property
    def progress_message(self) -> str | None:
        """What it is at, as its handler last told."""
        return self._record.progress_message

    @property
    def created_at(self) -> datetime:
        """When it was enqueued."""
        return _utc(self._record.created_at)

    @property
    def scheduled_for(self) -> datetime:
        """When it was to start, before any backoff: as enqueued, or as last rescheduled."""
        return _utc(self._record.scheduled_for)

    @property
    def schedule(self) -> str | None:
        """The id of the schedule that made it."""
        return self._record.schedule

    @property
    def slot(self) -> datetime | None:
        """The instant of its schedule that it was made for."""
        return None if self._record.slot is None else _utc(self._record.slot)

    @property
    def due_at(self) -> datetime | None:
        """While it is scheduled: when it will be queued."""
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
    def updated_at(self) -> datetime:
        """When its last event happened."""
        return _utc(self._record.updated_at)

    @property
    def worker(self) -> str | None:
        """Who runs it, or ran it last."""
        return self._record.worker

    @property
    def attempts(self) -> Sequence[Attempt]:
        """The attempts that have ended, oldest first: the latest hundred; `attempt` counts all."""
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
        """Everything, as JSON has it; times as ISO 8601 in UTC."""
        return as_dict(self)


_SHOWN = (
    *("id", "tenant", "job", "queue", "status", "priority", "attempt", "failures"),
    *("crash_count", "key", "tags", "input", "result", "failure", "reason", "progress"),
    *("progress_message", "created_at", "schedule", "slot", "scheduled_for"),
    *("due_at", "expires_at", "deadline_at"),
    *("started_at", "finished_at", "updated_at", "worker"),
)


def as_dict(run: RunView) -> dict[str, Any]:
    """A run for `--json` and the like: plain values, times as ISO 8601 in UTC."""
    found = {name: _plain(getattr(run, name)) for name in _SHOWN}
    error = run.error
    found["error"] = None if error is None else {"type": error.type, "message": error.message}
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
