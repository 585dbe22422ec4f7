"""The handler that an agent runs in."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from windlass import codec
from windlass.current import current
from windlass.durable.awaited import AwaitedWork, within
from windlass.durable.requests import Asked, Desk
from windlass.errors import UsageError

caller: ContextVar["asyncio.Task[Any] | None"] = ContextVar("windlass_agent_caller", default=None)
"""The task that has called the agent whose run this is: it waits for all tasks of that run."""


@dataclass(frozen=True, slots=True)
class Handler:
    """The durable work of the handler around this call."""

    work: AwaitedWork
    desk: Desk
    input: bytes

    @property
    def run(self) -> str:
        """The id of its run."""
        return self.desk.ledger.run

    @property
    def within(self) -> str | None:
        """The path of the step around this call."""
        return within.get()

    def count(self, name: str) -> str:
        """The place of the next of its name among those here: `name`, `name#2`."""
        path = self.desk.ledger.numbers.next(name, within=self.within)
        return path.rpartition("/")[2]

    async def do(self, asked: Asked) -> Any:
        """Do what was asked for, or return what is recorded of it.

        Pydantic AI waits for its tasks by events, which nobody can see through. So that a run that
        waits here for long can give up its seat, its caller is said to wait for this.
        """
        with self.work.on_behalf_of(caller.get()):
            return await self.work.run(*asked)

    def input_hash(self) -> str:
        """What tells this input of the run from others: `ContinueAs` gives it another."""
        return codec.canonical_hash(self.input)[:8]


def handler_here() -> Handler | None:
    """The handler around this call; None outside of handlers, where nothing is durable.

    None too where a step is done as a whole and nothing inside can be recorded: in a thread, or in
    a handler that is not async. Raises UsageError for an agent that cannot be durable.
    """
    running: Any = current.get(None)
    if running is None:
        return None
    if running.spec.signature.is_async and _on_loop():
        work, desk = running.bench()
        if work.is_here:
            return Handler(work, desk, bytes(running.claimed.input))
    if within.get() is not None:
        return None
    raise UsageError(
        f"The agent in job {running.claimed.job!r} cannot be durable in a thread: make the handler "
        "`async def`, and call `await agent.run(…)` in it."
    )


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
