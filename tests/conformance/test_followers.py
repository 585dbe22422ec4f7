"""Runs that start when others have ended: held, decided once, released with a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, held_of, make_error, make_finish, raw, value_of
from windlass.domain.event import EventType
from windlass.domain.follower import MOST_AWAITED, FollowRow
from windlass.domain.outcome import Outcome
from windlass.domain.run import RunRef
from windlass.domain.states import Failure, Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.errors import BadArguments

NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def nothing_is_wrong(drive: Driver) -> Any:
    yield
    assert violations(History.read(drive.tables)) == []


def follow(drive: Driver, *runs: RunRef, **fields: Any) -> RunRef:
    return drive.add(after=tuple(run.id for run in runs), **fields)


def look(drive: Driver) -> list[str]:
    """Sweep; return the ids of the runs that became ready."""
    return [run.id for run in drive.sweep(dispatch=True, expire=True).dispatched]


def end(drive: Driver, run: RunRef, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> None:
    assert drive.finish_all([make_finish(drive.take(run), outcome, **fields)]).lost == ()


def fail(drive: Driver, run: RunRef) -> None:
    end(drive, run, Outcome.FAILED, failure=Failure.FATAL, error=make_error(), counts=True)


def listed(drive: Driver, run: RunRef, *, followers: bool = False) -> list[FollowRow]:
    return list(drive.call(drive.ops.list_follows(run.tenant, run.id, followers, 100)))


def outcomes(drive: Driver, run: RunRef) -> list[str | None]:
    return [row.outcome for row in listed(drive, run)]


def status(drive: Driver, run: RunRef) -> Status:
    return drive.get(run).status


def test_a_follower_starts_when_all_have_ended(drive: Driver) -> None:
    first, second = drive.add(), drive.add()
    follower = follow(drive, first, second)
    record = drive.get(follower)
    assert (record.status, record.waiting_for) == (Status.SCHEDULED, "held")

    assert look(drive) == []
    end(drive, first)
    assert look(drive) == []
    assert outcomes(drive, follower) == ["succeeded", None]
    end(drive, second)
    assert look(drive) == [follower.id]

    assert status(drive, follower) is Status.QUEUED
    assert drive.trail(follower)[:3] == [EventType.ENQUEUED, EventType.HELD, EventType.QUEUED]
    assert [row.awaited for row in listed(drive, follower)] == [first.id, second.id]
    assert [row.id for row in listed(drive, first, followers=True)] == [follower.id]
    end(drive, follower)
    assert look(drive) == []


def test_the_answer_says_that_it_is_scheduled(drive: Driver) -> None:
    first = drive.add()
    new = drive.new(after=(first.id,))

    assert [(a.created, a.status) for a in drive.enqueue(new)] == [(True, Status.SCHEDULED)]
    assert [(a.created, a.status) for a in drive.enqueue(new)] == [(False, Status.SCHEDULED)]
    assert len(listed(drive, RunRef(new.tenant, new.id))) == 1


def test_what_has_ended_before_counts(drive: Driver) -> None:
    done = drive.ended(Outcome.SUCCEEDED)
    follower = follow(drive, done)

    assert status(drive, follower) is Status.SCHEDULED, "a sweep decides, not the enqueue"
    assert look(drive) == [follower.id]


def canceled(drive: Driver, run: RunRef) -> None:
    drive.cancel(run)


def terminated(drive: Driver, run: RunRef) -> None:
    drive.take(run)
    drive.terminate(run)


def expired(drive: Driver, run: RunRef) -> None:
    drive.advance(11)
    drive.sweep(dispatch=True, expire=True)


ENDS: dict[str, tuple[Callable[[Driver, RunRef], None], str]] = {
    "failed": (fail, "has failed"),
    "canceled": (canceled, "was canceled"),
    "terminated": (terminated, "was canceled"),
    "expired": (expired, "has failed"),
}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("marked", [True, False], ids=["marked", "not yet marked"])
def test_a_follower_is_canceled_if_one_does_not_succeed(
    drive: Driver, how: str, marked: bool
) -> None:
    first, second = drive.add(expires_in=10), drive.add()
    follower = follow(drive, second, first)
    last = follow(drive, follower)
    if marked:
        look(drive)
    act, told = ENDS[how]

    act(drive, first)
    look(drive)
    look(drive)

    record = drive.get(follower)
    assert record.status is Status.CANCELED, "at once: the other still lives"
    assert record.reason == f"run {first.id}, which it comes after, {told}"
    assert status(drive, last) is Status.CANCELED


def test_a_follower_that_runs_all_the_same(drive: Driver) -> None:
    first, second = drive.add(), drive.add()
    follower = follow(drive, first, second, after_failure="run")
    look(drive)

    fail(drive, first)
    assert look(drive) == []
    drive.cancel(second)

    assert look(drive) == [follower.id]
    assert outcomes(drive, follower) == ["failed", "canceled"]


def test_a_deleted_run_has_ended(drive: Driver) -> None:
    first, second = drive.ended(Outcome.SUCCEEDED), drive.ended(Outcome.SUCCEEDED)
    other = drive.add()
    follower = follow(drive, first, other)
    tolerant = follow(drive, second, after_failure="run")

    drive.tables.delete_run(first)
    drive.tables.delete_run(second)

    assert look(drive) == [tolerant.id]
    assert drive.get(follower).reason == f"run {first.id}, which it comes after, was deleted"
    assert outcomes(drive, tolerant) == ["deleted"]
    drive.tables.delete_run(tolerant)
    assert listed(drive, tolerant) == []
    drive.tables.empty()  # their events are of nobody


def test_a_retry_of_what_failed_changes_nothing_that_was_decided(drive: Driver) -> None:
    first, second = drive.add(), drive.add()
    lenient = follow(drive, first, second, after_failure="run")
    strict = follow(drive, first)
    look(drive)
    fail(drive, first)
    look(drive)

    drive.retry(first)
    end(drive, first)
    assert look(drive) == []
    assert outcomes(drive, lenient) == ["failed", None], "the first end counts"
    end(drive, second)

    assert look(drive) == [lenient.id]
    assert status(drive, strict) is Status.CANCELED
    end(drive, lenient)
    assert look(drive) == []


def test_unknown_runs_are_refused_and_nothing_is_left(drive: Driver) -> None:
    other = drive.new()
    with pytest.raises(BadArguments, match=NOBODY):
        drive.enqueue(other, drive.new(after=(NOBODY,)))
    assert drive.rows("runs") == []
    assert drive.rows("follows") == []


def test_a_batch_may_name_what_comes_before(drive: Driver) -> None:
    first, second = drive.new(), drive.new()
    third = drive.new(after=(first.id, second.id, first.id))
    drive.enqueue(first, second, third)
    follower = RunRef("default", third.id)
    assert [row.awaited for row in listed(drive, follower)] == [first.id, second.id]

    for run in (first, second):
        end(drive, RunRef("default", run.id))
    assert look(drive) == [third.id]


def test_circles_are_refused(drive: Driver) -> None:
    first, second = drive.new(), drive.new()
    circle = [
        drive.new(id=first.id, after=(second.id,)),
        drive.new(id=second.id, after=(first.id,)),
    ]
    for batch in (circle, [drive.new(id=first.id, after=(first.id,))]):
        with pytest.raises(BadArguments, match="does not exist"):
            drive.enqueue(*batch)
    assert drive.rows("runs") == []


def test_what_a_follower_cannot_have(drive: Driver) -> None:
    first, second = drive.add(), drive.add()
    for fields, what in (
        ({"after": (first.id,), "delay": 5.0}, "after"),
        ({"after": (first.id,), "at": drive.later(5)}, "after"),
        ({"after": (first.id, second.id), "takes": "x"}, "takes"),
        ({"after": (first.id,) * 2 + (NOBODY,) * MOST_AWAITED}, "after"),
    ):
        with pytest.raises(BadArguments) as refused:
            drive.add(**fields)
        assert refused.value.parameter == what
    parent = drive.start()
    step = StepWrite(path="kid", kind=StepKind.CHILD, state=StepState.WAITING)
    held = held_of(parent)
    with pytest.raises(BadArguments):
        drive.call(drive.ops.start_children(held, step, 0, [drive.new(after=(first.id,))], None))


@pytest.mark.parametrize(
    ("input", "result", "whole"),
    [
        ({}, 12345678901234567890, {"text": 12345678901234567890}),
        ({"width": 3, "name": 'a"b'}, {"a": [1.5, "é"]}, None),
        ({"text": "given"}, "unused", {"text": "given"}),
        ({}, None, {"text": None}),
    ],
)
def test_a_result_becomes_an_argument(
    drive: Driver, input: dict[str, Any], result: Any, whole: Any
) -> None:
    first = drive.add()
    follower = follow(drive, first, takes="text", input=raw(input))
    look(drive)

    end(drive, first, result=None if result is None else raw(result))

    assert look(drive) == [follower.id]
    found = value_of(drive.take(follower).input)
    assert found == ({**input, "text": result} if whole is None else whole)


def test_a_result_that_was_deleted_cancels_the_follower(drive: Driver) -> None:
    first = drive.add()
    follower = follow(drive, first, takes="text")
    look(drive)
    end(drive, first, result=raw("x"))
    drive.tables.delete_run(first)

    assert look(drive) == []
    assert status(drive, follower) is Status.CANCELED
    drive.tables.empty()  # the events of the first are of nobody


def test_a_paused_follower_is_decided_when_it_is_resumed(drive: Driver) -> None:
    first = drive.add()
    follower = follow(drive, first)
    assert drive.pause(follower).status is Status.PAUSED
    end(drive, first)
    assert look(drive) == []
    assert status(drive, follower) is Status.PAUSED

    assert drive.resume(follower).status is Status.SCHEDULED
    assert look(drive) == [follower.id]


def test_a_paused_follower_still_waits_when_it_is_resumed(drive: Driver) -> None:
    first = drive.add()
    follower = follow(drive, first)
    drive.pause(follower)
    drive.resume(follower)
    assert look(drive) == []
    end(drive, first)
    assert look(drive) == [follower.id]


def test_operators_let_a_follower_go(drive: Driver) -> None:
    first = drive.add()
    restarted, moved, ended = (follow(drive, first) for _ in range(3))
    look(drive)

    assert drive.restart(restarted).status is Status.QUEUED
    assert drive.reschedule(moved, delay=60.0).status is Status.SCHEDULED
    assert drive.cancel(ended).status is Status.CANCELED
    assert drive.retry(ended).status is Status.QUEUED

    end(drive, first)
    assert look(drive) == [], "they were let go before, and do not start twice"
    drive.advance(61)
    assert look(drive) == [moved.id]


def test_none_is_let_go_without_the_result_that_it_takes(drive: Driver) -> None:
    first = drive.add()
    follower = follow(drive, first, takes="text")
    verbs: list[Callable[[], Any]] = [
        lambda: drive.restart(follower),
        lambda: drive.reschedule(follower, delay=5.0),
    ]
    for verb in verbs:
        with pytest.raises(BadArguments, match=f"result of run {first.id}"):
            verb()
    fail(drive, first)
    look(drive)
    with pytest.raises(BadArguments, match="retry that run first"):
        drive.retry(follower)
    assert status(drive, follower) is Status.CANCELED

    drive.retry(first)
    end(drive, first, result=raw("late"))
    assert drive.retry(follower).status is Status.QUEUED
    assert value_of(drive.take(follower).input)["text"] == "late"


def test_an_input_with_the_argument_needs_no_result(drive: Driver) -> None:
    first = drive.add()
    follower = follow(drive, first, takes="text")
    drive.cancel(follower)
    record = drive.call(drive.ops.retry(follower, None, raw({"text": "given"})))
    assert record.status is Status.QUEUED


def test_a_follower_expires_as_any_run(drive: Driver) -> None:
    first = drive.add()
    follower = follow(drive, first, expires_in=10)
    look(drive)
    drive.advance(11)
    look(drive)
    assert drive.get(follower).failure is Failure.EXPIRED
    end(drive, first)
    assert look(drive) == []


def test_runs_that_nobody_comes_after_have_no_mark(drive: Driver) -> None:
    run = drive.add()
    end(drive, run)
    assert [row["links"] for row in drive.rows("runs")] == [None]
    assert drive.rows("wakes") == []
