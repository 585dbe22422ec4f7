"""Counting runs, and looking at queues, by an application."""

from __future__ import annotations

import pytest

from windlass import BadOption, Counts, Windlass
from windlass.domain.counts import By, Count
from windlass.domain.states import Status


def greet() -> None:
    """Do nothing."""


def test_counts_are_a_mapping_by_name(app: Windlass) -> None:
    job = app.job(greet)
    app.enqueue_many([job.using(queue=queue).request() for queue in ("a", "a", "b")])
    job.using(delay="1h", queue="b").enqueue()

    assert dict(app.counts()) == {"queued": 3, "scheduled": 1}
    assert repr(app.counts()) in (
        "Counts(status, {'queued': 3, 'scheduled': 1})",
        "Counts(status, {'scheduled': 1, 'queued': 3})",
    )
    assert dict(app.counts(by="queue")) == {"a": 2, "b": 2}
    assert dict(app.counts(by="job")) == {"greet": 4}
    assert app.counts().estimated == frozenset()
    statuses = {(row.name, row.status): row.count for row in app.counts(by="queue").rows}
    assert statuses == {("a", "queued"): 2, ("b", "queued"): 1, ("b", "scheduled"): 1}


async def test_queues_are_the_deepest_first(app: Windlass) -> None:
    job = app.job(greet)
    for queue in ("a", "b", "b"):
        await job.using(queue=queue).aenqueue()
    await job.using(queue="c", delay="1h").aenqueue()

    first, second, third = await app.aqueues()

    assert [(q.name, q.ready, q.scheduled, q.running) for q in (first, second, third)] == [
        ("b", 2, 0, 0), ("a", 1, 0, 0), ("c", 0, 1, 0),
    ]  # fmt: skip
    assert first.age is not None
    assert first.age >= 0
    assert third.age is None
    assert first.exact


def test_what_cannot_be_counted_by_is_refused(app: Windlass) -> None:
    with pytest.raises(BadOption, match="'color' is none of status, queue, job"):
        app.counts(by="color")  # type: ignore[arg-type]


def test_estimates_are_told() -> None:
    rows = [
        Count(name="a", status=Status.QUEUED, count=5, exact=False),
        Count(name="a", status=Status.RUNNING, count=1),
        Count(name="b", status=Status.QUEUED, count=2),
    ]
    counts = Counts(By.QUEUE, rows)
    assert (counts["a"], *counts.estimated) == (6, "a")
    assert repr(counts) == "Counts(queue, {'a': '~6', 'b': 2})"
