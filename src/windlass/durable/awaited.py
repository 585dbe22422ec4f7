"""Durable work of async handlers: runs the flows, and notices when the handler may be suspended."""

import asyncio
import contextvars
import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from windlass.domain.run import Finish, Held, ProgressWrite
from windlass.domain.step import Step, StepWrite
from windlass.durable.acts import Body, Doing, Join, JoinEnd, StepFlow, Suspension, Wait
from windlass.durable.blocked import is_blocked
from windlass.durable.ledger import Ledger
from windlass.errors import UsageError
from windlass.offloop import off_loop
from windlass.store.flow import adrive
from windlass.store.operations import Call

T = TypeVar("T")
W = TypeVar("W")

# Turns of the loop for which all of a handler has to be blocked: a task that has just ended wakes
# whoever waits for it in the next ones, through as many others as there are between them.
_TURNS = 20

within: ContextVar[str | None] = ContextVar("windlass_step", default=None)
"""The path of the step whose body runs here."""
whole: ContextVar[bool] = ContextVar("windlass_whole", default=False)
"""Whether the body of a step runs here that is done as a whole: a pause waits for its end."""


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long a handler that waits keeps its seat."""

    in_seat: float = 1.0  # seconds: who waits for less never leaves it
    linger: float = 0.02  # seconds that all of it has to be waiting for
    longest: float = 2.0  # seconds between looks at a handler that does something else as well


class AsyncStore(Protocol):
    """Where calls are done."""

    async def arun(self, call: Call[T]) -> T: ...


class AsyncJoins(Protocol):
    """What writes in the caller's own transaction."""

    async def ajoin_step(
        self, connection: object, held: Held, path: str, write: StepWrite | None
    ) -> Step | None: ...

    async def ajoin_finish(
        self, connection: object, finish: Finish, told: ProgressWrite | None
    ) -> None: ...


class AwaitedWork:
    """The durable work of one attempt, on its loop."""

    def __init__(
        self,
        store: AsyncStore,
        joins: Callable[[], AsyncJoins],
        ledger: Ledger,
        patience: Patience,
        suspend: Callable[[], None],
        main: "asyncio.Task[Any] | None",
    ) -> None:
        self._store = store
        self._joins = joins
        self.ledger = ledger
        self._patience = patience
        self._suspend = suspend
        self._loop = asyncio.get_running_loop() if main is None else main.get_loop()
        self._main = main
        self._loading: asyncio.Task[None] | None = None
        self._waits: dict[asyncio.Future[None], Wait] = {}
        self._timers: dict[asyncio.Future[None], asyncio.TimerHandle] = {}
        self._through: dict[asyncio.Task[Any], set[asyncio.Task[Any]]] = defaultdict(set)
        self._check: asyncio.Handle | None = None
        self._turns = 0
        self._pause = patience.linger
        self.suspension: Suspension | None = None

    @property
    def is_here(self) -> bool:
        """Whether the caller is on the loop of the handler."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def refuse_elsewhere(self) -> None:
        """Refuse durable work in a thread of an async handler, or on another loop.

        What waits there could not be seen, and its connections belong to the handler's loop.
        """
        if not self.is_here:
            raise UsageError(
                "A thread has called a durable step, wait or child of an async handler: call it in "
                "the handler and give the thread its value, or make the handler a plain function, "
                "which runs in a thread."
            )

    @contextmanager
    def on_behalf_of(self, caller: "asyncio.Task[Any] | None") -> Iterator[None]:
        """Say that a task waits for this one, though it cannot be seen how: while all of those that
        say so wait in durable waits, the caller does nothing else, and may give up its seat."""
        task = asyncio.current_task()
        if caller is None or task is None or task in self._through[caller]:
            yield
            return
        self._through[caller].add(task)
        try:
            yield
        finally:
            self._through[caller].discard(task)

    def in_thread(self, make: Callable[[Any, Any, Ledger, Patience], W]) -> W:
        """Durable work of the same run, for a part of it that runs in a thread."""
        return make(self._store, self._joins, self.ledger, self._patience)

    async def run(self, path: str, make: Callable[[], StepFlow[T]]) -> T:
        """Run a flow of this attempt."""
        self.refuse_elsewhere()
        await self.checkpoint(path)
        if not self.ledger.is_loaded:
            await self._load()
        return await adrive(make(), self._do)

    async def checkpoint(self, path: str) -> None:
        """Stop here if the run is to end or to pause.

        What goes on beside it, such as the body of another step, is waited for: the handler is
        suspended when all of it has stopped. Inside a step, other than a phase, it goes on to the
        end of that.
        """
        self._refuse(path)
        while self.ledger.is_pausing() and not whole.get():
            await self._wait(Wait(path, None, None, pause=True))
            self._refuse(path)

    def _refuse(self, path: str) -> None:
        self.ledger.check(path)
        if self.suspension is not None:
            raise asyncio.CancelledError  # it swallowed the first one

    async def _load(self) -> None:
        if self._loading is None:
            # A task of its own: who asked first may be canceled, and others wait for it too.
            self._loading = self._loop.create_task(adrive(self.ledger.load(), self._do))
        await asyncio.shield(self._loading)

    def _do(self, doing: Doing) -> Awaitable[Any]:
        match doing:
            case Body():
                return self._call(doing)
            case Wait():
                return self._wait(doing)
            case Join(connection, held, path, write):
                return self._joins().ajoin_step(connection, held, path, write)
            case JoinEnd(connection, finish, told):
                return self._joins().ajoin_finish(connection, finish, told)
            case _:
                return self._store.arun(doing)

    async def _call(self, body: Body) -> Any:
        self._refuse(body.path)
        before, cut = within.set(body.path), whole.set(whole.get() or not body.phase)
        try:
            async with asyncio.timeout(body.timeout):
                return await _result(body.function, body.args, body.kwargs)
        finally:
            within.reset(before)
            whole.reset(cut)

    async def _wait(self, wait: Wait) -> None:
        self._refuse(wait.path)
        future: asyncio.Future[None] = self._loop.create_future()
        if wait.left is not None:
            # Not a variable of this frame, where `is_blocked` would take it for the handler's.
            self._timers[future] = self._loop.call_later(wait.left, _settle, future)
        self._waits[future] = wait
        if self._check is None:
            self._look_later()
        try:
            await future
        finally:
            del self._waits[future]
            if (timer := self._timers.pop(future, None)) is not None:
                timer.cancel()

    def _look_later(self) -> None:
        self._turns = 0
        self._check = self._loop.call_later(self._pause, self._look, context=contextvars.Context())

    def _look(self) -> None:
        """Suspend the handler, if all of it waits, and for long.

        If it keeps its seat, it looks itself whether its signals have come: seldom, if it is long.
        """
        self._check = None
        waits = [wait for future, wait in self._waits.items() if not future.done()]
        if not waits or self.suspension is not None or self.ledger.is_over or self._main is None:
            return
        soon = any(w.left is not None and w.left <= self._patience.in_seat for w in waits)
        # One that was asked to pause starts anew, and so does any clock that it set.
        clocks = not any(wait.pause for wait in waits)
        through = self._through
        if soon or not is_blocked(self._main, self._waits.keys(), clocks=clocks, through=through):
            self._pause = min(self._pause * 2, self._patience.longest)
            self._look_later()
            for future, wait in self._waits.items():
                if wait.signal or (wait.pause and not self.ledger.is_pausing()):
                    _settle(future)
        elif self._turns < _TURNS:
            self._turns += 1
            self._check = self._loop.call_soon(self._look, context=contextvars.Context())
        else:
            self.suspension = Suspension(tuple(waits))
            self._main.cancel()
            self._suspend()


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _result(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function of a step; one that is not async in a thread, so that the loop goes on."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of an object that can be called
    ):
        return await function(*args, **kwargs)
    value = await off_loop(lambda: function(*args, **kwargs), "windlass-step")
    return await value if inspect.isawaitable(value) else value
