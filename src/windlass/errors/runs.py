"""What becomes of runs."""

from typing import Protocol

from windlass.errors.base import WindlassError


class ProcessDied(WindlassError):
    """The child process that ran a handler died; `how` says by which signal or exit code."""

    code = "process_died"

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how

    def __str__(self) -> str:
        return f"The process that ran the handler ended {self.how}."


class WorkerDisrupted(WindlassError):
    """A handler stopped its worker, or blocked its event loop; `how` says how."""

    code = "worker_disrupted"

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how

    def __str__(self) -> str:
        return f"A handler disrupted its worker: {self.how}."


class ResultTimeout(WindlassError, TimeoutError):
    """The run, and so many `others`, did not end in time; they go on. `timeout` is in seconds."""

    code = "result_timeout"

    def __init__(self, run: str, timeout: float, others: int = 0) -> None:
        super().__init__(run, timeout, others)
        self.run = run
        self.timeout = timeout
        self.others = others

    def __str__(self) -> str:
        if self.others:
            return (
                f"Run {self.run} and {self.others:,} more did not end within {self.timeout:g} s; "
                "they go on."
            )
        return f"Run {self.run} did not end within {self.timeout:g} s; it goes on."


class EndNotCommitted(WindlassError):
    """A handler gave the end of its run to a transaction, and that was not committed."""

    code = "end_not_committed"

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return (
            f"Run {self.run} was ended in a transaction that was not committed: commit it before "
            "the handler returns."
        )


class ListenerTooSlow(WindlassError):
    """A listener took its events more slowly than they came, and was cut off.

    Give `cursor` as `since` to go on without missing any.
    """

    code = "listener_too_slow"

    def __init__(self, cursor: str, limit: int) -> None:
        super().__init__(cursor, limit)
        self.cursor = cursor
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"More than {self.limit:,} events waited for this listener: go on with "
            f"since={self.cursor!r}, which misses none."
        )


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


class ResultMismatch(WindlassError):
    """The run's result does not fit the handler's return annotation."""

    code = "result_mismatch"

    def __init__(self, run: str, job: str, why: str) -> None:
        super().__init__(run, job, why)
        self.run = run
        self.job = job
        self.why = why

    def __str__(self) -> str:
        return (
            f"The result of run {self.run} does not fit what job {self.job!r} says it returns: "
            f"{self.why}. What is stored is in run.raw_result."
        )
