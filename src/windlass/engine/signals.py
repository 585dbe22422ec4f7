"""Signals: what has just happened in a part of a worker, for tests to wait for.

Parts emit a signal at their turning points, in production too. Hardly anybody listens there, so a
signal costs one loop over an empty tuple. A test listens before it starts what it waits for; then
it misses nothing, and neither polls nor looks into the part:

    with worker.signals.recorded.heard() as recorded:
        await job.aenqueue()
        await recorded.next()

Emit a signal after the fact, with what a listener would otherwise have to look up.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from windlass.domain.run import Claimed, Held, ProgressWrite, RenewReply
from windlass.domain.runlog import LogWrite

T = TypeVar("T")

_PATIENCE = 30.0  # seconds after which a wait has failed


class Signal(Generic[T]):
    """One kind of event. May be emitted in any thread."""

    __slots__ = ("listeners",)

    def __init__(self) -> None:
        self.listeners: tuple[Callable[[T], None], ...] = ()

    def emit(self, value: T) -> None:
        """Let everybody who listens know."""
        for listener in self.listeners:
            listener(value)

    @contextmanager
    def calling(self, listener: Callable[[T], None]) -> Iterator[None]:
        """Call the listener with each value, until the end of the block, where it is emitted."""
        self.listeners = (*self.listeners, listener)
        try:
            yield
        finally:
            self.listeners = tuple(one for one in self.listeners if one is not listener)

    @contextmanager
    def heard(self) -> Iterator["Heard[T]"]:
        """Listen from now on, until the end of the block, on the running loop."""
        heard = Heard[T]()
        with self.calling(heard.hear):
            yield heard


class Heard(Generic[T]):
    """What one listener has heard. `all` has everything, in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()
        self._taken = 0
        self.all: list[T] = []

    def hear(self, value: T) -> None:
        """Keep a value and wake whoever waits for it; from any thread."""
        self.all.append(value)
        self._loop.call_soon_threadsafe(self._more.set)

    async def next(self, within: float = _PATIENCE) -> T:
        """Return the next value, the first time the oldest; raises TimeoutError if none comes."""
        async with asyncio.timeout(within):
            while self._taken >= len(self.all):
                self._more.clear()
                if self._taken >= len(self.all):  # not heard in between, in another thread
                    await self._more.wait()
        self._taken += 1
        return self.all[self._taken - 1]

    async def until(self, wanted: Callable[[T], bool], within: float = _PATIENCE) -> T:
        """Return the next value that is wanted; skips the others."""
        async with asyncio.timeout(within):
            while not wanted(value := await self.next(within)):
                continue
        return value

    def skip(self) -> None:
        """Wait only for what is heard from now on."""
        self._taken = len(self.all)


@dataclass(frozen=True, slots=True)
class WorkerSignals:
    """What happens in a worker. Each service has signals of its own."""

    registered: Signal[str] = field(default_factory=Signal)
    """The store knows it, under this name."""
    claimed: Signal[Sequence[Claimed]] = field(default_factory=Signal)
    """A claim brought these runs; they have a seat, or wait for one."""
    recorded: Signal[Held] = field(default_factory=Signal)
    """The store has answered the end of this lease, and the worker holds it no more."""
    changed: Signal[int] = field(default_factory=Signal)
    """Leases came, or a lease or a seat is free; how many leases it holds."""
    renewed: Signal[RenewReply] = field(default_factory=Signal)
    """The heartbeat was answered, and its orders were carried out."""
    told: Signal[Sequence[ProgressWrite]] = field(default_factory=Signal)
    """The store has answered these reports of progress."""
    logged: Signal[Sequence[LogWrite]] = field(default_factory=Signal)
    """The store has answered these pieces of logs."""
    stopping: Signal[None] = field(default_factory=Signal)
    """It claims nothing any more."""
