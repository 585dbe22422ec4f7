"""The history checker itself: a good history passes, and each kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, held_of, reachable
from windlass.domain.outcome import Outcome
from windlass.domain.scheduling.rows import Overlap

Rows = list[dict[str, Any]]
Damage = Callable[[dict[str, Rows]], object]


@pytest.fixture
def good(steer: Driver) -> History:
    """Runs in every status, with all that may happen to runs behind them."""
    for status in reachable():
        steer.bring(status, tags=("t",), key=f"k-{status}")
        steer.advance(1)
    run = steer.add()
    for outcome in (Outcome.RETRY, Outcome.SNOOZED, Outcome.RELEASED):
        steer.finish(steer.take(run), outcome, delay=0.0)
        steer.advance(1)
    held = steer.take(run, "dying")
    steer.call(steer.ops.progress(held_of(held), 0.5, None))
    steer.kill("dying")
    steer.sweep(reap=True)
    steer.advance(1)
    steer.finish(steer.take(run), Outcome.FAILED)
    steer.call(steer.ops.discard("default", [run.id]))
    steer.retry(run)
    held = steer.take(run)
    steer.cancel(run)
    steer.finish(held, Outcome.RETRY)
    for when in (60.0, 0.0, 60.0):
        steer.reschedule(run, delay=when)
        steer.advance(1)
    steer.add(expires_in=0.0)
    steer.add(expires_in=0.0, delay=10.0)
    steer.sweep(expire=True)
    desk = Desk(steer)
    row = desk.put(overlap=Overlap.QUEUE)
    desk.fire(row, 3)
    desk.fire(desk.put(overlap=Overlap.SKIP), 2, missed_count=2)
    return History.read(steer.tables)


def test_what_the_store_writes_is_right(good: History) -> None:
    assert violations(good) == []
    assert violations(good, max_attempts=2) == []


def test_more_failures_than_the_budget_are_found(good: History) -> None:
    assert any("I3" in problem for problem in violations(good, max_attempts=1))


def test_a_success_beyond_the_budget_is_found(steer: Driver) -> None:
    run = steer.add()
    steer.finish(steer.take(run), Outcome.RETRY, delay=0.0)
    steer.finish(steer.take(run), Outcome.SUCCEEDED)
    history = History.read(steer.tables)
    assert violations(history, max_attempts={"greet": 2, "other": 1}) == []
    assert any("I3" in problem for problem in violations(history, max_attempts={"greet": 1}))


def _longest(rows: Rows, owner: str) -> Rows:
    """The rows of the run with the longest history."""
    names = [row[owner] for row in rows]
    longest = max(set(names), key=names.count)
    return [row for row in rows if row[owner] == longest]


def _events(t: dict[str, Rows]) -> Rows:
    return _longest(t["events"], "subject")


def _attempts(t: dict[str, Rows]) -> Rows:
    return _longest(t["attempts"], "run")


def _run(t: dict[str, Rows], status: str) -> dict[str, Any]:
    return next(row for row in t["runs"] if row["status"] == status)


def _end(t: dict[str, Rows], status: str) -> dict[str, Any]:
    ident = _run(t, status)["id"]
    return [row for row in t["events"] if row["subject"] == ident][-1]


def _swap(rows: Rows, column: str) -> None:
    rows[1][column], rows[2][column] = rows[2][column], rows[1][column]


def _copy(t: dict[str, Rows], table: str, source: str, **changes: Any) -> None:
    t[table].append({**t[source][0], **changes})


def _made(t: dict[str, Rows]) -> dict[str, Any]:
    return next(row for row in t["runs"] if row["schedule"] is not None)


def _slot(t: dict[str, Rows], outcome: str) -> dict[str, Any]:
    return next(row for row in t["schedule_slots"] if row["outcome"] == outcome)


SECOND = timedelta(seconds=1)
NO_RUN = "there is none"

DAMAGES: dict[str, tuple[str, Damage]] = {
    "an event is missing": ("I8", lambda t: t["events"].remove(_events(t)[3])),
    "the last event is missing": ("I8", lambda t: t["events"].remove(_end(t, "succeeded"))),
    "two events are swapped": ("I8", lambda t: _swap(_events(t), "type")),
    "a seq was used twice": ("I8", lambda t: _events(t)[4].update(seq=4)),
    "an event is late": ("I8", lambda t: _events(t)[1].update(at=_events(t)[-1]["at"] + SECOND)),
    "a position lags behind": ("I8", lambda t: t["leases"][0].update(seq=1)),
    "a live run has no position": ("I14", lambda t: t["ready"].clear()),
    "a run has two positions": ("I14", lambda t: _copy(t, "timers", "leases")),
    "a finished run has a lease": (
        "I14",
        lambda t: _copy(t, "leases", "leases", id=_run(t, "succeeded")["id"]),
    ),
    "a finished run is ready": (
        "I14",
        lambda t: _copy(t, "ready", "ready", id=_run(t, "failed")["id"]),
    ),
    "the record tells another outcome": (
        "I2",
        lambda t: _run(t, "succeeded").update(status="canceled"),
    ),
    "the record tells another failure": (
        "I2",
        lambda t: _run(t, "failed").update(failure="timeout"),
    ),
    "an outcome without its event": (
        "I2",
        lambda t: _end(t, "succeeded").update(type="run.snoozed"),
    ),
    "an outcome that was told twice": (
        "I2",
        lambda t: t["events"].append({**_end(t, "succeeded"), "seq": 4}),
    ),
    "a failure is not among the failures": ("I2", lambda t: t["failures"].pop()),
    "a live run is among the failures": (
        "I2",
        lambda t: _copy(t, "failures", "failures", id=t["leases"][0]["id"]),
    ),
    "an attempt is missing": ("I3", lambda t: t["attempts"].remove(_attempts(t)[1])),
    "the last attempt is missing": ("I3", lambda t: t["attempts"].remove(_attempts(t)[-1])),
    "an attempt ended otherwise": ("I3", lambda t: _attempts(t)[0].update(outcome="snoozed")),
    "an attempt was not counted": ("I3", lambda t: t["leases"][0].update(attempt=0)),
    "a token was used twice": ("I4", lambda t: _attempts(t)[1].update(token=1)),
    "a token went back": ("I4", lambda t: _run(t, "succeeded").update(token=0)),
    "two attempts overlap": (
        "I4",
        lambda t: _attempts(t)[0].update(finished_at=_attempts(t)[2]["finished_at"]),
    ),
    "an attempt ended before it began": (
        "I4",
        lambda t: _attempts(t)[0].update(finished_at=_attempts(t)[0]["started_at"] - SECOND),
    ),
    "an event of another tenant": (NO_RUN, lambda t: t["events"][0].update(tenant="acme")),
    "an attempt of another tenant": (NO_RUN, lambda t: t["attempts"][0].update(tenant="acme")),
    "a tag of another tenant": (NO_RUN, lambda t: t["run_tags"][0].update(tenant="acme")),
    "a key of another tenant": (NO_RUN, lambda t: t["run_keys"][0].update(tenant="acme")),
    "progress of another tenant": (NO_RUN, lambda t: t["progress"][0].update(tenant="acme")),
    "a lease of a deleted run": (NO_RUN, lambda t: t["runs"].clear()),
    "a slot fired twice": ("I10", lambda t: t["runs"].append({**_made(t), "id": "another"})),
    "a run of a slot that did not fire": (
        "I10",
        lambda t: t["schedule_slots"].remove(_slot(t, "fired")),
    ),
    "a slot's run is gone": ("I10", lambda t: t["runs"].remove(_made(t))),
    "a slot that waits has a run": ("I10", lambda t: _slot(t, "fired").update(outcome="waiting")),
    "a live run that overlap does not know": ("I10", lambda t: t["schedule_live"].clear()),
    "a run was not counted": ("I10", lambda t: t["schedules"][0].update(fired=7)),
    "a skipped slot was not told": ("I10", lambda t: t["schedule_events"].pop()),
    "the feed has lost an event": ("I13", lambda t: t["feed"].pop(3)),
    "the feed has an event twice": ("I13", lambda t: t["feed"].append(t["feed"][0])),
    "the feed has another time": ("I13", lambda t: t["feed"][0].update(at=_events(t)[-1]["at"])),
    "the feed has other data": ("I13", lambda t: t["feed"][0].update(data={"why": "fun"})),
    "the feed goes backwards": ("I13", lambda t: t["feed"].reverse()),
}


def test_each_damage_is_found(good: History) -> None:
    unnoticed = []
    for what, (rule, damage) in DAMAGES.items():
        tables: dict[str, Rows] = {
            name: [dict(row) for row in getattr(good, name)]
            for name in History.__dataclass_fields__
        }
        damage(tables)
        found = violations(History(**tables))
        if not any(rule in problem for problem in found):
            unnoticed.append(f"{what}: {found}")

    assert unnoticed == []
