"""What handlers in child processes log is kept with their runs."""

from __future__ import annotations

import asyncio

from tests.fixtures.apps import PATIENCE, working
from tests.isolation.conftest import Load


async def test_lines_of_a_child_are_kept(load: Load) -> None:
    jobs = load(
        """
import logging

@app.job(executor="process")
def sync_one(ctx: SyncContext) -> None:
    logging.getLogger("a_library").warning("theirs", extra={"n": 1})
    ctx.log.info("mine")

@app.job(executor="process", max_attempts=1)
async def async_one(ctx: Context) -> None:
    for n in range(20):
        ctx.log.info("line %d", n)
    raise ValueError
"""
    )
    app = jobs.app
    async with working(app, run_logs=5):
        one, other = await jobs.sync_one.aenqueue(), await jobs.async_one.aenqueue()
        await app.aresult(one.id, timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while len(lines := await app.alogs(one.id)) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            while (await app.aget(other.id)).finished_at is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        rest = await app.alogs(other.id)
    assert [(line.message, line.logger, line.fields) for line in lines] == [
        ("theirs", "a_library", {"n": 1}),
        ("mine", "windlass.run", {}),
    ]
    assert [line.message for line in rest] == [f"line {n}" for n in range(20)]
    assert [line.number for line in rest] == list(range(20))
