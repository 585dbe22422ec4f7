"""A worker at work: the loop and the threads, seats, and what it leaves alone."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import Counter
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, opened, stopped, take_ahead, within, working
from windlass import Context, Retry, Status, SyncContext, Windlass


async def test_async_handlers_share_the_loop_and_sync_ones_have_threads(app: Windlass) -> None:
    here = threading.current_thread().name

    @app.job
    async def on_loop() -> str:
        return threading.current_thread().name

    @app.job
    def in_thread() -> str:
        return threading.current_thread().name

    async with working(app):
        loop = await app.aresult((await on_loop.aenqueue()).id, timeout=10)
        thread = await app.aresult((await in_thread.aenqueue()).id, timeout=10)
    assert loop == here
    assert thread.startswith("windlass-handler-")


async def test_both_kinds_run_at_once(app: Windlass) -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE)

    @app.job
    async def on_loop() -> None:
        await asyncio.to_thread(meeting.wait)

    @app.job
    def in_thread() -> None:
        meeting.wait()

    runs = [await on_loop.aenqueue(), await in_thread.aenqueue()]
    async with working(app):
        for run in runs:
            await app.aresult(run.id, timeout=10)


async def test_busy_threads_never_hold_up_the_loop(app: Windlass) -> None:
    started, go = threading.Semaphore(0), threading.Event()

    @app.job
    def stuck() -> None:
        started.release()
        go.wait(PATIENCE)

    @app.job
    async def quick(n: int) -> int:
        return n

    many = app.enqueue_many(stuck.request() for _ in range(10))
    async with working(app, threads=2):
        try:
            for _ in range(2):
                assert await asyncio.to_thread(started.acquire, timeout=PATIENCE)
            runs = await app.aenqueue_many(quick.request(n) for n in range(100))
            for run in runs:
                await app.aresult(run.id, timeout=10)
            waiting = [run for run in many if run.refresh().status is Status.QUEUED]
            assert len(waiting) == 8
        finally:
            go.set()
        for held in many:
            await held.await_end(timeout=10)


async def test_busy_loop_seats_never_hold_up_the_threads(app: Windlass) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def stuck() -> None:
        started.set()
        await go.wait()

    @app.job
    def quick(n: int) -> int:
        return n

    await app.aenqueue_many(stuck.request() for _ in range(3))
    async with working(app, concurrency=1):
        await within(started)
        runs = await app.aenqueue_many(quick.request(n) for n in range(30))
        assert [await app.aresult(run.id, timeout=10) for run in runs] == list(range(30))
        go.set()


async def test_concurrency_is_used_to_the_full_and_never_exceeded(app: Windlass) -> None:
    seats = 7
    running = peak = 0
    full = asyncio.Event()

    @app.job
    async def count() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if running == seats:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        running -= 1

    runs = await app.aenqueue_many(count.request() for _ in range(60))
    async with working(app, concurrency=seats):
        for run in runs:
            await app.aresult(run.id, timeout=10)
    assert peak == seats


async def test_threads_are_used_to_the_full_and_never_exceeded(app: Windlass) -> None:
    seats = 3
    lock = threading.Lock()
    running = peak = 0
    full = threading.Event()
    names: set[str] = set()

    @app.job
    def count() -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
            names.add(threading.current_thread().name)
            if running == seats:
                full.set()
        assert full.wait(PATIENCE)
        with lock:
            running -= 1

    runs = await app.aenqueue_many(count.request() for _ in range(30))
    async with working(app, threads=seats):
        for run in runs:
            await app.aresult(run.id, timeout=10)
    assert peak == seats
    assert len(names) == seats


async def test_each_attempt_has_a_context_of_variables_of_its_own(app: Windlass) -> None:
    mark = contextvars.ContextVar("mark", default=0)

    @app.job
    async def on_loop() -> int:
        mark.set(mark.get() + 1)
        return mark.get()

    @app.job
    def in_thread() -> int:
        mark.set(mark.get() + 1)
        return mark.get()

    requests = [job.request() for job in (on_loop, in_thread) for _ in range(5)]
    runs = await app.aenqueue_many(requests)
    async with working(app, concurrency=1, threads=1):
        assert [await app.aresult(run.id, timeout=10) for run in runs] == [1] * 10


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_attempt_started_by_the_end_of_another_has_none_of_its_variables(
    app: Windlass, kind: str
) -> None:
    mark = contextvars.ContextVar("mark", default=0)
    started, go, opened_up = asyncio.Event(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.job
    async def on_loop() -> int:
        mark.set(mark.get() + 1)
        started.set()
        await go.wait()
        return mark.get()

    @app.job
    def in_thread() -> int:
        mark.set(mark.get() + 1)
        loop.call_soon_threadsafe(started.set)
        opened_up.wait(PATIENCE)
        return mark.get()

    job = on_loop if kind == "async" else in_thread
    runs = await app.aenqueue_many(job.request() for _ in range(5))
    async with working(app, concurrency=1, threads=1) as worker:
        await within(started)
        await take_ahead(app, worker, 4)
        go.set()
        opened_up.set()
        assert [await app.aresult(run.id, timeout=10) for run in runs] == [1] * 5


async def test_context_tells_about_the_run(app: Windlass) -> None:
    seen: list[dict[str, Any]] = []
    names = ("run_id", "job", "tenant", "queue", "attempt", "failures", "token", "trace",
             "canceled", "stopping")  # fmt: skip

    @app.job(queue="mail")
    async def on_loop(ctx: Context) -> None:
        seen.append({name: getattr(ctx, name) for name in names})

    @app.job(queue="mail")
    def in_thread(ctx: SyncContext) -> None:
        seen.append({name: getattr(ctx, name) for name in names})

    async with working(app):
        for job in (on_loop, in_thread):
            run = job.enqueue()
            await app.aresult(run.id, timeout=10)
            assert seen.pop() == {
                "run_id": run.id, "job": job.name, "tenant": "default", "queue": "mail",
                "attempt": 1, "failures": 0, "token": 1, "trace": run.id.replace("-", ""),
                "canceled": False, "stopping": False,
            }  # fmt: skip


async def test_unknown_job_is_never_claimed(app: Windlass, url: str) -> None:
    @app.job
    async def known() -> None: ...

    async with opened(url) as other:

        @other.job
        async def unknown() -> None: ...

        strange = await other.aenqueue_many(unknown.request() for _ in range(50))
        run = await known.aenqueue()
        async with working(app) as worker:
            await app.aresult(run.id, timeout=10)
            await worker.drained()
        for found in await other.alist(job="unknown"):
            assert (found.status, found.attempt) == ("queued", 0)
        assert len(strange) == 50


async def test_known_job_behind_many_unknown_ones_is_found(app: Windlass, url: str) -> None:
    @app.job
    async def known() -> str:
        return "found"

    async with opened(url) as other:

        @other.job
        async def unknown() -> None: ...

        await other.aenqueue_many(unknown.request() for _ in range(3000))
        run = await known.aenqueue()
        async with working(app):
            assert await app.aresult(run.id, timeout=10) == "found"


async def test_unserved_queue_is_never_claimed(app: Windlass) -> None:
    @app.job
    async def work() -> None: ...

    served = await work.using(queue="a").aenqueue()
    other = await work.using(queue="b").aenqueue()
    async with working(app, queues=["a", "c"]) as worker:
        await app.aresult(served.id, timeout=10)
        await worker.drained()
    assert ((await other.arefresh()).status, other.attempt) == ("queued", 0)


async def test_queues_take_turns(app: Windlass) -> None:
    order: list[str] = []

    @app.job
    async def work(queue: str) -> None:
        order.append(queue)

    for queue in ("a", "b"):
        job = work.using(queue=queue)
        await app.aenqueue_many(job.request(queue) for _ in range(50))
    async with working(app, queues=["a", "b"], concurrency=1) as worker:
        await worker.drained()
    assert Counter(order) == {"a": 50, "b": 50}
    # Each has its share long before the other is empty.
    assert min(Counter(order[:20])[queue] for queue in ("a", "b")) >= 5


async def test_urgent_runs_first_then_oldest(app: Windlass) -> None:
    order: list[int] = []

    @app.job
    async def work(n: int) -> None:
        order.append(n)

    for n, priority in enumerate([0, -5, 9, 0, 9, 32_767, -32_768]):
        await work.using(priority=priority).aenqueue(n)
    async with working(app, concurrency=1) as worker:
        await worker.drained()
    assert order == [5, 2, 4, 0, 3, 1, 6]


async def test_urgent_run_overtakes_a_backlog(app: Windlass) -> None:
    done: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(what: str) -> None:
        done.append(what)
        begun.set()
        await go.wait()  # the backlog does not shrink before there is something urgent
        await asyncio.sleep(0.001)

    await app.aenqueue_many(work.request("bulk") for _ in range(2000))
    async with working(app, concurrency=4):
        await within(begun)
        urgent = await work.using(priority=10).aenqueue("urgent")
        go.set()
        await app.aresult(urgent.id, timeout=PATIENCE)
    assert done.index("urgent") < 1900  # the backlog was still there


async def test_delayed_run_starts_when_it_is_due_and_not_before(app: Windlass) -> None:
    started: list[float] = []

    @app.job
    async def work() -> None:
        started.append(time.monotonic())

    async with working(app, lease="10m", poll=60.0, sweep=60.0):
        before = time.monotonic()
        run = await work.using(delay="300ms").aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)
    assert 0.3 <= started[0] - before < 20.0  # not when somebody happens to look


async def test_drained_waits_for_retries_and_not_for_the_future(app: Windlass) -> None:
    @app.job(max_attempts=2, retry=Retry.fixed("50ms"))
    async def flaky(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("again, soon")

    @app.job
    async def later() -> None: ...

    retried = await flaky.aenqueue()
    future = await later.using(delay="1h").aenqueue()
    async with working(app) as worker, asyncio.timeout(PATIENCE):
        await worker.drained()
        assert (await retried.arefresh()).status == "succeeded"
    assert ((await future.arefresh()).status, future.attempt) == ("scheduled", 0)


async def test_drained_knows_only_what_the_worker_serves(app: Windlass) -> None:
    @app.job
    async def work() -> None: ...

    await work.using(queue="elsewhere").aenqueue()
    async with working(app, queues=["here"]) as worker, asyncio.timeout(PATIENCE):
        await worker.drained()


async def test_worker_runs_without_services(app: Windlass) -> None:
    @app.job
    async def work() -> str:
        return "done"

    delayed = await work.using(delay="1ms").aenqueue()
    async with working(app, services=False):
        run = await work.aenqueue()
        assert await app.aresult(run.id, timeout=10) == "done"
        assert (await delayed.arefresh()).status == "scheduled"  # nobody dispatches


async def test_worker_is_known_while_it_works(app: Windlass) -> None:
    @app.job
    async def work() -> None: ...

    call = app.store.operations.list_workers()
    async with working(app, concurrency=3, queues=["a"]) as worker:
        run = await work.using(queue="a").aenqueue()
        await app.aresult(run.id, timeout=10)
        [info] = await app.store.arun(call)
        assert (info.id, info.queues, info.jobs, info.seats) == (worker.id, ("a",), ("work",), 3)
        assert info.alive_until is not None
        assert (await run.arefresh()).worker == worker.id
    assert not await app.store.arun(call)


async def test_canceling_the_workers_task_stops_it(app: Windlass) -> None:
    started = asyncio.Event()

    @app.job
    async def stuck() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await stuck.aenqueue()
    worker = app.worker(drain=0)
    task = asyncio.create_task(worker.run())
    await within(started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped(worker, task)
    assert (await run.arefresh()).status == "queued"
