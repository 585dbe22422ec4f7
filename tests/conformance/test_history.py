"""The history checker itself: a good history passes, and each kind of damage is found."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, held_of, raw, reachable, told
from windlass.domain.outcome import Outcome
from windlass.domain.scheduling.rows import Overlap
from windlass.domain.step import StepKind, StepState, StepWrite

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
    steer.call(steer.ops.record_progress([told(held_of(held), 0.5)]))
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
    remember(steer)
    steer.finish(steer.start(), Outcome.CONTINUED)
    desk = Desk(steer)
    row = desk.put(overlap=Overlap.QUEUE)
    desk.fire(row, 3)
    desk.fire(desk.put(overlap=Overlap.SKIP), 2, missed_count=2)
    return History.read(steer.tables)


def remember(steer: Driver) -> None:
    """A run with steps of every state, signals that answered and one that did not."""

    def step(path: str, state: StepState, **fields: Any) -> StepWrite:
        return StepWrite(path=path, kind=StepKind.STEP, state=state, **fields)

    def record(*steps: StepWrite) -> None:
        assert steer.call(steer.ops.record_steps(held_of(held), steps)) is not None

    def send(name: str, payload: int) -> None:
        steer.call(steer.ops.signal(held.ref, name, raw(payload), None))

    waits = step("go", StepState.WAITING, signal="go")
    held = steer.start()
    record(step("charge", StepState.FAILED), step("mail", StepState.RETRYING, wait=5.0))
    steer.finish(held, Outcome.SLEEPING, waits=("nap",), until=steer.later(5))
    steer.advance(5)
    steer.sweep(dispatch=True)
    held = steer.take(held.ref)
    record(waits)
    steer.finish(held, Outcome.WAITING, waits=("go",))
    steer.advance(1)
    send("go", 1)
    held = steer.take(held.ref)
    record(waits, step("charge", StepState.DONE))
    send("more", 2)
    send("more", 3)
    more = [step(path, StepState.WAITING, signal="more") for path in ("more", "more#2")]
    record(*more, step("late", StepState.WAITING, signal="late", wait=0.0))
    steer.finish(held, Outcome.FAILED)
    steer.retry(held.ref)
    held = steer.take(held.ref)
    record(step("charge", StepState.DONE), step("last", StepState.WAITING, signal="last"))
    send("nobody", 4)
    steer.finish(held, Outcome.WAITING, waits=("last",))
    steer.advance(1)


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


def _swap_all(rows: Rows, *columns: str) -> None:
    for column in columns:
        _swap(rows, column)


def _copy(t: dict[str, Rows], table: str, source: str, **changes: Any) -> None:
    t[table].append({**t[source][0], **changes})


def _made(t: dict[str, Rows]) -> dict[str, Any]:
    return next(row for row in t["runs"] if row["schedule"] is not None)


def _slot(t: dict[str, Rows], outcome: str) -> dict[str, Any]:
    return next(row for row in t["schedule_slots"] if row["outcome"] == outcome)


SECOND = timedelta(seconds=1)
NO_RUN = "there is none"


def _step(t: dict[str, Rows], path: str) -> dict[str, Any]:
    return next(row for row in t["steps"] if (row["path"], row["generation"]) == (path, 0))


def _signal(t: dict[str, Rows], name: str) -> dict[str, Any]:
    return next(row for row in t["signals"] if row["name"] == name)


def _of(t: dict[str, Rows], kind: str) -> dict[str, Any]:
    return next(row for row in t["events"] if row["type"] == kind)


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
    "a step of another tenant": (NO_RUN, lambda t: t["steps"][0].update(tenant="acme")),
    "a signal of another tenant": (NO_RUN, lambda t: t["signals"][0].update(tenant="acme")),
    "a step has no event": ("I18", lambda t: t["events"].remove(_of(t, "step.succeeded"))),
    "a step ended in another way": ("I18", lambda t: _step(t, "late").update(state="failed")),
    "a step that ended has no seq": ("I18", lambda t: _step(t, "late").update(seq=None)),
    "a step that waits has a seq": ("I18", lambda t: _step(t, "last").update(seq=3)),
    "a step is gone": ("I18", lambda t: t["steps"].remove(_step(t, "late"))),
    "a step has the event of another": ("I18", lambda t: _step(t, "late").update(path="other")),
    "a step ended while its run was parked": (
        "I8",
        lambda t: _of(t, "run.queued").update(type="step.retrying"),
    ),
    "a signal is gone": ("I19", lambda t: t["signals"].remove(_signal(t, "nobody"))),
    "a signal has another number": ("I19", lambda t: _signal(t, "nobody").update(number=3)),
    "a signal answered two steps": ("I19", lambda t: t["signals"][0].update(taken_by="more")),
    "a signal was taken by nobody": ("I19", lambda t: _signal(t, "go").update(taken_by="x")),
    "a step has another payload": ("I19", lambda t: _step(t, "more").update(value=9)),
    "a step was answered by nothing": ("I19", lambda t: _signal(t, "go").update(taken_by=None)),
    "signals answered out of turn": (
        "I19",
        lambda t: _swap_all([{}, _step(t, "more"), _step(t, "more#2")], "path", "value"),
    ),
    "a generation is gone": ("I21", lambda t: t["generations"].clear()),
    "a generation has another number": ("I21", lambda t: t["generations"][0].update(generation=2)),
    "a run waits for what is there": (
        "I20",
        lambda t: _step(t, "last").update(signal="nobody"),
    ),
    "a wait that was over went on waiting": (
        "I2",
        lambda t: [
            row.update(change)
            for row, change in (
                (_step(t, "last"), {"signal": "go"}),
                (_signal(t, "go"), {"taken_by": None}),
            )
        ],
    ),
    "an attempt that waited ended otherwise": (
        "I3",
        lambda t: next(row for row in t["attempts"] if row["outcome"] == "waited").update(
            outcome="snoozed"
        ),
    ),
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
