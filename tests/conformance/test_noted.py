"""What is noted about a run: its trace, its metadata, and the run in whose handler it was made."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.kit import Driver, raw, ref, value_of
from windlass.domain.outcome import Outcome
from windlass.domain.run import Extras

TRACE = "0af7651916cd43dd8448eb211c80319c"
NOTE = {"who": "Ada", "none": None, "deep": [{"ü": 1.5}]}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("key", [None, "k"])
def test_it_is_kept_with_the_run(drive: Driver, batch: int, key: str | None) -> None:
    parent = drive.start()
    given: dict[str, Any] = {
        "trace": TRACE, "metadata": raw(NOTE), "enqueued_by": parent.id, "key": key,
    }  # fmt: skip
    run = drive.new(**given)
    drive.enqueue(run, *(drive.new() for _ in range(batch - 1)))

    record = drive.get(ref(run.id))

    assert (record.trace, record.enqueued_by) == (TRACE, parent.id)
    assert value_of(record.metadata) == NOTE


@pytest.mark.parametrize("batch", [1, 3, 20])
def test_the_runs_of_one_handler_have_its_trace(drive: Driver, batch: int) -> None:
    """As they are enqueued most often: all alike, and without options."""
    parent = drive.start()
    new = [drive.new(trace=TRACE, enqueued_by=parent.id) for _ in range(batch)]
    drive.enqueue(*new)
    drive.enqueue(*new)  # a repeat whose first answer was lost

    records = [drive.get(ref(run.id)) for run in new]

    assert {(record.trace, record.enqueued_by) for record in records} == {(TRACE, parent.id)}
    assert len(drive.rows("runs")) == batch + 1


def test_runs_of_two_handlers_are_kept_apart(drive: Driver) -> None:
    one, two = drive.start(), drive.start()
    new = [drive.new(enqueued_by=one.id), drive.new(enqueued_by=two.id), drive.new()]
    drive.enqueue(*new)

    records = [drive.get(ref(run.id)) for run in new]

    assert [record.enqueued_by for record in records] == [one.id, two.id, None]


def test_a_handler_finds_it(drive: Driver) -> None:
    parent = drive.start()
    run = drive.new(
        tags=("a", "b"), key="k", metadata=raw(NOTE), enqueued_by=parent.id, trace=TRACE, priority=3
    )
    drive.enqueue(run)

    claimed = drive.take(ref(run.id))

    assert claimed.extras == Extras(tags=("a", "b"), key="k", metadata=NOTE, enqueued_by=parent.id)
    assert (claimed.trace, claimed.rank) == (TRACE, -3)
    assert claimed.scheduled_for == drive.get(claimed.ref).scheduled_for


@pytest.mark.parametrize("by_name", [False, True])
def test_a_plain_run_has_nothing_of_it(drive: Driver, by_name: bool) -> None:
    run = drive.add()
    drive.register()

    wish: Any = {"ids": (run,)} if by_name else {}
    (claimed,) = drive.claim(1, **wish).claimed

    assert claimed.extras is None
    assert claimed.scheduled_for == drive.get(run).created_at


@pytest.mark.parametrize("by_name", [False, True])
def test_a_handler_knows_for_when_its_run_was_meant(drive: Driver, by_name: bool) -> None:
    """Whatever the time at which it became ready: here by a dispatcher that came late, and again
    after a backoff."""
    run = drive.add(delay=60.0)
    meant = drive.get(run).scheduled_for
    wish: Any = {"ids": (run,)} if by_name else {}

    drive.advance(90)
    drive.sweep(dispatch=True)
    drive.register()
    (first,) = drive.claim(1, **wish).claimed
    drive.finish(first, Outcome.RETRY, delay=60.0)
    drive.advance(61)
    drive.sweep(dispatch=True)
    drive.register("worker-2")
    (second,) = drive.claim(1, worker="worker-2", **wish).claimed

    assert meant == drive.get(run).created_at + timedelta(seconds=60)
    assert [first.scheduled_for, second.scheduled_for] == [meant, meant]
