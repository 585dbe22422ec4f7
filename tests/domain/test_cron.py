"""What a cron expression means, and what is refused; zones by name."""

import pickle
import re
import shutil
import zoneinfo
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.scheduling.cron import ALIASES, Cron, cached_cron
from windlass.domain.zone import local_zone_name, parse_zone
from windlass.errors import BadOption

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)


def slots(expression: str, count: int, begin: datetime = BEGIN) -> list[str]:
    """The next slots in UTC, as text."""
    cron, found = Cron.parse(expression), []
    slot = begin - timedelta(microseconds=1)
    for _ in range(count):
        slot = cron.next_after(slot, UTC)
        found.append(slot.isoformat(" ").removesuffix("+00:00").removesuffix(":00"))
    return found


def days(expression: str, count: int, begin: datetime = BEGIN) -> list[str]:
    return [slot[:10] for slot in slots(expression, count, begin)]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("*/20 * * * *", ["2025-01-01 00:00", "2025-01-01 00:20", "2025-01-01 00:40"]),
        ("5/25 * * * *", ["2025-01-01 00:05", "2025-01-01 00:30", "2025-01-01 00:55"]),
        ("10-30/10 1 * * *", ["2025-01-01 01:10", "2025-01-01 01:20", "2025-01-01 01:30"]),
        ("5-5/2 1 * * *", ["2025-01-01 01:05", "2025-01-02 01:05"]),
        ("1,59 23 * * *", ["2025-01-01 23:01", "2025-01-01 23:59", "2025-01-02 23:01"]),
        ("0 9-17/4 * * *", ["2025-01-01 09:00", "2025-01-01 13:00", "2025-01-01 17:00"]),
        ("0 0 1 */6 *", ["2025-01-01 00:00", "2025-07-01 00:00", "2026-01-01 00:00"]),
        ("0 0 1 JAN,jul *", ["2025-01-01 00:00", "2025-07-01 00:00"]),
        ("*/15 * * * * *", ["2025-01-01 00:00", "2025-01-01 00:00:15", "2025-01-01 00:00:30"]),
        ("30 0 12 * * *", ["2025-01-01 12:00:30", "2025-01-02 12:00:30"]),
        ("  0   3 * *\t* ", ["2025-01-01 03:00", "2025-01-02 03:00"]),
    ],
)
def test_times_of_day(expression: str, wanted: list[str]) -> None:
    assert slots(expression, len(wanted)) == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        # The first of January 2025 is a Wednesday.
        ("0 0 * * 0", ["2025-01-05", "2025-01-12"]),
        ("0 0 * * 7", ["2025-01-05", "2025-01-12"]),
        ("0 0 * * SUN", ["2025-01-05", "2025-01-12"]),
        ("0 0 * * 1", ["2025-01-06", "2025-01-13"]),
        ("0 0 * * mon-Wed", ["2025-01-01", "2025-01-06", "2025-01-07", "2025-01-08"]),
        ("0 0 * * FRI-MON", ["2025-01-03", "2025-01-04", "2025-01-05", "2025-01-06", "2025-01-10"]),
        ("0 0 * * FRI-MON/2", ["2025-01-03", "2025-01-05", "2025-01-10"]),
        ("0 0 * * MON-SUN", ["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-04", "2025-01-05"]),
        ("0 0 * * SAT-SUN", ["2025-01-04", "2025-01-05", "2025-01-11"]),
        ("0 0 * * 5-7", ["2025-01-03", "2025-01-04", "2025-01-05", "2025-01-10"]),
        ("0 0 1 NOV-FEB *", ["2025-01-01", "2025-02-01", "2025-11-01", "2025-12-01"]),
        ("0 0 L * *", ["2025-01-31", "2025-02-28", "2025-03-31"]),
        ("0 0 LW * *", ["2025-01-31", "2025-02-28", "2025-03-31", "2025-04-30", "2025-05-30"]),
        ("0 0 15,l * *", ["2025-01-15", "2025-01-31", "2025-02-15", "2025-02-28"]),
        ("0 0 * * FRIL", ["2025-01-31", "2025-02-28", "2025-03-28"]),
        ("0 0 * * 5L", ["2025-01-31", "2025-02-28", "2025-03-28"]),
        ("0 0 * * MON#2", ["2025-01-13", "2025-02-10"]),
        ("0 0 * * 1#5", ["2025-03-31", "2025-06-30"]),
        ("0 0 * * TUE#1,TUE#3", ["2025-01-07", "2025-01-21", "2025-02-04"]),
        # Both day fields restricted: either is enough.
        ("0 0 13 * FRI", ["2025-01-03", "2025-01-10", "2025-01-13", "2025-01-17"]),
        ("0 0 1-3 * MON", ["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-06"]),
        # A step of everything begins with a star, and must match too.
        ("0 0 */2 * MON", ["2025-01-13", "2025-01-27", "2025-02-03"]),
        ("0 0 31 2 MON", ["2025-02-03", "2025-02-10"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29"]),
        ("0 0 31 * *", ["2025-01-31", "2025-03-31", "2025-05-31", "2025-07-31", "2025-08-31"]),
        ("0 0 * 2 MON#5", ["2044-02-29", "2072-02-29", "2112-02-29"]),
    ],
)
def test_days(expression: str, wanted: list[str]) -> None:
    assert days(expression, len(wanted)) == wanted


def test_there_is_no_29th_of_february_in_2100() -> None:
    begin = datetime(2096, 1, 1, tzinfo=UTC)
    assert days("0 0 29 2 *", 3, begin) == ["2096-02-29", "2104-02-29", "2108-02-29"]
    cron = Cron.parse("0 0 29 2 *")
    assert cron.previous_at_or_before(datetime(2104, 2, 28, tzinfo=UTC), UTC).year == 2096
    assert days("30 2 * * *", 1, datetime(2100, 2, 28, 12, tzinfo=UTC)) == ["2100-03-01"]


@pytest.mark.parametrize(
    ("alias", "wanted"),
    [
        ("@yearly", ["2025-01-01 00:00", "2026-01-01 00:00"]),
        ("@annually", ["2025-01-01 00:00", "2026-01-01 00:00"]),
        ("@monthly", ["2025-01-01 00:00", "2025-02-01 00:00"]),
        ("@weekly", ["2025-01-05 00:00", "2025-01-12 00:00"]),
        ("@daily", ["2025-01-01 00:00", "2025-01-02 00:00"]),
        ("@midnight", ["2025-01-01 00:00", "2025-01-02 00:00"]),
        ("@Hourly", ["2025-01-01 00:00", "2025-01-01 01:00"]),
    ],
)
def test_aliases(alias: str, wanted: list[str]) -> None:
    assert slots(alias, 2) == wanted
    assert Cron.parse(alias).text == alias


REFUSED = [
    ("61 * * * *", "minute '61'"),
    ("-1 * * * *", "minute '-1'"),
    ("1.5 * * * *", "minute '1.5'"),
    ("1,,2 * * * *", "minute ''"),
    ("10-5 * * * *", "minute '10-5'"),
    ("1-2-3 * * * *", "minute '1-2-3'"),
    ("*-5 * * * *", "minute '*-5'"),
    ("*/0 * * * *", "minute '*/0'"),
    ("*/90 * * * *", "minute '*/90'"),
    ("*/x * * * *", "minute '*/x'"),
    ("5#2 * * * *", "minute '5#2'"),
    ("L * * * *", "minute 'L'"),
    ("٣ * * * *", "minute '٣'"),
    ("1" * 900 + " * * * *", "minute '1111"),
    ("* 24 * * *", "hour '24'"),
    ("* 22-2 * * *", "hour '22-2'"),
    ("* MON * * *", "hour 'MON'"),
    ("* * 0 * *", "day of month '0'"),
    ("* * 32 * *", "day of month '32'"),
    ("* * 15W * *", "day of month '15W'"),
    ("* * L-3 * *", "day of month 'L-3'"),
    ("* * L/2 * *", "day of month 'L/2'"),
    ("* * ? * *", "day of month '?'"),
    ("* * * 13 *", "month '13'"),
    ("* * * january *", "month 'january'"),
    ("* * * 11-2 *", "month '11-2'"),
    ("* * * * 8", "day of week '8'"),
    ("* * * * L", "day of week 'L'"),
    ("* * * * MON#6", "day of week 'MON#6'"),
    ("* * * * MON-FRI#2", "day of week 'MON-FRI#2'"),
    ("* * * * 5-1", "day of week '5-1'"),
    ("60 * * * * *", "second '60'"),
    ("0 0 31 2 *", "day of month '31' does not come in month '2'"),
    ("0 0 30,31 FEB *", "day of month '30,31' does not come in month 'FEB'"),
    ("0 0 31 4,6,9,11 *", "day of month '31' does not come in month '4,6,9,11'"),
    ("0 0 */3 2 MON#5", "day of week 'MON#5'"),
    ("0 0 0 31 2 *", "day of month '31' does not come in month '2'"),
    ("* * *", "has 3 fields"),
    ("* * * * * * *", "has 7 fields"),
    ("", "has 0 fields"),
    ("@reboot", "'@reboot'"),
    ("@every 5m", "interval="),
    ("@fortnightly", "there is no '@fortnightly'"),
    ("* " * 600, "1,000 characters"),
    (5, "5 is not an expression"),
    (None, "None is not an expression"),
    (["* * * * *"], "is not an expression"),
]


@pytest.mark.parametrize(("expression", "named"), REFUSED, ids=lambda value: repr(value)[:30])
def test_refused_in_one_sentence_that_names_the_field(expression: Any, named: str) -> None:
    for parse in (Cron.parse, cached_cron):
        with pytest.raises(BadOption) as caught:
            parse(expression)
        assert caught.value.option == "cron"
        assert named in caught.value.why
        assert not re.search(r"[.!]\s", caught.value.why)
        assert not caught.value.why.endswith(".")
        assert len(caught.value.why) < 300


@given(st.text(alphabet="0123456789*/,-#LWMONFRIJAN @", max_size=40) | st.text(max_size=30))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        cron = Cron.parse(text)
    except BadOption:
        return
    assert cron.next_after(BEGIN, UTC) > BEGIN
    assert cron.explain()


def test_strictly_after_and_up_to() -> None:
    cron, slot = Cron.parse("30 2 * * *"), datetime(2025, 1, 1, 2, 30, tzinfo=UTC)
    moment = timedelta(microseconds=1)
    assert cron.next_after(slot - moment, UTC) == slot
    assert cron.next_after(slot, UTC) == slot + timedelta(days=1)
    assert cron.previous_at_or_before(slot, UTC) == slot
    assert cron.previous_at_or_before(slot - moment, UTC) == slot - timedelta(days=1)


def test_instants_of_any_zone_are_taken_and_utc_is_given() -> None:
    tokyo, berlin = parse_zone("Asia/Tokyo"), parse_zone("Europe/Berlin")
    asked = datetime(2025, 7, 1, 8, 59, tzinfo=tokyo)
    slot = Cron.parse("0 2 * * *").next_after(asked, berlin)
    assert slot == datetime(2025, 7, 1, 0, 0, tzinfo=UTC)
    assert slot.tzinfo is UTC


def test_calendar_ends_with_the_year_9999() -> None:
    for zone in (UTC, parse_zone("Asia/Tokyo"), parse_zone("America/New_York")):
        with pytest.raises(OverflowError):
            Cron.parse("0 0 1 1 *").next_after(datetime(9999, 6, 1, tzinfo=UTC), zone)


def test_expressions_are_values() -> None:
    assert Cron.parse("0 0 * * FRI") == Cron.parse("0 0 * * FRI")
    assert hash(Cron.parse("@daily")) == hash(Cron.parse("@daily"))
    assert cached_cron("@daily") is cached_cron("@daily")
    copy = pickle.loads(pickle.dumps(Cron.parse("30 2 * * *")))  # noqa: S301
    assert copy.next_after(BEGIN, UTC) == datetime(2025, 1, 1, 2, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("0 3 * * *", "At 03:00 every day"),
        ("*/5 * * * *", "Every fifth minute of every hour"),
        ("@hourly", "At the start of every hour"),
        ("30 2 * * MON-FRI", "At 02:30 on Monday through Friday"),
        ("0 0 13 * FRI", "At 00:00 on the 13th day of month or on Friday"),
        ("0 0 * * FRI-MON", "At 00:00 on Friday, Saturday, Sunday, and Monday"),
        ("0 0 LW * *", "At 00:00 on the last weekday of every month"),
        ("0 0 29 2 *", "At 00:00 on February 29"),
        ("*/10 * * * * *", "Every 10th second of every minute"),
    ],
)
def test_explanation(expression: str, wanted: str) -> None:
    assert Cron.parse(expression).explain() == wanted


def test_every_alias_is_explained() -> None:
    assert all(Cron.parse(alias).explain() for alias in ALIASES)


# Which days: compared with a plain reading of the fields, by the calendar.


def last_working_day(year: int, month: int) -> int:
    last = date(year, month, monthrange(year, month)[1])
    while last.isoweekday() > 5:
        last -= timedelta(days=1)
    return last.day


@given(
    st.frozensets(st.integers(1, 31), min_size=1, max_size=4) | st.none(),
    st.frozensets(st.integers(1, 12), min_size=1, max_size=5) | st.none(),
    st.frozensets(st.integers(0, 6), min_size=1, max_size=3) | st.none(),
    st.sampled_from(["", "L", "LW"]),
    st.dates(date(1990, 1, 1), date(2110, 1, 1)),
)
def test_days_by_the_calendar(
    of_month: frozenset[int] | None,
    months: frozenset[int] | None,
    weekdays: frozenset[int] | None,
    last: str,
    begin: date,
) -> None:
    day_items = [*map(str, of_month or []), *([last] if last and of_month else [])]
    fields = [
        ",".join(day_items) or "*",
        ",".join(map(str, months or [])) or "*",
        ",".join(map(str, weekdays or [])) or "*",
    ]

    def has(day: date) -> bool:
        by_month = of_month is None or day.day in of_month
        if of_month is not None and last == "L":
            by_month = by_month or day.day == monthrange(day.year, day.month)[1]
        if of_month is not None and last == "LW":
            by_month = by_month or day.day == last_working_day(day.year, day.month)
        by_week = weekdays is None or day.isoweekday() % 7 in weekdays
        either = of_month is not None and weekdays is not None
        return (months is None or day.month in months) and (
            (by_month or by_week) if either else (by_month and by_week)
        )

    span = [begin + timedelta(days=n) for n in range(500)]
    wanted = [day.isoformat() for day in span if has(day)]
    try:
        cron = Cron.parse(f"0 0 {' '.join(fields)}")
    except BadOption:
        assert not wanted
        return
    at = datetime(begin.year, begin.month, begin.day, tzinfo=UTC)
    found = days(cron.text, len(wanted), at)
    assert found == wanted
    for earlier, later in zip(found, islice(found, 1, None), strict=False):
        before = datetime.fromisoformat(f"{later}T00:00Z") - timedelta(seconds=1)
        assert cron.previous_at_or_before(before, UTC).date().isoformat() == earlier


# Zones.


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "EST5EDT"])
def test_zones_by_their_names(name: str) -> None:
    assert parse_zone(name).key == name


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("europe/berlin", "'Europe/Berlin'"),
        ("Berlin", "'Europe/Berlin'"),
        ("Europe/Berln", "'Europe/Berlin'"),
        ("New York", "'America/New_York'"),
        ("America/NewYork", "'America/New_York'"),
        ("+02:00", "'local'"),
        ("", "'local'"),
    ],
)
def test_unknown_zone_is_refused_with_near_names(name: str, near: str) -> None:
    with pytest.raises(BadOption) as caught:
        parse_zone(name)
    assert caught.value.option == "timezone"
    assert near in caught.value.why


@pytest.mark.parametrize(
    "name", ["../etc/passwd", "/etc/localtime", "Europe", "right/UTC", "a\0b", "\ud800", "x" * 9999]
)
def test_no_path_is_a_zone(name: str) -> None:
    with pytest.raises(BadOption):
        parse_zone(name)


@pytest.mark.parametrize("value", [None, 3, UTC, ["UTC"]])
def test_zone_is_a_name(value: Any) -> None:
    with pytest.raises(BadOption):
        parse_zone(value)


NOWHERE = Path("/nonexistent/localtime")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/America/Lima", "America/Lima"),
        ("", "UTC"),
    ],
)
def test_local_zone_by_the_environment(given: str, wanted: str) -> None:
    assert local_zone_name({"TZ": given}, NOWHERE) == wanted


def test_local_zone_by_the_link(tmp_path: Path) -> None:
    target = tmp_path / "zoneinfo" / "Asia" / "Kathmandu"
    target.parent.mkdir(parents=True)
    target.write_bytes(b"TZif")
    link = tmp_path / "localtime"
    link.symlink_to(target)
    assert local_zone_name({}, link, "linux") == "Asia/Kathmandu"
    assert local_zone_name({}, NOWHERE, "linux") == "UTC"


def test_local_zone_by_a_copy(tmp_path: Path) -> None:
    found = next(
        (Path(root) for root in zoneinfo.TZPATH if Path(root, "Asia/Tokyo").exists()), None
    )
    if found is None:
        pytest.skip("this machine has no zone files")
    copy = tmp_path / "localtime"
    shutil.copy(found / "Asia/Tokyo", copy)
    assert local_zone_name({}, copy, "linux") == "Asia/Tokyo"
    copy.write_bytes(b"TZif, but of nowhere")
    with pytest.raises(BadOption, match="like no IANA zone"):
        local_zone_name({}, copy, "linux")


def test_local_zone_without_an_iana_name_is_refused() -> None:
    with pytest.raises(BadOption, match="no IANA name"):
        local_zone_name({"TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}, NOWHERE)
    with pytest.raises(BadOption, match="Windows"):
        local_zone_name({}, NOWHERE, "win32")


def test_local_is_resolved_to_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Australia/Lord_Howe")
    assert parse_zone("local").key == "Australia/Lord_Howe"
