"""The exceptions that Windlass raises.

    WindlassError                   error
    ├── UsageError                  usage               the caller's mistake
    │   ├── UnknownJob              unknown_job
    │   ├── DuplicateJob            duplicate_job
    │   ├── BadArguments            bad_arguments
    │   ├── BadPayload              bad_payload
    │   ├── PayloadTooLarge         payload_too_large
    │   ├── BadDuration             bad_duration
    │   ├── BadOption               bad_option
    │   └── JobFileError            job_file
    ├── ConflictError               conflict            right call, wrong moment
    │   ├── IllegalTransition       illegal_transition
    │   ├── KeyConflict             key_conflict
    │   ├── RunExpires              run_expires
    │   ├── ScheduleBusy            schedule_busy
    │   └── LeaseLost               lease_lost
    ├── NotFound                    not_found
    │   ├── RunNotFound             run_not_found
    │   └── ScheduleNotFound        schedule_not_found
    ├── StoreError                  store               the database's trouble
    │   ├── StoreUnavailable        store_unavailable   (retryable)
    │   ├── StoreFull               store_full
    │   ├── StoreRefused            store_refused       what it was given, not the moment
    │   └── SchemaMismatch          schema_mismatch
    ├── ProcessDied                 process_died        under a handler
    ├── ResultTimeout               result_timeout      (also a TimeoutError)
    └── RunFailed                   run_failed

The word beside each class is its `code`: stable, and the same in HTTP problems, CLI output and
events. What went wrong is in attributes; the text is for people and may change.

The positional arguments of a class are its whole state (`error.args`). Therefore every error
survives pickling, and a PostgreSQL function can raise one with its SQLSTATE and a JSON array of
those arguments as DETAIL, see `store/postgres/sqlstates.py`.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol


class WindlassError(Exception):
    """The base of everything that Windlass raises on purpose."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without any change by the caller."""


class UsageError(WindlassError):
    """The caller's mistake: repeating the call cannot help."""

    code = "usage"


_UNKNOWN = "import the module that defines it, or start a worker that has it"


class UnknownJob(UsageError):
    """No job of that name is registered or stored."""

    code = "unknown_job"

    def __init__(self, job: str, known: Sequence[str] = ()) -> None:
        super().__init__(job, tuple(known))
        self.job = job
        self.known = tuple(known)

    def __str__(self) -> str:
        from difflib import get_close_matches  # every command would wait for it

        near = get_close_matches(self.job, self.known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else _UNKNOWN
        return f"There is no job {self.job!r}: {hint}{'' if near else '.'}"


class DuplicateJob(UsageError):
    """Two handlers claim one job name."""

    code = "duplicate_job"

    def __init__(self, job: str, first: str, second: str) -> None:
        super().__init__(job, first, second)
        self.job = job
        self.first = first
        self.second = second

    def __str__(self) -> str:
        return (
            f"Two jobs are named {self.job!r}: {self.first} and {self.second}. "
            "Give one of them another name=."
        )


class BadArguments(UsageError):
    """Missing, unknown or invalid arguments for a job."""

    code = "bad_arguments"

    def __init__(self, job: str, why: str, parameter: str | None = None) -> None:
        super().__init__(job, why, parameter)
        self.job = job
        self.why = why
        self.parameter = parameter

    def __str__(self) -> str:
        return f"Job {self.job!r} {self.why}."


class BadPayload(UsageError):
    """A value that JSON, or one of the stores, cannot hold."""

    code = "bad_payload"

    def __init__(self, what: str, why: str, path: str = "$") -> None:
        super().__init__(what, why, path)
        self.what = what
        self.why = why
        self.path = path

    def __str__(self) -> str:
        where = "" if self.path == "$" else f" at {self.path}"
        return f"The {self.what} cannot be stored{where}: {self.why}."


class PayloadTooLarge(UsageError):
    """A value whose JSON exceeds the limit; sizes are in bytes."""

    code = "payload_too_large"

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(what, size, limit)
        self.what = what
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"The {self.what} is {self.size:,} bytes of JSON and the limit is {self.limit:,}: "
            "store it elsewhere and pass a pointer."
        )


class BadDuration(UsageError):
    """Something that is not a length of time; `given` is its repr, shortened."""

    code = "bad_duration"

    def __init__(self, given: str, why: str) -> None:
        super().__init__(given, why)
        self.given = given
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.given} is not a duration: {self.why}. "
            "Give seconds, a timedelta, or text such as '250ms', '30s', '2h30m' or '7d'."
        )


class BadOption(UsageError):
    """A setting or option that is unknown or out of range.

    `source` says where it came from: an argument, an environment variable or a file.
    """

    code = "bad_option"

    def __init__(self, option: str, why: str, source: str = "argument") -> None:
        super().__init__(option, why, source)
        self.option = option
        self.why = why
        self.source = source

    def __str__(self) -> str:
        return f"Bad option {self.option} ({self.source}): {self.why}."


class JobFileError(UsageError):
    """A job file that cannot be loaded; the others can.

    `file` and `line` are the place of the mistake, which may be in a file that it imports.
    """

    code = "job_file"

    def __init__(self, file: str, line: int | None, why: str) -> None:
        super().__init__(file, line, why)
        self.file = file
        self.line = line
        self.why = why

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.why}"


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
    """The run would have expired by the time it is to wait for; both are ISO 8601, in UTC."""

    code = "run_expires"

    def __init__(self, run: str, expires_at: str, at: str) -> None:
        super().__init__(run, expires_at, at)
        self.run = run
        self.expires_at = expires_at
        self.at = at

    def __str__(self) -> str:
        return (
            f"Run {self.run} expires at {self.expires_at} and cannot wait until {self.at}: "
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


class StoreError(WindlassError):
    """The database refused or failed."""

    code = "store"


class StoreUnavailable(StoreError):
    """The database cannot be reached or is too busy."""

    code = "store_unavailable"
    retryable = True


class StoreFull(StoreError):
    """The disk or the quota of the database is full."""

    code = "store_full"


class StoreRefused(StoreError):
    """The database refused what it was given: trying again cannot help."""

    code = "store_refused"


class SchemaMismatch(StoreError):
    """The store's schema is not the one this version works with; `found` is None when absent.

    `what` is "schema" or "functions"; `missing` is what is gone although the version is right.
    """

    code = "schema_mismatch"

    def __init__(
        self, found: int | None, expected: int, what: str = "schema", missing: str | None = None
    ) -> None:
        super().__init__(found, expected, what, missing)
        self.found, self.expected = found, expected
        self.what, self.missing = what, missing

    def __str__(self) -> str:
        migrate = "run `windlass migrate`"
        if self.missing is not None:
            if self.what == "functions":
                told = "Functions in the store are missing, or not those of this Windlass"
                return f"{told} ({self.missing}): {migrate}."
            look = "`windlass doctor` names all that is missing"
            return f"A part of the store's schema is gone ({self.missing}): {look}."
        needs = f"this Windlass works with version {self.expected}"
        if self.found is None:
            return f"The store has no Windlass {self.what} and {needs}: {migrate}."
        remedy = migrate if self.found < self.expected else "upgrade Windlass"
        have = "have" if self.what == "functions" else "has"
        return f"The store's {self.what} {have} version {self.found} and {needs}: {remedy}."


class ProcessDied(WindlassError):
    """The child process that ran a handler died; `how` says by which signal or exit code."""

    code = "process_died"

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how

    def __str__(self) -> str:
        return f"The process that ran the handler ended {self.how}."


class ResultTimeout(WindlassError, TimeoutError):
    """The run did not end in time; it goes on. `timeout` is in seconds."""

    code = "result_timeout"

    def __init__(self, run: str, timeout: float) -> None:
        super().__init__(run, timeout)
        self.run = run
        self.timeout = timeout

    def __str__(self) -> str:
        return f"Run {self.run} did not end within {self.timeout:g} s; it goes on."


class ErrorLike(Protocol):
    """What `RunFailed` needs to know about the handler's error."""

    @property
    def type(self) -> str: ...

    @property
    def message(self) -> str: ...


class RunFailed(WindlassError):
    """The run ended as failed or canceled, so it has no result.

    `failure` says how it failed and is None when it was canceled; `reason` is what was said when it
    was canceled.
    """

    code = "run_failed"

    def __init__(
        self,
        run: str,
        status: str,
        failure: str | None = None,
        error: ErrorLike | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(run, status, failure, error, reason)
        self.run = run
        self.status = status
        self.failure = failure
        self.error = error
        self.reason = reason

    def __str__(self) -> str:
        how = f" ({self.failure})" if self.failure else ""
        why = f": {self.error.type}: {self.error.message}" if self.error else ""
        if self.status == "canceled" and self.reason is not None:
            why = f": {self.reason}"
        return f"Run {self.run} {self.status}{how}{why}"
