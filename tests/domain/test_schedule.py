"""Slots of the three kinds of schedule, and what is decided when they are due."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.scheduling.catchup import CatchUp, CatchUpMode
from windlass.domain.scheduling.definition import (
    COUNTED,
    GRACE,
    LISTED,
    ON_TIME,
    Due,
    ScheduleDefinition,
    ScheduleState,
    check_new,
    define_schedule,
    due,
    parse_overlap,
    realigned,
)
from windlass.domain.scheduling.rows import Overlap
from windlass.domain.scheduling.rules import CronRule, Every, Once, Rule, SlotCount, parse_moment
from windlass.domain.zone import parse_zone
from windlass.errors import BadOption

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def hourly(**bounds: Any) -> ScheduleDefinition:
    return ScheduleDefinition(rule=Every.of("1h", NOW), **bounds)


def state(schedule: ScheduleDefinition, after: datetime, fired: int = 0) -> ScheduleState:
    """As the store has it, once all slots up to then are decided."""
    return ScheduleState(schedule=schedule, next_slot=schedule.next_slot(after), fired=fired)


# Slots


def test_interval_has_its_slots_at_anchor_plus_k_intervals() -> None:
    schedule = ScheduleDefinition(rule=Every.of("7m", NOW))
    assert schedule.slots_between(NOW - DAY, NOW + 20 * MINUTE) == [
        NOW,
        NOW + 7 * MINUTE,
        NOW + 14 * MINUTE,
    ]
    assert schedule.next_slot(NOW) == NOW + 7 * MINUTE
    assert schedule.latest_slot(NOW) == NOW
    assert schedule.latest_slot(NOW - MICROSECOND) is None


@given(
    st.integers(1_000_000, 10**12),
    st.integers(0, 10**9),
    st.integers(-(10**6), 10**6),
)
def test_interval_does_not_drift(interval: int, steps: int, off: int) -> None:
    rule = Every(interval * MICROSECOND, at("2000-01-01"))
    try:
        slot = rule.anchor + steps * rule.interval
    except OverflowError:
        return
    if slot > at("9990-01-01"):
        return
    assert rule.until(slot) == slot
    assert rule.after(slot - MICROSECOND) == slot
    assert rule.after(slot) == slot + rule.interval
    asked = slot + off * MICROSECOND
    if asked >= rule.anchor:
        following, last = rule.after(asked), rule.until(asked)
        assert following is not None
        assert last is not None
        assert last <= asked < following == last + rule.interval


def test_interval_of_a_fraction_is_exact_after_a_million_slots() -> None:
    rule = Every.of(1.1, NOW)
    assert rule.after(NOW + timedelta(microseconds=1_100_000 * 10**6) - MICROSECOND) == (
        NOW + timedelta(seconds=1_100_000)
    )


def test_once_fires_once_and_has_no_next() -> None:
    schedule = ScheduleDefinition(rule=Once(NOW))
    assert schedule.next_slot(NOW - SECOND) == NOW
    assert schedule.next_slot(NOW) is None
    decided = due(state(schedule, NOW - DAY), NOW)
    assert decided == Due(slots_to_fire=(NOW,), exhausted=True)


def test_cron_has_its_slots_in_its_zone() -> None:
    schedule = ScheduleDefinition(rule=CronRule("0 9 * * *", "Europe/Berlin"))
    assert schedule.slots_between(at("2025-03-28"), at("2025-03-31")) == [
        at("2025-03-28T08:00"),
        at("2025-03-29T08:00"),
        at("2025-03-30T07:00"),
    ]


def test_start_and_end_are_included() -> None:
    schedule = hourly(start=NOW + 2 * HOUR, end=NOW + 4 * HOUR)
    slots = [NOW + n * HOUR for n in (2, 3, 4)]
    assert schedule.slots_between(NOW - DAY, NOW + DAY) == slots
    assert schedule.newest_between(NOW - DAY, NOW + DAY, 2) == slots[1:]
    assert schedule.count_between(NOW - DAY, NOW + DAY) == SlotCount(3)
    assert schedule.latest_slot(NOW + DAY) == slots[-1]
    assert schedule.latest_slot(NOW + HOUR) is None
    assert schedule.next_slot(slots[-1]) is None
    daily = ScheduleDefinition(
        rule=CronRule("0 0 * * *"), start=at("2025-01-02"), end=at("2025-01-03")
    )
    assert daily.slots_between(at("2024-01-01"), at("2026-01-01")) == [daily.start, daily.end]


def test_slots_between_are_limited() -> None:
    assert len(hourly().slots_between(NOW, NOW + 9 * DAY, limit=7)) == 7


RULES: list[Rule] = [
    Once(NOW + 90 * MINUTE),
    Every.of("37m", NOW - DAY),
    Every.of("90s", NOW + HOUR),
    CronRule("*/20 * * * *"),
    CronRule("30 2 * * *", "Europe/Berlin"),
    CronRule("*/7 1-3,12,13 * * *", "Australia/Lord_Howe"),
]
MOMENTS = st.integers(-3 * 24 * 3600, 3 * 24 * 3600).map(lambda n: NOW + n * SECOND)


@given(st.sampled_from(RULES), MOMENTS, MOMENTS, st.none() | MOMENTS, st.none() | MOMENTS)
def test_all_questions_about_slots_agree(
    rule: Rule, after: datetime, until: datetime, start: datetime | None, end: datetime | None
) -> None:
    if start and end and end < start:
        start, end = end, start
    schedule = ScheduleDefinition(rule=rule, start=start, end=end)
    slots = schedule.slots_between(after, until, limit=10_000)
    assert slots == sorted(set(slots))
    assert all(after < slot <= until for slot in slots)
    assert all((not start or slot >= start) and (not end or slot <= end) for slot in slots)
    assert schedule.newest_between(after, until, 10_000) == slots
    assert schedule.newest_between(after, until, 3) == slots[-3:]
    assert schedule.count_between(after, until, 10_000) == SlotCount(len(slots))
    latest = schedule.latest_slot(until)
    assert (latest if latest and latest > after else None) == (slots[-1] if slots else None)


def test_calendar_ends_and_nothing_is_left() -> None:
    last = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    for rule in (Every.of("1h", NOW), CronRule("@daily", "Asia/Tokyo"), CronRule("@daily")):
        assert ScheduleDefinition(rule=rule).next_slot(last) is None


# Decisions


def test_nothing_is_due_before_its_slot() -> None:
    schedule = hourly()
    assert due(state(schedule, NOW), NOW + 59 * MINUTE) == Due(next_slot=NOW + HOUR)


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all", "all(1)"])
def test_slot_on_time_fires_under_every_policy(catch_up: str) -> None:
    schedule = hourly(catch_up=CatchUp.parse(catch_up))
    for late in (timedelta(0), SECOND, ON_TIME):
        decided = due(state(schedule, NOW), NOW + HOUR + late)
        assert decided == Due(slots_to_fire=(NOW + HOUR,), next_slot=NOW + 2 * HOUR)


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all"])
def test_busy_moment_drops_no_slot_of_a_fast_schedule(catch_up: str) -> None:
    schedule = ScheduleDefinition(rule=Every.of("1s", NOW), catch_up=CatchUp.parse(catch_up))
    decided = due(state(schedule, NOW), NOW + timedelta(seconds=3.2))
    assert decided.slots_to_fire == tuple(NOW + n * SECOND for n in (1, 2, 3))
    assert decided.missed_count == 0
    assert decided.next_slot == NOW + 4 * SECOND


def test_skip_fires_nothing_late() -> None:
    schedule = hourly(catch_up=CatchUp.skip())
    decided = due(state(schedule, NOW), NOW + 3 * HOUR + 10 * MINUTE)
    missed = tuple(NOW + n * HOUR for n in (1, 2, 3))
    assert decided == Due(slots_missed=missed, missed_count=3, next_slot=NOW + 4 * HOUR)


def test_skip_forgives_a_restart() -> None:
    schedule = hourly(catch_up=CatchUp.skip())
    decided = due(state(schedule, NOW), NOW + 3 * HOUR + GRACE)
    assert decided.slots_to_fire == (NOW + 3 * HOUR,)
    assert decided.slots_missed == (NOW + HOUR, NOW + 2 * HOUR)
    assert not due(state(schedule, NOW), NOW + 3 * HOUR + GRACE + MICROSECOND).slots_to_fire
    strict = due(state(schedule, NOW), NOW + HOUR + 10 * SECOND, grace=ON_TIME)
    assert strict.slots_missed == (NOW + HOUR,)


def test_latest_fires_the_newest_and_counts_the_others() -> None:
    decided = due(state(hourly(), NOW), NOW + 3 * HOUR + 10 * MINUTE)
    assert decided.slots_to_fire == (NOW + 3 * HOUR,)
    assert decided.slots_missed == (NOW + HOUR, NOW + 2 * HOUR)
    assert (decided.missed_count, decided.missed_at_least) == (2, False)
    assert decided.next_slot == NOW + 4 * HOUR


def test_latest_is_the_one_on_time_if_there_is_one() -> None:
    decided = due(state(hourly(), NOW), NOW + 3 * HOUR + SECOND)
    assert decided.slots_to_fire == (NOW + 3 * HOUR,)
    assert decided.missed_count == 2


def test_all_fires_the_newest_up_to_its_max() -> None:
    schedule = hourly(catch_up=CatchUp.all(max=4))
    decided = due(state(schedule, NOW), NOW + 10 * HOUR + 10 * MINUTE)
    assert decided.slots_to_fire == tuple(NOW + n * HOUR for n in (7, 8, 9, 10))
    assert decided.slots_missed == tuple(NOW + n * HOUR for n in range(1, 7))
    assert decided.next_slot == NOW + 11 * HOUR


def test_max_runs_ends_it_and_what_comes_after_is_not_missed() -> None:
    schedule = hourly(max_runs=5, catch_up=CatchUp.all())
    decided = due(state(schedule, NOW, fired=2), NOW + 10 * HOUR)
    assert decided == Due(slots_to_fire=tuple(NOW + n * HOUR for n in (1, 2, 3)), exhausted=True)
    last = due(state(schedule, NOW, fired=4), NOW + HOUR)
    assert last == Due(slots_to_fire=(NOW + HOUR,), exhausted=True)
    assert due(state(schedule, NOW, fired=5), NOW + HOUR) == Due(exhausted=True)


def test_missed_slots_do_not_count_as_runs() -> None:
    schedule = hourly(max_runs=1, catch_up=CatchUp.skip())
    decided = due(state(schedule, NOW), NOW + 90 * MINUTE)
    assert decided.missed_count == 1
    assert not decided.exhausted
    assert decided.next_slot == NOW + 2 * HOUR


def test_end_ends_it_and_late_slots_before_it_still_count() -> None:
    schedule = hourly(end=NOW + 2 * HOUR)
    decided = due(state(schedule, NOW), NOW + 9 * HOUR)
    assert decided.slots_to_fire == (NOW + 2 * HOUR,)
    assert decided.missed_count == 1
    assert decided.exhausted


def test_late_once_follows_the_policy() -> None:
    latest = ScheduleDefinition(rule=Once(NOW))
    assert due(state(latest, NOW - DAY), NOW + DAY) == Due(slots_to_fire=(NOW,), exhausted=True)
    skip = ScheduleDefinition(rule=Once(NOW), catch_up=CatchUp.skip())
    assert due(state(skip, NOW - DAY), NOW + DAY) == Due(
        slots_missed=(NOW,), missed_count=1, exhausted=True
    )


def test_schedule_without_a_next_slot_has_nothing_to_do() -> None:
    assert due(ScheduleState(schedule=hourly(), next_slot=None), NOW) == Due(exhausted=True)


def test_clock_that_went_back_fires_nothing_again() -> None:
    decided = due(state(hourly(), NOW + 3 * HOUR), NOW)
    assert decided == Due(next_slot=NOW + 4 * HOUR)


@pytest.mark.parametrize("moved_to", ["02:00", "04:00"])
def test_new_zone_data_moves_the_slots_to_come_and_no_others(moved_to: str) -> None:
    # By the data of then it was 03:00 UTC; by the data of now it is an hour off.
    schedule = ScheduleDefinition(rule=CronRule(f"0 {moved_to[1]} * * *"))
    fired, stored = at("2025-06-01T03:00"), at("2025-06-02T03:00")
    known = ScheduleState(schedule=schedule, next_slot=stored, last_slot=fired)
    assert realigned(known, at("2025-06-01T12:00")) == at(f"2025-06-02T{moved_to}")
    clock_went_back = realigned(known, at("2025-05-31T12:00"))
    assert clock_went_back is not None
    assert clock_went_back > fired
    assert realigned(known, stored) == stored


def test_slot_that_was_moved_later_waits_for_its_time() -> None:
    schedule = ScheduleDefinition(rule=CronRule("0 4 * * *"))
    known = ScheduleState(schedule=schedule, next_slot=at("2025-06-02T03:00"))
    assert due(known, at("2025-06-02T03:00")) == Due(next_slot=at("2025-06-02T04:00"))


def test_nothing_left_stays_nothing() -> None:
    assert realigned(ScheduleState(schedule=hourly(), next_slot=None), NOW) is None


@pytest.mark.parametrize(
    ("rule", "missed", "at_least"),
    [
        (Every.of("1s", NOW), 10 * 365 * 86400 - 1, False),
        (CronRule("* * * * * *", "Europe/Berlin"), COUNTED, True),
        (CronRule("* * * * *"), COUNTED, True),
    ],
)
@pytest.mark.parametrize("catch_up", ["skip", "latest", "all"])
def test_long_absence_costs_little(rule: Rule, missed: int, at_least: bool, catch_up: str) -> None:
    schedule = ScheduleDefinition(rule=rule, catch_up=CatchUp.parse(catch_up))
    before = time.process_time()
    now = NOW + 10 * 365 * DAY + 4 * MINUTE + 30 * SECOND
    decided = due(state(schedule, NOW), now)
    assert time.process_time() - before < 1
    assert len(decided.slots_missed) == LISTED
    assert decided.missed_at_least is at_least
    assert decided.missed_count >= missed - 100
    assert decided.next_slot is not None
    assert decided.next_slot > now
    assert len(decided.slots_to_fire) <= 100 + 6


MODES = st.one_of(
    st.just(CatchUp.skip()), st.just(CatchUp.latest()), st.integers(1, 9).map(CatchUp.all)
)


@given(
    st.sampled_from(RULES),
    MODES,
    st.none() | st.integers(1, 6),
    st.integers(0, 3),
    st.none() | MOMENTS,
    MOMENTS,
    MOMENTS,
)
def test_decisions_equal_a_plain_reading_of_the_policies(
    rule: Rule,
    catch_up: CatchUp,
    max_runs: int | None,
    fired: int,
    end: datetime | None,
    since: datetime,
    now: datetime,
) -> None:
    schedule = ScheduleDefinition(rule=rule, end=end, max_runs=max_runs, catch_up=catch_up)
    stored = state(schedule, since, fired)
    decided = due(stored, now)
    passed = schedule.slots_between(since, now, 10_000)
    left = len(passed) if max_runs is None else max(max_runs - fired, 0)
    if left == 0 and max_runs is not None:
        assert decided == Due(exhausted=True)
        return
    prompt = [slot for slot in passed if now - slot <= ON_TIME]
    late = [slot for slot in passed if now - slot > ON_TIME]
    fire = prompt
    if catch_up.mode is CatchUpMode.ALL:
        fire = late[-(catch_up.max or 0) :] + prompt
    elif not prompt and late and (catch_up.mode is CatchUpMode.LATEST or now - late[-1] <= GRACE):
        fire = late[-1:]
    missed = passed[: len(passed) - len(fire)]
    assert list(decided.slots_to_fire) == fire[:left]
    assert decided.missed_count == len(missed)
    assert list(decided.slots_missed) == missed[-LISTED:]
    spent = max_runs is not None and len(decided.slots_to_fire) >= left
    following = None if spent else schedule.next_slot(max([since, *passed]))
    assert decided.next_slot == following
    assert decided.exhausted == (following is None)


@given(
    st.sampled_from(RULES),
    MODES,
    st.lists(st.integers(1, 30_000), min_size=1, max_size=20),
)
def test_every_slot_is_decided_exactly_once_however_often_one_looks(
    rule: Rule, catch_up: CatchUp, pauses: list[int]
) -> None:
    schedule = ScheduleDefinition(rule=rule, catch_up=catch_up)
    begin = now = since = NOW - DAY
    seen: list[datetime] = []
    for pause in pauses:
        now += pause * SECOND
        stored = ScheduleState(schedule=schedule, next_slot=schedule.next_slot(since))
        decided = due(stored, now)
        passed = schedule.slots_between(since, now, 10_000)
        assert decided.missed_count + len(decided.slots_to_fire) == len(passed)
        seen += [*passed]
        since = passed[-1] if passed else since
    assert seen == schedule.slots_between(begin, now, 100_000)


# Spread


def test_spread_is_fixed_per_schedule_and_within_its_bound() -> None:
    schedule = hourly(spread=10 * MINUTE)
    offsets = {name: schedule.offset(name) for name in map(str, range(500))}
    assert all(timedelta(0) <= offset < 10 * MINUTE for offset in offsets.values())
    assert all(schedule.offset(name) == offset for name, offset in offsets.items())
    assert len(set(offsets.values())) == 500
    tenths = [sum(n <= offset / MINUTE < n + 1 for offset in offsets.values()) for n in range(10)]
    assert min(tenths) > 20
    assert schedule.offset("nightly") == timedelta(microseconds=98_981_191)
    assert hourly().offset("nightly") == timedelta(0)


# Definition

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "schedule"),
    ({"cron": "@daily", "interval": "1h"}, "schedule"),
    ({"interval": 0}, "interval"),
    ({"interval": -5}, "interval"),
    ({"interval": "0.5s"}, "interval"),
    ({"interval": timedelta(milliseconds=999)}, "interval"),
    ({"interval": "soon"}, "interval"),
    ({"interval": True}, "interval"),
    ({"interval": float("inf")}, "interval"),
    ({"cron": "61 * * * *"}, "cron"),
    ({"cron": "0 0 31 2 *"}, "cron"),
    ({"cron": ["@daily"]}, "cron"),
    ({"cron": "@daily", "timezone": "Europe/Berln"}, "timezone"),
    ({"cron": "@daily", "timezone": 5}, "timezone"),
    ({"cron": "@daily", "anchor": NOW}, "anchor"),
    ({"once": "tomorrow"}, "once"),
    ({"once": datetime(2031, 1, 1)}, "once"),  # noqa: DTZ001
    ({"once": 5}, "once"),
    ({"once": datetime(1969, 1, 1, tzinfo=UTC)}, "once"),
    ({"once": datetime(9999, 1, 1, tzinfo=UTC)}, "once"),
    ({"cron": "@daily", "start": NOW, "end": NOW - SECOND}, "end"),
    ({"cron": "@daily", "start": "2031-01-01"}, "start"),
    ({"cron": "@daily", "max_runs": 0}, "max_runs"),
    ({"cron": "@daily", "max_runs": True}, "max_runs"),
    ({"cron": "@daily", "max_runs": 1.5}, "max_runs"),
    ({"cron": "@daily", "spread": "25h"}, "spread"),
    ({"cron": "@daily", "spread": -1}, "spread"),
    ({"interval": "1m", "spread": "2m"}, "spread"),
    ({"cron": "@daily", "catch_up": "most"}, "catch_up"),
    ({"cron": "@daily", "catch_up": 5}, "catch_up"),
    ({"cron": "@daily", "every": "1h"}, "every"),
]


@pytest.mark.parametrize(("timing", "option"), REFUSED, ids=repr)
def test_refused_with_one_sentence(timing: dict[str, Any], option: str) -> None:
    with pytest.raises(BadOption) as caught:
        define_schedule(NOW, **timing)
    assert caught.value.option == option
    assert ". " not in caught.value.why


@pytest.mark.parametrize(
    ("timing", "option"),
    [
        ({"once": NOW}, "once"),
        ({"once": NOW - DAY}, "once"),
        ({"cron": "@daily", "end": NOW - DAY}, "end"),
        ({"cron": "@daily", "end": NOW + HOUR}, "schedule"),
        ({"once": NOW + DAY, "end": NOW + HOUR}, "schedule"),
        ({"once": NOW + DAY, "start": NOW + 2 * DAY}, "schedule"),
    ],
    ids=repr,
)
def test_new_schedule_that_would_never_run_is_refused(timing: Any, option: str) -> None:
    schedule = define_schedule(NOW, **timing)
    with pytest.raises(BadOption) as caught:
        check_new(schedule, NOW)
    assert caught.value.option == option


def test_new_schedule_is_told_its_first_slot() -> None:
    assert check_new(define_schedule(NOW, interval="5m"), NOW) == NOW + 5 * MINUTE
    assert check_new(define_schedule(NOW, interval="5m", start=NOW + DAY), NOW) == NOW + DAY
    assert check_new(define_schedule(NOW, once=NOW + DAY), NOW) == NOW + DAY


def test_local_times_are_read_in_the_zone_that_is_given() -> None:
    schedule = define_schedule(NOW, once="2030-06-01 09:00", timezone="Europe/Berlin")
    assert schedule.rule == Once(at("2030-06-01T07:00"))
    assert define_schedule(NOW, once="2030-06-01T09:00+05:30").rule == Once(at("2030-06-01T03:30"))
    berlin = parse_zone("Europe/Berlin")
    assert parse_moment("once", "2025-03-30 02:30", berlin) == at("2025-03-30T01:00")
    assert parse_moment("once", "2025-10-26 02:30", berlin) == at("2025-10-26T00:30")


def test_interval_is_counted_from_anchor_or_start_or_now() -> None:
    rule = define_schedule(NOW, interval="1h", anchor=NOW - DAY, start=NOW + DAY).rule
    assert rule == Every(HOUR, NOW - DAY)
    assert define_schedule(NOW, interval=3600, start=NOW + DAY).rule == Every(HOUR, NOW + DAY)
    assert define_schedule(NOW, interval=HOUR).rule == Every(HOUR, NOW)


def test_local_zone_is_stored_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    rule = define_schedule(NOW, cron="@daily", timezone="local").rule
    assert rule == CronRule("@daily", "Asia/Kathmandu")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert rule.after(at("2030-01-01")) == at("2030-01-01T18:15")


def test_defaults() -> None:
    schedule = define_schedule(NOW, cron="0 3 * * *")
    assert schedule == ScheduleDefinition(rule=CronRule("0 3 * * *", "UTC"))
    assert schedule.catch_up == CatchUp.latest()


@pytest.mark.parametrize(
    ("timing", "wanted"),
    [
        ({"cron": "0 3 * * *", "timezone": "Asia/Tokyo"}, "At 03:00 every day, in Asia/Tokyo"),
        ({"interval": "90m"}, "Every 1 h 30 m, counted from 2030-01-01 12:00:00+00:00"),
        ({"once": NOW + DAY}, "Once, at 2030-01-02 12:00:00+00:00"),
        (
            {"cron": "@hourly", "end": NOW + DAY, "max_runs": 3},
            "At the start of every hour, in UTC, until 2030-01-02 12:00:00+00:00, 3 times in all",
        ),
    ],
    ids=repr,
)
def test_explanation(timing: Any, wanted: str) -> None:
    assert define_schedule(NOW, **timing).explain() == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("skip", CatchUp.skip()),
        ("latest", CatchUp.latest()),
        (" All ", CatchUp.all()),
        ("all(7)", CatchUp.all(max=7)),
        ("all(max=7)", CatchUp.all(max=7)),
        ("all( max = 7 )", CatchUp.all(7)),
    ],
)
def test_catch_up_is_read_from_text_and_written_back(text: str, wanted: CatchUp) -> None:
    assert CatchUp.parse(text) == wanted
    assert CatchUp.parse(wanted) is wanted
    assert CatchUp.parse(str(wanted)) == wanted


@pytest.mark.parametrize(
    "make",
    [
        lambda: CatchUp.parse("latest(3)"),
        lambda: CatchUp.parse("all(0)"),
        lambda: CatchUp.parse("all(-1)"),
        lambda: CatchUp.parse("all(99999)"),
        lambda: CatchUp.parse(""),
        lambda: CatchUp.all(max=0),
        lambda: CatchUp.all(max=True),
        lambda: CatchUp(CatchUpMode.ALL),
    ],
)
def test_bad_catch_up_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(BadOption) as caught:
        make()
    assert caught.value.option == "catch_up"


def test_overlap_is_read_from_text() -> None:
    for overlap in Overlap:
        assert parse_overlap(overlap.value) is overlap
        assert parse_overlap(overlap) is overlap
    assert parse_overlap(" Cancel_Running ") is Overlap.CANCEL_RUNNING
    for bad in ("", "sometimes", 5, None, ["skip"]):
        with pytest.raises(BadOption) as caught:
            parse_overlap(bad)  # type: ignore[arg-type]
        assert caught.value.option == "overlap"


# The stored form

STORED = [
    define_schedule(NOW, cron="0 3 * * MON-FRI", timezone="Europe/Berlin", catch_up="all(5)"),
    define_schedule(NOW, interval="90.5s", start=NOW, end=NOW + DAY, spread="10s", max_runs=3),
    define_schedule(NOW, once=NOW + 5 * MICROSECOND, catch_up="skip"),
]


@pytest.mark.parametrize("schedule", STORED, ids=lambda schedule: schedule.explain())
def test_stored_form_reads_back_equal(schedule: ScheduleDefinition) -> None:
    stored = json.loads(json.dumps(schedule.to_json()))
    assert ScheduleDefinition.from_json(stored) == schedule
    assert ScheduleDefinition.from_json(msgspec.json.encode(schedule)) == schedule
    assert ScheduleDefinition.from_json(msgspec.Raw(json.dumps(stored).encode())) == schedule


def test_stored_form_says_only_what_is_not_the_default() -> None:
    assert define_schedule(NOW, cron="@daily").to_json() == {
        "rule": {"kind": "cron", "cron": "@daily", "timezone": "UTC"},
        "catch_up": {"mode": "latest"},
    }


@given(st.integers(1_000_000, 10**15))
def test_stored_interval_is_exact(microseconds: int) -> None:
    schedule = ScheduleDefinition(rule=Every(microseconds * MICROSECOND, NOW))
    assert ScheduleDefinition.from_json(msgspec.json.encode(schedule)) == schedule


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"rule": {"kind": "sometimes"}},
        {"rule": {"kind": "cron", "cron": "@daily", "timezone": "Atlantis/Capital"}},
        {"rule": {"kind": "cron", "cron": "nonsense"}},
        {"rule": {"kind": "interval", "interval": "PT0S", "anchor": "2030-01-01T00:00:00Z"}},
        {"rule": {"kind": "once", "at": "2030-01-01T00:00:00"}},
        b"not json",
    ],
    ids=repr,
)
def test_bad_stored_form_is_refused(stored: Any) -> None:
    with pytest.raises(BadOption):
        ScheduleDefinition.from_json(stored)


def test_change_of_the_rule_moves_only_what_is_to_come() -> None:
    hourly_before = ScheduleDefinition(rule=CronRule("0 * * * *"))
    changed = ScheduleDefinition(rule=CronRule("30 * * * *"))
    passed = hourly_before.slots_between(NOW - 3 * HOUR, NOW)
    coming = changed.slots_between(NOW, NOW + 3 * HOUR)
    assert all(a < b for a, b in pairwise([*passed, *coming]))
    assert changed.next_slot(NOW) == NOW + 30 * MINUTE
