"""What becomes of durable steps and waits."""

from collections.abc import Sequence

from windlass.errors.base import WindlassError
from windlass.errors.runs import ErrorLike
from windlass.errors.usage import UsageError


class StepFailed(WindlassError):
    """A durable step has failed for good; it fails the same way whenever its run is replayed.

    `error` is what its last try ended by, `failures` how often it was tried. `why` is `exhausted`,
    `fatal` or `timeout`: the run fails by that if its handler does not catch this.
    """

    code = "step_failed"

    def __init__(
        self, step: str, error: ErrorLike | None, failures: int = 1, why: str = "exhausted"
    ) -> None:
        super().__init__(step, error, failures, why)
        self.step = step
        self.error = error
        self.failures = failures
        self.why = why

    def __str__(self) -> str:
        times = "" if self.failures == 1 else f" {self.failures:,} times"
        why = f": {self.error.type}: {self.error.message}" if self.error else ""
        return f"Step {self.step!r} failed{times}{why}"


class ChildFailed(StepFailed):
    """A child of a run did not succeed. `run` is the child's id, `status` how it ended: `failed`,
    `canceled` or `deleted`; `failure` says why it failed, `error` by which error."""

    code = "child_failed"

    def __init__(
        self,
        step: str,
        run: str,
        status: str,
        failure: str | None = None,
        error: ErrorLike | None = None,
        reason: str | None = None,
        why: str = "fatal",
    ) -> None:
        super().__init__(step, error, 1, why)
        self.args = (step, run, status, failure, error, reason, why)
        self.run = run
        self.status = status
        self.failure = failure
        self.reason = reason

    def __str__(self) -> str:
        ended = f"{self.status}/{self.failure}" if self.failure else self.status
        why = f": {self.error.type}: {self.error.message}" if self.error else ""
        if not why and self.reason:
            why = f": {self.reason}"
        return f"Child {self.run} of step {self.step!r} is {ended}{why}"


class ChildrenFailed(StepFailed):
    """Some of the children that `ctx.map` has started did not succeed. `failed` has the first of
    them, at most a hundred, as ChildFailed; `count` is how many there are, of `total`."""

    code = "children_failed"

    def __init__(self, step: str, failed: "Sequence[ChildFailed]", count: int, total: int) -> None:
        super().__init__(step, failed[0].error if failed else None, 1, "fatal")
        self.args = (step, failed, count, total)
        self.failed = failed
        self.count = count
        self.total = total

    def __str__(self) -> str:
        first = f" The first: {self.failed[0]}" if self.failed else ""
        return (
            f"{self.count:,} of {self.total:,} children of step {self.step!r} did not succeed."
            f"{first}"
        )


class BatchFailed(StepFailed):
    """A batch did not do all of its units, or too many of them failed. `failed` of `processed`
    units have failed, of `total`; `stopped` is `max_failed` if that ended it."""

    code = "batch_failed"

    def __init__(
        self, processed: int, failed: int, total: int | None, stopped: str | None, first: str | None
    ) -> None:
        super().__init__("shards", None, 1, "fatal")
        self.args = (processed, failed, total, stopped, first)
        self.processed = processed
        self.failed = failed
        self.total = total
        self.stopped = stopped
        self.first = first

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        first = f" {self.first}" if self.first else ""
        if self.stopped is not None:
            return (
                f"The batch was stopped after {self.processed:,}{of} units: {self.failed:,} have "
                f"failed, more than max_failed allows.{first}"
            )
        done = f"The batch has done {self.processed:,}{of} units"
        return f"{done}, and some of its shards failed.{first}"


class WaitTimeout(WindlassError, TimeoutError):
    """What a run waited for did not come in time. That is recorded: it stays so."""

    code = "wait_timeout"

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step

    def __str__(self) -> str:
        return f"Nothing came in the time that {self.step!r} waits."


class Nondeterminism(WindlassError):
    """A handler that is replayed asks for something else than what its run has recorded."""

    code = "nondeterminism"

    def __init__(self, run: str, step: str, recorded: str, asked: str) -> None:
        super().__init__(run, step, recorded, asked)
        self.run = run
        self.step = step
        self.recorded = recorded
        self.asked = asked

    def __str__(self) -> str:
        return (
            f"Run {self.run} has recorded step {self.step!r} as {self.recorded}, and its handler "
            f"now asks for it as {self.asked}. Give the new step another name, or branch by "
            "ctx.version() so that old runs keep their path."
        )


class TooManySteps(UsageError):
    """A run has recorded as many steps as it may."""

    code = "too_many_steps"

    def __init__(self, run: str, limit: int) -> None:
        super().__init__(run, limit)
        self.run = run
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"Run {self.run} has {self.limit:,} steps, the most that a run may have: do several "
            "things in one step, or return ContinueAs(…) to go on with an empty history."
        )


class TooLate(UsageError):
    """A step was called after its handler had returned, or from another attempt."""

    code = "too_late"

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step

    def __str__(self) -> str:
        return f"Step {self.step!r} was called when its attempt was over: await it in the handler."
