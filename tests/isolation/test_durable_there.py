"""Durable work of handlers in child processes: steps, and runs that they start."""

from __future__ import annotations

from tests.fixtures.apps import PATIENCE, working
from tests.isolation.conftest import Load
from windlass import Status


async def test_a_handler_in_a_child_process_starts_runs_and_waits_for_them(load: Load) -> None:
    jobs = load("""
@app.job
async def square(number: int) -> int:
    return number * number

@app.job(executor="process")
async def on_loop(ctx: Context, count: int) -> list[int]:
    return await ctx.map(square, range(count), parallel=2)

@app.job(executor="process")
def in_main_thread(ctx: SyncContext, number: int) -> int:
    child = ctx.start(square, number)
    return child.result() + ctx.run(square, number + 1)
""")
    async with working(jobs.app):
        runs = [await jobs.on_loop.aenqueue(4), await jobs.in_main_thread.aenqueue(3)]
        ended = [await run.await_end(timeout=PATIENCE) for run in runs]
        assert [run.result for run in ended] == [[0, 1, 4, 9], 25]
        children = await ended[0].achildren()
    assert [child.status for child in children] == [Status.SUCCEEDED] * 4


async def test_steps_in_a_child_process_are_remembered(load: Load) -> None:
    """Whatever they return: documents travel as they are."""
    jobs = load("""
VALUES = [None, 1, "text", [1, None], {"a": {"b": None}}, ""]

@app.job(executor="process", retry=Retry.fixed("10ms"))
async def on_loop(ctx: Context) -> list:
    found = [await ctx.step("value", lambda value: value, value) for value in VALUES]
    if ctx.failures == 0:
        raise ConnectionError
    return found

@app.job(executor="process", retry=Retry.fixed("10ms"))
def in_main_thread(ctx: SyncContext) -> list:
    found = [ctx.step("value", lambda value: value, value) for value in VALUES]
    if ctx.failures == 0:
        raise ConnectionError
    return found
""")
    async with working(jobs.app):
        runs = [await jobs.on_loop.aenqueue(), await jobs.in_main_thread.aenqueue()]
        ended = [await run.await_end(timeout=PATIENCE) for run in runs]
    assert [run.result for run in ended] == [jobs.VALUES] * 2
