"""Counts: how many runs there are, and since when the oldest has waited."""

from __future__ import annotations

import psycopg
import pytest

from tests.conformance.kit import Driver, requires
from tests.conformance.places import Place, PostgresPlace
from windlass.domain.counts import By, Count, QueueAge
from windlass.domain.outcome import Outcome
from windlass.domain.states import Status

EVERY = (
    Status.SCHEDULED, Status.QUEUED, Status.RUNNING, Status.SUCCEEDED, Status.FAILED,
    Status.CANCELED,
)  # fmt: skip


def counted(drive: Driver, by: By = By.STATUS, most: int = 100) -> list[Count]:
    found = drive.call(drive.ops.count_runs("default", by, most))
    return sorted(found, key=lambda row: (row.name, row.status))


def numbers(drive: Driver, by: By = By.STATUS, most: int = 100) -> dict[tuple[str, str], int]:
    return {(row.name, row.status): row.count for row in counted(drive, by, most)}


def ages(drive: Driver, most: int = 100) -> dict[str, float]:
    first, *found = drive.call(drive.ops.queue_ages("default", most))
    assert first == QueueAge(queue="", oldest_at=None, seen_at=drive.now)
    return {
        age.queue: (drive.now - age.oldest_at).total_seconds()
        for age in found
        if age.oldest_at is not None
    }


@pytest.mark.both_faces
def test_nothing_is_counted_as_nothing(drive: Driver) -> None:
    assert (counted(drive), ages(drive)) == ([], {})


@pytest.mark.both_faces
def test_each_status_is_counted(drive: Driver) -> None:
    for number, status in enumerate(EVERY, start=1):
        for _ in range(number):
            drive.bring(status)
    drive.bring(Status.FAILED, tenant="other")

    assert counted(drive) == sorted(
        (Count(name=s, status=s, count=n) for n, s in enumerate(EVERY, start=1)),
        key=lambda row: row.name,
    )


def test_queues_and_jobs_are_counted_by_status(drive: Driver) -> None:
    drive.add_many(3, queue="a", job="x")
    drive.add(queue="b", job="x", delay=60.0)
    drive.bring(Status.FAILED, queue="b", job="y")
    drive.bring(Status.SUCCEEDED, queue="b", job="y")
    drive.start(queue="a", job="y")
    drive.add(queue="a", job="x", tenant="other")

    assert numbers(drive, By.QUEUE) == {
        ("a", "queued"): 3, ("a", "running"): 1, ("b", "scheduled"): 1, ("b", "failed"): 1,
    }  # fmt: skip
    assert numbers(drive, By.JOB) == {
        ("x", "queued"): 3, ("x", "scheduled"): 1, ("y", "running"): 1, ("y", "failed"): 1,
    }  # fmt: skip


def test_discarded_letters_are_still_runs_that_failed(drive: Driver) -> None:
    run = drive.ended(Outcome.FAILED)
    drive.call(drive.ops.discard("default", [run.id]))
    assert numbers(drive) == {("failed", "failed"): 1}


def test_the_oldest_is_found_in_every_priority(drive: Driver) -> None:
    drive.add(queue="a", priority=0)
    drive.advance(10)
    drive.add(queue="a", priority=9)
    drive.add(queue="b", tenant="other")
    drive.add(queue="b", priority=-1)
    drive.add(queue="c", delay=5.0)
    drive.advance(20)

    assert ages(drive) == {"a": 30, "b": 20}


def test_a_look_for_the_oldest_is_bounded(drive: Driver) -> None:
    drive.add_many(5, queue="a", tenant="other")
    drive.advance(1)
    drive.add(queue="a")
    assert ages(drive, most=5) == {}
    assert ages(drive, most=6) == {"a": 0}


@requires("server")
def test_what_is_beyond_the_limit_is_estimated(drive: Driver, place: Place) -> None:
    assert isinstance(place, PostgresPlace)
    drive.add_many(300, queue="a")
    drive.add_many(100, queue="b")
    for run in drive.start_many(40, queue="c"):
        drive.finish(run, Outcome.SUCCEEDED)
    drive.add(queue="d", delay=60.0)
    with psycopg.connect(place.url, autocommit=True) as conn:
        conn.execute("analyze windlass.ready, windlass.runs")

    assert {row.name: (row.count, row.exact) for row in counted(drive, most=50)} == {
        "queued": (400, False), "scheduled": (1, True), "succeeded": (40, False),
    }  # fmt: skip
    by_queue = counted(drive, By.QUEUE, most=200)
    assert [(row.name, row.exact) for row in by_queue] == [("a", False), ("d", True)]
    assert by_queue[0].count == 400  # all that it saw was in this queue
    assert all(row.exact for row in counted(drive, most=500))


@requires("server")
def test_an_estimate_is_never_less_than_what_was_seen(drive: Driver) -> None:
    """Nobody has analyzed the tables, or they were when they were empty."""
    drive.add_many(60)
    (row,) = (row for row in counted(drive, most=50) if row.name == "queued")
    assert (row.exact, row.count >= 51) == (False, True)
