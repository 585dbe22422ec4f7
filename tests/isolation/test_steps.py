"""Durable steps of handlers in child processes: the worker records them, under its lease."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest

from tests.fixtures.apps import PATIENCE, reached, working
from tests.isolation.conftest import Load
from windlass import Status, StepState

JOBS = """
@app.job(executor="process", retry=Retry.fixed("10ms"))
def order(ctx: SyncContext, fail: bool = False):
    def charge(card: str):
        say("charge")
        return {"card": card, "none": None}

    def nothing():
        say("nothing")

    found = ctx.step("charge", charge, "visa"), ctx.step("nothing", nothing)
    if fail and ctx.failures == 0:
        raise ConnectionError
    paid = ctx.wait_for("paid")
    try:
        ctx.step("declined", lambda: 1 / 0, max_attempts=1)
    except Exception as error:
        return [*found, paid, type(error).__name__, ctx.attempt]

@app.job(executor="process")
async def aorder(ctx: Context):
    value = await ctx.step("one", str, 1)
    return [value, *(await ctx.first(paid=ctx.wait_for("paid"), late=ctx.sleep("late", days=1)))]
"""


async def test_steps_and_waits_in_child_processes(load: Load, said: Any) -> None:
    jobs = load(JOBS)
    app = jobs.app
    run, arun = await jobs.order.aenqueue(fail=True), await jobs.aorder.aenqueue()
    async with working(app):
        for each in (run, arun):
            await reached(app, each.id, Status.WAITING)
            await each.asignal("paid", {"amount": 7})
        ended = await run.await_end(timeout=PATIENCE)
        aended = await arun.await_end(timeout=PATIENCE)
    card = {"card": "visa", "none": None}
    assert ended.result == [card, None, {"amount": 7}, "StepFailed", 3]
    assert aended.result == ["1", "paid", {"amount": 7}]
    assert said() == ["charge", "nothing"]
    states = {step.path: step.state for step in await run.asteps()}
    assert states == {
        "charge": StepState.DONE, "nothing": StepState.DONE, "paid": StepState.DONE,
        "declined": StepState.FAILED,
    }  # fmt: skip


async def test_a_call_that_the_worker_fails_to_make_is_answered(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the worker stumbles over: the handler would wait for ever."""

    def stumble(*given: Any) -> NoReturn:
        raise ArithmeticError("a bug")

    monkeypatch.setattr("windlass.engine.children.make_call", stumble)
    asyncio.get_running_loop().set_exception_handler(lambda loop, what: None)
    jobs = load(JOBS)
    try:
        run = await jobs.order.using(max_attempts=1).aenqueue()
        async with working(jobs.app):
            ended = await run.await_end(timeout=PATIENCE)
    finally:
        asyncio.get_running_loop().set_exception_handler(None)
    assert ended.status is Status.FAILED
    assert ended.error is not None
    assert "The worker failed to record_steps" in ended.error.message


async def test_a_handler_in_a_child_process_pauses_at_its_next_step(load: Load, said: Any) -> None:
    jobs = load("""
@app.job(executor="process")
def work(ctx: SyncContext) -> int:
    ctx.step("first", say, "first")
    while ctx.attempt == 1 and not (folder / "asked").exists():
        time.sleep(0.005)
    ctx.step("second", say, "second")
    return ctx.attempt
""")
    app = jobs.app
    run = await jobs.work.aenqueue()
    async with working(app) as worker:
        async with asyncio.timeout(PATIENCE):
            while said() != ["first"]:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.005)
        with worker.signals.renewed.heard() as renewed:
            await run.apause()
            await renewed.until(lambda reply: bool(reply.orders))
        (jobs.folder / "asked").touch()
        await reached(app, run.id, Status.PAUSED)
        assert said() == ["first"]
        await run.aresume()
        assert (await run.await_end(timeout=PATIENCE)).result == 2
    assert said() == ["first", "second"]
