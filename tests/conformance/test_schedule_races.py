"""Races of schedules: real threads, real clock, connections of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import pairwise

import psycopg
import pytest

from tests.conformance.desk import Desk, by_key, minute
from tests.conformance.kit import Opened, make_finish, requires
from tests.conformance.places import Place, PostgresPlace
from tests.conformance.test_races import assert_sound, race
from tests.conformance.test_undone import waiting
from windlass.domain.outcome import Outcome
from windlass.domain.run import RunRef
from windlass.domain.scheduling.rows import Decision, Overlap, PutOutcome, ScheduleRow

ROUNDS = 20


@pytest.fixture
def pair(open_real: Opened) -> tuple[Desk, Desk]:
    """Two schedulers whose connections are open, so that they start level."""
    desks = (Desk(open_real()), Desk(open_real()))
    for desk in desks:
        desk.drive.register()
        desk.due()
    return desks


def test_eight_schedulers_fire_each_slot_once(open_real: Opened) -> None:
    desks = [Desk(open_real()) for _ in range(8)]
    overlaps = list(Overlap)
    rows = [
        item.row
        for item in desks[0].store(*(desks[0].new(overlap=overlaps[n % 4]) for n in range(24)))
    ]

    def schedule(desk: Desk) -> Callable[[], list[tuple[str, object]]]:
        def work() -> list[tuple[str, object]]:
            made: list[tuple[str, object]] = []
            # What another is firing just now is passed over: look until all is done.
            while due := desk.due(20).rows:
                for result in desk.apply(*(_until(desk, row, 5) for row in due)):
                    made += [(run.schedule, run.slot) for run in result.fired]
                made += [(run.schedule, run.slot) for run in desk.release().fired]
            return made

        return work

    shares = race(*(schedule(desk) for desk in desks))

    made = Counter(one for share in shares for one in share)
    assert set(made.values()) == {1}
    for row in rows:
        mine = {slot for schedule_, slot in made if schedule_ == row.id}
        if row.overlap in (Overlap.ALLOW, Overlap.CANCEL_RUNNING):
            assert mine == {minute(n) for n in range(5)}
        else:
            assert mine == {minute(0)}, "nothing has ended, so nothing else may begin"
        assert len(desks[0].slots(row)) == 5
    assert len(desks[0].drive.rows("runs")) == len(made)
    assert_sound(desks[0].drive)


def _until(desk: Desk, row: ScheduleRow, last: int) -> Decision:
    """Fire the next slot; there are so many in all."""
    assert row.next_slot is not None
    following = row.next_slot + timedelta(minutes=1)
    return desk.decide(row, next_slot=following if following < minute(last) else None)


def test_a_schedule_is_deleted_while_it_fires(pair: tuple[Desk, Desk]) -> None:
    one, two = pair
    for _ in range(ROUNDS):
        row = one.put(overlap=Overlap.SKIP)
        decision = two.decide(row)

        gone, (fired,) = race(
            partial(one.call, one.ops.delete_schedule(row.ref)), partial(two.apply, decision)
        )

        assert gone is True
        runs = one.drive.rows("runs", schedule=row.id)
        assert len(runs) == (0 if fired.lost else 1)
        assert one.drive.rows("schedule_slots", schedule=row.id) == []
        assert one.drive.rows("schedule_live", schedule=row.id) == []
    assert_sound(one.drive)


def test_a_schedule_is_changed_while_it_fires(pair: tuple[Desk, Desk]) -> None:
    one, two = pair
    for _ in range(ROUNDS):
        row = one.put()
        changed = one.new(id=row.id, job="other", next_slot=minute(30))
        decision = two.decide(row)

        (stored,), (fired,) = race(partial(one.store, changed), partial(two.apply, decision))

        after = one.get(row)
        assert stored.what is PutOutcome.CHANGED
        assert (after.version, after.next_slot) == (2, minute(30)), "the change came last, or alone"
        assert after.fired == (0 if fired.lost else 1)
    assert_sound(one.drive)


def test_a_schedule_is_paused_while_it_fires(pair: tuple[Desk, Desk]) -> None:
    one, two = pair
    for _ in range(ROUNDS):
        row = one.put()

        paused, (fired,) = race(
            partial(one.call, one.ops.enable_schedule(row.ref, False)),
            partial(two.apply, two.decide(row)),
        )

        assert paused.next_slot is None
        after = one.get(row)
        assert (after.enabled, after.next_slot) == (False, None)
        assert after.fired == (0 if fired.lost else 1)
    assert_sound(one.drive)


def test_one_key_makes_one_schedule(open_real: Opened) -> None:
    desks = [Desk(open_real()) for _ in range(4)]
    for number in range(ROUNDS // 2):
        keys = [f"{number}:{n}" for n in range(5)]
        answers = race(
            *(partial(desk.store, *(desk.new(key=key) for key in keys)) for desk in desks)
        )

        created = [item for answer in answers for item in answer if item.what == "created"]
        assert sorted(item.row.key or "" for item in created) == keys
        assert len({item.row.id for answer in answers for item in answer}) == len(keys)
    assert_sound(desks[0].drive)


def test_changes_at_once_are_versions_one_after_the_other(open_real: Opened) -> None:
    desks = [Desk(open_real()) for _ in range(4)]
    row = desks[0].put(key="k")

    answers = race(
        *(
            partial(desk.store, desk.new(key="k", job=f"job{number}"))
            for number, desk in enumerate(desks)
        )
    )

    versions = sorted(item.row.version for answer in answers for item in answer)
    assert versions == [2, 3, 4, 5]
    found = desks[0].call(desks[0].ops.get_schedule(by_key("k")))
    assert found is not None
    assert (found.id, found.version) == (row.id, 5)
    assert_sound(desks[0].drive)


def test_a_slot_that_waits_is_released_once(open_real: Opened) -> None:
    desks = [Desk(open_real()) for _ in range(4)]
    rows = [desks[0].put(overlap=Overlap.QUEUE) for _ in range(5)]
    for row in rows:
        desks[0].fire(row, 4)
    for turn in range(1, 4):
        for run in desks[0].drive.rows("runs", status=None):
            desks[0].drive.cancel(RunRef("default", run["id"]))

        replies = race(*(desk.release for desk in desks))

        made = Counter(run.schedule for reply in replies for run in reply.fired)
        assert made == {row.id: 1 for row in rows}
        assert {run.slot for reply in replies for run in reply.fired} == {minute(turn)}
    assert_sound(desks[0].drive)


def test_a_run_ends_while_its_schedule_looks(pair: tuple[Desk, Desk]) -> None:
    one, two = pair
    for overlap in (Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL_RUNNING):
        for _ in range(ROUNDS // 2):
            row = one.put(overlap=overlap)
            held = one.drive.take(one.start(row))
            decision = two.decide(two.get(row))

            reply, (fired,) = race(
                partial(one.drive.finish, held, Outcome.SUCCEEDED), partial(two.apply, decision)
            )

            assert (reply.lost, fired.lost) == ((), False)
            assert len(two.slots(row)) == 2
            assert one.drive.get(held.ref).status == "succeeded"
    assert_sound(one.drive)


def test_a_run_is_retried_while_its_schedule_looks(pair: tuple[Desk, Desk]) -> None:
    one, two = pair
    for _ in range(ROUNDS):
        row = one.put(overlap=Overlap.SKIP)
        run = one.start(row)
        one.drive.finish(one.drive.take(run), Outcome.FAILED)
        decision = two.decide(two.get(row))

        race(partial(one.drive.retry, run), partial(two.apply, decision))

        # Whoever came first, the run that lives again counts from now on.
        two.apply(two.decide(two.get(row)))
        assert one.outcomes(row)[-1] == "skipped"
    assert_sound(one.drive)


def test_schedulers_that_cancel_do_not_lock_each_other_out(pair: tuple[Desk, Desk]) -> None:
    """Their schedules are the same, in another order, while workers end the runs."""
    one, two = pair
    rows = [
        item.row
        for item in one.store(*(one.new(overlap=Overlap.CANCEL_RUNNING) for _ in range(10)))
    ]
    for _ in range(ROUNDS // 2):
        runs = tuple(one.start(row) for row in rows)
        held = one.drive.claim(100, ids=runs).claimed
        decisions = [one.decide(one.get(row)) for row in rows]
        ends = [make_finish(run, Outcome.SUCCEEDED) for run in reversed(held)]

        race(
            partial(one.apply, *decisions),
            partial(two.apply, *reversed(decisions)),
            partial(two.drive.finish_all, ends),
        )

        assert {one.get(row).fired for row in rows} == {one.get(rows[0]).fired}
    assert_sound(one.drive)


@requires("server")
def test_a_change_that_waited_for_a_pause_is_not_older_than_it(
    place: Place, open_real: Opened
) -> None:
    """The change begins first, and comes second: it takes its time when the row is its own."""
    assert isinstance(place, PostgresPlace)
    desk = Desk(open_real())
    row = desk.put(key="k")
    with psycopg.connect(place.url) as other, ThreadPoolExecutor(1) as pool:
        other.execute("select windlass.lock_schedule('default', %s, null)", (row.id,))
        changing = pool.submit(desk.store, desk.new(key="k", job="other"))
        waiting(place, 1)
        other.execute("select windlass.enable_schedule('default', %s, null, false)", (row.id,))
        other.commit()
        changing.result()

    events = desk.events(row)
    assert [event.type for event in events] == [
        "schedule.created", "schedule.paused", "schedule.changed",
    ]  # fmt: skip
    assert all(one.at < two.at for one, two in pairwise(events))
    assert desk.get(row).updated_at == events[-1].at
