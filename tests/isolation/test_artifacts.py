"""Artifacts of handlers in child processes: the bytes are theirs, the row is the worker's."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.apps import PATIENCE, working
from tests.isolation.conftest import Load


async def test_a_child_puts_and_reads(load: Load, tmp_path: Path) -> None:
    jobs = load(
        """
@app.job(executor="process")
def sync_one(ctx: SyncContext) -> str:
    kept = ctx.artifacts.put("a.txt", [b"one", b"two"])
    with ctx.artifacts.open(kept, offset=3) as reader:
        return reader.read().decode() + str(len(ctx.artifacts.list()))

@app.job(executor="process")
async def async_one(ctx: Context) -> str:
    await ctx.artifacts.put("a.txt", b"onetwo")
    return (await ctx.artifacts.get("a.txt")).decode()
""",
        artifacts=str(tmp_path / "kept"),
    )
    async with working(jobs.app):
        one, other = await jobs.sync_one.aenqueue(), await jobs.async_one.aenqueue()
        assert await jobs.app.aresult(one.id, timeout=PATIENCE) == "two1"
        assert await jobs.app.aresult(other.id, timeout=PATIENCE) == "onetwo"
    assert jobs.app.artifacts.get("a.txt", run=one.id) == b"onetwo"
