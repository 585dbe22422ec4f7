"""The virtual clock reaches everything that time moves, on both stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from windlass import Context, Retry, RetryAfter, Snooze, SyncContext, UsageError, Windlass
from windlass.testing import VirtualClock, adrain, clock_of, drain, isolated

NOON = datetime(2030, 3, 1, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def test_clock_stands_still_until_it_is_moved(clock: VirtualClock) -> None:
    assert clock.now() == clock.now() == NOON
    clock.advance("90s")
    clock.advance(timedelta(minutes=1))
    clock.advance(0.5)
    assert clock.now() == NOON + timedelta(seconds=150.5)
    clock.travel("2030-03-02T13:00+01:00")
    assert clock.now() == NOON + timedelta(days=1)


def test_clock_does_not_go_back(clock: VirtualClock) -> None:
    with pytest.raises(UsageError, match="cannot go back"):
        clock.travel(NOON - timedelta(seconds=1))


def test_lengths_of_time_are_real_and_virtual_together(clock: VirtualClock) -> None:
    before = clock.monotonic()
    clock.advance("1h")
    assert 3600 <= clock.monotonic() - before < 3660


def test_run_delayed_by_thirty_days_runs_when_they_have_passed(
    app: Windlass, clock: VirtualClock
) -> None:
    @app.job
    def remind(user: int) -> str:
        return f"reminded {user}"

    run = remind.using(delay="30d").enqueue(7)
    assert drain(app).attempts == 0
    clock.advance("30d")
    report = drain(app)
    assert [r.id for r in report.succeeded] == [run.id]
    run.refresh()
    assert run.result == "reminded 7"
    assert run.created_at == NOON
    assert run.started_at == run.finished_at == NOON + timedelta(days=30)


def test_backoff_follows_the_clock(app: Windlass, clock: VirtualClock) -> None:
    tries: list[datetime] = []

    @app.job(max_attempts=3, retry=Retry.fixed("1h", jitter=0))
    def flaky() -> None:
        tries.append(clock.now())
        raise ConnectionError("away")

    run = flaky.enqueue()
    report = drain(app)
    assert (len(tries), [r.id for r in report.scheduled]) == (1, [run.id])
    clock.advance("59m")
    assert drain(app).attempts == 0
    clock.advance("1m")
    assert drain(app).attempts == 1
    assert drain(app, with_scheduled=True).failed[0].failure == "exhausted"
    assert [t - NOON for t in tries] == [timedelta(hours=n) for n in range(3)]


def test_retry_after_and_snooze_follow_the_clock(app: Windlass, clock: VirtualClock) -> None:
    @app.job
    def polite(ctx: SyncContext) -> object:
        match ctx.attempt:
            case 1:
                raise RetryAfter("1d")
            case 2:
                return Snooze("2d")
            case _:
                return "done"

    run = polite.enqueue()
    drain(app, with_scheduled=True)
    assert run.refresh().result == "done"
    assert clock.now() == NOON + timedelta(days=3)


def test_expiry_follows_the_clock(app: Windlass, clock: VirtualClock) -> None:
    @app.job
    def urgent() -> None: ...

    run = urgent.using(expires="1h").enqueue()
    clock.advance("61m")
    report = drain(app)
    assert (report.attempts, report.expired) == (0, 1)
    assert run.refresh().failure == "expired"


def test_a_deadline_follows_the_clock(app: Windlass, clock: VirtualClock) -> None:
    @app.job(retry=Retry.fixed("40m"))
    def fails() -> None:
        raise ValueError

    @app.job
    def slow(ctx: SyncContext) -> None:
        assert ctx.deadline == clock.now() + timedelta(hours=1)
        clock.advance("61m")

    @app.job
    def waits() -> None: ...

    runs = [job.using(deadline="1h").enqueue() for job in (fails, slow)]
    runs.append(waits.using(delay="2h", deadline="1h").enqueue())
    report = drain(app, with_scheduled=True)
    assert [run.refresh().failure for run in runs] == ["deadline"] * 3
    assert [run.attempt for run in runs] == [1, 1, 0]
    assert runs[1].error is not None
    assert runs[1].error.message == f"not done by its deadline, {runs[1].deadline_at}"
    assert (report.attempts, report.overrun) == (2, 2)
    assert "2 past their deadline" in str(report)
    with pytest.raises(AssertionError, match="2 past their deadline"):
        report.check()


def test_key_is_free_again_after_its_time(app: Windlass, clock: VirtualClock) -> None:
    @app.job
    def once() -> None: ...

    using = once.using(key="k", key_ttl="1d")
    first = using.enqueue()
    clock.advance("23h")
    assert using.enqueue().id == first.id
    clock.advance("1h")
    assert using.enqueue().id != first.id


def test_rescheduled_run_follows_the_clock(app: Windlass, clock: VirtualClock) -> None:
    @app.job(max_attempts=1)
    def remind(fail: bool) -> str:
        if fail and clock.now() < NOON + timedelta(days=7):
            raise ConnectionError("away")
        return "reminded"

    early, late, bad = (remind.enqueue(fail=False) for _ in range(3))
    early.cancel()
    bad = remind.enqueue(fail=True)
    late.reschedule(delay="30d")
    drain(app)
    assert bad.refresh().status == "failed"
    early.reschedule(at=NOON + timedelta(days=1))
    bad.reschedule(delay="7d")
    assert drain(app).attempts == 0
    report = drain(app, with_scheduled=True).check()
    assert [run.id for run in report.runs] == [early.id, bad.id, late.id]
    assert [run.started_at for run in report.runs] == [NOON + timedelta(days=n) for n in (1, 7, 30)]
    assert clock.now() == NOON + timedelta(days=30)


async def test_rescheduled_to_the_past_is_ready_on_the_clock(
    app: Windlass, clock: VirtualClock
) -> None:
    @app.job
    async def remind() -> None: ...

    run = await remind.using(delay="30d").aenqueue()
    clock.advance("1d")
    await run.areschedule(at=NOON)
    assert (run.status, run.scheduled_for) == ("queued", NOON + timedelta(days=1))
    assert [r.id for r in (await adrain(app)).succeeded] == [run.id]


def test_cron_follows_the_clock_across_a_change_of_clocks(
    app: Windlass, clock: VirtualClock
) -> None:
    slots: list[datetime] = []

    @app.job
    async def nightly(ctx: Context) -> None:
        assert ctx.slot == clock.now()
        slots.append(ctx.slot)

    app.schedule(nightly, cron="30 2 * * *", timezone="Europe/Berlin")
    clock.travel("2030-03-29T12:00Z")
    drain(app, until="4d")
    local = [slot.astimezone(BERLIN) for slot in slots[-4:]]
    # On the 31st the clocks went from 2:00 to 3:00: the skipped time fires once, after the gap.
    assert [(t.day, t.hour, t.minute) for t in local] == [
        (30, 2, 30), (31, 3, 0), (1, 2, 30), (2, 2, 30),
    ]  # fmt: skip
    assert [t.utcoffset() for t in local] == [timedelta(hours=h) for h in (1, 2, 2, 2)]
    assert clock.now() == datetime(2030, 4, 2, 12, tzinfo=UTC)


def test_slots_that_the_clock_passes_are_missed_ones(app: Windlass, clock: VirtualClock) -> None:
    @app.job
    def hourly() -> None: ...

    app.schedule(hourly, cron="0 * * * *", catch_up="latest")
    clock.advance("1d")  # stored before the clock moves, or nothing would be due
    assert drain(app).attempts == 1


def test_lease_of_a_silent_worker_runs_out(app: Windlass, clock: VirtualClock) -> None:
    from windlass.testing import make_run

    @app.job
    def work() -> str:
        return "done"

    run = make_run(app, work, status="running")
    assert drain(app).attempts == 0
    clock.advance("31s")
    assert drain(app).attempts == 1
    run.refresh()
    assert (run.result, run.crash_count, run.attempt) == ("done", 1, 2)


def test_handler_that_lets_time_pass_has_taken_it(app: Windlass, clock: VirtualClock) -> None:
    @app.job(timeout="30s", max_attempts=1)
    def slow() -> None:
        clock.advance("31s")

    @app.job(timeout="30s", max_attempts=1)
    async def slow_too() -> None:
        clock.advance("31s")

    slow.enqueue()
    slow_too.enqueue()
    assert [run.failure for run in drain(app).failed] == ["timeout", "timeout"]


def test_wait_with_a_limit_ends_on_a_clock_that_stands_still(app: Windlass) -> None:
    @app.job
    def never() -> None: ...

    with pytest.raises(TimeoutError):
        never.enqueue().wait(timeout="1ms")


async def test_clock_reaches_the_async_face(app: Windlass, clock: VirtualClock) -> None:
    @app.job
    async def remind() -> None: ...

    run = await remind.using(delay="30d").aenqueue()
    clock.advance("30d")
    report = await adrain(app)
    assert [r.id for r in report.succeeded] == [run.id]
    assert (await run.arefresh()).finished_at == NOON + timedelta(days=30)


def test_clock_starts_at_the_same_time_always_or_now() -> None:
    with isolated() as app:
        assert clock_of(app).now() == datetime(2030, 1, 1, tzinfo=UTC)
    before = datetime.now(UTC)  # noqa: TID251
    with isolated(start="now") as app:
        assert abs(clock_of(app).now() - before) < timedelta(seconds=60)


def test_application_on_the_real_clock_is_refused() -> None:
    app = Windlass("sqlite:///never-made.db")
    with pytest.raises(UsageError, match="isolated"):
        drain(app)
