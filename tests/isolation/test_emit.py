"""Events that handlers in child processes tell: the worker writes them, under its lease."""

from __future__ import annotations

from tests.fixtures.apps import PATIENCE, working
from tests.isolation.conftest import Load


async def test_a_child_tells_an_event(load: Load) -> None:
    jobs = load(
        """
@app.job(executor="process")
def ship(ctx: SyncContext) -> None:
    ctx.emit("order.shipped", {"order": 1})

@app.job(executor="process")
async def ship_async(ctx: Context) -> None:
    await ctx.emit("order.shipped", {"order": 2})
"""
    )
    async with working(jobs.app):
        runs = [await jobs.ship.aenqueue(), await jobs.ship_async.aenqueue()]
        for number, run in enumerate(runs, start=1):
            await jobs.app.aresult(run.id, timeout=PATIENCE)
            events = await run.aevents()
            assert [event.type.value for event in events][2:] == ["order.shipped", "run.succeeded"]
            assert events[2].data == {"order": number}
