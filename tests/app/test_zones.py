"""Two years of slots through the scheduler and the store, against an oracle that watches clocks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.domain.oracle import Expression, Place, survey
from tests.fixtures.apps import opened
from tests.fixtures.planning import Planner
from windlass.sources import Sources

HALF_PAST_TWO = Expression("30 2 * * *", frozenset({30}), frozenset({2}))
ZONES = [
    "Africa/Cairo", "Africa/Casablanca", "America/New_York", "America/Santiago", "America/St_Johns",
    "Antarctica/Troll", "Asia/Kathmandu", "Asia/Kolkata", "Australia/Adelaide",
    "Australia/Lord_Howe", "Europe/Berlin", "Pacific/Chatham",
]  # fmt: skip


@pytest.mark.parametrize(("year", "zones"), [(2024, ZONES), (2011, ["Pacific/Apia"])])
async def test_two_years_of_slots_equal_the_oracles(url: str, year: int, zones: list[str]) -> None:
    begin, end = Place("UTC", year).begin, Place("UTC", year).end
    second = timedelta(seconds=1)
    async with opened(url, sources=Sources.manual(start=begin - second)) as app:
        planner = Planner(app)

        @app.job
        async def nightly() -> None:
            """Never run here."""

        for zone in zones:
            await app.schedules.aput(
                nightly, key=zone, cron=HALF_PAST_TWO.text, timezone=zone, catch_up="all(max=99)"
            )
        while app.sources.now() < end - second:
            left = end - second - app.sources.now()
            await planner.later(seconds=min(left, timedelta(days=60.2)).total_seconds())
        for zone in zones:
            assert await planner.fired(zone) == survey(HALF_PAST_TWO, Place(zone, year)), zone
            assert (await app.schedules.aget(zone)).missed == 0
