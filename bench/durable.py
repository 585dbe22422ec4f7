"""Long work: recorded steps, their replay, children and back, signals, batches."""

import asyncio
import time
from typing import Any

from bench.ours import Bench, now
from windlass import Context, Retry

_STEPS = 50  # of each run
_REPLAYED = 1000


async def record_steps(bench: Bench, runs: int) -> float:
    """Recorded steps per second, of runs that go on beside each other."""

    @bench.app.job
    async def walk(ctx: Context) -> None:
        for n in range(_STEPS):
            await ctx.step("step", _echo, n)

    made = await bench.app.aenqueue_many([walk.request() for _ in range(runs)])
    began = time.perf_counter()
    async with bench.app.running():
        await bench.app.await_all(made, timeout=600)
    return runs * _STEPS / (time.perf_counter() - began)


async def replay(bench: Bench) -> float:
    """Milliseconds until a new attempt has gone past a thousand recorded steps."""
    took: list[float] = []

    @bench.app.job(retry=Retry.fixed("1ms", jitter=0), max_attempts=2)
    async def walk(ctx: Context) -> None:
        began = now()
        for n in range(_REPLAYED):
            await ctx.step("step", _echo, n)
        took.append(now() - began)
        if ctx.failures == 0:
            raise ConnectionError

    run = await walk.aenqueue()
    async with bench.app.running():
        await run.await_end(timeout=600)
    return took[1] * 1e3


async def fan_out(bench: Bench, count: int) -> float:
    """Children per second, from the start of their parent to its result."""

    @bench.app.job
    async def child(number: int) -> int:
        return number

    @bench.app.job
    async def parent(ctx: Context, count: int) -> int:
        return sum(await ctx.map(child, range(count)))

    run = await parent.aenqueue(count)
    began = time.perf_counter()
    async with bench.app.running():
        ended = await run.await_end(timeout=600)
    assert ended.result == count * (count - 1) // 2
    return count / (time.perf_counter() - began)


async def run_units(bench: Bench, count: int, *, staged: bool = False) -> tuple[float, float]:
    """Units per second of a batch whose function does nothing, and per second of CPU of this
    process; `staged`: from an iterator, which is enqueued within that time."""

    @bench.app.batch(shard_size=1000, parallel=8)
    async def batch(unit: int) -> None: ...

    began, used = time.perf_counter(), time.process_time()
    run = await batch.aenqueue(units=iter(range(count)) if staged else range(count))
    async with bench.app.running():
        ended = await run.await_end(timeout=900)
    assert ended.raw_result["succeeded"] == count
    took, used = time.perf_counter() - began, time.process_time() - used
    return count / took, count / used


async def resume(bench: Bench, count: int) -> list[float]:
    """Seconds from just before a signal is sent until the handler that waits for it goes on."""
    went_on: dict[str, float] = {}
    waiting = asyncio.Event()

    @bench.app.job
    async def wait(ctx: Context) -> None:
        if ctx.attempt > 1:
            await ctx.wait_for("go")
            went_on[ctx.run_id] = now()
            waiting.set()
        else:
            await ctx.wait_for("go")

    took = []
    async with bench.app.running():
        for _ in range(count):
            run = await wait.aenqueue()
            await _parked(run)
            waiting.clear()
            began = now()
            await run.asignal("go")
            await waiting.wait()
            took.append(went_on[run.id] - began)
    return took


async def _parked(run: Any) -> None:
    while (await run.arefresh()).status != "waiting":  # noqa: ASYNC110 - the store says it
        await asyncio.sleep(0.005)


async def _echo(n: int) -> int:
    return n
