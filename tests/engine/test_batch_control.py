"""What is done to a batch reaches its shards: pause, resume, cancel, terminate, retry, restart."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from tests.fixtures.apps import opened, reached, working
from windlass import Context, Run, Status, SyncContext, Windlass


class Walk:
    """A batch whose units wait, once some number of them is done, until they may go on."""

    def __init__(self, app: Windlass, *, stops_at: int, **options: Any) -> None:
        self.seen: Counter[int] = Counter()
        self.arrived = asyncio.Event()
        self.go = asyncio.Event()
        self.runs: set[str] = set()
        self._stops_at = stops_at

        @app.batch(name="walk", split_after=None, **options)
        async def walk(ctx: Context, unit: int) -> None:
            self.seen[unit] += 1
            self.runs.add(ctx.run_id)
            if self.seen.total() >= stops_at:
                self.arrived.set()
            if self.arrived.is_set() and not self.go.is_set():
                standing: Any = ctx._standing
                while not (standing.pausing or self.go.is_set()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        self.job = walk


async def shards_of(run: Run, status: Status) -> list[Run]:
    return [shard for shard in await run.achildren(limit=500) if shard.status is status]


async def until(run: Run, status: Status, count: int) -> list[Run]:
    """Wait until so many shards have a status."""
    async with asyncio.timeout(30):
        while len(found := await shards_of(run, status)) != count:  # noqa: ASYNC110 - the store says it
            await asyncio.sleep(0.01)
    return found


async def test_a_pause_stops_all_shards_and_a_resume_lets_them_go_on(app: Windlass) -> None:
    walk = Walk(app, stops_at=8, shard_size=10, parallel=3)
    run = await walk.job.aenqueue(units=range(100))
    async with working(app):
        await asyncio.wait_for(walk.arrived.wait(), 30)
        await run.apause(reason="the shop is down")
        stopped = await until(run, Status.PAUSED, 3)
        counts = await run.abatch_counts()
        assert (await run.arefresh()).status is Status.PAUSED
        assert counts.processed == walk.seen.total()  # nothing is done and not counted
        # Those that are held back do not take the places of those that paused.
        assert len(await shards_of(run, Status.SCHEDULED)) == 7
        await run.aresume()
        walk.go.set()
        ended = await run.await_end(timeout=30)
    assert ended.result["succeeded"] == 100  # type: ignore[index]
    assert set(walk.seen.values()) == {1}
    assert [entry.verb for entry in await run.aaudit()] == ["resume", "pause"]
    assert await app.aaudit(stopped[0].id) == []  # the shards' operator is their batch


async def test_a_shard_that_was_paused_by_itself_stays_so(app: Windlass) -> None:
    walk = Walk(app, stops_at=2, shard_size=10, parallel=2)
    run = await walk.job.aenqueue(units=range(20))
    async with working(app):
        await asyncio.wait_for(walk.arrived.wait(), 30)
        alone, other = await run.achildren()
        await alone.apause()
        await reached(app, alone.id, Status.PAUSED)
        await run.apause()
        await reached(app, other.id, Status.PAUSED)
        walk.go.set()
        await run.aresume()
        await other.await_end(timeout=30)
        assert (await alone.arefresh()).status is Status.PAUSED
        assert (await run.arefresh()).status is Status.WAITING
        await alone.aresume()
        ended = await run.await_end(timeout=30)
    assert ended.status is Status.SUCCEEDED
    assert set(walk.seen.values()) == {1}


async def test_a_batch_is_paused_without_workers_and_resumed_in_between(app: Windlass) -> None:
    """Nobody looks at the pause before the resume: nothing is paused, and nothing is stuck."""
    walk = Walk(app, stops_at=1000, shard_size=10, parallel=2)
    run = await walk.job.aenqueue(units=range(20))
    await run.apause()
    await run.aresume()
    await run.apause()
    async with working(app):
        await run.aresume()
        ended = await run.await_end(timeout=30)
    assert ended.status is Status.SUCCEEDED
    assert set(walk.seen.values()) == {1}


async def test_a_canceled_batch_that_is_retried_goes_on_where_it_was(app: Windlass) -> None:
    walk = Walk(app, stops_at=8, shard_size=10, parallel=3)
    run = await walk.job.aenqueue(units=range(50))
    async with working(app):
        await asyncio.wait_for(walk.arrived.wait(), 30)
        await run.apause()
        await until(run, Status.PAUSED, 3)
        await run.acancel()
        assert (await run.await_end(timeout=30)).status is Status.CANCELED
        await until(run, Status.CANCELED, 5)
        walk.go.set()
        await run.aretry()
        ended = await run.await_end(timeout=30)
    assert ended.status is Status.SUCCEEDED, ended.error
    assert (await ended.abatch_counts()).processed == 50
    assert set(walk.seen.values()) == {1}


async def test_terminate_ends_a_shard_that_hangs_and_a_retry_goes_on(url: str) -> None:
    hangs, entered, freed = True, threading.Event(), threading.Event()
    seen: Counter[int] = Counter()
    async with opened(url, cancel_grace="60s") as app:

        @app.batch(shard_size=10, parallel=2, split_after=None)
        def stick(ctx: SyncContext, unit: int) -> None:
            if unit == 3 and hangs:
                entered.set()
                freed.wait(60)
                return
            seen[unit] += 1

        run = await stick.aenqueue(units=range(20))
        async with working(app, threads=4) as worker:
            assert await asyncio.to_thread(entered.wait, 30)
            # Neither a pause nor a cancel reaches it: it is in the midst of a unit.
            await run.apause()
            await run.acancel()
            hanging = (await run.achildren())[0]
            async with asyncio.timeout(30):
                while not (await hanging.arefresh()).cancel_requested:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert hanging.status is Status.RUNNING
            await run.aterminate()
            ended = await hanging.await_end(timeout=30)
            assert (ended.status, ended.reason) == (Status.CANCELED, "its batch was terminated")
            hangs = False
            await run.aretry()
            again = await run.await_end(timeout=30)
            freed.set()
            assert again.status is Status.SUCCEEDED, again.error
            assert (await again.abatch_counts()).succeeded == 20
            assert worker is not None
    assert set(seen) == set(range(20))


async def test_a_batch_that_fails_while_it_is_paused_ends_its_shards(app: Windlass) -> None:
    walk = Walk(app, stops_at=5, shard_size=10, parallel=2)
    run = await walk.job.using(deadline="1s").aenqueue(units=range(20))
    async with working(app):
        await asyncio.wait_for(walk.arrived.wait(), 30)
        await run.apause()
        await until(run, Status.PAUSED, 2)
        ended = await run.await_end(timeout=30)
        shards = await until(run, Status.CANCELED, 2)
        assert ended.failure == "deadline"
        assert {shard.reason for shard in shards} == {"its batch has failed"}
        walk.go.set()
        await run.aretry()
        ended = await run.await_end(timeout=30)
    assert ended.status is Status.SUCCEEDED
    assert set(walk.seen.values()) == {1}


async def test_a_restart_begins_all_shards_anew(app: Windlass) -> None:
    walk = Walk(app, stops_at=8, shard_size=10, parallel=2)
    run = await walk.job.aenqueue(units=range(30))
    async with working(app):
        await asyncio.wait_for(walk.arrived.wait(), 30)
        await run.apause()
        await until(run, Status.PAUSED, 2)
        done = walk.seen.total()
        walk.go.set()
        await run.arestart()
        ended = await run.await_end(timeout=30)
        counts = await ended.abatch_counts()
    assert ended.status is Status.SUCCEEDED
    assert (counts.total, counts.processed, counts.shards) == (30, 30, 3)
    assert walk.seen.total() == 30 + done


@pytest.mark.parametrize("verb", ["apause", "acancel", "aterminate"])
async def test_a_verb_is_repeated_without_harm(app: Windlass, verb: str) -> None:
    walk = Walk(app, stops_at=1000, shard_size=10)
    run = await walk.job.aenqueue(units=range(20))
    for _ in range(2):
        await getattr(run, verb)()
    wanted = Status.PAUSED if verb == "apause" else Status.CANCELED
    assert (await run.arefresh()).status is wanted
