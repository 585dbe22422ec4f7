"""Batches: every unit counted once, shards that go on, split, stop and are retried."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import apsw
import psycopg
import pytest

from tests.fixtures.apps import reached, working
from windlass import (
    BadOption,
    BatchFailed,
    Context,
    FailedRun,
    RunFailed,
    Status,
    SyncContext,
    UsageError,
    Windlass,
)


async def test_a_range_is_done_unit_by_unit(app: Windlass) -> None:
    seen: Counter[tuple[int, str]] = Counter()

    @app.batch(shard_size=10, parallel=3)
    async def index(unit: int, into: str = "a") -> None:
        seen[unit, into] += 1

    run = await index.aenqueue(units=range(5, 105, 2), into="b")
    async with working(app):
        ended = await run.await_end(timeout=30)

    assert ended.result == {"run": run.id, "total": 50, "succeeded": 50, "failed": 0}
    assert seen == Counter({(n, "b"): 1 for n in range(5, 105, 2)})
    counts = await ended.abatch_counts()
    assert (counts.total, counts.processed, counts.left) == (50, 50, 0)
    assert (counts.shards, counts.shards_done, counts.stopped) == (5, 5, None)
    assert {child.job for child in await ended.achildren()} == {"index.shard"}


async def test_lists_iterators_and_async_iterators(app: Windlass) -> None:
    seen: Counter[str] = Counter()

    @app.batch(shard_size=400, parallel=2)
    def greet(ctx: SyncContext, unit: str) -> None:
        assert ctx.job == "greet.shard"
        seen[unit] += 1

    async def some() -> AsyncIterator[str]:
        for n in range(3):
            yield f"async-{n}"

    short = await greet.aenqueue(["a", "b"])
    long = await greet.aenqueue(units=(f"iter-{n}" for n in range(4203)))
    other = await greet.aenqueue(units=some())
    nothing = await greet.aenqueue(units=[])
    async with working(app):
        ended = [await run.await_end(timeout=30) for run in (short, long, other, nothing)]

    results: list[Any] = [run.result for run in ended]
    assert [result["succeeded"] for result in results] == [2, 4203, 3, 0]
    assert set(seen.values()) == {1}
    assert len(seen) == 2 + 4203 + 3


async def test_units_that_fail_are_kept_and_done_again_alone(app: Windlass) -> None:
    mended = False
    seen: Counter[int] = Counter()

    @app.batch(shard_size=7)
    async def mail(unit: int, subject: str) -> None:
        seen[unit] += 1
        if unit % 10 == 3 and not mended:
            raise ValueError(f"no address {unit}")

    run = await mail.aenqueue(range(30), subject="hi")
    async with working(app):
        first = await run.await_end(timeout=30)
        failed = await first.afailed_units()
        rest = await first.afailed_units(after=3)
        mended = True
        again = await first.aretry_failed()
        second = await again.await_end(timeout=30)
        with pytest.raises(UsageError, match="No unit of run"):
            await second.aretry_failed()

    assert first.status is Status.SUCCEEDED
    assert (first.result["succeeded"], first.result["failed"]) == (27, 3)  # type: ignore[index]
    assert [(each.n, each.error.message) for each in failed] == [
        (3, "no address 3"), (13, "no address 13"), (23, "no address 23"),
    ]  # fmt: skip
    assert [each.n for each in rest] == [13, 23]
    assert second.result == {"run": again.id, "total": 3, "succeeded": 3, "failed": 0}
    assert {n for n, times in seen.items() if times == 2} == {3, 13, 23}


async def test_too_many_failures_stop_a_batch_and_a_retry_goes_on(app: Windlass) -> None:
    mended = False
    seen: Counter[int] = Counter()
    handled: list[str] = []

    @app.batch(shard_size=20, parallel=1, max_failed=4)
    async def load(unit: int) -> None:
        seen[unit] += 1
        if unit % 2 and not mended:
            raise ValueError("odd")

    @load.on_failure
    async def told(run: FailedRun) -> None:
        handled.append("told")

    run = await load.aenqueue(units=range(100))
    async with working(app):
        ended = await run.await_end(timeout=30)
        counts = await ended.abatch_counts()
        assert ended.status is Status.FAILED
        assert ended.error is not None
        assert ended.error.type.endswith("BatchFailed")
        assert "more than max_failed allows" in ended.error.message
        assert counts.stopped == "max_failed"
        assert counts.failed == 10  # those of the shard that was flushed
        assert counts.processed == 20
        mended = True
        await ended.aretry()
        ended = await ended.await_end(timeout=30)
        counts = await ended.abatch_counts()

    assert ended.status is Status.SUCCEEDED
    assert handled == ["told"]
    assert (counts.total, counts.succeeded, counts.failed) == (100, 90, 10)
    assert set(seen.values()) == {1}  # no unit was done again


async def test_too_many_failures_at_the_very_end_fail_a_batch_too(app: Windlass) -> None:
    """The flush that says so is the last one: no shard is left to be stopped."""
    told: list[str] = []

    @app.job
    async def report(batch: dict[str, Any]) -> None:
        told.append("complete")

    @app.batch(max_failed=0, on_complete=report)
    async def load(unit: int) -> None:
        if unit == 3:
            raise ValueError("three")

    @load.on_failure
    async def mourn(run: FailedRun) -> None:
        told.append("failure")

    run = await load.aenqueue(units=range(5))
    async with working(app):
        ended = await run.await_end(timeout=30)
        assert ended.status is Status.FAILED
        assert ended.error is not None
        assert "more than max_failed allows" in ended.error.message
        await ended.aretry()  # which accepts what has failed
        ended = await ended.await_end(timeout=30)
        for child in await ended.achildren():
            await child.await_end(timeout=30)
    assert ended.status is Status.SUCCEEDED
    assert told == ["failure", "complete"]


async def test_a_source_goes_on_after_its_cursor(app: Windlass) -> None:
    seen: Counter[int] = Counter()
    cursors: list[object] = []
    broken = True

    def rows(cursor: object, upto: int) -> Iterator[tuple[int, object]]:
        cursors.append(cursor)
        start = 0 if cursor is None else cursor["after"] + 1  # type: ignore[index]
        for n in range(start, upto):
            if n == 1200 and broken:
                raise OSError("the table is locked")
            yield n, {"after": n}

    @app.batch(source=rows, max_attempts=3, retry=None)
    async def export(unit: int) -> None:
        nonlocal broken
        seen[unit] += 1
        if unit == 1199:
            asyncio.get_running_loop().call_later(0.05, lambda: mend())

    def mend() -> None:
        nonlocal broken
        broken = False

    run = await export.aenqueue(upto=1700)
    async with working(app):
        ended = await run.await_end(timeout=30)

    assert ended.result == {"run": run.id, "total": 1700, "succeeded": 1700, "failed": 0}
    assert set(seen.values()) == {1}
    assert cursors[0] is None
    assert {"after": 1199} in cursors


async def test_a_slow_shard_splits_itself(app: Windlass) -> None:
    """One range is 50 times slower: others take it over, and every read of the counts is right."""
    by: dict[int, str] = {}

    @app.batch(shard_size=100, parallel=4, split_after=0.1)
    async def scan(ctx: Context, unit: int) -> None:
        assert unit not in by
        by[unit] = ctx.run_id
        await asyncio.sleep(0.05 if unit < 100 else 0.001)

    run = await scan.aenqueue(units=range(400))
    last = 0
    async with working(app):
        while (await run.arefresh()).finished_at is None:
            counts = await run.abatch_counts()
            assert counts.total in (None, 400)
            assert last <= counts.processed == counts.succeeded <= 400
            last = counts.processed
            await asyncio.sleep(0.05)
    counts = await run.abatch_counts()

    assert (counts.total, counts.succeeded, counts.failed) == (400, 400, 0)
    assert counts.shards > 5
    slow = Counter(by[unit] for unit in range(100))
    assert len(slow) > 2  # halves of halves, too
    assert max(slow.values()) < 70
    assert {child.parent for child in await run.achildren()} == {run.id}


async def test_a_shard_gives_its_seat_back_now_and_then(app: Windlass) -> None:
    seen: Counter[int] = Counter()

    @app.batch(shard_size=3000, seat_time="0s")
    async def count(unit: int) -> None:
        seen[unit] += 1

    run = await count.aenqueue(units=range(1600))
    async with working(app):
        ended = await run.await_end(timeout=30)
    (shard,) = await ended.achildren()
    assert shard.attempt == 4  # 500 units each
    assert set(seen.values()) == {1}


async def test_a_throttle_is_asked(app: Windlass) -> None:
    seen: Counter[int] = Counter()
    busy = [0.05, None, False]

    @app.batch(shard_size=3000, throttle=lambda: busy.pop(0) if busy else None)
    async def slow(unit: int) -> None:
        seen[unit] += 1

    run = await slow.aenqueue(units=range(2000))
    async with working(app):
        ended = await run.await_end(timeout=30)
    assert ended.result["succeeded"] == 2000  # type: ignore[index]
    (shard,) = await ended.achildren()
    assert shard.attempt == 2
    assert set(seen.values()) == {1}


async def test_on_complete_is_started_once(app: Windlass) -> None:
    told: list[Any] = []

    @app.job
    async def report(batch: dict[str, Any]) -> None:
        told.append(batch)

    @app.batch(shard_size=2, on_complete=report)
    async def work(unit: int) -> None: ...

    run = await work.aenqueue(units=range(5))
    async with working(app):
        ended = await run.await_end(timeout=30)
        for child in await ended.achildren():
            await child.await_end(timeout=30)
    assert told == [ended.result]


async def test_a_batch_that_is_canceled_cancels_its_shards(app: Windlass) -> None:
    begun = asyncio.Event()

    @app.batch(shard_size=10, parallel=2)
    async def hang(unit: int) -> None:
        begun.set()
        await asyncio.sleep(3600)

    run = await hang.aenqueue(units=range(100))
    async with working(app):
        await asyncio.wait_for(begun.wait(), 30)
        await run.acancel()
        ended = await run.await_end(timeout=30)
        shards = [await child.await_end(timeout=30) for child in await ended.achildren()]
    assert ended.status is Status.CANCELED
    assert {shard.status for shard in shards} == {Status.CANCELED}


async def test_a_shard_can_be_paused_and_goes_on(app: Windlass) -> None:
    seen: Counter[int] = Counter()
    halfway = asyncio.Event()

    @app.batch(shard_size=1000)
    async def walk(ctx: Context, unit: int) -> None:
        seen[unit] += 1
        if unit == 50:
            halfway.set()
            while not ctx._standing.pausing:  # type: ignore[attr-defined]  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    run = await walk.aenqueue(units=range(100))
    async with working(app):
        await asyncio.wait_for(halfway.wait(), 30)
        (shard,) = await run.achildren()
        await shard.apause()
        await reached(app, shard.id, Status.PAUSED)
        assert (await run.abatch_counts()).processed == 51
        await shard.aresume()
        ended = await run.await_end(timeout=30)
    assert ended.result["succeeded"] == 100  # type: ignore[index]
    assert set(seen.values()) == {1}


async def test_units_have_no_steps(app: Windlass) -> None:
    @app.batch()
    async def stepping(ctx: Context, unit: int) -> None:
        await ctx.step("charge", asyncio.sleep, 0)

    run = await stepping.aenqueue(units=[1])
    async with working(app):
        ended = await run.await_end(timeout=30)
        (failed,) = await ended.afailed_units()
    assert "has no durable steps" in failed.error.message


async def test_an_iterator_that_raises_leaves_nothing(app: Windlass, url: str) -> None:
    @app.batch()
    async def fill(unit: int) -> None: ...

    def broken() -> Iterator[int]:
        yield from range(2100)
        assert staged(url) == 1  # a page is there, and no run
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="the file ends here"):
        await asyncio.to_thread(fill.enqueue, units=broken())
    assert await app.alist(job="fill") == []
    assert staged(url) == 0


async def test_units_that_come_too_slowly_are_refused(app: Windlass, url: str) -> None:
    @app.batch(seal_timeout="200ms")
    async def fill(unit: int) -> None: ...

    def slow() -> Iterator[int]:
        yield from range(2100)
        limit = time.monotonic() + 30
        while staged(url):  # until a worker has deleted what is overdue
            assert time.monotonic() < limit
            app.store.run(app.store.operations.sweep_units(100))
            time.sleep(0.02)

    with pytest.raises(UsageError, match="Give the batch a longer seal_timeout"):
        await asyncio.to_thread(fill.enqueue, units=slow())
    assert await app.alist(job="fill") == []
    assert staged(url) == 0


def staged(url: str) -> int:
    """How many pages of units there are."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        return int(str(connection.execute("select count(*) from units").fetchall()[0][0]))
    with psycopg.connect(url) as conn:
        row = conn.execute("select count(*) from windlass.units").fetchone()
        assert row is not None
        return int(row[0])


async def test_a_batch_of_no_units_ends_with_its_job(app: Windlass) -> None:
    told: list[Any] = []

    @app.job
    async def report(batch: dict[str, Any]) -> None:
        told.append(batch)

    @app.batch(on_complete=report)
    async def work(unit: int) -> None: ...

    async def never() -> AsyncIterator[int]:
        for n in range(0):
            yield n

    origins: list[Any] = [range(0), [], iter(()), never()]
    made = [await work.aenqueue(units=units) for units in origins]
    async with working(app):
        ended = [await run.await_end(timeout=30) for run in made]
        for run in ended:
            for child in await run.achildren():
                await child.await_end(timeout=30)
    assert {run.result["total"] for run in ended} == {0}  # type: ignore[index]
    assert sorted(each["run"] for each in told) == sorted(run.id for run in made)


@pytest.mark.parametrize(
    ("units", "said"),
    [
        ("text", "str is not a range, a list, or an iterable"),
        (7, "int is not a range, a list, or an iterable"),
        ({"range": [0, 1, 1]}, "dict is not a range, a list, or an iterable"),
    ],
)
def test_what_is_no_units_is_refused(app: Windlass, units: Any, said: str) -> None:
    @app.batch()
    async def one(unit: int) -> None: ...

    with pytest.raises(BadOption, match=said):
        one.enqueue(units=units)


def test_definitions_that_make_no_sense_are_refused(app: Windlass) -> None:
    async def fine(unit: int) -> None: ...

    with pytest.raises(BadOption, match="0 is not a number of 1 to 1,000,000"):
        app.batch(shard_size=0)(fine)
    with pytest.raises(BadOption, match="is not a number of 1 to 10,000"):
        app.batch(parallel=0)(fine)
    with pytest.raises(BadOption, match="cannot be called"):
        app.batch(throttle="10/s")(fine)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="no generator function"):
        app.batch(source=fine)(fine)

    async def nothing() -> None: ...

    with pytest.raises(BadOption, match="takes no unit"):
        app.batch()(nothing)

    @app.batch(shard_size=1)
    async def tiny(unit: int) -> None: ...

    with pytest.raises(BadOption, match="makes too many shards"):
        tiny.enqueue(units=range(10**9))
    with pytest.raises(BadOption, match="needs them"):
        tiny.enqueue()


def test_errors_survive_their_arguments() -> None:
    error = BatchFailed(10, 4, 20, "max_failed", None)
    assert str(BatchFailed(*error.args)) == str(error)
    assert "10 of 20 units" in str(BatchFailed(10, 0, 20, None, "Shard 1: OSError: gone"))
    assert issubclass(RunFailed, Exception)
