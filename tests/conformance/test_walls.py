"""Walls: windows bound how far a claim looks, and the reply tells how far it did."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
import pytest

from tests.conformance.kit import QUEUE, WORKER, Driver, held_of, ids, make_finish, requires
from tests.conformance.places import Place, PostgresPlace
from windlass.domain.outcome import Outcome
from windlass.domain.run import Mark


@pytest.mark.parametrize(("window", "found"), [(1, 0), (2, 0), (3, 1), (4, 2), (100, 2)])
def test_a_window_bounds_how_many_rows_are_looked_at(
    steer: Driver, window: int, found: int
) -> None:
    steer.add_many(2, job="wall")
    steer.add_many(2)
    steer.register()

    assert len(steer.claim(window=window).claimed) == found


def test_a_window_begins_at_the_mark(steer: Driver) -> None:
    steer.add_many(2, job="wall")
    wanted = steer.add_many(2)
    steer.register()
    marks = steer.claim(1, window=3).marks

    assert ids(steer.claim(window=1, after=marks).claimed) == [wanted[1].id]


def test_a_window_counts_per_queue(steer: Driver) -> None:
    for queue in ("a", "b"):
        steer.add(queue=queue, job="wall")
        steer.add(queue=queue)
    steer.register()

    assert len(steer.claim(window=2, queues=("a", "b")).claimed) == 2


# -- how far it looked ---------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "stops"), [(1, True), (4, True), (5, False), (100, False)])
def test_a_look_that_its_window_ended_says_so(drive: Driver, window: int, stops: bool) -> None:
    drive.add_many(4, job="wall")
    drive.register()

    reply = drive.claim(window=window)

    assert reply.claimed == ()
    assert list(reply.stops) == ([QUEUE] if stops else [])
    assert reply.marks == {}


def test_an_empty_queue_stops_nothing(drive: Driver) -> None:
    drive.register()

    assert drive.claim(window=1, queues=(QUEUE,)).stops == {}
    assert drive.claim(window=1).stops == {}


def test_without_a_window_everything_is_looked_at(drive: Driver) -> None:
    drive.add_many(20, job="wall")
    known = drive.add()
    drive.register()

    reply = drive.claim()

    assert ids(reply.claimed) == [known.id]
    assert reply.stops == {}


def test_a_look_that_found_enough_has_its_mark_and_no_stop(drive: Driver) -> None:
    runs = drive.add_many(4)
    drive.register()

    reply = drive.claim(2, window=3)

    assert ids(reply.claimed) == ids(runs[:2])
    assert reply.stops == {}
    assert reply.marks[QUEUE].id == runs[1].id


def test_a_stop_is_the_last_key_looked_at(drive: Driver) -> None:
    """Also where some of what was looked at was taken, and is gone from the queue."""
    wall = [*drive.add_many(2), *drive.add_many(2, job="wall"), *drive.add_many(2)]
    drive.register()

    reply = drive.claim(window=4)

    assert ids(reply.claimed) == ids(wall[:2])
    assert reply.stops[QUEUE].id == wall[3].id
    assert reply.marks[QUEUE].id == wall[1].id


def test_a_window_that_was_taken_whole_stops_at_its_end(drive: Driver) -> None:
    runs = drive.add_many(4)
    drive.register()

    reply = drive.claim(5, window=3)

    assert ids(reply.claimed) == ids(runs[:3])
    assert reply.stops[QUEUE].id == runs[2].id
    assert ids(drive.claim(5, window=3, after=reply.stops).claimed) == [runs[3].id]


def walk(drive: Driver, window: int, limit: int = 10) -> Sequence[str]:
    """Go through a queue from stop to stop; returns what was found on the way."""
    found: list[str] = []
    after: dict[str, Mark] = {}
    for _ in range(100):
        reply = drive.claim(limit, window=window, after=after, queues=(QUEUE,))
        found += ids(reply.claimed)
        full = len(reply.claimed) == limit
        after = dict(reply.marks if full else reply.stops)
        if not after:
            return found
    raise AssertionError("the walk has no end")


@pytest.mark.parametrize("window", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("limit", [1, 3, 10])
def test_a_walk_from_stop_to_stop_misses_nothing(steer: Driver, window: int, limit: int) -> None:
    known = []
    for n in range(30):
        job = "wall" if n % 7 else None
        run = steer.add(priority=-n // 10, **({"job": job} if job else {}))
        if job is None:
            known.append(run)
    steer.register()

    assert walk(steer, window, limit) == ids(known)


def test_each_queue_has_its_stop(drive: Driver) -> None:
    for queue, count in (("a", 3), ("b", 1), ("c", 3)):
        drive.add_many(count, job="wall", queue=queue)
    drive.register()

    assert set(drive.claim(window=2).stops) == {"a", "c"}


def test_queues_that_were_not_looked_at_have_no_stop(steer: Driver) -> None:
    for queue in ("a", "b", "c"):
        steer.add_many(3, job="wall", queue=queue)
    steer.add(queue="b", priority=1)
    steer.register()

    reply = steer.claim(1, window=2, queues=("a", "b", "c"))

    assert len(reply.claimed) == 1
    assert set(reply.stops) == {"a"}


def test_expired_runs_count_as_looked_at(drive: Driver) -> None:
    drive.add_many(3, expires_in=1.0)
    drive.advance(2)
    known = drive.add()
    drive.register()

    reply = drive.claim(window=3)

    assert reply.claimed == ()
    assert ids(drive.claim(window=3, after=reply.stops).claimed) == [known.id]


def test_what_becomes_ready_before_the_stop_is_at_the_head(steer: Driver) -> None:
    steer.add_many(4, job="wall")
    steer.register()
    stops = steer.claim(window=3).stops
    urgent = steer.add(priority=1)

    assert steer.claim(window=3, after=stops).claimed == ()
    (claimed,) = steer.claim(window=3).claimed
    assert claimed.id == urgent.id
    steer.claim(finishes=[make_finish(held_of(claimed), Outcome.RELEASED)], window=1, after=stops)
    assert ids(steer.claim(window=3).claimed) == [urgent.id]


@requires("parallel_writers")
def test_runs_that_somebody_moves_just_now_count_as_looked_at(drive: Driver, place: Place) -> None:
    assert isinstance(place, PostgresPlace)
    runs = drive.add_many(3)
    drive.register()
    with psycopg.connect(place.url) as other:
        other.execute("select 1 from windlass.ready where id <> %s for update", (runs[2].id,))

        reply = drive.claim(window=2)
        assert reply.claimed == ()
        assert reply.stops[QUEUE].id == runs[1].id
        assert ids(drive.claim(window=2, after=reply.stops).claimed) == [runs[2].id]

    assert ids(drive.claim(window=2).claimed) == ids(runs[:2])


@requires("parallel_writers")
def test_nothing_that_is_only_looked_at_is_locked(drive: Driver, place: Place) -> None:
    assert isinstance(place, PostgresPlace)
    drive.register()
    wall = drive.add_many(3, job="wall")
    drive.add()
    with psycopg.connect(place.url) as other:
        claim = "select id::text from windlass.claim(%s, 1, 5, '{greet}', p_window => 5)"
        assert len(other.execute(claim, (WORKER,)).fetchall()) == 1  # and not yet committed

        assert ids(drive.claim(jobs=("wall",)).claimed) == ids(wall)
