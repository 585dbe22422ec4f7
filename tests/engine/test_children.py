"""Children: started once, awaited without a seat, mapped, canceled with their parent."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.fixtures.apps import working
from windlass import (
    BadOption,
    ChildFailed,
    ChildrenFailed,
    Context,
    Failure,
    Retry,
    Status,
    StepState,
    SyncContext,
    UsageError,
    Windlass,
)


@dataclass
class Sum:
    total: int


async def test_a_child_is_run_and_its_result_comes_back(app: Windlass) -> None:
    bodies: list[str] = []

    @app.job
    async def add(a: int, b: int = 1) -> Sum:
        bodies.append(f"{a}+{b}")
        return Sum(a + b)

    @app.job
    async def on_loop(ctx: Context) -> int:
        one = await ctx.run(add, 1, b=1)
        child = await ctx.start(add, one.total)
        both = await asyncio.gather(child, ctx.run(add.using(priority=3), 10))
        return sum(each.total for each in both)

    @app.job
    def in_thread(ctx: SyncContext) -> int:
        child = ctx.start(add, 100)
        assert child.id is not None
        return child.result().total + ctx.run(add, 200).total

    runs = [await on_loop.aenqueue(), await in_thread.aenqueue()]
    async with working(app, concurrency=1, threads=1):  # a parent that waits has no seat
        ended = [await run.await_end(timeout=30) for run in runs]

    assert [run.result for run in ended] == [14, 302]
    assert Counter(bodies) == Counter(["1+1", "2+1", "10+1", "100+1", "200+1"])
    children = await ended[0].achildren()
    assert [child.status for child in children] == [Status.SUCCEEDED] * 3
    assert {child.parent for child in children} == {ended[0].id}
    assert {child.root for child in children} == {ended[0].id}
    assert {child.record.trace for child in children} == {ended[0].id.replace("-", "")}
    assert children[2].priority == 3
    assert {step.path for step in await ended[0].asteps()} == {"add", "add#2", "add#3"}


async def test_a_child_knows_its_parent(app: Windlass) -> None:
    @app.job
    async def child(ctx: Context) -> list[str | None]:
        return [ctx.parent, ctx.enqueued_by]

    @app.job
    async def parent(ctx: Context) -> list[list[str | None]]:
        apart = await child.aenqueue()
        return [await ctx.run(child), [ctx.parent, apart.id]]

    run = await parent.aenqueue()
    async with working(app):
        ended = await run.await_end(timeout=30)
        assert ended.result is not None
        apart = await app.aresult(str(ended.result[1][1]), timeout=30)
    assert ended.result == [[run.id, run.id], [None, ended.result[1][1]]]
    assert apart == [None, run.id]


async def test_a_map_returns_results_in_order(app: Windlass) -> None:
    live: list[int] = []
    most: list[int] = []

    @app.job
    async def double(number: int) -> int:
        live.append(number)
        most.append(len(live))
        await asyncio.sleep(0)
        live.remove(number)
        return 2 * number

    @app.job
    async def total(ctx: Context, count: int, parallel: int | None = None) -> list[int]:
        return await ctx.map(double, range(count), parallel=parallel)

    runs = [await total.aenqueue(count) for count in (0, 1, 700)]
    async with working(app):
        ended = [await run.await_end(timeout=60) for run in runs]
        assert [run.result for run in ended] == [
            [2 * n for n in range(count)] for count in (0, 1, 700)
        ]
        most.clear()
        windowed = await (await total.aenqueue(12, parallel=3)).await_end(timeout=60)
    assert windowed.result == [2 * n for n in range(12)]
    assert 1 <= max(most) <= 3


async def test_failures_of_children(app: Windlass) -> None:
    @app.job(max_attempts=1)
    async def odd_fails(number: int) -> int:
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number

    @app.job(retry=Retry.fixed("10ms"))
    async def strict(ctx: Context) -> list[int]:
        return await ctx.map(odd_fails, [2, 3, 4, 5])

    @app.job
    async def tolerant(ctx: Context) -> list[str]:
        found = await ctx.map(odd_fails, [2, 3], return_exceptions=True)
        return [type(each).__name__ for each in found]

    @app.job
    async def catches(ctx: Context) -> list[str | None]:
        try:
            await ctx.run(odd_fails, 7)
        except ChildFailed as error:
            return [error.status, error.failure, getattr(error.error, "message", None)]
        return []

    runs = [await job.aenqueue() for job in (strict, tolerant, catches)]
    async with working(app):
        strict_run, tolerant_run, catching = [await run.await_end(timeout=30) for run in runs]

    assert (strict_run.status, strict_run.failure) == (Status.FAILED, Failure.FATAL)
    assert strict_run.failures == 1, "a replay would fail in the same way"
    assert strict_run.error is not None
    assert strict_run.error.type.endswith("ChildrenFailed")
    assert "2 of 4 children of step 'odd_fails' did not succeed" in strict_run.error.message
    assert "3 is odd" in strict_run.error.message
    assert tolerant_run.result == ["int", "ChildFailed"]
    assert catching.result == ["failed", "exhausted", "7 is odd"]


async def test_what_is_recorded_is_not_started_again(app: Windlass) -> None:
    bodies: list[int] = []

    @app.job
    async def child(number: int) -> int:
        bodies.append(number)
        return number

    @app.job(retry=Retry.fixed("10ms"), max_attempts=10)
    async def parent(ctx: Context) -> list[int]:
        first = await ctx.run(child, 1)
        if ctx.failures == 0:
            raise ConnectionError
        rest = await ctx.map(child, [2, 3])
        if ctx.failures == 1:
            raise ConnectionError
        return [first, *rest]

    run = await parent.aenqueue()
    async with working(app):
        ended = await run.await_end(timeout=30)
    assert ended.result == [1, 2, 3]
    assert sorted(bodies) == [1, 2, 3]


async def test_a_canceled_parent_cancels_its_children(app: Windlass) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @app.job
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    @app.job
    async def parent(ctx: Context) -> None:
        await ctx.run(endless)

    run = await parent.aenqueue()
    async with working(app), asyncio.timeout(30):
        await started.wait()
        await run.acancel("enough")
        assert (await run.await_end(timeout=30)).status is Status.CANCELED
        await ended.wait()
        (child,) = await run.achildren()
        assert (await child.await_end(timeout=30)).status is Status.CANCELED
    assert child.reason == "its parent was canceled"


async def test_another_child_under_the_same_name_is_nondeterminism(app: Windlass) -> None:
    @app.job
    async def child(number: int) -> int:
        return number

    @app.job(retry=Retry.fixed("10ms"))
    async def parent(ctx: Context) -> int:
        found = await ctx.run(child, 1 + ctx.failures)
        if ctx.failures == 0:
            raise ConnectionError
        return found

    run = await parent.aenqueue()
    async with working(app):
        ended = await run.await_end(timeout=30)
    assert ended.failure is Failure.NONDETERMINISM
    assert ended.error is not None
    assert 'child {"number":1}' in ended.error.message
    assert 'child {"number":2}' in ended.error.message


async def test_what_cannot_be_a_child_is_refused(app: Windlass) -> None:
    errors: list[Exception] = []

    @app.job
    async def child(number: int) -> int:
        return number

    @app.job
    async def other() -> None: ...

    @app.job
    async def parent(ctx: Context) -> None:
        for ask in (
            lambda: ctx.run(child.using(key="k"), 1),
            lambda: ctx.run(child, "text"),  # type: ignore[arg-type]
            lambda: ctx.run("child", 1),  # type: ignore[arg-type]
            lambda: ctx.map(child, [1], parallel=0),
            lambda: ctx.map(child, "text"),
            lambda: ctx.map(child, [other.request()]),
        ):
            with pytest.raises(UsageError) as refused:
                await ask()
            errors.append(refused.value)

    run = await parent.aenqueue()
    async with working(app):
        await run.await_end(timeout=30)
    assert [type(error) for error in errors] == [
        BadOption, type(errors[1]), UsageError, BadOption, BadOption, UsageError,
    ]  # fmt: skip
    assert "known by its step" in str(errors[0])
    assert "number" in str(errors[1])
    assert "give a function that has @app.job" in str(errors[2])
    assert await run.achildren() == []


async def test_an_operator_who_retries_the_parent_starts_only_what_failed(app: Windlass) -> None:
    bodies: list[int] = []
    broken = {3}

    @app.job(max_attempts=1)
    async def child(number: int) -> int:
        bodies.append(number)
        if number in broken:
            raise ValueError(number)
        return number

    @app.job
    async def parent(ctx: Context) -> list[int]:
        return await ctx.map(child, [1, 2, 3])

    run = await parent.aenqueue()
    async with working(app):
        assert (await run.await_end(timeout=30)).status is Status.FAILED
        broken.clear()
        await run.aretry()
        ended = await run.await_end(timeout=30)
    assert ended.result == [1, 2, 3]
    assert sorted(bodies) == [1, 2, 3, 3]
    states = [step.state for step in await run.asteps()]
    assert states == [StepState.DONE]


def test_an_error_of_children_can_be_copied() -> None:
    first = ChildFailed("kids", "r1", "failed", "fatal", None, None, "fatal")
    error = ChildrenFailed("kids", [first], 1, 2)
    assert str(ChildrenFailed(*error.args)) == str(error)
    assert str(ChildFailed(*first.args)) == "Child r1 of step 'kids' is failed/fatal"
    assert ChildrenFailed("kids", [], 1, 2).error is None
