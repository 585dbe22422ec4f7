"""One attempt: from a claimed run to the report that the store gets.

A handler is foreign code. Whatever it does, exactly one of these comes of it: a `Finish` (a
success, a failure with its decision, a snooze, a new input, a cancel, a release), or nothing at all
where the lease is lost. This is one of the two places that catch everything: `SystemExit` in a
handler ends its attempt, not the worker. So are the exceptions and values it ends by: where they
thwart even the decision what to do about them, the run has failed for good.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from logging import LogRecord
from typing import Any, TypeVar

import msgspec

from windlass import codec
from windlass.context import Context, SyncContext
from windlass.current import current
from windlass.domain.outcome import (
    Cancel,
    ContinueAs,
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
from windlass.domain.step import MOST_STEPS
from windlass.durable.acts import Stage
from windlass.durable.awaited import AwaitedWork, Patience
from windlass.durable.blocking import BlockingWork
from windlass.durable.ledger import Ledger
from windlass.durable.requests import Desk as StepDesk
from windlass.durable.requests import Terms
from windlass.duration import parse_duration
from windlass.engine.around import Around, asurrounded, leave_fork, surrounded
from windlass.engine.handler_desk import Added, HandlerDesk, Store
from windlass.engine.holdings import Holding, Stop
from windlass.engine.joined import HandlersEnding
from windlass.errors import BadArguments, BadPayload, EndNotCommitted, PayloadTooLarge
from windlass.gauge import Gauge
from windlass.logs import steady_log
from windlass.notebook import Notebook
from windlass.resources import OpenResources, open_all, open_all_in_thread
from windlass.sources import Sources

T = TypeVar("T")

log = steady_log(__name__)


class Runner:
    """Runs attempts: on the loop, or in the calling thread."""

    def __init__(
        self,
        store: Store,
        sources: Sources,
        resources: OpenResources,
        result_limit: int,
        hooks: Sequence[Around] = (),
    ) -> None:
        self._process = os.getpid()
        self.work_added: Added = lambda runs: None  # called with runs that handlers make ready
        self.desk = HandlerDesk(store, lambda runs: self.work_added(runs))
        self._resources = resources
        self._sources = sources
        self._limit = result_limit
        self._hooks = hooks
        self.worker = ""
        self.patience = Patience()
        self.max_steps = MOST_STEPS
        self.joins: Callable[[], Any] = lambda: store  # what writes in transactions of handlers
        self.stage: Stage | None = None
        self.joining: Callable[[Holding], None] = lambda holding: None  # has given up its end
        self.enlist: Callable[[Gauge], None] = lambda gauge: None  # has progress written soon
        self.run_logs = 0  # lines of each attempt that are kept
        self.noted: Callable[[Notebook], None] = lambda notebook: None  # has lines written soon
        self._making = threading.Lock()
        self.suspended: Callable[[Holding], None] = lambda holding: None
        self.boss: asyncio.Task[None] | None = None  # the task that the worker runs in
        self.taken_down: Callable[[], None] = lambda: None  # called when that task is canceled

    async def run_async(self, holding: Holding) -> Finish | None:
        """Run an async handler to its end."""
        current.set(holding)
        if self.run_logs:
            holding.keep_line = partial(self._keep_line, holding)
        holding.bench = partial(self._awaited_work, holding, asyncio.current_task())
        try:
            spec, handler = holding.spec, holding.spec.handler
            args, kwargs = arguments_of(holding)
            if self._hooks or spec.signature.takes_context:
                await open_all(self._resources)
                ctx = Context(
                    holding.claimed, holding, self.desk, self.worker, self._resources,
                    holding.bench, self.gauge_of,
                )  # fmt: skip
                if spec.signature.takes_context:
                    args = (ctx, *args)
                if self._hooks:
                    handler = asurrounded(handler, self._hooks, ctx)
            return self._conclude(holding, await handler(*args, **kwargs))
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
        before = current.set(holding)
        if self.run_logs:
            holding.keep_line = partial(self._keep_line, holding)
        holding.bench = partial(self._blocking_work, holding)
        try:
            spec, handler = holding.spec, holding.spec.handler
            args, kwargs = arguments_of(holding)
            if self._hooks or spec.signature.takes_context:
                open_all_in_thread(self._resources)
                ctx = SyncContext(
                    holding.claimed, holding, self.desk, self.worker, self._resources,
                    holding.bench, self.gauge_of,
                )  # fmt: skip
                if spec.signature.takes_context:
                    args = (ctx, *args)
                if self._hooks:
                    handler = surrounded(handler, self._hooks, ctx)
            return self._conclude(holding, handler(*args, **kwargs))
        except BaseException as error:
            return self.conclude_error(holding, error)
        finally:
            current.reset(before)

    def gauge_of(self, holding: Holding) -> Gauge:
        """What an attempt tells its progress to: made with the first word, in any thread."""
        with self._making:
            if holding.gauge is None:
                holding.gauge = Gauge(holding.held, self._sources.clock.monotonic, self.enlist)
            return holding.gauge

    def notebook_of(self, holding: Holding) -> Notebook:
        """What keeps the lines of an attempt: made with the first one, in any thread."""
        with self._making:
            if holding.notebook is None:
                holding.notebook = Notebook(
                    holding.held, holding.claimed.attempt, self.run_logs, self._sources.clock.now,
                    self.noted,
                )  # fmt: skip
            return holding.notebook

    def _keep_line(self, holding: Holding, record: LogRecord) -> None:
        if not holding.lost:
            self.notebook_of(holding).add(record)

    def _awaited_work(
        self, holding: Holding, task: "asyncio.Task[Any] | None"
    ) -> tuple[AwaitedWork, StepDesk]:
        """The durable work of an async handler: made with its first step."""
        work = holding.work
        if not isinstance(work, AwaitedWork):
            suspend = partial(self.suspended, holding)
            ledger = self._ledger(holding)
            work = AwaitedWork(self.desk, self.joins, ledger, self.patience, suspend, task)
            holding.work = work
        return work, StepDesk(work.ledger, self._terms(holding))

    def _blocking_work(self, holding: Holding) -> tuple[BlockingWork, StepDesk]:
        """The same for a handler in a thread."""
        work = holding.work
        if not isinstance(work, BlockingWork):
            ledger = self._ledger(holding)
            holding.work = work = BlockingWork(self.desk, self.joins, ledger, self.patience)
        return work, StepDesk(work.ledger, self._terms(holding))

    def _ledger(self, holding: Holding) -> Ledger:
        claimed = holding.claimed
        return Ledger(
            self.desk.operations,
            holding.held,
            is_new=claimed.token == 1,
            monotonic=self._sources.clock.monotonic,
            is_stopped=lambda: holding.canceled,
            is_pausing=lambda: holding.pausing,
            limit=holding.spec.max_steps or self.max_steps,
            stage=self.stage,
        )

    def _terms(self, holding: Holding) -> Terms:
        return Terms(
            sources=self._sources,
            retry=holding.spec.retry,
            max_attempts=holding.max_attempts,
            value_limit=self._limit,
            patience=self.patience,
            ending=HandlersEnding(holding, self._end_of, lambda holding: self.joining(holding)),
        )

    def conclude_error(self, holding: Holding, error: BaseException) -> Finish | None:
        """What becomes of an attempt whose handler raised, or was stopped. It does not raise."""
        if os.getpid() != self._process:
            leave_fork(error)
        if holding.stop is Stop.LOST:
            return None
        if holding.work is not None and (left := leaves(holding)) is not None:
            return left
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
            leave_fork()
        if holding.stop is Stop.LOST:
            return None
        if holding.work is not None:
            if (left := leaves(holding)) is not None:
                return left
            tell_unasked(holding)
        if holding.joined is not None:  # if that was committed, this is lost: see joined.py
            return self.conclude_error(holding, EndNotCommitted(holding.claimed.id))
        try:
            return self._end_of(holding, value)
        except (BadPayload, PayloadTooLarge, BadArguments) as error:
            # The handler has done its work; doing it again would not make the value fit.
            return given_up_by(holding, error)

    def _end_of(self, holding: Holding, value: object) -> Finish:
        """What becomes of an attempt whose handler returns this. Raises what the value lacks."""
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
            case ContinueAs():
                return self._continued(holding, value)
            case _:
                data = codec.encode(value, what="result", limit=self._limit)
                return succeeded(holding, msgspec.Raw(data))

    def _continued(self, holding: Holding, value: ContinueAs) -> Finish:
        """The new input is checked as an enqueue checks it; one that is wrong would be so again."""
        spec = holding.spec
        data = None if value.args or value.kwargs else spec.default_input
        data = data or spec.signature.encode(value.args, value.kwargs, limit=self._limit)
        onward = finish(holding, Verdict(outcome=Outcome.CONTINUED))
        return msgspec.structs.replace(onward, result=msgspec.Raw(data))

    def _failed(self, holding: Holding, error: BaseException, *, timed_out: bool) -> Finish:
        try:
            verdict = decide_failure(
                holding.spec.retry,
                error,
                failures_before=holding.claimed.failures,
                max_attempts=holding.max_attempts,
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


def given_up_by(holding: Holding, error: BaseException) -> Finish:
    """A failure for good: the same would come of it again."""
    fatal = Verdict(outcome=Outcome.FAILED, failure=Failure.FATAL)
    return finish(holding, fatal, error=error, counts=True)


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


def leaves(holding: Holding) -> Finish | None:
    """What is reported of a handler that gave up its seat to wait, whatever it did afterwards."""
    work = holding.work
    if work is None:
        return None
    work.ledger.is_over = True
    if work.suspension is None or holding.stop is not None:
        return None
    suspension, claimed = work.suspension, holding.claimed
    if suspension.pauses:
        return release(holding)  # the store pauses it, unless the request was taken back
    return Finish(
        tenant=claimed.tenant,
        id=claimed.id,
        token=claimed.token,
        outcome=Outcome.WAITING if suspension.signal else Outcome.SLEEPING,
        version=holding.version,
        until=suspension.until,
        waits=suspension.paths,
    )


def tell_unasked(holding: Holding) -> None:
    """Log which steps are recorded that the handler has not asked for: its code has changed."""
    unasked = [] if holding.work is None else holding.work.ledger.unasked
    if unasked:
        extra = {"run": holding.claimed.id, "job": holding.claimed.job, "steps": unasked[:20]}
        log.warning("recorded steps were not asked for", extra=extra)


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
