"""What a change of the clocks does to cron schedules, against an oracle that watches the clock."""

from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.oracle import (
    DAY,
    HOUR,
    MINUTE,
    Expression,
    Place,
    changes,
    clock,
    survey,
    watch,
)
from windlass.domain.scheduling.cron import Cron
from windlass.domain.scheduling.walltime import instant_of
from windlass.domain.zone import parse_zone

MICROSECOND = timedelta(microseconds=1)

PLACES = [
    Place("Africa/Cairo", 2023),  # the gap begins at midnight
    Place("Africa/Casablanca", 2024),  # four changes a year, around Ramadan
    Place("America/New_York", 2024),
    Place("America/Nuuk", 2023),  # the gap begins at 22:00, and once there was no way back
    Place("America/Santiago", 2024),  # the gap begins at midnight, the south's summer
    Place("America/St_Johns", 2010),  # half an hour off, and the clocks changed at 00:01
    Place("Antarctica/Casey", 2019),  # three hours forward
    Place("Antarctica/Troll", 2024),  # two hours
    Place("Asia/Kathmandu", 2024),  # three quarters off, no change
    Place("Asia/Kolkata", 2024),  # half an hour off, no change
    Place("Asia/Pyongyang", 2017),  # half an hour forward, once
    Place("Asia/Tehran", 2021),  # half an hour off, and its last summer
    Place("Australia/Adelaide", 2024),  # half an hour off
    Place("Australia/Lord_Howe", 2024),  # half an hour's change
    Place("Europe/Berlin", 2024),
    Place("Europe/Dublin", 2024),  # winter is its "summer time"
    Place("Pacific/Apia", 2011),  # left out a whole day
    Place("Pacific/Chatham", 2024),  # three quarters off
    Place("UTC", 2024),
]


def every(step: int, stop: int = 60, start: int = 0) -> frozenset[int]:
    return frozenset(range(start, stop, step))


def one(*values: int) -> frozenset[int]:
    return frozenset(values)


def on_friday_or_13th(day: date) -> bool:
    return day.day == 13 or day.isoweekday() == 5


HOURS = every(1, 24)

# Few slots a day: all of both years are compared.
DAILY = [
    Expression("30 2 * * *", one(30), one(2)),
    Expression("0 0 * * *", one(0), one(0)),
    Expression("45 1 * * *", one(45), one(1)),
    Expression("0,15,30 2 * * *", one(0, 15, 30), one(2)),
    Expression("0 1-3 * * *", one(0), one(1, 2, 3)),
    Expression("59 23 * * SUN", one(59), one(23), lambda day: day.isoweekday() == 7),
    Expression("0 0 13 * FRI", one(0), one(0), on_friday_or_13th),
    Expression("0 30 0,3,22 * * *", one(30), one(0, 3, 22)),
]

# Many: the days around each change are compared.
DENSE = [
    Expression("*/5 * * * *", every(5), HOURS, every_hour=True),
    Expression("0 * * * *", one(0), HOURS, every_hour=True),
    Expression("15 * * * *", one(15), HOURS, every_hour=True),
    Expression("7,37 0-23 * * *", one(7, 37), HOURS, every_hour=True),
    Expression("0 */20 * * * *", every(20), HOURS, every_hour=True),
    Expression("0 */2 * * *", one(0), every(2, 24)),
    Expression("20 1-23/2 * * *", one(20), every(2, 24, 1)),
    Expression("10-50/20 0-6 * * *", one(10, 30, 50), every(1, 7)),
    Expression("*/5 2 * * *", every(5), one(2), both_hours=True),
    Expression("*/10 5 * * *", every(10), one(5), both_hours=True),
    Expression("*/20 0-3,22,23 * * *", every(20), one(0, 1, 2, 3, 22, 23), both_hours=True),
    Expression("* 0 1 * *", every(1), one(0), lambda day: day.day == 1, both_hours=True),
]


def slots(cron: Cron, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """From the one time to before the other, by the code under test."""
    found, slot = [], cron.next_after(begin - MICROSECOND, parse_zone(zone))
    while slot < end:
        found.append(slot)
        slot = cron.next_after(slot, parse_zone(zone))
    return found


def slots_backwards(cron: Cron, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    found, slot = [], cron.previous_at_or_before(end - MICROSECOND, parse_zone(zone))
    while slot >= begin:
        found.append(slot)
        slot = cron.previous_at_or_before(slot - MICROSECOND, parse_zone(zone))
    return found[::-1]


WARMUP = 6 * HOUR  # what was seen before a window is unknown to the watcher: compare later slots


def windows(place: Place) -> list[tuple[datetime, datetime]]:
    """The two days around each change, and two in which nothing happens."""
    days = [*changes(place), place.begin + 100 * DAY]
    return [(day - 12 * HOUR, day + 36 * HOUR) for day in days]


def by_name(place: Place) -> str:
    return place.zone


@pytest.mark.parametrize("place", PLACES, ids=by_name)
def test_slots_of_two_years_equal_the_oracles(place: Place) -> None:
    for expression in DAILY:
        cron, wanted = Cron.parse(expression.text), survey(expression, place)
        assert slots(cron, place.zone, place.begin, place.end) == wanted, expression.text
        assert slots_backwards(cron, place.zone, place.begin, place.end) == wanted, expression.text


@pytest.mark.parametrize("place", PLACES, ids=by_name)
def test_slots_around_each_change_equal_the_oracles(place: Place) -> None:
    for begin, end in windows(place):
        for expression in [*DAILY, *DENSE]:
            cron, wanted = Cron.parse(expression.text), watch(expression, place.zone, begin, end)
            first = begin + WARMUP
            wanted = [slot for slot in wanted if slot >= first]
            assert slots(cron, place.zone, first, end) == wanted, expression.text
            assert slots_backwards(cron, place.zone, first, end) == wanted, expression.text


@pytest.mark.parametrize("place", PLACES, ids=by_name)
def test_answer_is_the_same_from_wherever_one_asks(place: Place) -> None:
    zone = parse_zone(place.zone)
    for begin, end in windows(place):
        for expression in [DAILY[0], DAILY[3], DENSE[0], DENSE[2], DENSE[5], DENSE[8]]:
            cron, wanted = Cron.parse(expression.text), watch(expression, place.zone, begin, end)
            known = bisect_left(wanted, begin + WARMUP)
            for n in range(80):
                asked = begin + WARMUP + n * timedelta(minutes=29, seconds=59, milliseconds=500)
                later = bisect_right(wanted, asked)
                if later < len(wanted):
                    assert cron.next_after(asked, zone) == wanted[later]
                if later > known:
                    assert cron.previous_at_or_before(asked, zone) == wanted[later - 1]


def test_places_have_the_changes_they_are_here_for() -> None:
    counts = {place.zone: len(changes(place)) for place in PLACES}
    assert len(PLACES) >= 12
    assert {zone for zone, count in counts.items() if count == 0} == {
        "Asia/Kathmandu",
        "Asia/Kolkata",
        "UTC",
    }
    assert counts["Africa/Casablanca"] == 4
    assert counts["Europe/Berlin"] == 4
    assert counts["Pacific/Apia"] == 5


@pytest.mark.parametrize("place", [PLACES[13], PLACES[16]], ids=by_name)
def test_both_oracles_agree(place: Place) -> None:
    for expression in [DAILY[0], DAILY[4], DENSE[5]]:
        surveyed = survey(expression, place)
        for begin, end in windows(place):
            watched = watch(expression, place.zone, begin, end)
            first = begin + WARMUP
            assert [s for s in watched if s >= first] == [s for s in surveyed if first <= s < end]


# Local times, with their offsets: written by hand from the published rules.
TABLE = [
    # Forward at 02:00: what was skipped comes at 03:00, once.
    ("Europe/Berlin", "2025-03-30", "30 2 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", "2025-03-30", "0,15,30 2 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", "2025-03-30", "0 30 2 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", "2025-03-30", "*/5 2 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", "2025-03-30", "0 1-3 * * *", ["01:00+01:00", "03:00+02:00"]),
    ("Europe/Berlin", "2025-03-30", "0 0-5/2 * * *", ["00:00+01:00", "03:00+02:00", "04:00+02:00"]),
    # Back at 03:00: the first time counts.
    ("Europe/Berlin", "2025-10-26", "30 2 * * *", ["02:30+02:00"]),
    ("Europe/Berlin", "2025-10-26", "0 1-3 * * *", ["01:00+02:00", "02:00+02:00", "03:00+01:00"]),
    ("Europe/Berlin", "2025-10-26", "*/60 2 * * *", ["02:00+02:00", "02:00+01:00"]),
    ("America/New_York", "2025-03-09", "30 2 * * *", ["03:00-04:00"]),
    ("America/New_York", "2025-11-02", "30 1 * * *", ["01:30-04:00"]),
    # Half an hour.
    ("Australia/Lord_Howe", "2025-10-05", "0,15 2 * * *", ["02:30+11:00"]),
    ("Australia/Lord_Howe", "2025-10-05", "45 2 * * *", ["02:45+11:00"]),
    ("Australia/Lord_Howe", "2025-04-06", "45 1 * * *", ["01:45+11:00"]),
    ("Australia/Lord_Howe", "2025-04-06", "*/30 5 * * *", ["05:00+10:30", "05:30+10:30"]),
    # Midnight itself is skipped: the day keeps its slot.
    ("Africa/Cairo", "2024-04-26", "0 0 * * *", ["01:00+03:00"]),
    ("Africa/Cairo", "2024-04-26", "0 */12 * * *", ["01:00+03:00", "12:00+03:00"]),
    ("America/Santiago", "2024-09-08", "@daily", ["01:00-03:00"]),
    ("America/St_Johns", "2011-03-13", "30 0 * * *", ["01:01-02:30"]),
    # Two hours, three hours.
    ("Antarctica/Troll", "2025-03-30", "30 1,2 * * *", ["03:00+02:00"]),
    ("Antarctica/Troll", "2025-10-26", "30 1,2 * * *", ["01:30+02:00", "02:30+02:00"]),
    ("Antarctica/Casey", "2020-10-04", "30 1 * * *", ["03:01+11:00"]),
    # A day that the calendar left out, and its neighbours.
    ("Pacific/Apia", "2011-12-29", "30 2 * * *", ["02:30-10:00"]),
    ("Pacific/Apia", "2011-12-30", "30 2 * * *", []),
    ("Pacific/Apia", "2011-12-31", "30 2 * * *", ["02:30+14:00"]),
    ("Asia/Kathmandu", "2025-03-30", "30 2 * * *", ["02:30+05:45"]),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "day", "expression", "wanted"), TABLE)
def test_table_of_famous_days(zone: str, day: str, expression: str, wanted: list[str]) -> None:
    noon = datetime.fromisoformat(f"{day}T12:00Z")
    found = slots(Cron.parse(expression), zone, noon - 2 * DAY, noon + 2 * DAY)
    local = [slot.astimezone(parse_zone(zone)).isoformat(timespec="minutes") for slot in found]
    assert [text.partition("T")[2] for text in local if text.startswith(day)] == wanted


@pytest.mark.parametrize("day", ["2025-03-30", "2025-10-26"])
@pytest.mark.parametrize(
    ("expression", "spacing"),
    [("* * * * *", 60), ("*/5 * * * *", 300), ("0 * * * *", 3600), ("*/10 * * * * *", 10)],
)
def test_even_spacing_survives_every_change(day: str, expression: str, spacing: int) -> None:
    begin = datetime.fromisoformat(f"{day}T00:00Z") - 2 * HOUR
    found = slots(Cron.parse(expression), "Europe/Berlin", begin, begin + 5 * HOUR)
    assert len(found) == 5 * 3600 / spacing
    assert {b - a for a, b in pairwise(found)} == {timedelta(seconds=spacing)}


def test_seconds_follow_the_same_rules() -> None:
    begin = datetime(2025, 3, 30, tzinfo=UTC)
    skipped = Cron.parse("15,45 59 2 * * *")
    assert slots(skipped, "Europe/Berlin", begin, begin + DAY / 2) == [begin + HOUR]
    begin = datetime(2025, 10, 26, tzinfo=UTC)
    twice = Cron.parse("15,45 59 2 * * *")
    first = begin + timedelta(minutes=59, seconds=15)
    assert slots(twice, "Europe/Berlin", begin, begin + DAY / 2) == [
        first,
        first + timedelta(seconds=30),
    ]


def test_asked_within_the_repeated_hour_it_does_not_answer_with_the_past() -> None:
    # 02:45 for the second time: 02:50 has been.
    asked = datetime(2025, 10, 26, 1, 45, tzinfo=UTC)
    berlin = parse_zone("Europe/Berlin")
    cron = Cron.parse("50 2 * * *")
    assert cron.next_after(asked, berlin) == datetime(2025, 10, 27, 1, 50, tzinfo=UTC)
    assert cron.previous_at_or_before(asked, berlin) == datetime(2025, 10, 26, 0, 50, tzinfo=UTC)


def test_repeated_hour_over_midnight_is_passed() -> None:
    begin = datetime(2010, 11, 6, 12, tzinfo=UTC)
    found = slots(Cron.parse("0 */6 * * *"), "America/St_Johns", begin, begin + DAY)
    local = [clock(slot, "America/St_Johns").isoformat(timespec="minutes")[8:] for slot in found]
    assert local == ["06T12:00", "06T18:00", "07T00:00", "07T06:00"]


ZONES = st.sampled_from(PLACES).flatmap(
    lambda place: st.tuples(st.just(place), st.sampled_from(windows(place)))
)


@given(
    ZONES,
    st.frozensets(st.integers(0, 59), min_size=1, max_size=3),
    st.frozensets(st.integers(0, 23), min_size=1, max_size=8) | st.just(HOURS),
    st.frozensets(st.integers(0, 6), min_size=1, max_size=7),
    st.integers(0, 36 * 60),
)
def test_any_times_and_days_from_any_minute(
    around: tuple[Place, tuple[datetime, datetime]],
    at: frozenset[int],
    hours: frozenset[int],
    weekdays: frozenset[int],
    ask: int,
) -> None:
    place, (begin, end) = around
    fields = [",".join(map(str, sorted(values))) for values in (at, hours, weekdays)]
    expression = Expression(
        f"{fields[0]} {fields[1]} * * {fields[2]}",
        at,
        hours,
        lambda day: day.isoweekday() % 7 in weekdays,
        every_hour=hours == HOURS,
    )
    wanted = watch(expression, place.zone, begin, end)
    cron, zone = Cron.parse(expression.text), parse_zone(place.zone)
    asked = begin + WARMUP + ask * MINUTE
    later = bisect_right(wanted, asked)
    if later < len(wanted):
        assert cron.next_after(asked, zone) == wanted[later]
    if later > 0 and wanted[later - 1] >= begin + WARMUP:
        assert cron.previous_at_or_before(asked, zone) == wanted[later - 1]


@given(
    st.sampled_from(PLACES),
    st.sampled_from([*DAILY, *DENSE]),
    st.datetimes(datetime(1975, 1, 1), datetime(2120, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_next_and_previous_are_each_others_inverse(
    place: Place, expression: Expression, asked: datetime
) -> None:
    cron, zone = Cron.parse(expression.text), parse_zone(place.zone)
    slot = cron.next_after(asked, zone)
    assert slot > asked
    assert slot.tzinfo is UTC
    assert slot.microsecond == 0
    assert cron.previous_at_or_before(slot, zone) == slot
    before = cron.previous_at_or_before(slot - MICROSECOND, zone)
    assert before <= asked
    assert cron.next_after(before, zone) == slot


@pytest.mark.parametrize("place", PLACES, ids=by_name)
def test_local_time_becomes_its_first_instant_or_the_end_of_the_gap(place: Place) -> None:
    zone = parse_zone(place.zone)
    for begin, end in windows(place):
        instant = begin
        while instant < end:
            wall = clock(instant, place.zone)
            found = instant_of(wall, zone)
            assert found <= instant
            assert clock(found, place.zone) == wall
            instant += 17 * MINUTE
    wall = datetime(2025, 3, 30, 2, 59, 59, 999_999)  # noqa: DTZ001
    assert instant_of(wall, parse_zone("Europe/Berlin")) == datetime(2025, 3, 30, 1, tzinfo=UTC)
