"""Steps that are recorded at the same time, in one round trip and one commit.

A step is small, and a commit is not: the handlers of a worker record theirs together. Whoever comes
while a round trip is on its way waits for the next one. There is one at a time for each loop: two
of the same run would only wait for each other.

If a trip fails, each of its calls is made by itself, as it would have been: that tells whose fault
it was, and what was recorded the first time is found recorded. The same where somebody else has a
run locked: the others do not wait for it.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from windlass.domain.run import Held
from windlass.domain.step import Step, StepWrite
from windlass.errors import WindlassError
from windlass.store.operations import Call
from windlass.store.postgres.statement import Statement
from windlass.store.postgres.steps import record_together

_MOST = 200  # calls in one trip

Answer = Sequence[Step] | None


class _Waiting(NamedTuple):
    call: Call[Any]
    future: "asyncio.Future[Any]"


class StepsTogether:
    """Gathers the steps that the handlers of each loop record."""

    def __init__(
        self,
        alone: Callable[[Call[Any]], Awaitable[Any]],
        execute: Callable[[Call[Any], Statement[Any]], Awaitable[Any]],
    ) -> None:
        self._alone = alone
        self._execute = execute
        self._waiting: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        self._going: set[asyncio.Task[None]] = set()

    async def run(self, call: Call[Any]) -> Any:
        """Make a call with others; return its answer."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        queue = self._waiting.get(loop)
        if queue is None:
            queue = self._waiting[loop] = []
            # Nobody's own: who asked first may be canceled.
            going = loop.create_task(
                self._go(loop, queue), name="windlass-steps", context=contextvars.Context()
            )
            self._going.add(going)
            going.add_done_callback(self._going.discard)
        queue.append(_Waiting(call, future))
        return await future

    async def _go(self, loop: asyncio.AbstractEventLoop, queue: list[_Waiting]) -> None:
        try:
            while queue:
                part = [item for item in queue[:_MOST] if not item.future.done()]
                del queue[:_MOST]
                try:
                    await self._send(part)
                except BaseException as error:
                    # Canceled, or a bug: nobody must be left waiting.
                    for item in part:
                        _refuse(item, error)
                    raise
        finally:
            del self._waiting[loop]
            for item in queue:
                item.future.cancel()

    async def _send(self, part: Sequence[_Waiting]) -> None:
        answers: Sequence[Answer] | None = None
        if len(part) > 1:
            asked = [_asked(*item.call.arguments, **item.call.keywords) for item in part]
            try:
                answers = await self._execute(part[0].call, record_together(asked))
            except WindlassError:
                answers = None  # whose fault it was is found below
        if answers is None:
            await asyncio.gather(*(self._settle(item) for item in part))
            return
        for item, answer in zip(part, answers, strict=True):
            if not item.future.done():
                item.future.set_result(answer)

    async def _settle(self, item: _Waiting) -> None:
        try:
            answer = await self._alone(item.call)
        except (WindlassError, asyncio.CancelledError) as error:
            _refuse(item, error)
        else:
            if not item.future.done():
                item.future.set_result(answer)


def _asked(held: Held, steps: Sequence[StepWrite]) -> tuple[Held, Sequence[StepWrite]]:
    """The arguments of a call, by place or by name: those of a child process come by name."""
    return held, steps


def _refuse(item: _Waiting, error: BaseException) -> None:
    if not item.future.done():
        item.future.set_exception(error)
