"""What tests may put around durable work: stand-ins, answers, crashes; and `@app.step`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass import Context, Failure, Retry, Router, SyncContext, UsageError, Windlass
from windlass.testing import answer, crash_after, drain, stand_in


def test_a_stand_in_is_called_in_the_place_of_a_step(app: Windlass) -> None:
    def charge(amount: int) -> dict[str, int]:
        raise AssertionError("never in a test")

    @app.job
    async def pay(ctx: Context, amount: int) -> Any:
        return await ctx.step("charge", charge, amount)

    with stand_in(app, "charge", returns={"id": 7}):
        first = pay.enqueue(1)
        drain(app).check()
    with stand_in(app, "charge", calls=lambda amount: {"id": amount}):
        second = pay.enqueue(2)
        drain(app).check()
    with stand_in(app, "charge", raises=PermissionError("declined")):
        third = pay.using(max_attempts=1).enqueue(3)
        drain(app)

    assert (first.refresh().result, second.refresh().result) == ({"id": 7}, {"id": 2})
    failed = third.refresh()
    assert failed.error is not None
    assert (failed.failure, failed.error.type) == (Failure.EXHAUSTED, "windlass.errors.StepFailed")
    with pytest.raises(UsageError, match="Give one of"), stand_in(app, "charge"):
        pass


def test_signals_are_answered(app: Windlass) -> None:
    @app.job
    async def collect(ctx: Context) -> list[Any]:
        return [await ctx.wait_for("item") for _ in range(3)]

    run = collect.enqueue()
    with answer(app, "item", 1, 2):
        drain(app).check()

    assert run.refresh().result == [1, 2, 2]


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_worker_that_dies_after_a_step_does_not_run_it_again(app: Windlass, kind: str) -> None:
    calls: list[str] = []

    def note(name: str) -> str:
        calls.append(name)
        return name

    @app.job(name="async")
    async def on_loop(ctx: Context) -> list[str]:
        names = ["a", "b", "c"]
        return [await ctx.step(name, note, name) for name in names]

    @app.job(name="sync")
    def in_thread(ctx: SyncContext) -> list[str]:
        return [ctx.step(name, note, name) for name in ["a", "b", "c"]]

    run = (on_loop if kind == "async" else in_thread).enqueue()
    with crash_after(app, "a"), crash_after(app, "c"):
        drain(app).check()

    found = run.refresh()
    assert found.result == ["a", "b", "c"]
    assert calls == ["a", "b", "c"]
    assert (found.crash_count, found.attempt) == (2, 3)


def test_functions_that_are_steps_by_nature(app: Windlass) -> None:
    calls: list[str] = []

    @app.step
    async def load(name: str) -> str:
        """Load it."""
        calls.append(name)
        return name.upper()

    @app.step(name="store", key=lambda name: name, max_attempts=1)
    async def put(name: str) -> str:
        calls.append(name)
        return f"stored {name}"

    @app.job(retry=Retry.fixed("1s"))
    async def copy() -> list[str]:
        loaded = await asyncio.gather(load("a"), load("b"))
        done = [await put(name) for name in loaded]
        if len(calls) == 4:
            calls.append("failed")
            raise ConnectionError
        return done

    run = copy.enqueue()
    drain(app, until="1h").check()

    assert run.refresh().result == ["stored A", "stored B"]
    assert calls == ["a", "b", "A", "B", "failed"]
    assert {step.path for step in run.steps()} == {"load", "load#2", "store#A", "store#B"}
    assert asyncio.run(load("plain")) == "PLAIN"
    assert (load.__name__, load.__doc__) == ("load", "Load it.")


def test_they_may_be_on_a_router_and_in_threads(app: Windlass) -> None:
    router = Router()
    calls: list[int] = []

    @router.step
    def double(n: int) -> int:
        calls.append(n)
        return 2 * n

    @router.job(retry=Retry.fixed("1s"))
    def work(n: int) -> int:
        found = double(n)
        if len(calls) == 1:
            calls.append(0)
            raise ConnectionError
        return found

    app.include(router)
    run = work.enqueue(4)
    drain(app, until="1h").check()

    assert run.refresh().result == 8
    assert calls == [4, 0]
    assert double(5) == 10


def test_a_step_that_does_not_fit_its_handler_is_told(app: Windlass) -> None:
    @app.step
    async def on_loop() -> None: ...

    @app.step
    def plain() -> int:
        return 7

    @app.job(max_attempts=1)
    def in_thread() -> None:
        on_loop()  # type: ignore[unused-coroutine]

    @app.job(max_attempts=1)
    async def blocks() -> None:
        plain()

    @app.job(max_attempts=1)
    async def beside(ctx: Context) -> int:
        return await ctx.step("outer", lambda: plain())

    runs = [in_thread.enqueue(), blocks.enqueue(), beside.enqueue()]
    drain(app)

    said = [run.refresh().error for run in runs]
    assert said[0] is not None
    assert "is async, and its handler is not" in said[0].message
    assert said[1] is not None
    assert 'await ctx.step("plain", …)' in said[1].message
    assert runs[2].result == 7
