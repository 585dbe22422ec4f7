"""The methods of contexts for durable work: awaited in async handlers, plain in threads."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, TypeVar, overload
from uuid import UUID

from windlass.domain.policy import ErrorTypes, Retry
from windlass.durable.asking import AwaitedAsking, BlockingAsking
from windlass.durable.awaited import AwaitedWork
from windlass.durable.blocking import BlockingWork
from windlass.durable.racing import NO_DEFAULT, BlockingRacing, First
from windlass.durable.requests import Asked, Desk, read_instant, read_payload, read_uuid
from windlass.duration import Duration
from windlass.errors import BadOption, WaitTimeout

T = TypeVar("T")


class AwaitedFace(AwaitedAsking):
    """Durable work, for async handlers."""

    __slots__ = ()

    def _durable(self) -> tuple[AwaitedWork, Desk]:
        raise AssertionError("a context has this")

    @overload
    def step(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        fatal: ErrorTypes = (),
        key: str | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        fatal: ErrorTypes = (),
        key: str | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...

    def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        fatal: ErrorTypes = (),
        key: str | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Call a function, and remember what it returned: in this run it is not called again.

        If it raises, it is tried again, as often as the job is unless `retry` and `max_attempts`
        say otherwise; then StepFailed is raised, now and whenever the run is replayed. Errors of
        the `fatal` classes are not tried again. `timeout` is for each try.
        A function that is not async runs in a thread. A step is known by its name and its turn
        among those of that name; `key` names one among many by something better than its turn.
        """
        work, desk = self._durable()
        asked = desk.step(
            name, function, args, kwargs,
            retry=retry, max_attempts=max_attempts, timeout=timeout, fatal=fatal, key=key,
        )  # fmt: skip
        return work.run(*asked)

    def using(self, *, connection: object) -> "AwaitedJoin":
        """Steps, or the end of the run, in your own transaction: what you write there and their
        record are committed together, or neither is:
        `await ctx.using(connection=conn).step("charge", charge, conn)`."""
        return AwaitedJoin(self._durable, connection)

    def sleep(
        self,
        name_or_length: Duration | None = None,
        length: Duration | None = None,
        /,
        **parts: float,
    ) -> Coroutine[Any, Any, None]:
        """Let time pass, up to years, without a seat: `ctx.sleep("3d")`, `ctx.sleep(days=3)`,
        `ctx.sleep("cool off", "3d")`."""
        work, desk = self._durable()
        return work.run(*desk.asleep(name_or_length, length, parts))

    def wait_for(
        self,
        signal: str,
        *,
        timeout: Duration | None = None,
        default: Any = NO_DEFAULT,
        type: Any = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a signal without a seat, and return its payload: see `app.signal`.

        If none comes within `timeout`, the `default` is returned, or else WaitTimeout is raised.
        Signals are kept in order; one that came before is taken at once. `type` checks the payload.
        """
        work, desk = self._durable()
        return _payload(work, desk.wait_for(signal, timeout, key), default, type)

    async def first(self, **waits: Awaitable[Any]) -> First:
        """Wait for several, and go on with the first: `ctx.first(paid=…, late=…)`.

        Who won is recorded; the others are canceled. If the winner raises, that is raised.
        """
        work, desk = self._durable()
        race = desk.race(waits)
        winner = await work.run(race.path, race.known)
        if winner is not None:
            others = [wait for name, wait in waits.items() if name != winner]
            _close(others)
            return First(winner, await waits[winner])
        tasks = {name: asyncio.ensure_future(wait) for name, wait in waits.items()}
        try:
            await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            winner = next(name for name, task in tasks.items() if task.done())
            await _cancel([task for name, task in tasks.items() if name != winner])
            await work.run(race.path, lambda: race.won_by(winner))
            return First(winner, tasks[winner].result())
        except BaseException:
            await _cancel(list(tasks.values()))
            raise

    async def now(self) -> datetime:
        """The time, in UTC; in a replay, the same."""
        work, desk = self._durable()
        return read_instant(await work.run(*desk.now()))

    async def uuid(self) -> UUID:
        """A new id; in a replay, the same."""
        work, desk = self._durable()
        return read_uuid(await work.run(*desk.uuid()))

    async def random(self) -> float:
        """A random number from 0 to 1; in a replay, the same."""
        work, desk = self._durable()
        return float(await work.run(*desk.random()))

    async def version(self, change: str) -> bool:
        """Whether to take the new way: `if await ctx.version("two invoices"): …`.

        False for a run that was past this place before the change, true for all others.
        """
        work, desk = self._durable()
        return bool(await work.run(*desk.version(change)))


class BlockingFace(BlockingAsking, BlockingRacing):
    """Durable work, for handlers in threads."""

    __slots__ = ()

    def _durable(self) -> tuple[BlockingWork, Desk]:
        raise AssertionError("a context has this")

    def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        retry: Retry | None = None,
        max_attempts: int | None = None,
        fatal: ErrorTypes = (),
        key: str | None = None,
        **kwargs: Any,
    ) -> T:
        """Call a function, and remember what it returned: in this run it is not called again.

        If it raises, it is tried again, as often as the job is unless `retry` and `max_attempts`
        say otherwise; then StepFailed is raised, now and whenever the run is replayed. Errors of
        the `fatal` classes are not tried again. (A thread cannot be stopped: there is no timeout.)
        """
        work, desk = self._durable()
        asked = desk.step(
            name, function, args, kwargs,
            retry=retry, max_attempts=max_attempts, timeout=None, fatal=fatal, key=key,
        )  # fmt: skip
        value: T = work.run(*asked)
        return value

    def using(self, *, connection: object) -> "BlockingJoin":
        """Steps, or the end of the run, in your own transaction: what you write there and their
        record are committed together, or neither is:
        `ctx.using(connection=conn).step("charge", charge, conn)`."""
        return BlockingJoin(self._durable, connection)

    def sleep(
        self,
        name_or_length: Duration | None = None,
        length: Duration | None = None,
        /,
        **parts: float,
    ) -> None:
        """Let time pass, up to years, without a seat: `ctx.sleep("3d")`, `ctx.sleep(days=3)`,
        `ctx.sleep("cool off", "3d")`."""
        work, desk = self._durable()
        work.run(*desk.asleep(name_or_length, length, parts))

    def wait_for(
        self,
        signal: str,
        *,
        timeout: Duration | None = None,
        default: Any = NO_DEFAULT,
        type: Any = None,
        key: str | None = None,
    ) -> Any:
        """Wait for a signal without a seat, and return its payload: see `app.signal`.

        If none comes within `timeout`, the `default` is returned, or else WaitTimeout is raised.
        Signals are kept in order; one that came before is taken at once. `type` checks the payload.
        """
        work, desk = self._durable()
        try:
            return read_payload(work.run(*desk.wait_for(signal, timeout, key)), type)
        except WaitTimeout:
            if default is NO_DEFAULT:
                raise
            return default

    def now(self) -> datetime:
        """The time, in UTC; in a replay, the same."""
        work, desk = self._durable()
        return read_instant(work.run(*desk.now()))

    def uuid(self) -> UUID:
        """A new id; in a replay, the same."""
        work, desk = self._durable()
        return read_uuid(work.run(*desk.uuid()))

    def random(self) -> float:
        """A random number from 0 to 1; in a replay, the same."""
        work, desk = self._durable()
        return float(work.run(*desk.random()))

    def version(self, change: str) -> bool:
        """Whether to take the new way: `if ctx.version("two invoices"): …`.

        False for a run that was past this place before the change, true for all others.
        """
        work, desk = self._durable()
        return bool(work.run(*desk.version(change)))


class AwaitedJoin:
    """Steps, and the end, in a transaction of the handler's own, for async handlers."""

    __slots__ = ("_connection", "_durable")

    def __init__(self, durable: Callable[[], tuple[AwaitedWork, Desk]], connection: object) -> None:
        self._durable = durable
        self._connection = _given(connection)

    def step(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        timeout: Duration | None = None,
        key: str | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]:
        """Call a function once: its effects in this transaction exist if and only if the step is
        recorded. What it raises ends the transaction, and is not tried again in it.

        Raises LeaseLost if another worker has the run; the transaction cannot be committed then.
        """
        work, desk = self._durable()
        asked = desk.step(
            name, function, args, kwargs, connection=self._connection,
            retry=None, max_attempts=None, timeout=timeout, fatal=(), key=key,
        )  # fmt: skip
        return work.run(*asked)

    def finish(self, value: T) -> Coroutine[Any, Any, T]:
        """End the run as `return value` would, in this transaction: what you wrote in it exists if
        and only if the run has ended so. `value` may be a Fail, Snooze, Cancel or ContinueAs, too.

        It returns the value, for `return await ctx.using(connection=tx).finish(value)`. What the
        handler returns is ignored. If the transaction is not committed by then, the attempt fails
        with EndNotCommitted.
        Raises LeaseLost if another worker has the run; the transaction cannot be committed then.
        """
        work, desk = self._durable()
        return work.run(*desk.finish(self._connection, value))


class BlockingJoin:
    """Steps, and the end, in a transaction of the handler's own, for handlers in threads."""

    __slots__ = ("_connection", "_durable")

    def __init__(
        self, durable: Callable[[], tuple[BlockingWork, Desk]], connection: object
    ) -> None:
        self._durable = durable
        self._connection = _given(connection)

    def step(
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,
        key: str | None = None,
        **kwargs: Any,
    ) -> T:
        """Call a function once: its effects in this transaction exist if and only if the step is
        recorded. What it raises ends the transaction, and is not tried again in it.

        Raises LeaseLost if another worker has the run; the transaction cannot be committed then.
        """
        work, desk = self._durable()
        asked = desk.step(
            name, function, args, kwargs, connection=self._connection,
            retry=None, max_attempts=None, timeout=None, fatal=(), key=key,
        )  # fmt: skip
        value: T = work.run(*asked)
        return value

    def finish(self, value: T) -> T:
        """End the run as `return value` would, in this transaction: what you wrote in it exists if
        and only if the run has ended so. `value` may be a Fail, Snooze, Cancel or ContinueAs, too.

        It returns the value, for `return ctx.using(connection=tx).finish(value)`. What the
        handler returns is ignored. If the transaction is not committed by then, the attempt fails
        with EndNotCommitted.
        Raises LeaseLost if another worker has the run; the transaction cannot be committed then.
        """
        work, desk = self._durable()
        work.run(*desk.finish(self._connection, value))
        return value


def _given(connection: object) -> object:
    if connection is None:
        raise BadOption("connection", "give the connection whose transaction the step is to join")
    return connection


async def _payload(work: AwaitedWork, asked: Asked, default: Any, kind: Any) -> Any:
    try:
        return read_payload(await work.run(*asked), kind)
    except WaitTimeout:
        if default is NO_DEFAULT:
            raise
        return default


def _close(waits: Sequence[Awaitable[Any]]) -> None:
    """Let go of what is not to be awaited."""
    for wait in waits:
        close = getattr(wait, "close", None) or getattr(wait, "cancel", None)
        if close is not None:
            close()


async def _cancel(tasks: Sequence["asyncio.Future[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
