"""Failure handlers: code that runs when a run has failed for good.

    @charge.on_failure
    async def refund(failed: FailedRun) -> None: ...        # the job charge.on_failure

    @app.on_failure(queue="alerts")
    async def alert(failed: FailedRun) -> None: ...         # for all jobs that have none

A handler is a job. Its run is inserted by the transaction that ends the failed run, whoever ends
it: `windlass.domain.failed` has the protocol.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

from windlass.domain.failed import FailedRun
from windlass.domain.job import FailureOptions, check_failure_options

if TYPE_CHECKING:
    from windlass.context import Context, SyncContext
    from windlass.job import Job

R = TypeVar("R")
J = TypeVar("J", bound="Job[Any, Any, Any, Any]")


class FailureDecorator(Protocol):
    """What `on_failure(...)` with options returns."""

    @overload
    def __call__(
        self, handler: "Callable[[Context, FailedRun], Coroutine[Any, Any, R]]", /
    ) -> "Job[[FailedRun], [Context, FailedRun], Coroutine[Any, Any, R], R]": ...
    @overload
    def __call__(
        self, handler: "Callable[[SyncContext, FailedRun], R]", /
    ) -> "Job[[FailedRun], [SyncContext, FailedRun], R, R]": ...
    @overload
    def __call__(
        self, handler: Callable[[FailedRun], Coroutine[Any, Any, R]], /
    ) -> "Job[[FailedRun], [FailedRun], Coroutine[Any, Any, R], R]": ...
    @overload
    def __call__(
        self, handler: Callable[[FailedRun], R], /
    ) -> "Job[[FailedRun], [FailedRun], R, R]": ...


class OnFailure:
    """The decorator `on_failure` of a job, a router or an application."""

    def __init__(self, add: "Callable[[Any, FailureOptions], Job[Any, Any, Any]]") -> None:
        """`add` takes a function, or the job that handles failures of others already."""
        self._add = add

    @overload
    def __call__(self, handler: J, /) -> J: ...
    @overload
    def __call__(
        self, handler: "Callable[[Context, FailedRun], Coroutine[Any, Any, R]]", /
    ) -> "Job[[FailedRun], [Context, FailedRun], Coroutine[Any, Any, R], R]": ...
    @overload
    def __call__(
        self, handler: "Callable[[SyncContext, FailedRun], R]", /
    ) -> "Job[[FailedRun], [SyncContext, FailedRun], R, R]": ...
    @overload
    def __call__(
        self, handler: Callable[[FailedRun], Coroutine[Any, Any, R]], /
    ) -> "Job[[FailedRun], [FailedRun], Coroutine[Any, Any, R], R]": ...
    @overload
    def __call__(
        self, handler: Callable[[FailedRun], R], /
    ) -> "Job[[FailedRun], [FailedRun], R, R]": ...
    @overload
    def __call__(self, /, **options: Unpack[FailureOptions]) -> FailureDecorator: ...

    def __call__(self, handler: Any = None, /, **options: Any) -> Any:
        """Make a function the handler; bare, or with options: name, queue, priority,
        max_attempts, retry, timeout, executor.

        It takes a `FailedRun`, after the context if it wants one. Queue and priority are those of
        the run that failed unless given here. A handler of one job can be given to another.
        """
        check_failure_options(options)

        def add(given: Any) -> Any:
            return self._add(given, options)  # type: ignore[arg-type]

        return add if handler is None else add(handler)
