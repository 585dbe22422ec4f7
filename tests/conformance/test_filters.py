"""Filters of listings: each by itself, together with others, and when hardly any run fits."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.conformance.kit import ABSENT, Driver, ids, make_error, reachable
from windlass.domain import listing
from windlass.domain.listing import RunFilter
from windlass.domain.outcome import Outcome
from windlass.domain.scheduling.rows import Decision, Firing
from windlass.domain.states import Status
from windlass.store.sqlite import listing as sqlite_listing


def test_several_statuses_are_one_listing(steer: Driver) -> None:
    made = [(steer.bring(status).id, status) for _ in range(3) for status in reachable()]

    def expected(*wanted: Status) -> list[str]:
        return [ident for ident, status in reversed(made) if status in wanted]

    live = (Status.QUEUED, Status.SCHEDULED, Status.RUNNING, Status.WAITING)
    for several in (live, (Status.FAILED, Status.CANCELED), (Status.FAILED, Status.QUEUED)):
        assert steer.list(status=several) == expected(*several)
        assert steer.list(status=several, limit=2) == expected(*several)[:2]
        before = expected(*several)[1]
        assert steer.list(status=several, limit=2, before=before) == expected(*several)[2:4]
    assert steer.list(status=(*live, Status.SUCCEEDED)) == expected(*live, Status.SUCCEEDED)
    waiting = (Status.WAITING, Status.QUEUED)
    assert steer.list(status=waiting) == expected(*waiting)
    assert steer.list(status=(Status.PAUSED, Status.QUEUED)) == expected(
        Status.PAUSED, Status.QUEUED
    )
    assert steer.list(status=(Status.QUEUED, Status.FAILED), dead=True) == expected(Status.FAILED)
    assert steer.list(status=(Status.QUEUED, Status.CANCELED), dead=True) == []


def test_pages_of_several_statuses_follow_each_other(steer: Driver) -> None:
    """One status has its runs at the top, the other at the bottom."""
    old = [steer.bring(Status.SCHEDULED).id for _ in range(4)]
    new = [steer.bring(Status.QUEUED).id for _ in range(5)]
    several = (Status.QUEUED, Status.SCHEDULED)
    pages: list[str] = []
    before: str | None = None
    while page := steer.list(status=several, limit=2, before=before):
        pages += page
        before = page[-1]

    assert pages == [*reversed(new), *reversed(old)]


def test_a_status_with_few_runs_does_not_get_ahead_of_one_with_many(steer: Driver) -> None:
    """The only other run that fits is older than what was looked at of the first status."""
    oldest = steer.bring(Status.SCHEDULED, queue="rare").id
    older = steer.bring(Status.QUEUED, queue="rare").id
    steer.add_many(9)

    several = (Status.QUEUED, Status.SCHEDULED)

    assert steer.list(status=several, queue="rare", limit=1) == [older]
    asked = RunFilter(status=several, queue="rare", limit=2)
    assert steer.call(steer.ops.find_runs(asked)).ids == (older, oldest)


def test_runs_are_listed_by_key(steer: Driver) -> None:
    first = steer.add(key="k", key_ttl=1.0)
    steer.advance(2)
    second = steer.add(key="k")
    other = steer.add(key="k", job="b")
    steer.add(key="x")
    steer.add(tenant="acme", key="k")

    assert steer.list(key="k") == ids([other, second, first])
    assert steer.list(key="k", job="b") == [other.id]
    assert steer.list(key="k", status=Status.SUCCEEDED) == []
    assert steer.list(key="nobody") == []


def test_runs_are_listed_by_schedule(steer: Driver) -> None:
    desk = Desk(steer)
    schedule, other = desk.put(), desk.put()
    slot = datetime.fromisoformat("2030-01-01T00:00Z")
    fired = []
    for row in (schedule, schedule, other):
        run, slot = steer.new(), slot + timedelta(hours=1)
        decision = Decision(
            tenant=row.tenant, id=row.id, advance=False, slots=(Firing(slot=slot, run=run),)
        )
        steer.call(steer.ops.fire_schedules([decision]))
        fired.append(run.id)

    assert steer.list(schedule=schedule.id) == [fired[1], fired[0]]
    assert steer.list(schedule=schedule.id, status=Status.QUEUED) == [fired[1], fired[0]]
    assert steer.list(schedule=other.id, limit=1) == [fired[2]]
    assert steer.list(schedule=ABSENT) == steer.list(schedule="no id") == []


def test_runs_are_listed_by_the_worker_that_holds_or_ended_them(steer: Driver) -> None:
    held = steer.start(worker="a")
    ended = {
        outcome: steer.start(worker="a")
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELED)
    }
    for outcome, claimed in ended.items():
        steer.finish(claimed, outcome)
    waits = steer.start(worker="a")
    steer.finish(waits, Outcome.RETRY)  # nobody holds it, and it has not ended
    steer.start(worker="b")
    steer.add()

    assert steer.list(worker="a") == [*reversed([run.id for run in (held, *ended.values())])]
    assert steer.list(worker="a", status=Status.RUNNING) == [held.id]
    assert steer.list(worker="a", status=Status.FAILED) == [ended[Outcome.FAILED].id]
    assert steer.list(worker="a", status=(Status.QUEUED, Status.SCHEDULED)) == []
    assert steer.list(worker="nobody") == []


@pytest.mark.parametrize("tag", [None, "t"])
def test_runs_are_listed_by_the_type_of_their_error(steer: Driver, tag: str | None) -> None:
    kinds = ["ValueError", "shop.errors.Declined", "other.Declined", "XDeclined"]
    failed = {}
    for kind in kinds:
        held = steer.start(tags=("t",))
        steer.finish(held, Outcome.FAILED, error=make_error(kind=kind))
        failed[kind] = held.id
    waits = steer.start(tags=("t",))
    steer.finish(waits, Outcome.RETRY)  # after a ValueError

    def listed(**more: Any) -> list[str]:
        return list(steer.list(tag=tag, **more))

    assert listed(error="ValueError") == [failed["ValueError"]]
    assert listed(error="Declined") == [failed["other.Declined"], failed["shop.errors.Declined"]]
    assert listed(error="shop.errors.Declined") == [failed["shop.errors.Declined"]]
    assert listed(error="ValueError", status=Status.SCHEDULED) == []
    assert listed(error="Error") == []


@pytest.mark.parametrize("tag", [None, "t"])
@pytest.mark.parametrize("status", [None, Status.SUCCEEDED, Status.FAILED, Status.CANCELED])
def test_runs_are_listed_by_when_they_ended(
    steer: Driver, status: Status | None, tag: str | None
) -> None:
    start = steer.now
    claimed = list(reversed([steer.start(tags=("t",)) for _ in range(3)]))
    outcome = Outcome((status or Status.SUCCEEDED).value)
    for run in claimed:  # the newest ends first
        steer.finish(run, outcome)
        steer.advance(10)
    steer.add(tags=("t",))
    later = [start + timedelta(seconds=seconds) for seconds in (0, 10, 20, 30)]

    def listed(**bounds: Any) -> list[str]:
        return list(steer.list(status=status, tag=tag, **bounds))

    assert listed(finished_from=later[1]) == ids(claimed[1:])
    assert listed(finished_to=later[1]) == ids(claimed[:1]), "the end is not included"
    assert listed(finished_from=later[1], finished_to=later[2]) == ids(claimed[1:2])
    assert listed(finished_from=later[3]) == []
    assert steer.list(status=Status.QUEUED, finished_from=later[0]) == []


# -- when hardly any run fits ---------------------------------------------------------------------


@pytest.fixture
def shortsighted(steer: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A store that looks at few runs in one call; PostgreSQL's has its number in a function."""
    monkeypatch.setattr(sqlite_listing, "MOST_WALKED", 6)
    return steer


def _pages(drive: Driver, **fields: Any) -> list[tuple[list[str], str | None]]:
    """All pages, by the place that each names for the next one."""
    pages, before = [], None
    while True:
        page = drive.call(drive.ops.list_runs(RunFilter(before=before, **fields)))
        found = drive.call(drive.ops.find_runs(RunFilter(before=before, **fields)))
        assert (list(found.ids), found.next) == (ids(page), page.next)
        pages.append((list(found.ids), page.next))
        before = page.next
        if before is None:
            return pages


@pytest.mark.parametrize("status", [None, (Status.QUEUED, Status.SCHEDULED)])
def test_a_call_looks_at_a_bounded_number_of_runs(
    shortsighted: Driver, status: tuple[Status, ...] | None
) -> None:
    rare = [shortsighted.add(queue="rare").id]
    shortsighted.add_many(9)
    shortsighted.add_many(9, delay=60.0)
    rare.append(shortsighted.add(queue="rare").id)

    pages = _pages(shortsighted, queue="rare", status=status, limit=2)

    assert [each for page, _ in pages for each in page] == rare[::-1]
    if shortsighted.store.migrates_itself:  # SQLite
        assert len(pages) > 3, "a page that goes on may be short"


def test_the_last_page_says_that_it_is_the_last(steer: Driver) -> None:
    steer.add_many(4)

    assert [len(page) for page, _ in _pages(steer, limit=2)] == [2, 2]
    assert [len(page) for page, _ in _pages(steer, limit=3)] == [3, 1]
    assert _pages(steer, job="none") == [([], None)]


def test_both_stores_look_at_as_many(pytestconfig: pytest.Config) -> None:
    path = "src/windlass/store/sql/postgres/functions/420_find_ids.sql"
    text = (pytestconfig.rootpath / path).read_text()

    assert f"c_walked constant integer := {listing.MOST_WALKED};" in text
    assert f"v_size * {listing.GROWTH}," in text


# -- ids ------------------------------------------------------------------------------------------


def test_ids_are_found_between_two(steer: Driver) -> None:
    made = sorted(ids(steer.add_many(5)))
    steer.add(tenant="acme")

    def between(first: str, last: str, limit: int = 10) -> list[str]:
        return list(steer.call(steer.ops.ids_between("default", first, last, limit)))

    assert between(made[1], made[3]) == made[1:4]
    assert between(made[1], made[3], 2) == made[1:3]
    assert between(ABSENT, "f" * 32) == made
    assert between("no id", "no id") == []


def test_ends_are_looked_for_together(steer: Driver) -> None:
    runs = {status: steer.bring(status).id for status in reachable()}

    found = steer.call(steer.ops.look_for_ends("default", [*runs.values(), ABSENT, "no id"]))

    assert found == {ident: status.finished for status, ident in runs.items()}
    assert steer.call(steer.ops.look_for_ends("acme", list(runs.values()))) == {}
