"""Pipelines as jobs: `app.pipeline("transcode", download, process, upload)`.

The handler of such a job walks through its phases (`domain/pipeline.py`) and makes a durable step
of each (`durable/phased.py`). It is on the loop if a function is async, and in a thread otherwise.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from windlass.context import Context, SyncContext
from windlass.domain.outcome import Cancel, Fail, Snooze
from windlass.domain.pipeline import Phase, Plan, Turn
from windlass.durable.phased import (
    PhaseEnded,
    achecked,
    ask,
    checked,
    in_bench,
    run_in_bench,
    threaded,
)


class Pipeline:
    """The handler of a pipeline; `plan` has its phases."""

    def __init__(self, plan: Plan, module: str) -> None:
        """`module` is where it is defined: a child process finds it there, by its name."""
        self.plan = plan
        self.phases = plan.names
        self.functions = tuple(each.function for each in plan.phases)
        self.__name__ = self.__qualname__ = plan.name
        self.__module__ = module
        self.__doc__ = f"A pipeline: {', '.join(plan.names)}."
        self.__signature__ = plan.signature

    def _input(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(self.plan.inputs, args, strict=False)) | dict(kwargs)


class BlockingPipeline(Pipeline):
    """A pipeline of plain functions, in a thread."""

    def __call__(self, ctx: SyncContext, /, *args: Any, **kwargs: Any) -> Any:
        walk = self.plan.walk(self._input(args, kwargs), ctx.phases)
        try:
            turn = next(walk)
            while True:
                turn = walk.send(self._take(ctx, turn))
        except StopIteration as end:
            ctx._own_gauge().finish(self.plan.names)
            return end.value
        except PhaseEnded as end:
            return end.answer

    def _take(self, ctx: SyncContext, turn: Turn) -> Any:
        work, desk = ctx._durable()
        function = checked(_with_context(turn, ctx))
        return work.run(*ask(desk, turn, self.plan.names, ctx._own_gauge(), function))


class AwaitedPipeline(Pipeline):
    """A pipeline in which a function is async, on the loop."""

    async def __call__(self, ctx: Context, /, *args: Any, **kwargs: Any) -> Any:
        walk = self.plan.walk(self._input(args, kwargs), ctx.phases)
        answer: Snooze | Cancel | Fail
        try:
            turn = next(walk)
            while True:
                turn = walk.send(await self._take(ctx, turn))
        except StopIteration as end:
            ctx._own_gauge().finish(self.plan.names)
            return end.value
        except PhaseEnded as end:
            answer = end.answer
        return answer

    async def _take(self, ctx: Context, turn: Turn) -> Any:
        work, desk = ctx._durable()
        gauge, names = ctx._own_gauge(), self.plan.names
        if turn.phase.is_async:
            function = achecked(_with_context(turn, ctx))
            return await work.run(*ask(desk, turn, names, gauge, function))
        bench = threaded(work, desk)
        function = in_bench(_with_context(turn, ctx._in_thread(bench)), bench)
        return await run_in_bench(work, ask(desk, turn, names, gauge, function), bench)


def make_pipeline(
    name: str, phases: tuple[Phase | Callable[..., Any], ...], module: str
) -> BlockingPipeline | AwaitedPipeline:
    """The handler of a pipeline. Raises BadOption for what cannot be one."""
    plan = Plan(name, *phases)
    return AwaitedPipeline(plan, module) if plan.is_async else BlockingPipeline(plan, module)


def _with_context(turn: Turn, ctx: Context | SyncContext) -> Callable[..., Any]:
    if not turn.takes_context:
        return turn.phase.function
    return functools.wraps(turn.phase.function)(functools.partial(turn.phase.function, ctx))
