"""The decorator that makes a function a job: `@app.job` and `@router.job`, typed alike."""

import sys
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from windlass.batch_job import BatchJob
from windlass.batches import SHARD, BatchOptions, make_batch
from windlass.context import Context, SyncContext
from windlass.domain.failed import FAILURE_HANDLER
from windlass.domain.job import FailureOptions, JobOptions, PipelineOptions
from windlass.domain.pipeline import Phase
from windlass.durable.declared import StepDecorator
from windlass.duration import Duration, parse_duration
from windlass.errors import UsageError
from windlass.job import Job, Membership
from windlass.on_failure import OnFailure
from windlass.pipeline import make_pipeline

P = ParamSpec("P")
R = TypeVar("R")


class JobDecorator(Protocol):
    """What `app.job(...)` with options returns."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Job[P, Concatenate[Context, P], Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(
        self, handler: Callable[Concatenate[SyncContext, P], R], /
    ) -> Job[P, Concatenate[SyncContext, P], R, R]: ...
    @overload
    def __call__(
        self, handler: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Job[P, P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, handler: Callable[P, R], /) -> Job[P, P, R, R]: ...


class Definitions:
    """What has jobs: an application, or a router."""

    failure_handler: Job[Any, Any, Any, Any] | None = None
    """The handler of failures of all jobs here that have none of their own."""

    @overload
    def job(
        self, handler: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Job[P, Concatenate[Context, P], Coroutine[Any, Any, R], R]: ...
    @overload
    def job(
        self, handler: Callable[Concatenate[SyncContext, P], R], /
    ) -> Job[P, Concatenate[SyncContext, P], R, R]: ...
    @overload
    def job(
        self, handler: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Job[P, P, Coroutine[Any, Any, R], R]: ...
    @overload
    def job(self, handler: Callable[P, R], /) -> Job[P, P, R, R]: ...
    @overload
    def job(self, /, **options: Unpack[JobOptions]) -> JobDecorator: ...

    def job(self, handler: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a job; bare, or with options: name, queue, priority, max_attempts,
        retry, timeout, executor, max_steps, default_input (of runs that are given none), retention
        (how long runs are kept), and defaults of its runs: tags, expires, deadline, unique,
        key_ttl.

        A job's name is the function's unless given. A first parameter that is called `ctx` or
        annotated with Context (SyncContext in sync functions) gets the run's context.
        """

        def define(function: Callable[..., Any]) -> Job[Any, Any, Any]:
            _check_function(function)
            return self._define(function, options)

        return define if handler is None else define(handler)

    def pipeline(
        self,
        name: str,
        /,
        *phases: Phase | Callable[..., Any],
        **options: Unpack[PipelineOptions],
    ) -> Job[..., ..., Any, Any]:
        """Make a job of functions that run in order, each as a durable step under its name.

        A function gets the context, if its first parameter asks for it, the pipeline's input and
        the results of earlier phases, all by the names of its parameters. A retry goes on with the
        first phase that is not done. The result is that of the last phase. `phase(name, function,
        retry=…, timeout=…)` gives a phase a name and options of its own; the other options are
        those of `app.job`.
        """
        module = str(sys._getframe(1).f_globals.get("__name__", ""))
        handler = make_pipeline(name, phases, module)
        return self._define(handler, {**options, "name": name})

    def batch(
        self,
        *,
        name: str | None = None,
        shard_size: int = 1000,
        parallel: int = 8,
        max_failed: int | None = None,
        throttle: Callable[[], Any] | None = None,
        source: Callable[..., Any] | None = None,
        on_complete: Job[Any, Any, Any, Any] | None = None,
        split_after: Duration | None = "10s",
        seat_time: Duration = "5m",
        seal_timeout: Duration = "10m",
        **options: Unpack[PipelineOptions],
    ) -> Callable[[Callable[..., Any]], BatchJob]:
        """Make a function a batch: it is called for each of many units, by many workers.

        `job.enqueue(units=…)` makes a run that starts shards of `shard_size` units, at most
        `parallel` at a time. If more than `max_failed` units fail, it stops. `throttle` is asked
        now and then for how long a shard is to wait. `source` is a generator that yields (unit,
        cursor), and goes on from a cursor. `on_complete` is a job that is started when all is done.
        A shard that would take longer than `split_after` gives half of its units away, if fewer
        than `parallel` are at work, and gives its seat back after `seat_time`. The other options
        are those of `app.job`, for the shards too.
        """
        module = str(sys._getframe(1).f_globals.get("__name__", ""))
        said: BatchOptions = {
            "shard_size": shard_size, "parallel": parallel, "max_failed": max_failed,
            "throttle": throttle, "source": source, "on_complete": on_complete,
            "split_after": split_after, "seat_time": seat_time,
        }  # fmt: skip
        sealed = parse_duration(seal_timeout)

        def define(function: Callable[..., Any]) -> BatchJob:
            _check_function(function)
            called = name or str(getattr(function, "__name__", ""))
            batch, shard = make_batch(function, said, called, module)
            outer: Any = {**options, "name": called, "executor": None}
            job = self._define(batch, outer)
            inner: Any = {**options, "name": f"{called}.{SHARD}", "default_input": None}
            batch.shards = self._define(shard, inner)
            return BatchJob(job._membership, sealed)

        return define

    @property
    def step(self) -> StepDecorator:
        """Make a function a durable step of whichever run calls it: `@app.step`, bare or with the
        options of `ctx.step`. Outside of handlers it is a plain function."""
        return StepDecorator()

    @property
    def on_failure(self) -> OnFailure:
        """Make a function the handler of runs that fail for good: `@app.on_failure`.

        It is for all jobs here that have no handler of their own (`@job.on_failure`), and is a job
        itself. Its run is inserted by the transaction that ends the failed one.
        """
        return OnFailure(self._handle_all)

    def define_handler(
        self, given: Any, options: FailureOptions, of: Membership | None = None
    ) -> Job[Any, Any, Any]:
        """Make a function a failure handler, of one job or of all; or take one that is there."""
        if not isinstance(given, Job):
            _check_function(given)
            return self._define_handler(given, options, of)
        if given.as_failure_handler is None:
            raise UsageError(
                f"Job {given.name!r} is an ordinary job. Decorate a function with on_failure: it "
                "may enqueue that job."
            )
        if options:
            raise UsageError(
                f"Failure handler {given.name!r} is defined already: its options belong there."
            )
        return given

    def _handle_all(self, given: Any, options: FailureOptions) -> Job[Any, Any, Any]:
        if self.failure_handler is not None:
            raise UsageError(
                f"There is a handler for all failures already: {self.failure_handler.name!r}."
            )
        self.failure_handler = self.define_handler(given, options)
        self._handlers_changed()
        return self.failure_handler

    @abstractmethod
    def _define(self, function: Callable[..., Any], options: Any) -> Job[Any, Any, Any]:
        """Check a definition and keep it; `options` are JobOptions."""
        ...

    @abstractmethod
    def _define_handler(
        self, function: Callable[..., Any], options: FailureOptions, of: Membership | None
    ) -> Job[Any, Any, Any]:
        """Check the definition of a failure handler and keep it."""
        ...

    @abstractmethod
    def _handlers_changed(self) -> None:
        """Let workers know who handles the failures of their jobs."""
        ...


Named = TypeVar("Named", FailureOptions, JobOptions)


def name_handler(options: Named, of: str) -> Named:
    """The options of a job's failure handler, with its name."""
    return {**options, "name": options.get("name") or f"{of}.{FAILURE_HANDLER}"}


def _check_function(given: object) -> None:
    """Refuse what cannot be a handler, in words that say what to write instead."""
    if isinstance(given, str):
        raise UsageError(f"@app.job takes a job's name as an option: @app.job(name={given!r}).")
    if isinstance(given, type):
        raise UsageError(
            f"@app.job decorates functions, and {given.__qualname__} is a class: write a function "
            "that makes one and uses it."
        )
