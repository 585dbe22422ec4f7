"""One attempt: from a claimed run to the report that the store gets.

A handler is foreign code. Whatever it does, exactly one of these comes of it: a `Finish` (a
success, a failure with its decision, a snooze, a cancel, a release), or nothing at all where the
lease is lost. This is one of the two places that catch everything: `SystemExit` in a handler ends
its attempt, not the worker. So are the exceptions and values it ends by: where they thwart even
the decision what to do about them, the run has failed for good.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import msgspec

from windlass import codec
from windlass.context import Context, Desk, SyncContext
from windlass.domain.outcome import (
    Cancel,
    ErrorInfo,
    Fail,
    Outcome,
    Snooze,
    Verdict,
    decide_failure,
    describe_error,
)
from windlass.domain.policy import Fatal
from windlass.domain.run import Claimed, Finish
from windlass.domain.states import Failure
from windlass.duration import parse_duration
from windlass.engine.holdings import Holding, Stop, current
from windlass.errors import BadPayload, PayloadTooLarge
from windlass.resources import OpenResources, open_all, open_all_in_thread
from windlass.sources import Sources

T = TypeVar("T")


class Runner:
    """Runs attempts: on the loop, or in the calling thread."""

    def __init__(
        self, store: Desk, sources: Sources, resources: OpenResources, result_limit: int
    ) -> None:
        self._process = os.getpid()
        self._store = store
        self._resources = resources
        self._sources = sources
        self._limit = result_limit
        self.worker = ""
        self.boss: asyncio.Task[None] | None = None  # the task that the worker runs in
        self.taken_down: Callable[[], None] = lambda: None  # called when that task is canceled

    async def run_async(self, holding: Holding) -> Finish | None:
        """Run an async handler to its end."""
        current.set(holding)
        try:
            spec = holding.spec
            args, kwargs = arguments_of(holding)
            if spec.signature.takes_context:
                await open_all(self._resources)
                ctx = Context(holding.claimed, holding, self._store, self.worker, self._resources)
                return self._conclude(holding, await spec.handler(ctx, *args, **kwargs))
            return self._conclude(holding, await spec.handler(*args, **kwargs))
        except asyncio.CancelledError as error:
            if self._taken_down():
                # The loop is going down, and took the handler with it before the worker could.
                holding.stop = holding.stop or Stop.SHUTDOWN
                self.taken_down()
            return self.conclude_error(holding, error)
        except BaseException as error:
            return self.conclude_error(holding, error)

    def run_sync(self, holding: Holding) -> Finish | None:
        """Run a sync handler to its end, in this thread."""
        try:
            spec = holding.spec
            args, kwargs = arguments_of(holding)
            if spec.signature.takes_context:
                open_all_in_thread(self._resources)
                ctx = SyncContext(
                    holding.claimed, holding, self._store, self.worker, self._resources
                )
                return self._conclude(holding, spec.handler(ctx, *args, **kwargs))
            return self._conclude(holding, spec.handler(*args, **kwargs))
        except BaseException as error:
            return self.conclude_error(holding, error)

    def conclude_error(self, holding: Holding, error: BaseException) -> Finish | None:
        """What becomes of an attempt whose handler raised, or was stopped. It does not raise."""
        if os.getpid() != self._process:
            _leave_fork(error)
        if holding.stop is Stop.LOST:
            return None
        # Of its type: an exception may lie about its class, or raise when it is asked.
        if holding.stop is not None and issubclass(type(error), asyncio.CancelledError):
            match holding.stop:
                case Stop.SHUTDOWN:
                    return given_up(holding)
                case Stop.CANCEL:
                    return canceled(holding, holding.reason)
                case Stop.TIMEOUT | Stop.DEADLINE:
                    return self.too_late(holding)
        return self._failed(holding, error, timed_out=False)

    def too_late(self, holding: Holding) -> Finish:
        """What becomes of an attempt that took too long; past its run's deadline, the run ends."""
        error = lateness(holding)
        if holding.stop is Stop.DEADLINE:
            over = Verdict(outcome=Outcome.FAILED, failure=Failure.DEADLINE)
            return finish(holding, over, error=error, counts=True, timed_out=True)
        return self._failed(holding, error, timed_out=True)

    def _taken_down(self) -> bool:
        """Whether this task was canceled together with the worker's own.

        A handler that cancels itself, or is canceled by a library of its own, has failed: given
        back it would be run again, uncounted and without end.
        """
        tasks = (asyncio.current_task(), self.boss)
        return all(task is not None and task.cancelling() > 0 for task in tasks)

    def _conclude(self, holding: Holding, value: object) -> Finish | None:
        if os.getpid() != self._process:
            _leave_fork()
        if holding.stop is Stop.LOST:
            return None
        match value:
            case None:
                return succeeded(holding, None)
            # Of a subclass: it may lack what it should have, or have put anything there.
            case Snooze():
                later = Verdict(outcome=Outcome.SNOOZED, delay=parse_duration(value.delay))
                return finish(holding, later)
            case Cancel():
                return canceled(holding, value.reason)
            case Fail():
                return self._failed(holding, value.as_error(), timed_out=False)
            case _:
                return self._succeeded(holding, value)

    def _succeeded(self, holding: Holding, value: object) -> Finish:
        try:
            data = codec.encode(value, what="result", limit=self._limit)
        except (BadPayload, PayloadTooLarge) as error:
            # The handler has done its work; doing it again would not make the result fit.
            return finish(
                holding,
                Verdict(outcome=Outcome.FAILED, failure=Failure.FATAL),
                error=error,
                counts=True,
            )
        return succeeded(holding, msgspec.Raw(data))

    def _failed(self, holding: Holding, error: BaseException, *, timed_out: bool) -> Finish:
        claimed, spec = holding.claimed, holding.spec
        own = claimed.options.max_attempts if claimed.options else None
        try:
            verdict = decide_failure(
                spec.retry,
                error,
                failures_before=claimed.failures,
                max_attempts=own or spec.max_attempts,
                timed_out=timed_out,
                random=self._sources.jitter(),
            )
        except BaseException as second:
            # The policy could not be asked about it, and could not the next time.
            verdict, error = Verdict(outcome=Outcome.FAILED, failure=Failure.FATAL), second
        return finish(holding, verdict, error=error, counts=True, timed_out=timed_out)


def prepared(find: Callable[[], T]) -> T | ErrorInfo:
    """Call what comes before an attempt, such as an import: foreign code as well."""
    try:
        return find()
    except BaseException as error:
        return describe_error(error)


def _leave_fork(error: BaseException | None = None) -> NoReturn:
    """A handler has forked, and this is the copy: neither the run nor the worker is its own.

    It ends as a forked process should, without what Python does at exit, which would be done to
    connections and files of the worker.
    """
    code = getattr(error, "code", 1) if isinstance(error, SystemExit) else int(error is not None)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code if isinstance(code, int) else int(code is not None))


def finish(
    holding: Holding,
    verdict: Verdict,
    *,
    error: BaseException | None = None,
    counts: bool = False,
    timed_out: bool = False,
) -> Finish:
    """The report that the store gets."""
    claimed = holding.claimed
    return Finish(
        tenant=claimed.tenant,
        id=claimed.id,
        token=claimed.token,
        outcome=verdict.outcome,
        delay=verdict.delay,
        failure=verdict.failure,
        error=None if error is None else describe_error(error),
        counts=counts,
        timed_out=timed_out,
        version=holding.version,
    )


def succeeded(holding: Holding, result: msgspec.Raw | None) -> Finish:
    """The usual end, on the hot path: nothing was decided, so nothing is checked again."""
    claimed = holding.claimed
    return Finish(
        tenant=claimed.tenant,
        id=claimed.id,
        token=claimed.token,
        outcome=Outcome.SUCCEEDED,
        result=result,
        version=holding.version,
    )


def release(holding: Holding) -> Finish:
    """Give a run back, unfinished and uncounted."""
    return finish(holding, Verdict(outcome=Outcome.RELEASED))


def given_up(holding: Holding) -> Finish:
    """Give back what did not end in the time that a stop allows; it counts as a crash where it may
    have caused that stop."""
    return holding.accused or release(holding)


def give_back(claimed: Claimed) -> Finish:
    """Give a run back that nothing here can run."""
    return Finish(
        tenant=claimed.tenant, id=claimed.id, token=claimed.token, outcome=Outcome.RELEASED
    )


def canceled(holding: Holding, reason: str | None) -> Finish:
    """End a run as canceled."""
    error = asyncio.CancelledError(reason) if reason else None
    return finish(holding, Verdict(outcome=Outcome.CANCELED), error=error)


def arguments_of(holding: Holding) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the handler is called with. A run of which a part cannot be read must not begin."""
    if holding.claimed.flaw is not None:
        raise Fatal(f"The run cannot be started: {holding.claimed.flaw}.")
    return holding.spec.signature.decode(holding.claimed.input)


def timeout_of(holding: Holding) -> float | None:
    """The time that this attempt may take: the run's own, else the job's."""
    options = holding.claimed.options
    own = options.timeout if options else None
    return own if own is not None else holding.spec.timeout


def lateness(holding: Holding) -> TimeoutError:
    """The error of an attempt that was stopped for its time."""
    if holding.stop is Stop.DEADLINE:
        return TimeoutError(f"not done by its deadline, {holding.claimed.deadline_at}")
    return TimeoutError(f"timed out after {timeout_of(holding):g} s")
