"""What durable work refuses: too large, too deep, from the wrong thread, to nobody. Each is said
clearly, and nothing is half-done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from windlass import (
    BadOption,
    BadPayload,
    Context,
    Failure,
    IllegalTransition,
    PayloadTooLarge,
    RunNotFound,
    UsageError,
    Windlass,
)
from windlass.testing import drain

MIB = 2**20


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: "x" * MIB, "is 1,048,578 bytes of JSON and the limit is 1,048,576"),
        (lambda: nested(200), "it nests deeper than 100 levels"),
    ],
)
def test_values_of_steps_have_limits(app: Windlass, make: Callable[[], Any], why: str) -> None:
    """A value that does not fit would not fit the next time: the step is called once."""
    tries: list[int] = []

    @app.job
    async def work(ctx: Context) -> None:
        def body() -> Any:
            tries.append(1)
            return make()

        await ctx.step("large", body)

    run = work.enqueue()
    drain(app, with_scheduled=True)
    assert (run.refresh().failure, len(tries)) == (Failure.FATAL, 1)
    assert run.error is not None
    assert why in run.error.message


def test_steps_that_are_nested_too_deep_are_refused_before_they_are_done(app: Windlass) -> None:
    """Whether by characters or by bytes."""
    levels: list[int] = []
    said: list[str] = []

    @app.job
    async def work(ctx: Context, letter: str) -> None:
        async def go(level: int) -> None:
            levels.append(level)
            try:
                await ctx.step(letter * 99, go, level + 1)
            except BadOption as error:
                said.append(str(error))

        await go(0)

    work.enqueue("s")
    work.enqueue("界")  # of three bytes
    drain(app, with_scheduled=True).check()
    assert levels == [*range(11), *range(6)]
    assert all("nest steps less deep" in text for text in said)
    assert len(said) == 2


@pytest.mark.parametrize("way", ["at once", "after a step", "on another loop"])
def test_a_thread_of_an_async_handler_has_no_durable_work(app: Windlass, way: str) -> None:
    """`to_thread` in a step is fine, a step in `to_thread` is not."""

    @app.job(max_attempts=1)
    async def work(ctx: Context) -> str:
        async def elsewhere() -> str:
            return await ctx.step("there", str, 1)

        def run_elsewhere() -> str:
            return asyncio.run(elsewhere())

        if way != "at once":
            assert await ctx.step("first", asyncio.to_thread, str, 1) == "1"
        thread = run_elsewhere if way == "on another loop" else partial(ctx.step, "there", str, 1)
        with pytest.raises(UsageError, match="thread has called a durable step"):
            await asyncio.to_thread(thread)
        return await ctx.step("last", str, 2)

    run = work.enqueue()
    drain(app).check()
    assert run.refresh().result == "2"
    before = [] if way == "at once" else ["first"]
    assert sorted(step.path for step in run.steps()) == [*before, "last"]


def test_signals_that_nobody_could_take_are_refused(app: Windlass) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        await ctx.wait_for("paid")

    run = work.enqueue()
    drain(app)
    with pytest.raises(RunNotFound):
        app.signal("01a1f074-17f0-7804-9b87-f68d432f6bb9", "paid")
    for name in ("", "a/b", "x" * 201, 7):
        with pytest.raises(BadOption, match="signal"):
            run.signal(name)  # type: ignore[arg-type]
    with pytest.raises(PayloadTooLarge, match="payload of signal 'paid'"):
        run.signal("paid", "x" * MIB)
    for payload in (object(), nested(200)):
        with pytest.raises(BadPayload, match="payload of signal 'paid'"):
            run.signal("paid", payload)
    assert run.refresh().status == "waiting"
    assert run.signals() == []

    # One that nobody waits for is kept, as whoever will wait for it may come.
    run.signal("piad")
    assert run.refresh().status == "waiting"
    run.signal("paid")
    drain(app).check()
    with pytest.raises(IllegalTransition):
        run.signal("paid")
