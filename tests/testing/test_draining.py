"""Draining: complete, in order, bounded, and told in a report."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from windlass import (
    Cancel,
    Context,
    FailedRun,
    Fatal,
    Retry,
    Snooze,
    SyncContext,
    UsageError,
    Windlass,
)
from windlass.testing import (
    EndlessDrain,
    VirtualClock,
    adrain,
    clock_of,
    drain,
    isolated,
    run_job,
)

NOON = datetime(2030, 3, 1, 12, tzinfo=UTC)


def test_drain_runs_what_runs_enqueue_in_turn(app: Windlass) -> None:
    done: list[int] = []

    @app.job
    def sync_step(n: int) -> None:
        done.append(n)
        if n < 6:
            async_step.enqueue(n + 1)

    @app.job
    async def async_step(ctx: Context, n: int) -> None:
        done.append(n)
        await sync_step.aenqueue(n + 1)

    sync_step.enqueue(1)
    report = drain(app)
    assert done == [1, 2, 3, 4, 5, 6, 7]
    assert (report.attempts, len(report.succeeded)) == (7, 7)
    assert (report.left.ready, report.left.running) == (0, 0)
    assert drain(app).attempts == 0


def test_drain_runs_the_handlers_of_failures(app: Windlass) -> None:
    told: list[FailedRun] = []

    @app.job(max_attempts=2, retry=Retry.fixed("1h", jitter=0))
    def charge(order: int) -> None:
        raise ValueError(order)

    @charge.on_failure
    def refund(failed: FailedRun) -> None:
        told.append(failed)

    run = charge.enqueue(7)
    assert drain(app).attempts == 1
    assert told == []
    report = drain(app, with_scheduled=True)
    assert [found.job for found in report.runs] == ["charge", "charge.on_failure"]
    assert [(failed.id, failed.input, failed.attempts) for failed in told] == [
        (run.id, {"order": 7}, 2)
    ]

    run_job(refund, told[0])
    assert told[1] == told[0]


def test_a_try_by_hand_that_fails_for_good_calls_no_failure_handler(app: Windlass) -> None:
    @app.job
    def charge() -> None:
        raise Fatal("no use")

    @charge.on_failure
    def refund(failed: FailedRun) -> None: ...

    with pytest.raises(Fatal, match="no use"):
        run_job(charge)
    assert drain(app).attempts == 0
    assert [run.reason for run in app.list(job=refund.name)] == ["tried by hand"]


def test_drain_reports_each_run_as_it_ended(app: Windlass) -> None:
    @app.job(retry=Retry.fixed("1h", jitter=0))
    def job(how: str) -> object:
        match how:
            case "fatal":
                raise Fatal("no use")
            case "retry":
                raise ValueError("later")
            case "cancel":
                return Cancel("not wanted")
            case "snooze":
                return Snooze("1h")
            case _:
                return how

    for how in ("succeed", "fatal", "retry", "cancel", "snooze"):
        job.enqueue(how)
    report = drain(app)
    assert [run.input["how"] for run in report.runs] == [
        "succeed", "fatal", "retry", "cancel", "snooze",
    ]  # fmt: skip
    assert [run.input["how"] for run in report.scheduled] == ["retry", "snooze"]
    assert [len(x) for x in (report.succeeded, report.failed, report.canceled)] == [1, 1, 1]
    assert str(report) == ("5 attempts of 5 runs: 1 succeeded, 1 failed, 1 canceled, 2 scheduled")
    with pytest.raises(AssertionError, match="Fatal: no use"):
        report.check()


def test_report_of_nothing_but_success_is_in_order(app: Windlass) -> None:
    @app.job
    def fine() -> None: ...

    fine.enqueue()
    report = drain(app).check()
    assert len(report.succeeded) == 1
    assert str(report) == "1 attempt of 1 run: 1 succeeded"


def test_drain_takes_urgent_runs_first_and_old_ones_before_new(app: Windlass) -> None:
    done: list[str] = []

    @app.job
    def job(name: str) -> None:
        done.append(name)

    for name, priority in (("a", 0), ("b", 0), ("c", 5), ("d", -1)):
        job.using(priority=priority).enqueue(name)
    drain(app)
    assert done == ["c", "a", "b", "d"]


def test_drain_is_the_same_each_time() -> None:
    def once() -> list[str]:
        with isolated(start=NOON) as app:

            @app.job(max_attempts=4)
            def flaky(ctx: SyncContext, name: str) -> None:
                if ctx.attempt < 3:
                    raise ValueError(name)

            for name in "abcd":
                flaky.using(queue=f"q{name}").enqueue(name)
            report = drain(app, with_scheduled=True)
            return [f"{run.id} {run.finished_at} {run.attempts}" for run in report.runs]

    first, second = once(), once()
    assert len(first) == 4
    # Ids and jitter repeat; the worker's name has this process' number and a part of an id.
    assert first == second


def test_endless_work_is_an_error_that_names_it(app: Windlass) -> None:
    done: list[int] = []

    @app.job
    def again() -> None:
        done.append(1)
        again.enqueue()

    again.enqueue()
    with pytest.raises(EndlessDrain, match=r"After 20 attempts .*: again"):
        drain(app, limit=20)
    assert len(done) == 20
    assert app.list(status="running") == []  # what was taken last was given back


def test_clock_that_jumps_for_ever_is_an_error_too(app: Windlass) -> None:
    @app.job
    def polls() -> Snooze:
        return Snooze("1h")

    polls.enqueue()
    with pytest.raises(EndlessDrain, match="until="):
        drain(app, with_scheduled=True, limit=10)


def test_schedules_fire_while_anything_is_scheduled(app: Windlass, clock: VirtualClock) -> None:
    @app.job
    def tick() -> None: ...

    app.schedule(tick, interval="1h")
    assert drain(app, with_scheduled=True).attempts == 0
    tick.using(delay="150m").enqueue()
    assert len(drain(app, with_scheduled=True).succeeded) == 3
    assert clock.now() == NOON + timedelta(minutes=150)
    assert len(drain(app, until="5h").succeeded) == 5
    assert clock.now() == NOON + timedelta(minutes=450)


def test_drain_until_a_time_leaves_what_is_later(app: Windlass, clock: VirtualClock) -> None:
    @app.job
    def job() -> None: ...

    for days in (1, 2, 3):
        job.using(delay=timedelta(days=days)).enqueue()
    report = drain(app, until=NOON + timedelta(days=2))
    assert (len(report.succeeded), report.left.scheduled) == (2, 1)
    assert clock.now() == NOON + timedelta(days=2)
    drain(app, until="1d")
    assert clock.now() == NOON + timedelta(days=3)
    assert app.list(status="scheduled") == []


def test_slots_that_wait_get_their_run_when_the_earlier_one_ends(
    app: Windlass, clock: VirtualClock
) -> None:
    @app.job(max_attempts=2, retry=Retry.fixed("150m", jitter=0))
    def slow(ctx: SyncContext) -> None:
        if ctx.slot == NOON + timedelta(hours=1) and ctx.attempt == 1:
            raise ValueError("takes two and a half hours")

    app.schedule(slow, cron="0 * * * *", overlap="queue")
    report = drain(app, until="4h")
    assert len(report.succeeded) == 4
    assert report.left.ready == 0


def test_runs_of_jobs_that_are_not_here_are_left(app: Windlass) -> None:
    @app.job
    def known() -> None: ...

    with isolated() as other:

        @other.job
        def unknown() -> None: ...

        request = unknown.request()
    app.enqueue_many([request, known.request()])
    report = drain(app)
    assert (report.attempts, report.left.ready) == (1, 1)


def test_drain_gets_past_many_that_it_cannot_run(app: Windlass, clock: VirtualClock) -> None:
    """More of them are due than a sweep moves at once."""

    @app.job
    def known() -> None: ...

    with isolated() as other:

        @other.job
        def unknown() -> None: ...

        requests = [unknown.using(delay=n / 10).request() for n in range(1, 1201)]
    app.enqueue_many(requests)
    known.using(delay="1h").enqueue()
    clock.advance("2h")
    assert len(drain(app).succeeded) == 1


def test_sync_handlers_run_in_the_thread_of_the_test(app: Windlass) -> None:
    """What is bound to a thread, such as a transaction of the test, is theirs too."""
    seen: list[object] = []

    @app.job
    def handler(ctx: SyncContext) -> None:
        seen.append(threading.current_thread())
        ctx.progress(0.5, "half")
        asyncio.run(asyncio.sleep(0))  # no loop is in the way

    run = handler.enqueue()
    drain(app).check()
    assert seen == [threading.current_thread()]
    assert run.refresh().progress == 0.5


def test_resources_are_opened_for_the_drain(app: Windlass) -> None:
    log: list[str] = []

    @app.resource
    async def db() -> AsyncIterator[str]:
        log.append("open")
        yield "the database"
        log.append("close")

    @app.job
    def one(ctx: SyncContext) -> str:
        return str(ctx.resources.db)

    @app.job
    async def two(ctx: Context) -> str:
        return str(ctx.resources.db)

    one.enqueue()
    two.enqueue()
    assert {run.result for run in drain(app).check().runs} == {"the database"}
    assert log == ["open", "close"]


def test_resources_are_opened_for_middleware(app: Windlass) -> None:
    seen: list[str] = []

    @app.resource
    async def db() -> AsyncIterator[str]:
        yield "the database"

    @app.middleware
    def look(ctx: SyncContext) -> Iterator[None]:
        seen.append(ctx.resources.db)
        yield

    @app.job(max_attempts=1)
    def asks_for_nothing() -> None: ...

    asks_for_nothing.enqueue()
    drain(app).check()
    assert seen == ["the database"]


def test_resource_that_cannot_be_opened_fails_who_asks(app: Windlass) -> None:
    @app.resource
    def broken() -> None:
        raise OSError("no such host")

    @app.job(max_attempts=1)
    def asks(ctx: SyncContext) -> str:
        return str(ctx.resources.broken)

    asks.enqueue()
    [run] = drain(app).failed
    assert run.error is not None
    assert run.error.message == "no such host"


def test_handler_that_hangs_is_timed_out(app: Windlass) -> None:
    @app.job(timeout="20ms", max_attempts=1)
    async def hangs() -> None:
        await asyncio.Event().wait()

    hangs.enqueue()
    assert [run.failure for run in drain(app).failed] == ["timeout"]


async def test_drain_inside_a_loop_says_what_to_use(app: Windlass) -> None:
    with pytest.raises(UsageError, match="adrain"):
        drain(app)


async def test_adrain_runs_async_handlers_on_the_loop_of_the_test(app: Windlass) -> None:
    loops: list[object] = []

    @app.job
    async def handler() -> None:
        loops.append(asyncio.get_running_loop())

    @app.job
    def other() -> None: ...

    await handler.aenqueue()
    await other.aenqueue()
    assert len((await adrain(app)).check().succeeded) == 2
    assert loops == [asyncio.get_running_loop()]


async def test_drain_that_is_given_up_gives_its_run_back(app: Windlass) -> None:
    started = asyncio.Event()

    @app.job
    async def hangs() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await hangs.aenqueue()
    draining = asyncio.create_task(adrain(app))
    await started.wait()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    await run.arefresh()
    assert (run.status, run.failures, run.attempts[0].outcome) == ("queued", 0, "interrupted")


def test_thread_keeps_its_event_loop(app: Windlass) -> None:
    @app.job
    async def handler() -> None: ...

    kept: list[bool] = []

    def test() -> None:  # in a thread of its own: pytest's main thread has a loop already
        mine = asyncio.new_event_loop()
        asyncio.set_event_loop(mine)
        handler.enqueue()
        drain(app).check()
        kept.append(asyncio.get_event_loop_policy().get_event_loop() is mine)
        mine.close()

    thread = threading.Thread(target=test)
    thread.start()
    thread.join()
    assert kept == [True]


def test_isolated_application_comes_back_to_its_store() -> None:
    app = Windlass("sqlite:///never-made.db", max_attempts=2)
    before = (app.settings, app.sources, app.transport, app.store)

    @app.job
    def job() -> None: ...

    with isolated(app, drain="1s") as same:
        assert same is app
        assert app.settings.drain == 1.0
        job.enqueue()
        app.enqueue("job")
        assert len(drain(app).check().runs) == 2
        assert clock_of(app) is app.sources.clock
    assert (app.settings, app.sources, app.transport, app.store) == before


def test_middleware_finds_resources_around_a_handler_without_context(app: Windlass) -> None:
    seen = []

    @app.resource
    def seven() -> int:
        return 7

    @app.middleware
    def look(ctx: SyncContext) -> Iterator[None]:
        seen.append(ctx.resources.seven)
        yield

    @app.job
    def job() -> None: ...

    job.enqueue()
    drain(app).check()
    run_job(job)
    assert seen == [7, 7]
