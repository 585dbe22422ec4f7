"""Right calls at the wrong moment, and what does not exist."""

from windlass.errors.base import WindlassError


class ConflictError(WindlassError):
    """The call was right, but not in the state that the store is in."""

    code = "conflict"


_FOR = {
    "cancel": "for runs that have not ended",
    "retry": "for failed, canceled and stale runs",
    "reschedule": "for runs that wait, and for failed and canceled ones",
    "discard": "for failed runs that are not discarded yet",
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
        return f"Run {self.run} is {self.status}: {self.verb} is {possible}."


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


class RunExpires(ConflictError):
    """The run would have ended by the time it is to wait for, by its expiry or its deadline.

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
            "choose an earlier time."
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
    """What was asked for does not exist, or belongs to another tenant."""

    code = "not_found"


class RunNotFound(NotFound):
    """No such run: never enqueued, already deleted, or another tenant's."""

    code = "run_not_found"

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"There is no run {self.run}: it was deleted, or is of another tenant or store."


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
