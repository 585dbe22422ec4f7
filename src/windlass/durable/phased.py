"""Phases of a pipeline as durable steps: each is recorded under its name, at the top of its run.

A pipeline that has an async function runs on the loop, and its plain functions in threads beside
it. Those get a context of their own, without `await`: their steps and waits use the ledger of the
run (`threaded`). If such a phase has to wait for long, it is unwound in its thread, and the run is
suspended as if the loop had noticed it.
"""

import asyncio
import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from windlass.domain.outcome import Cancel, Fail, Snooze
from windlass.domain.pipeline import Turn
from windlass.domain.step import StepKind
from windlass.durable.acts import StepFlow, Suspended
from windlass.durable.awaited import AwaitedWork
from windlass.durable.blocking import BlockingWork
from windlass.durable.ledger import Ledger
from windlass.durable.requests import Asked, Desk
from windlass.gauge import Gauge

ThreadBench = tuple[BlockingWork, Desk]

in_thread: ContextVar[ThreadBench | None] = ContextVar("windlass_phase", default=None)
"""The durable work of a phase in a thread whose run is on the loop, for `@app.step`."""


class PhaseEnded(BaseException):
    """A phase asks for the end of the attempt: it returned a Snooze, a Cancel or a Fail.

    Nothing of it is recorded, so the phase is called again if the run goes on.
    """

    def __init__(self, answer: Snooze | Cancel | Fail) -> None:
        super().__init__(answer)
        self.answer = answer


def ask(
    desk: Desk, turn: Turn, names: tuple[str, ...], gauge: Gauge, function: Callable[..., Any]
) -> Asked:
    """The flow of a phase: `function` is called with its arguments, after the context."""
    phase = turn.phase
    asked = desk.step(
        phase.name, function, (), turn.arguments,
        retry=phase.retry, max_attempts=phase.max_attempts, timeout=phase.timeout,
        fatal=phase.fatal, key=None, kind=StepKind.PHASE,
    )  # fmt: skip
    return Asked(asked.path, lambda: _told(desk.ledger, asked, names, turn.place, gauge))


def _told(
    ledger: Ledger, asked: Asked, names: tuple[str, ...], place: int, gauge: Gauge
) -> StepFlow[Any]:
    """A phase that has something left to do is the one whose progress is told."""
    known = ledger.recorded(asked.path)
    begins = known is None or not known.state.ended
    if begins:
        gauge.enter(names, place)
    value = yield from asked.flow()
    if begins:
        gauge.complete()
    return value


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a phase that runs where its pipeline does."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _value(function(*args, **kwargs))

    return call


def achecked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for an async one."""

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return _value(await function(*args, **kwargs))

    return call


def threaded(work: AwaitedWork, desk: Desk) -> ThreadBench:
    """The durable work of a phase that runs in a thread, of a run that is on the loop."""
    return work.in_thread(BlockingWork), desk


def in_bench(function: Callable[..., Any], bench: ThreadBench) -> Callable[..., Any]:
    """The function of a phase that runs in a thread beside the loop."""
    work, _ = bench

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = in_thread.set(bench)
        try:
            value = _value(function(*args, **kwargs))
        except BaseException:
            if work.suspension is not None:
                raise Suspended from None  # whatever it did after it had to wait
            raise
        finally:
            in_thread.reset(before)
        if work.suspension is not None:
            raise Suspended
        return value

    return call


async def run_in_bench(work: AwaitedWork, asked: Asked, bench: ThreadBench) -> Any:
    """Run the flow of such a phase: if it has to wait, so has the run."""
    try:
        return await work.run(*asked)
    except Suspended:
        work.suspension = bench[0].suspension
        raise asyncio.CancelledError from None


def _value(value: Any) -> Any:
    if isinstance(value, (Snooze, Cancel, Fail)):
        raise PhaseEnded(value)
    return value
