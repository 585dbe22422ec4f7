"""`app.schedule` and `app.schedules`: what an application says, and what the store keeps of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import apsw
import msgspec
import psycopg
import pytest

from tests.fixtures.apps import opened
from tests.fixtures.planning import START, Planner, planner, scheduler_of, settle
from windlass import (
    BadArguments,
    BadOption,
    Context,
    ScheduleBusy,
    ScheduleNotFound,
    UnknownJob,
    Windlass,
)
from windlass.domain.scheduling.rows import (
    Decision,
    FireReply,
    NewSchedule,
    ReleaseReply,
    ScheduleOptions,
)
from windlass.errors import StoreError, StoreRefused
from windlass.sources import Sources
from windlass.store.interface import Call

__all__ = ["planner"]

MINUTE = timedelta(minutes=1)


def define(app: Windlass) -> None:
    @app.job(queue="reports", priority=3)
    async def report(ctx: Context, user: int = 0) -> str:
        return f"{user} at {ctx.slot}"


@pytest.fixture
def app(planner: Planner) -> Windlass:
    define(planner.app)
    return planner.app


# -- making and changing ---------------------------------------------------------------------------


async def test_put_makes_a_schedule_and_no_run(planner: Planner, app: Windlass) -> None:
    made = await app.schedules.aput(
        app.jobs["report"].using(queue="slow", tags=["t"], max_attempts=2, timeout="5s"),
        key="digest:7", input={"user": 7}, cron="0 3 * * *", timezone="Europe/Berlin",
        overlap="skip", catch_up="all(max=3)",
    )  # fmt: skip

    assert (made.key, made.job, made.input, made.enabled) == (
        "digest:7", "report", {"user": 7}, True,
    )  # fmt: skip
    assert made.next_slot == datetime(2030, 1, 1, 2, tzinfo=UTC)
    assert made.options == ScheduleOptions(queue="slow", tags=("t",), max_attempts=2, timeout=5.0)
    assert (made.overlap, str(made.timetable.catch_up)) == ("skip", "all(max=3)")
    assert made.when == "At 03:00 every day, in Europe/Berlin"
    assert await planner.runs("report") == []
    assert (await app.schedules.aget(made.id)).row == (await app.schedules.aget("digest:7")).row
    assert [s.id for s in app.schedules.list()] == [made.id]


@pytest.mark.parametrize("overlap", ["allow", "queue"])
async def test_runs_have_the_schedules_metadata_and_trace(
    planner: Planner, app: Windlass, overlap: str
) -> None:
    report = app.jobs["report"].using(metadata={"team": "ä", "n": [1.5]}, trace="00-7")
    made = await app.schedules.aput(report, key="k", interval="1m", overlap=overlap)
    same = await app.schedules.aput(report, key="k", interval="1m", overlap=overlap)
    triggered = await app.schedules.atrigger("k")
    assert triggered is not None
    await planner.later(minutes=1)  # one that queues waits for the first to end
    await triggered.acancel()
    await planner.settle()

    assert (made.options.trace, made.options.metadata) == ("00-7", {"team": "ä", "n": [1.5]})
    assert same.version == 1
    found = await planner.runs("report")
    assert [(run.trace, run.metadata) for run in found] == [("00-7", {"team": "ä", "n": [1.5]})] * 2


async def test_a_change_of_metadata_changes_the_schedule(app: Windlass) -> None:
    job = app.jobs["report"]
    await app.schedules.aput(job.using(metadata={"team": "a"}), key="k", interval="1m")
    changed = await app.schedules.aput(job.using(metadata={"team": "b"}), key="k", interval="1m")

    assert (changed.version, changed.options.metadata) == (2, {"team": "b"})
    kept = await app.schedules.achange("k", interval="2m")
    assert kept.options.metadata == {"team": "b"}, "what is not named stays"


async def test_put_by_key_again_changes_it(app: Windlass) -> None:
    first = app.schedules.put("report", key="k", interval="10m")
    same = app.schedules.put("report", key="k", interval="10m")
    other = app.schedules.put("report", key="k", interval="20m", input={"user": 1})

    assert (same.id, same.version) == (first.id, 1)
    assert (other.id, other.version) == (first.id, 2)
    assert other.input == {"user": 1}
    assert len(app.schedules.list()) == 1


async def test_interval_keeps_the_instant_it_counts_from(planner: Planner, app: Windlass) -> None:
    """Or every start of a program would begin it anew, and a daily one might never come."""
    await app.schedules.aput("report", key="k", interval="10m")
    await planner.later(minutes=7)
    again = await app.schedules.aput("report", key="k", interval="10m")
    assert (again.version, again.next_slot) == (1, START + 10 * MINUTE)
    moved = await app.schedules.aput("report", key="k", interval="10m", anchor=START + MINUTE)
    assert moved.next_slot == START + 11 * MINUTE


async def test_many_schedules_of_one_job(planner: Planner, app: Windlass) -> None:
    for user in (1, 2, 3):
        await app.schedules.aput("report", key=f"u{user}", interval="1m", input={"user": user})
    await planner.later(minutes=1)
    assert sorted(run.input["user"] for run in await planner.runs("report")) == [1, 2, 3]


async def test_change_keeps_what_is_not_named(app: Windlass) -> None:
    made = app.schedules.put(
        "report", key="k", cron="0 3 * * *", timezone="Asia/Tokyo", overlap="queue", max_runs=9
    )
    changed = app.schedules.change("k", cron="0 4 * * *")
    assert changed.when == "At 04:00 every day, in Asia/Tokyo, 9 times in all"
    assert (changed.overlap, changed.id, changed.version) == ("queue", made.id, 2)
    again = app.schedules.change(made.id, overlap="skip", input={"user": 5})
    assert (again.overlap, again.input, again.when) == ("skip", {"user": 5}, changed.when)
    to_interval = app.schedules.change("k", interval="1h")
    assert to_interval.when.startswith("Every 1 h")
    same = app.schedules.change("k", spread="5m")
    assert same.when == to_interval.when


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({}, "give one of once="),
        ({"cron": "61 * * * *"}, "minute '61'"),
        ({"cron": "0 0 31 2 *"}, "never fires"),
        ({"interval": "0s"}, "shorter than a second"),
        ({"interval": "-5s"}, "-5s"),
        ({"once": "2029-12-31T00:00Z"}, "has passed"),
        ({"cron": "@daily", "timezone": "Mars/Base"}, "no zone 'Mars/Base'"),
        ({"cron": "@daily", "overlap": "maybe"}, "'maybe' is none of"),
        ({"cron": "@daily", "catch_up": "some"}, "'some' is none of"),
        ({"cron": "@daily", "colour": "red"}, "there is no such option"),
        ({"cron": "@daily", "max_runs": 0}, "0"),
        ({"cron": "@daily", "key": ""}, "''"),
        ({"cron": "@daily", "end": "2029-01-01T00:00Z"}, "has passed"),
    ],
)
async def test_bad_terms_are_one_sentence_and_nothing_is_written(
    app: Windlass, terms: dict[str, object], told: str
) -> None:
    with pytest.raises(BadOption) as caught:
        await app.schedules.aput("report", **terms)  # type: ignore[arg-type]
    assert told in str(caught.value)
    assert await app.schedules.alist() == []


async def test_wrong_job_or_input_is_refused(app: Windlass) -> None:
    with pytest.raises(UnknownJob):
        app.schedules.put("nobody", interval="1m")
    with pytest.raises(BadArguments):
        app.schedules.put("report", interval="1m", input={"colour": "red"})
    with pytest.raises(BadOption):
        app.schedules.put(app.jobs["report"].using(delay="5s"), interval="1m")
    with pytest.raises(BadOption):
        app.schedules.put(app.jobs["report"].using(key="k"), interval="1m")
    assert app.schedules.list() == []


async def test_job_of_another_process(planner: Planner, url: str, app: Windlass) -> None:
    """By name, from a process that has not the handler: the stored definition is enough."""
    app.store.run(app.store.operations.sync_jobs([app.jobs["report"].spec.row("default")]))
    async with opened(url, sources=app.sources) as other:
        await other.schedules.aput("report", key="k", interval="1m", input={"user": 2})
        with pytest.raises(BadArguments):
            await other.schedules.aput("report", interval="1m", input={"colour": "red"})
    await planner.later(minutes=1)
    [run] = await planner.runs("report")
    assert (run.queue, run.priority, run.input) == ("reports", 3, {"user": 2})


async def test_what_is_not_there_is_not_found(app: Windlass) -> None:
    for name in ("nothing", "00000000-0000-0000-0000-000000000000", "", "\x00"):
        for act in (app.schedules.get, app.schedules.pause, app.schedules.resume,
                    app.schedules.trigger, app.schedules.delete, app.schedules.slots):  # fmt: skip
            with pytest.raises(ScheduleNotFound):
                act(name)


async def test_key_that_looks_like_an_id(app: Windlass) -> None:
    made = app.schedules.put("report", interval="1m")
    other = app.schedules.put("report", interval="2m", key=made.id)
    assert app.schedules.get(made.id).id == other.id  # the application's own name comes first
    assert app.schedules.get(other.id).id == other.id


# -- pausing, triggering, deleting -----------------------------------------------------------------


async def test_paused_schedule_never_fires(planner: Planner, app: Windlass) -> None:
    await app.schedules.aput("report", key="k", interval="1m")
    paused = await app.schedules.apause("k")
    assert (paused.enabled, paused.next_slot) == (False, None)
    await planner.later(minutes=5)
    assert await planner.slots("k") == []

    resumed = await app.schedules.aresume("k")
    assert (resumed.enabled, resumed.next_slot) == (True, START + 6 * MINUTE)
    await planner.later(minutes=1)
    assert await planner.slots("k") == [(START + 6 * MINUTE, "fired")]
    assert (await app.schedules.aget("k")).missed == 0


async def test_change_of_a_paused_one_does_not_wake_it(planner: Planner, app: Windlass) -> None:
    await app.schedules.aput("report", key="k", interval="1m")
    await app.schedules.apause("k")
    await app.schedules.aput("report", key="k", interval="2m")
    await planner.later(minutes=10)
    assert await planner.slots("k") == []


async def test_trigger_makes_a_run_besides_the_slots(planner: Planner, app: Windlass) -> None:
    await app.schedules.aput("report", key="k", interval="1m", input={"user": 4})
    await app.schedules.apause("k")
    run = await app.schedules.atrigger("k")
    assert run is not None
    assert (run.job, run.input, run.slot, run.queue) == ("report", {"user": 4}, START, "default")
    assert run.schedule == (await app.schedules.aget("k")).id
    await app.schedules.aresume("k")
    await planner.later(minutes=1)
    assert await planner.fired("k") == [START, START + MINUTE]


async def test_each_of_many_triggers_in_one_instant_makes_its_run(app: Windlass) -> None:
    """The clock of a test stands still, and a slot has one run."""
    await app.schedules.aput("report", key="k", interval="1m")
    runs = [await app.schedules.atrigger("k") for _ in range(30)]
    assert len({run.id for run in runs if run is not None}) == 30
    assert len({run.slot for run in runs if run is not None}) == 30


async def test_trigger_minds_the_policy_unless_told(app: Windlass) -> None:
    app.schedules.put("report", key="skip", interval="1h", overlap="skip")
    assert app.schedules.trigger("skip") is not None
    app.sources.clock.advance(1)  # type: ignore[attr-defined]
    with pytest.raises(ScheduleBusy):
        app.schedules.trigger("skip")
    app.sources.clock.advance(1)  # type: ignore[attr-defined]
    assert app.schedules.trigger("skip", overlap="allow") is not None

    app.schedules.put("report", key="queue", interval="1h", overlap="queue")
    first = app.schedules.trigger("queue")
    assert first is not None
    app.sources.clock.advance(1)  # type: ignore[attr-defined]
    assert app.schedules.trigger("queue") is None


async def test_waiting_slot_gets_its_run_when_the_earlier_one_ends(
    planner: Planner, app: Windlass
) -> None:
    await app.schedules.aput("report", key="k", interval="1m", overlap="queue")
    await planner.later(minutes=1)
    await planner.later(minutes=1)
    assert [what for _, what in await planner.slots("k")] == ["fired", "waiting"]
    [run] = await planner.runs("report")
    await run.acancel()
    await planner.later(seconds=1)
    assert [what for _, what in await planner.slots("k")] == ["fired", "fired"]


async def test_backfill_makes_what_is_missing_once(planner: Planner, app: Windlass) -> None:
    await app.schedules.aput("report", key="k", interval="1m", catch_up="latest")
    await planner.later(minutes=10)
    assert await planner.fired("k") == [START + 10 * MINUTE]
    made = await app.schedules.abackfill("k", START + 3 * MINUTE, START + 10 * MINUTE)
    assert [run.slot for run in made.runs] == [START + n * MINUTE for n in range(3, 10)]
    again = await app.schedules.abackfill("k", START + 3 * MINUTE)
    assert (list(again.runs), list(again.waiting), list(again.skipped)) == ([], [], [])
    found = await app.schedules.aget("k")
    assert (found.fired, found.next_slot) == (8, START + 11 * MINUTE)
    for start, end in ((START, START + timedelta(days=1)), (START + 2 * MINUTE, START)):
        with pytest.raises(BadOption):
            app.schedules.backfill("k", start, end)


async def test_backfill_without_overlap_runs_one_after_the_other(app: Windlass) -> None:
    app.schedules.put("report", key="k", interval="1m", overlap="skip")
    app.sources.clock.advance(180)  # type: ignore[attr-defined]
    made = app.schedules.backfill("k", START + MINUTE)
    assert [run.slot for run in made.runs] == [START + MINUTE]
    assert list(made.waiting) == [START + 2 * MINUTE, START + 3 * MINUTE]


async def test_delete(planner: Planner, app: Windlass) -> None:
    made = await app.schedules.aput("report", key="k", interval="1m")
    await planner.later(minutes=1)
    await app.schedules.adelete("k")
    await planner.later(minutes=5)
    with pytest.raises(ScheduleNotFound):
        await app.schedules.aget("k")
    [run] = await planner.runs("report")
    assert run.schedule == made.id


async def test_history_of_a_schedule(planner: Planner, app: Windlass) -> None:
    await app.schedules.aput("report", key="k", interval="1m", overlap="skip")
    await planner.later(minutes=1)
    await planner.later(minutes=1)
    await app.schedules.apause("k")
    await app.schedules.aresume("k")
    types = [event.type for event in await app.schedules.aevents("k")]
    assert types == [
        "schedule.created", "schedule.skipped", "schedule.paused", "schedule.resumed",
    ]  # fmt: skip
    assert (await app.schedules.aget("k")).skipped == 1


# -- declared in code ------------------------------------------------------------------------------


async def test_declared_schedules_are_stored_when_synced(app: Windlass) -> None:
    first = app.schedule(app.jobs["report"], cron="0 3 * * *")
    app.schedule("report", key="often", interval="5m", input={"user": 1})
    assert first.key == "report"
    assert app.schedules.list() == []

    report = app.schedules.sync()
    assert (sorted(report.created), report.changed, report.failed) == (["often", "report"], [], {})
    assert {s.key: s.origin.value for s in app.schedules.list()} == {
        "often": "code", "report": "code",
    }  # fmt: skip
    assert sorted(app.schedules.sync().unchanged) == ["often", "report"]


async def test_declaration_is_checked_where_it_stands(app: Windlass) -> None:
    app.schedule("report", cron="@daily")
    with pytest.raises(BadOption, match="two schedules have the key 'report'"):
        app.schedule("report", cron="@hourly")
    with pytest.raises(BadOption, match="minute"):
        app.schedule("report", key="b", cron="61 * * * *")
    with pytest.raises(BadArguments):
        app.schedule("report", key="b", cron="@daily", input={"colour": "red"})
    with pytest.raises(BadOption):
        app.schedule("report", key="file:x", cron="@daily")


async def test_what_has_left_the_code_is_reported_and_goes_on(
    planner: Planner, url: str, app: Windlass
) -> None:
    app.schedule("report", key="old", interval="1m")
    app.schedules.sync()
    async with opened(url, sources=app.sources) as newer:
        define(newer)
        newer.schedule("report", key="new", interval="1m")
        report = newer.schedules.sync()
        assert [row.key for row in report.left] == ["old"]
        await planner.later(minutes=1)
        assert await planner.fired("old") == [START + MINUTE]
        assert [s.key for s in newer.schedules.left()] == ["old"]
        assert [s.key for s in newer.schedules.prune()] == ["old"]
        assert [s.key for s in newer.schedules.list()] == ["new"]


async def test_paused_by_an_operator_stays_paused_over_a_restart(app: Windlass) -> None:
    app.schedule("report", key="k", interval="1m")
    app.schedules.sync()
    app.schedules.pause("k")
    app.schedules.sync()
    assert not app.schedules.get("k").enabled


async def test_once_that_has_passed_is_left_as_it_is(planner: Planner, url: str) -> None:
    app = planner.app
    define(app)
    app.schedule("report", key="launch", once=START + MINUTE)
    app.schedules.sync()
    await planner.later(minutes=2)
    [run] = await planner.runs("report")
    assert run.slot == START + MINUTE

    for _ in range(2):  # restarts
        async with opened(url, sources=app.sources) as later:
            define(later)
            later.schedule("report", key="launch", once=START + MINUTE)
            report = later.schedules.sync()
            assert (report.unchanged, report.created) == (["launch"], [])
    await planner.settle()
    assert len(await planner.runs("report")) == 1
    found = await app.schedules.aget("launch")
    assert (found.next_slot, found.enabled, found.fired) == (None, True, 1)


async def test_once_that_passed_before_anybody_stored_it_is_not_made(
    planner: Planner, app: Windlass
) -> None:
    app.schedule("report", key="launch", once=START + MINUTE)
    await planner.later(minutes=5)
    report = app.schedules.sync()
    assert (report.created, report.failed) == ([], {})
    assert app.schedules.list() == []


async def test_one_bad_declaration_does_not_spare_the_others(app: Windlass) -> None:
    app.schedule("nobody", interval="1m")
    app.schedule("report", interval="1m")
    report = app.schedules.sync()
    assert report.created == ["report"]
    assert isinstance(report.failed["nobody"], UnknownJob)


# -- time ------------------------------------------------------------------------------------------


async def test_thirty_days_in_a_moment(planner: Planner, app: Windlass) -> None:
    await app.schedules.aput(
        "report", key="k", cron="30 2 * * *", timezone="Europe/Berlin", catch_up="all(max=1000)"
    )
    await planner.later(days=365)
    fired = await planner.fired("k")
    assert len(fired) == 365
    [gap] = [slot for slot in fired if slot.date().isoformat() == "2030-03-31"]
    assert gap == datetime(2030, 3, 31, 1, 0, tzinfo=UTC)  # 03:00 there: the clocks skip 02:30


async def test_catch_up_and_max_runs(planner: Planner, app: Windlass) -> None:
    await app.schedules.aput("report", key="all", interval="1m", catch_up="all")
    await app.schedules.aput("report", key="latest", interval="1m")
    await app.schedules.aput("report", key="skip", interval="1m", catch_up="skip")
    await app.schedules.aput("report", key="three", interval="1m", catch_up="all", max_runs=3)
    await planner.later(minutes=5, seconds=59.5)
    await planner.later(minutes=1)

    assert len(await planner.fired("all")) == 6
    assert await planner.fired("latest") == [START + 5 * MINUTE, START + 6 * MINUTE]
    assert (await app.schedules.aget("latest")).missed == 4
    assert await planner.fired("skip") == [START + 5 * MINUTE, START + 6 * MINUTE]
    assert len(await planner.fired("three")) == 3
    assert (await app.schedules.aget("three")).next_slot is None


async def test_next_slot_of_what_was_just_decided_is_not_slept_through(
    planner: Planner, app: Windlass
) -> None:
    """Nor where nothing was fired, so that nobody is woken."""
    await app.schedules.aput("report", key="k", interval="2s", overlap="skip")
    await planner.settle()
    for _ in range(3):
        app.sources.clock.advance(2)  # type: ignore[attr-defined]
        assert 1.9 < await planner.scheduler.work() <= 2.01
    assert [what for _, what in await planner.slots("k")] == ["fired", "skipped", "skipped"]


async def test_two_schedulers_make_one_run(planner: Planner, app: Windlass, url: str) -> None:
    await app.schedules.aput("report", key="k", interval="1m", catch_up="all")
    async with opened(url, sources=app.sources) as second:
        other = scheduler_of(second)
        for _ in range(5):
            app.sources.clock.advance(60)  # type: ignore[attr-defined]
            await settle(planner.scheduler)
            await settle(other)
    assert len(await planner.runs("report")) == 5


async def test_new_zone_data_move_the_slot_to_come(planner: Planner, app: Windlass) -> None:
    """A process that starts with newer zone data puts the next slot where it belongs."""
    await app.schedules.aput("report", key="k", cron="0 12 * * *", timezone="UTC")
    row = (await app.schedules.aget("k")).row
    old = Decision(  # as a zone that was an hour behind would have had it
        tenant=row.tenant, id=row.id, version=row.version, expected_slot=row.next_slot,
        next_slot=START + timedelta(hours=13),
    )  # fmt: skip
    await app.store.arun(app.store.operations.fire_schedules([old]))
    await planner.settle()
    assert (await app.schedules.aget("k")).next_slot == START + timedelta(hours=12)


@pytest.mark.parametrize("resumed", [False, True])
async def test_clock_that_is_behind_moves_no_slot_into_the_past(
    planner: Planner, app: Windlass, resumed: bool
) -> None:
    """A process that starts with such a clock looks at the slots to come like any other."""
    made = await app.schedules.aput("report", key="k", interval="1m", anchor=START - 9 * MINUTE)
    if resumed:
        await planner.later(minutes=1)
        await app.schedules.apause("k")
        await planner.later(minutes=5)
        made = await app.schedules.aresume("k")
    app.sources.clock.jump(timedelta(hours=-1))  # type: ignore[attr-defined]
    await settle(scheduler_of(app))
    assert (await app.schedules.aget("k")).next_slot == made.next_slot


async def test_unreadable_schedule_does_not_hold_up_the_others(
    planner: Planner, app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    await app.schedules.aput("report", key="good", interval="1m")
    row = (await app.schedules.aget("good")).row
    bad = NewSchedule(
        id=app.sources.new_id(), job="report", key="bad", input=msgspec.Raw(b"{}"),
        rule=msgspec.Raw(b'{"rule":{"kind":"cron","cron":"0 3 * * *","timezone":"Old/Zone"}}'),
        next_slot=row.next_slot,
    )  # fmt: skip
    await app.store.arun(app.store.operations.put_schedules([bad]))
    for _ in range(3):
        await planner.later(minutes=1)
    assert len(await planner.fired("good")) == 3
    assert reports(caplog) == ["bad"]  # once, not each time
    assert (await app.schedules.aget("bad")).when.startswith("unreadable")


async def test_scheduler_that_starts_finishes_an_interrupted_delete(
    planner: Planner, app: Windlass
) -> None:
    made = await app.schedules.aput("report", key="k", interval="1m")
    for _ in range(5):
        await planner.later(minutes=1)
    calls = app.store.operations
    await app.store.arun(calls.delete_schedule(made.row.ref, limit=1))
    assert await app.store.arun(calls.forget_slots(1)) is True  # and more is left after this one
    await settle(scheduler_of(app))
    assert await app.store.arun(calls.forget_slots(1)) is False


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The keys of schedules that were told to be unfit."""
    return [r.__dict__["key"] for r in caplog.records if r.msg == "schedule cannot be fired"]


async def test_schedule_whose_run_the_store_refuses_does_not_hold_up_the_others(
    planner: Planner,
    app: Windlass,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = ["one", "bad", "two"]
    made = {key: await app.schedules.aput("report", key=key, interval="1m") for key in keys}
    calls, real = app.store.operations, app.store.operations.fire_schedules
    batches: list[int] = []

    def fire(decisions: Sequence[Decision]) -> Call[FireReply]:
        batches.append(len(decisions))
        if any(decision.id == made["bad"].id and decision.slots for decision in decisions):
            raise StoreRefused("too large for an index")
        return real(decisions)

    monkeypatch.setattr(calls, "fire_schedules", fire)
    await planner.later(minutes=1)
    assert batches == [3, 1, 1, 1]
    await planner.later(seconds=30)
    assert batches == [3, 1, 1, 1]  # it is still due, and nobody asks for it again
    await planner.later(seconds=30)
    for key in ("one", "two"):
        assert len(await planner.fired(key)) == 2
    told = [r for r in caplog.records if r.msg == "schedule cannot be fired"]
    assert [r.__dict__["schedule"] for r in told] == [made["bad"].id]
    monkeypatch.undo()
    await planner.later(minutes=1)
    assert len(await planner.fired("bad")) == 1  # the latest, as it catches up


async def test_schedule_that_is_passed_over_is_that_of_its_tenant_alone(
    planner: Planner, app: Windlass
) -> None:
    """Ids are made by clients: two tenants may have the same one."""
    made = await app.schedules.aput("report", key="k", interval="1m")
    bad = NewSchedule(
        id=made.id, tenant="other", job="report", input=msgspec.Raw(b"{}"),
        rule=msgspec.Raw(b'{"rule":{"kind":"cron","cron":"0 3 * * *","timezone":"Old/Zone"}}'),
        next_slot=made.next_slot,
    )  # fmt: skip
    await app.store.arun(app.store.operations.put_schedules([bad]))
    for n in (1, 2):
        await planner.later(seconds=30)
        await planner.later(seconds=30)
        assert len(await planner.fired("k")) == n


async def test_what_is_due_comes_before_what_is_forgotten(
    planner: Planner,
    app: Windlass,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record of millions of slots takes a while, and housekeeping may fail."""
    await app.schedules.aput("report", key="k", interval="1m")

    def forget_slots(limit: int = 0) -> Call[bool]:
        raise StoreError("not now")

    monkeypatch.setattr(app.store.operations, "forget_slots", forget_slots)
    for n in (1, 2):
        await planner.later(minutes=1)
        assert len(await planner.fired("k")) == n
    assert "deleted schedules not forgotten yet" in caplog.messages
    assert await planner.scheduler.work() > 0


async def test_slot_that_waits_and_cannot_be_fired_ends_nothing(
    planner: Planner,
    app: Windlass,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await app.schedules.aput("report", key="queued", interval="1m", overlap="queue")
    await app.schedules.aput("report", key="k", interval="1m")

    def release_waiting(limit: int) -> Call[ReleaseReply]:
        raise StoreRefused("no such queue")

    monkeypatch.setattr(app.store.operations, "release_waiting", release_waiting)
    for n in (1, 2, 3):
        await planner.later(minutes=1)
        assert len(await planner.fired("k")) == n
    assert caplog.messages.count("slots that wait cannot be fired") in (1, 2)  # one a minute


FLAWS = {
    "tags": """update @schedules set options = '{"tags": 5}' where key = 'bad'""",
    "options": """update @schedules set options = '[]' where key = 'bad'""",
    "expiry": """update @schedules set options = '{"expires": "1h"}' where key = 'bad'""",
    "never": """update @schedules set next_slot = 'infinity' where key = 'bad'""",
    "ever": """update @schedules set next_slot = '-infinity' where key = 'bad'""",
}


@pytest.mark.parametrize("flaw", FLAWS)
async def test_schedule_of_which_a_part_cannot_be_read_does_not_hold_up_the_others(
    planner: Planner, app: Windlass, url: str, caplog: pytest.LogCaptureFixture, flaw: str
) -> None:
    await app.schedules.aput("report", key="good", interval="1m")
    await app.schedules.aput("report", key="bad", interval="1m")
    write(url, FLAWS[flaw])
    for _ in range(3):
        await planner.later(minutes=1)
    assert len(await planner.fired("good")) == 3
    assert await planner.fired("bad") == []
    assert reports(caplog) == ["bad"]
    assert {one.key for one in await app.schedules.alist()} == {"good", "bad"}
    bad = await app.schedules.aget("bad")
    assert bad.when.startswith("unreadable")
    with pytest.raises(BadOption, match="stored schedule"):
        await app.schedules.atrigger("bad")
    mended = await app.schedules.aput("report", key="bad", interval="1m")  # as it was defined
    assert (mended.when.startswith("Every 1 m"), mended.row.flaw) == (True, None)


def write(url: str, statement: str) -> None:
    """Write behind the store's back; `@` stands before the names of tables."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        endless = statement.replace("'-infinity'", str(-(2**62))).replace("'infinity'", str(2**62))
        connection.execute(endless.replace("@", ""))
        connection.close()
        return
    with psycopg.connect(url) as server:
        server.execute(statement.replace("@", "windlass.").encode())


async def test_spread_starts_runs_after_their_slots(planner: Planner, app: Windlass) -> None:
    made = await app.schedules.aput("report", key="k", interval="1h", spread="30m")
    await planner.later(hours=1)
    [run] = await planner.runs("report")
    offset = made.timetable.offset(made.id)
    assert timedelta(0) < offset < timedelta(minutes=30)
    assert (run.status, run.slot, run.due_at) == (
        "scheduled", START + timedelta(hours=1), START + timedelta(hours=1) + offset,
    )  # fmt: skip


async def test_tenants_have_keys_of_their_own(url: str) -> None:
    sources = Sources.manual(start=START)
    async with (
        opened(url, sources=sources, tenant="a") as one,
        opened(url, sources=sources, tenant="b") as two,
    ):
        define(one)
        define(two)
        one.schedules.put("report", key="k", interval="1m")
        with pytest.raises(ScheduleNotFound):
            two.schedules.get("k")
        two.schedules.put("report", key="k", interval="1m")
        planner = Planner(one)
        await planner.later(minutes=1)
        assert len(await one.alist(job="report")) == len(await two.alist(job="report")) == 1
