"""Right calls at the wrong moment, and what does not exist."""

from typing import ClassVar

from windlass.errors.base import WindlassError


class ConflictError(WindlassError):
    """The call is right, but not possible in the present state."""

    code = "conflict"


_FOR = {
    "cancel": "for runs that have not ended",
    "pause": "for runs that have not ended",
    "resume": "for runs that have not ended",
    "terminate": "for runs that have not ended",
    "retry": "for failed, canceled and stale runs",
    "reschedule": "for runs that wait, and for failed and canceled ones",
    "discard": "for failed runs that are not discarded yet",
    "reprioritize": "for runs that wait",
    "change": "for runs that wait",
    "signal": "for runs that have not ended",
    "restart": "for runs that wait, failed or were canceled",
    "run_again": "for runs that have ended",
}

_REOPEN = "Retry it with another input, or run it again as a new run"
_INSTEAD = {
    ("change", "running"): "Wait until this attempt has ended, or cancel the run and run it again",
    ("change", "succeeded"): "Run it again as a new run",
    ("change", "failed"): _REOPEN,
    ("change", "canceled"): _REOPEN,
    ("run_again", "scheduled"): "Change it instead, or cancel it first",
    ("run_again", "queued"): "Change it instead, or cancel it first",
    ("reschedule", "waiting"): "Send it the signal that it waits for, or cancel it first",
    ("run_again", "waiting"): "Change it instead, or cancel it first",
    ("run_again", "running"): "Wait until it has ended, or cancel it",
}


class IllegalTransition(ConflictError):
    """The run's status does not allow the verb."""

    code = "illegal_transition"

    def __init__(self, run: str, status: str, verb: str) -> None:
        super().__init__(run, status, verb)
        self.run = run
        self.status = status
        self.verb = verb

    def __str__(self) -> str:
        possible = _FOR.get(self.verb, "not possible")
        instead = _INSTEAD.get((self.verb, self.status))
        advice = "" if instead is None else f" {instead}."
        return f"Run {self.run} is {self.status}: {self.verb} is {possible}.{advice}"


class ApprovalClosed(ConflictError):
    """What a run asked has its answer already, another one, or was not answered in time.

    `how` is `approved`, `rejected` or `expired`; `by` is who answered, if that is known.
    """

    code = "approval_closed"

    def __init__(self, run: str, name: str, how: str, by: str | None = None) -> None:
        super().__init__(run, name, how, by)
        self.run = run
        self.name = name
        self.how = how
        self.by = by

    def __str__(self) -> str:
        if self.how == "expired":
            return f"Approval {self.name!r} of run {self.run} has expired: nobody answered in time."
        by = f" by {self.by}" if self.by else ""
        return (
            f"Approval {self.name!r} of run {self.run} was {self.how}{by} before: the first "
            "answer counts."
        )


class BadToken(ConflictError):
    """The token is not that of the question which it was to answer."""

    code = "bad_token"

    def __init__(self, run: str, name: str) -> None:
        super().__init__(run, name)
        self.run = run
        self.name = name

    def __str__(self) -> str:
        return f"The token is not that of approval {self.name!r} of run {self.run}."


class KeyConflict(ConflictError):
    """The key already names a run with other input; `run` is that run."""

    code = "key_conflict"

    def __init__(self, job: str, key: str, run: str) -> None:
        super().__init__(job, key, run)
        self.job = job
        self.key = key
        self.run = run

    def __str__(self) -> str:
        return (
            f"Key {self.key!r} of job {self.job!r} belongs to run {self.run} with other input: "
            "use another key, or the same input."
        )


class KeyTaken(ConflictError):
    """The run cannot be reopened: its key belongs to another live run, `owner`."""

    code = "key_taken"

    def __init__(self, job: str, key: str, owner: str) -> None:
        super().__init__(job, key, owner)
        self.job = job
        self.key = key
        self.owner = owner

    def __str__(self) -> str:
        return (
            f"Key {self.key!r} of job {self.job!r} belongs to run {self.owner}, which has not "
            "ended: wait for that run, or cancel it first."
        )


class RunExpires(ConflictError):
    """The run would expire, or pass its deadline, before the time that you chose.

    Both times are ISO 8601, in UTC.
    """

    code = "run_expires"

    def __init__(self, run: str, expires_at: str, at: str) -> None:
        super().__init__(run, expires_at, at)
        self.run = run
        self.expires_at = expires_at
        self.at = at

    def __str__(self) -> str:
        return (
            f"Run {self.run} is over at {self.expires_at} and cannot wait until {self.at}: "
            "choose an earlier time, or a later expiry or deadline."
        )


class StepNotRecorded(ConflictError):
    """The run has not recorded the step that it should begin anew with."""

    code = "step_not_recorded"

    def __init__(self, run: str, step: str) -> None:
        super().__init__(run, step)
        self.run, self.step = run, step

    def __str__(self) -> str:
        return (
            f"Run {self.run} has recorded no step {self.step!r}: see `windlass show {self.run} "
            "--steps`, or restart it from its start."
        )


class InputInUse(ConflictError):
    """The run has recorded steps with its input, so it cannot be given another one."""

    code = "input_in_use"

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return (
            f"Run {self.run} has recorded steps, which were made with its input: keep the input, "
            "or run it again as a new run."
        )


class ScheduleBusy(ConflictError):
    """A schedule cannot do what was asked at this moment."""

    code = "schedule_busy"

    def __init__(self, schedule: str, why: str) -> None:
        super().__init__(schedule, why)
        self.schedule = schedule
        self.why = why

    def __str__(self) -> str:
        return f"Schedule {self.schedule} makes no run now: {self.why}."


class LeaseLost(ConflictError):
    """The worker no longer holds the run; nothing was recorded."""

    code = "lease_lost"

    def __init__(self, run: str, token: int) -> None:
        super().__init__(run, token)
        self.run = run
        self.token = token

    def __str__(self) -> str:
        return f"The lease with token {self.token} on run {self.run} is lost: nothing was recorded."


class NotFound(WindlassError):
    """There is no such thing, or it belongs to another tenant."""

    code = "not_found"


class ArtifactNotFound(NotFound):
    """The run has no artifact of that name, or what a pointer names was deleted or replaced."""

    code = "artifact_not_found"

    def __init__(self, name: str, run: str | None = None) -> None:
        super().__init__(name, run)
        self.name = name
        self.run = run

    def __str__(self) -> str:
        of = "" if self.run is None else f" of run {self.run}"
        return f"There is no artifact {self.name!r}{of}: it was deleted, replaced or never put."


class EventsDeleted(NotFound):
    """The events that follow a place in the feed are deleted, up to the place `mark`.

    A reader that went on from there would miss some without knowing.
    """

    code = "events_deleted"

    def __init__(self, after: str, mark: str) -> None:
        super().__init__(after, mark)
        self.after = after
        self.mark = mark

    def __str__(self) -> str:
        return (
            f"The events after {self.after} are deleted, up to {self.mark}: begin again without a "
            "place, and read anew what you follow. `delete_feed_after` says how long events stay."
        )


class RunNotFound(NotFound):
    """No such run: never enqueued, already deleted, or another tenant's."""

    code = "run_not_found"

    def __init__(self, run: str, *others: str) -> None:
        super().__init__(run, *others)
        self.run = run
        self.others = others

    def __str__(self) -> str:
        if not self.others:
            return (
                f"There is no run {self.run}: it was deleted, is of another tenant or store, "
                "or its transaction has not committed."
            )
        named, more = self.args[:10], len(self.args) - 10
        rest = f" and {more:,} more" if more > 0 else ""
        return (
            f"There are no runs {', '.join(named)}{rest}: they were deleted, are of another "
            "tenant or store, or their transactions have not committed."
        )


class AmbiguousRun(NotFound):
    """Several runs begin like that; `candidates` are their ids, or the first of them."""

    code = "ambiguous_run"
    most: ClassVar[int] = 10
    """How many of them the text names."""

    def __init__(self, prefix: str, *candidates: str) -> None:
        super().__init__(prefix, *candidates)
        self.prefix = prefix
        self.candidates = candidates

    def __str__(self) -> str:
        named = ", ".join(self.candidates[: self.most])
        more = " and more" if len(self.candidates) > self.most else ""
        return f"Several runs begin with {self.prefix}: {named}{more}. Give more of the id."


class ScheduleNotFound(NotFound):
    """No such schedule: never made, deleted, or another tenant's."""

    code = "schedule_not_found"

    def __init__(self, schedule: str) -> None:
        super().__init__(schedule)
        self.schedule = schedule

    def __str__(self) -> str:
        return (
            f"There is no schedule {self.schedule}, neither by key nor by id: "
            "`windlass schedules list` shows those there are."
        )


class ApprovalNotFound(NotFound):
    """The run asks no question of that name."""

    code = "approval_not_found"

    def __init__(self, run: str, name: str) -> None:
        super().__init__(run, name)
        self.run = run
        self.name = name

    def __str__(self) -> str:
        return (
            f"Run {self.run} asks for no approval {self.name!r}: `windlass approvals` lists those "
            "that are asked for."
        )
