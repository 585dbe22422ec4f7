"""The feed: the events of all runs and schedules, in the order in which they were committed.

That it has each event once, as the history of its subject has it, is checked wherever a history is
checked (`history.py`, I13). Here is what a reader sees of it.
"""

from __future__ import annotations

import pytest

from tests.conformance.desk import Desk
from tests.conformance.kit import Driver, make_finish, ref
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import FeedEvent
from windlass.errors import BadOption


def told(events: list[FeedEvent] | tuple[FeedEvent, ...], subject: str) -> list[EventType]:
    """What the feed tells of one subject."""
    return [event.type for event in events if event.subject == subject]


def live(drive: Driver) -> int:
    """Let some runs and a schedule have lives of all kinds; returns how many events that makes."""
    held = drive.start_many(6)
    late = drive.add(delay=5.0)
    drive.cancel(ref(held[1].id), "enough")
    drive.finish_all(
        [
            make_finish(held[0], Outcome.SUCCEEDED),
            make_finish(held[1], Outcome.SUCCEEDED),
            make_finish(held[2], Outcome.RETRY, delay=0.0),
            make_finish(held[3], Outcome.FAILED),
            make_finish(held[4], Outcome.SNOOZED, delay=5.0),
        ]
    )
    drive.kill()
    drive.sweep(reap=True)  # the sixth
    drive.call(drive.ops.discard("default", [held[3].id]))
    drive.retry(ref(held[3].id))
    drive.advance(10)
    drive.sweep(dispatch=True)
    assert drive.trail(late)[-1] is EventType.QUEUED
    desk = Desk(drive)
    desk.fire(desk.put(key="k"))
    runs = drive.list(limit=100)
    return sum(len(drive.events(ref(run))) for run in runs) + 1


def test_the_feed_has_what_happened_in_its_order(drive: Driver) -> None:
    number = live(drive)
    feed = drive.feed(at_least=number)

    assert len(feed) == number
    assert len({event.place for event in feed}) == number
    for subject in {event.subject for event in feed}:
        history = drive.call(drive.ops.list_events(ref(subject), 0, 100))
        mine = [event for event in feed if event.subject == subject]
        for seen, kept in zip(mine, history, strict=True):
            assert (seen.seq, seen.type, seen.at, seen.attempt, seen.data) == (
                kept.seq, kept.type, kept.at, kept.attempt, kept.data,
            )  # fmt: skip
            assert seen.tenant == "default"


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1_000])
def test_pages_of_any_size_give_the_same(drive: Driver, limit: int) -> None:
    number = live(drive)
    whole = drive.feed(at_least=number)
    read: list[FeedEvent] = []
    while page := drive.call(drive.ops.list_feed(read[-1].place if read else None, limit)):
        assert len(page) <= limit
        read += page

    assert read == list(whole)


def test_a_reader_goes_on_with_what_came_since(drive: Driver) -> None:
    first = drive.add()
    (enqueued,) = drive.feed(at_least=1)
    drive.take(first)
    second = drive.add()
    drive.feed(at_least=3)

    later = drive.call(drive.ops.list_feed(enqueued.place, 10))
    assert [(event.subject, event.type) for event in later] == [
        (first.id, EventType.STARTED),
        (second.id, EventType.ENQUEUED),
    ]
    assert drive.call(drive.ops.list_feed(later[-1].place, 10)) == []


def test_runs_that_end_together_may_end_differently(drive: Driver) -> None:
    """A page has the runs of one type, seq and attempt: those of another are on another page."""
    again = drive.start()
    drive.finish(again, Outcome.RETRY, delay=0.0)
    drive.register()
    drive.add_many(2)
    held = {run.id: run for run in drive.claim(10).claimed}
    drive.cancel(ref(list(held)[1]))
    ends = [make_finish(run, Outcome.SUCCEEDED) for run in held.values()]
    ends[-1] = make_finish(list(held.values())[-1], Outcome.CANCELED)
    drive.finish_all(ends)
    feed = drive.feed(at_least=sum(len(drive.events(ref(run))) for run in held))

    for run in held:
        assert told(list(feed), run) == drive.trail(ref(run))
    assert {drive.get(ref(run)).attempt for run in held} == {1, 2}


def test_two_ends_of_one_lease_are_told_once(drive: Driver) -> None:
    held = drive.start()
    drive.finish_all([make_finish(held, Outcome.SUCCEEDED)] * 2)

    feed = drive.feed(at_least=3)
    assert told(list(feed), held.id) == [
        EventType.ENQUEUED,
        EventType.STARTED,
        EventType.SUCCEEDED,
    ]


def test_an_end_that_finds_no_lease_is_not_told(drive: Driver) -> None:
    held = drive.start()
    drive.finish(held, Outcome.SUCCEEDED)
    number = len(drive.feed(at_least=3))
    drive.finish(held, Outcome.SUCCEEDED)
    drive.finish(held, Outcome.FAILED)
    drive.add()

    assert len(drive.feed(at_least=number + 1)) == number + 1


def test_tenants_are_told_apart(drive: Driver) -> None:
    runs = [drive.new(), drive.new(tenant="acme"), drive.new()]
    drive.enqueue(*runs)

    feed = drive.feed(at_least=3)
    assert {(event.tenant, event.subject) for event in feed} == {
        (run.tenant, run.id) for run in runs
    }


@pytest.mark.parametrize("place", ["", "yesterday", "1", "1:2:3:4:5:6", "1:x:1", "-1:1:1", "1:1:"])
def test_what_is_no_place_is_refused(drive: Driver, place: str) -> None:
    with pytest.raises(BadOption, match="is not a place in the feed of this store"):
        drive.call(drive.ops.list_feed(place, 10))
