"""The methods of contexts for children: awaited in async handlers, plain in threads."""

from collections.abc import Coroutine, Generator, Iterable
from typing import Any, Generic, TypeVar

from windlass.durable import children
from windlass.durable.awaited import AwaitedWork
from windlass.durable.blocking import BlockingWork
from windlass.durable.children import Ask, JobLike, P
from windlass.durable.requests import Desk

R = TypeVar("R")


class Child(Generic[R]):
    """A run that was started by `ctx.start`: await it for its result.

    `id` is that of the run. Awaiting it raises ChildFailed if it does not succeed.
    """

    __slots__ = ("_ask", "_desk", "_work", "id")

    def __init__(self, work: AwaitedWork, desk: Desk, ask: Ask, id: str | None) -> None:
        self._work = work
        self._desk = desk
        self._ask = ask
        self.id = id

    def __await__(self) -> Generator[Any, Any, R]:
        """Wait for its end, without a seat if that takes long."""
        flow = self._work.run(
            self._ask.path, lambda: children.await_one(self._desk.ledger, self._ask)
        )
        return flow.__await__()


class SyncChild(Generic[R]):
    """As `Child`, for sync handlers: `child.result()` waits."""

    __slots__ = ("_ask", "_desk", "_work", "id")

    def __init__(self, work: BlockingWork, desk: Desk, ask: Ask, id: str | None) -> None:
        self._work = work
        self._desk = desk
        self._ask = ask
        self.id = id

    def result(self) -> R:
        """Wait for its end, without a seat, and return its result. Raises ChildFailed."""
        found: R = self._work.run(
            self._ask.path, lambda: children.await_one(self._desk.ledger, self._ask)
        )
        return found


class AwaitedChildren:
    """Children, for async handlers."""

    __slots__ = ()

    def _durable(self) -> tuple[AwaitedWork, Desk]:
        raise AssertionError("a context has this")

    def run(
        self, job: JobLike[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]:
        """Start a run of a job as a child of this one, and wait for its result without a seat.

        It is started once, whatever happens to this run. Raises ChildFailed if it does not succeed.
        A cancel of this run reaches it. `ctx.run(job.using(queue="slow"), …)` gives it options.
        """
        work, desk = self._durable()
        ask = desk.child(job, args, kwargs)
        return work.run(ask.path, lambda: children.run_one(desk.ledger, ask))

    async def _start(self, work: AwaitedWork, desk: Desk, ask: Ask) -> Child[Any]:
        id = await work.run(ask.path, lambda: children.start(desk.ledger, ask))
        return Child(work, desk, ask, id)

    def start(
        self, job: JobLike[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, Child[R]]:
        """Start a child and go on: `child = await ctx.start(job, …)`, later `await child`."""
        work, desk = self._durable()
        return self._start(work, desk, desk.child(job, args, kwargs))

    def map(
        self,
        job: JobLike[..., R],
        inputs: Iterable[Any],
        /,
        *,
        parallel: int | None = None,
        return_exceptions: bool = False,
    ) -> Coroutine[Any, Any, list[R]]:
        """Run a job as a child for each input, and return the results in the order of the inputs.

        Each input is the job's first argument, or a `job.request(…)`. At most `parallel` of them
        are live at a time. It waits until all have ended, without a seat. If some did not succeed,
        it raises ChildrenFailed; with `return_exceptions` the results have their ChildFailed.
        """
        work, desk = self._durable()
        ask = desk.children(job, inputs, parallel=parallel, tolerant=return_exceptions)
        return work.run(ask.path, lambda: children.run_many(desk.ledger, ask))


class BlockingChildren:
    """Children, for handlers in threads."""

    __slots__ = ()

    def _durable(self) -> tuple[BlockingWork, Desk]:
        raise AssertionError("a context has this")

    def run(self, job: JobLike[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Start a run of a job as a child of this one, and wait for its result without a seat.

        It is started once, whatever happens to this run. Raises ChildFailed if it does not succeed.
        A cancel of this run reaches it. `ctx.run(job.using(queue="slow"), …)` gives it options.
        """
        work, desk = self._durable()
        ask = desk.child(job, args, kwargs)
        found: R = work.run(ask.path, lambda: children.run_one(desk.ledger, ask))
        return found

    def start(self, job: JobLike[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncChild[R]:
        """Start a child and go on: `child = ctx.start(job, …)`, later `child.result()`."""
        work, desk = self._durable()
        ask = desk.child(job, args, kwargs)
        return SyncChild(
            work, desk, ask, work.run(ask.path, lambda: children.start(desk.ledger, ask))
        )

    def map(
        self,
        job: JobLike[..., R],
        inputs: Iterable[Any],
        /,
        *,
        parallel: int | None = None,
        return_exceptions: bool = False,
    ) -> list[R]:
        """Run a job as a child for each input, and return the results in the order of the inputs.

        Each input is the job's first argument, or a `job.request(…)`. At most `parallel` of them
        are live at a time. It waits until all have ended, without a seat. If some did not succeed,
        it raises ChildrenFailed; with `return_exceptions` the results have their ChildFailed.
        """
        work, desk = self._durable()
        ask = desk.children(job, inputs, parallel=parallel, tolerant=return_exceptions)
        found: list[R] = work.run(ask.path, lambda: children.run_many(desk.ledger, ask))
        return found
