"""A success is told by its record alone, whatever happened meanwhile, and after it is reopened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import WORKER, Driver, raw
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import RunRecord, RunRef
from windlass.domain.states import Status

REOPEN: dict[str, Callable[[Driver, RunRef], RunRecord]] = {
    "retry": lambda drive, run: drive.retry(run),
    "reschedule": lambda drive, run: drive.reschedule(run, delay=0.0),
}
# One that a worker hands over among others, and one that is recorded by itself.
SIZES = {"small": 1, "large": 20_000}


def succeed_in_spite_of_a_cancel(drive: Driver, size: int) -> RunRef:
    """A run whose second attempt ends well after somebody asked for its end."""
    run = drive.add()
    drive.finish(drive.take(run), Outcome.RETRY, delay=0.0)
    drive.advance(1)
    held = drive.take(run)
    drive.advance(1)
    drive.cancel(run, "too late")
    drive.advance(1)
    drive.finish(held, Outcome.SUCCEEDED, result=raw("x" * size), version="7")
    return run


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_what_happens_during_an_attempt_is_told_between_its_start_and_its_end(
    drive: Driver, size: int
) -> None:
    began = drive.now
    run = succeed_in_spite_of_a_cancel(drive, size)

    told = [
        (event.seq, event.type, (event.at - began).total_seconds(), event.attempt)
        for event in drive.events(run)
    ]
    assert told == [
        (1, EventType.ENQUEUED, 0, 0),
        (2, EventType.STARTED, 0, 1),
        (3, EventType.RETRYING, 0, 1),
        (4, EventType.STARTED, 1, 2),
        (5, EventType.CANCEL_REQUESTED, 2, 2),
        (6, EventType.SUCCEEDED, 3, 2),
    ]
    assert violations(History.read(drive.tables)) == []


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("verb", REOPEN)
def test_a_success_that_is_reopened_keeps_its_history(drive: Driver, verb: str, size: int) -> None:
    run = succeed_in_spite_of_a_cancel(drive, size)
    drive.tables.mark_stale(run, drive.now)
    events, attempts = drive.events(run), drive.get(run).attempts

    drive.advance(1)
    assert REOPEN[verb](drive, run).status is Status.QUEUED
    assert list(drive.events(run))[:-1] == list(events)
    assert drive.get(run).attempts == attempts
    assert violations(History.read(drive.tables)) == []

    drive.advance(1)
    drive.finish(drive.take(run, "another"), Outcome.SUCCEEDED)
    assert list(drive.events(run))[: len(events)] == list(events)
    ends = [(end.attempt, end.worker, end.outcome, end.version) for end in drive.get(run).attempts]
    assert ends == [
        (1, WORKER, AttemptOutcome.FAILED, None),
        (2, WORKER, AttemptOutcome.SUCCEEDED, "7"),
        (3, "another", AttemptOutcome.SUCCEEDED, None),
    ]
    assert violations(History.read(drive.tables)) == []


def test_a_success_can_be_reopened_more_than_once(drive: Driver) -> None:
    run = drive.add()
    for number in range(1, 5):
        drive.finish(drive.take(run, f"w{number}"), Outcome.SUCCEEDED)
        drive.tables.mark_stale(run, drive.now)
        drive.advance(1)
        assert [end.worker for end in drive.get(run).attempts] == [
            f"w{n}" for n in range(1, number + 1)
        ]
        drive.retry(run)

    lives = [EventType.STARTED, EventType.SUCCEEDED, EventType.STALE, EventType.RETRIED] * 4
    assert drive.trail(run)[1:] == lives
    assert violations(History.read(drive.tables)) == []
