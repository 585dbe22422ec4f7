"""Reschedule against everybody else who would move the run: the first that commits wins.

The races start at one barrier, and what is asserted holds for either order. Where both orders are
to be seen for certain, the row is held by a transaction of the test's own, which goes first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.conformance.desk import Desk
from tests.conformance.kit import Driver, Opened, ids, requires
from tests.conformance.places import Place, PostgresPlace
from tests.conformance.test_races import assert_sound, race
from tests.faults.harness import eventually
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import RunRef
from windlass.domain.scheduling.rows import Overlap
from windlass.domain.states import Status
from windlass.errors import IllegalTransition

ROUNDS = 40
LATER = 3600.0


@pytest.fixture
def pair(open_real: Opened) -> Iterator[tuple[Driver, Driver]]:
    """Two drivers whose connections are open, so that they start level."""
    drivers = (open_real(), open_real())
    for drive in drivers:
        drive.register()
        drive.sweep(dispatch=True)
    yield drivers
    assert_sound(drivers[0])


def test_a_run_is_moved_or_started_but_not_both(pair: tuple[Driver, Driver]) -> None:
    worker, operator = pair
    for _ in range(ROUNDS):
        run = worker.add()

        reply, answer = race(
            partial(worker.claim, 1, ids=(run,)), partial(operator.reschedule, run, delay=LATER)
        )

        if reply.claimed:
            assert isinstance(answer, IllegalTransition)
            assert (answer.status, answer.verb) == (Status.RUNNING, "reschedule")
            assert worker.positions(run) == ["leases"]
            assert worker.finish(reply.claimed[0], Outcome.SUCCEEDED).lost == ()
        else:
            assert (answer.status, answer.token) == (Status.SCHEDULED, 0)
            assert worker.positions(run) == ["timers"]


def test_an_attempt_ends_before_a_reschedule_or_after(pair: tuple[Driver, Driver]) -> None:
    worker, operator = pair
    for number in range(ROUNDS):
        outcome = (Outcome.RETRY, Outcome.FAILED, Outcome.RELEASED)[number % 3]
        held = worker.start()

        reply, answer = race(
            partial(worker.finish, held, outcome),
            partial(operator.reschedule, held.ref, delay=LATER),
        )

        assert reply.lost == (), "a reschedule takes no lease away"
        moved = worker.trail(held.ref)[-1] is EventType.RESCHEDULED
        assert moved is not isinstance(answer, IllegalTransition)
        if not moved:
            assert answer.status == Status.RUNNING


def test_a_cancel_and_a_reschedule_come_one_after_the_other(pair: tuple[Driver, Driver]) -> None:
    one, two = pair
    for number in range(ROUNDS):
        run = one.add(delay=LATER if number % 2 else None)

        canceled, moved = race(partial(one.cancel, run), partial(two.reschedule, run, delay=60.0))

        assert (canceled.status, moved.status) == (Status.CANCELED, Status.SCHEDULED)
        last = one.trail(run)[1:]
        assert set(last) == {EventType.CANCELED, EventType.RESCHEDULED}
        canceled_last = last[-1] is EventType.CANCELED
        assert one.get(run).status is (Status.CANCELED if canceled_last else Status.SCHEDULED)
        assert one.positions(run) == ([] if canceled_last else ["timers"])


def test_what_is_due_is_moved_before_it_is_dispatched_or_after(
    pair: tuple[Driver, Driver],
) -> None:
    sweeper, operator = pair
    for _ in range(ROUNDS):
        run = sweeper.add(delay=0.000001)

        swept, moved = race(
            partial(sweeper.sweep, dispatch=True),
            partial(operator.reschedule, run, delay=LATER),
        )

        assert moved.status is Status.SCHEDULED
        assert (run in swept.dispatched) is (EventType.QUEUED in sweeper.trail(run))
        assert sweeper.trail(run)[-1] is EventType.RESCHEDULED
        assert sweeper.positions(run) == ["timers"]


def test_a_retry_is_refused_by_a_reschedule_or_moved_by_it(pair: tuple[Driver, Driver]) -> None:
    one, two = pair
    for _ in range(ROUNDS // 2):
        run = one.ended(Outcome.FAILED)

        answer, moved = race(partial(one.retry, run), partial(two.reschedule, run, delay=LATER))

        assert (moved.status, moved.failures) == (Status.SCHEDULED, 0)
        if isinstance(answer, IllegalTransition):
            assert answer.status == Status.SCHEDULED
            assert EventType.RETRIED not in one.trail(run)
        else:
            assert one.trail(run)[-2:] == [EventType.RETRIED, EventType.RESCHEDULED]
        assert one.positions(run) == ["timers"]
        assert one.rows("failures", id=run.id) == []


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.FAILED])
def test_of_two_that_reschedule_the_last_one_stands(
    pair: tuple[Driver, Driver], status: Status
) -> None:
    one, two = pair
    for number in range(ROUNDS // 2):
        run = one.bring(status)
        other = 0.0 if number % 2 else 60.0

        moved = race(
            partial(one.reschedule, run, delay=LATER), partial(two.reschedule, run, delay=other)
        )

        record = one.get(run)
        assert [each.status for each in moved] == [
            Status.SCHEDULED,
            Status.SCHEDULED if other else Status.QUEUED,
        ]
        assert one.trail(run).count(EventType.RESCHEDULED) == 2
        told = one.events(run)[-1].data or {}
        (last,) = [each for each in moved if each.scheduled_for == record.scheduled_for]
        assert record.scheduled_for == datetime.fromisoformat(told["at"])
        assert (record.status, record.due_at) == (last.status, last.due_at)


def test_a_run_is_moved_while_its_schedule_looks(open_real: Opened) -> None:
    one, two = Desk(open_real()), Desk(open_real())
    one.drive.register()
    for _ in range(ROUNDS // 2):
        row = one.put(overlap=Overlap.SKIP)
        run = one.start(row)
        one.drive.finish(one.drive.take(run), Outcome.FAILED)
        decision = two.decide(two.get(row))

        race(partial(one.drive.reschedule, run, delay=LATER), partial(two.apply, decision))

        # Whoever came first, the run that lives again counts from now on.
        two.apply(two.decide(two.get(row)))
        assert one.outcomes(row)[-1] == "skipped"
    assert_sound(one.drive)


# -- the other goes first, for certain -----------------------------------------------------------

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"


class Held:
    """A transaction that has a run's row, and a reschedule that waits for it."""

    def __init__(self, place: Place, drive: Driver) -> None:
        assert isinstance(place, PostgresPlace)
        self._url = place.url
        self._drive = drive
        self._answers: list[object] = []

    def _move(self, run: RunRef) -> None:
        try:
            self._answers.append(self._drive.reschedule(run, delay=LATER))
        except IllegalTransition as refusal:
            self._answers.append(refusal)

    def _move_in_sql(self, run: RunRef) -> None:
        move = "select status from windlass.reschedule('default', %s, p_delay => 3600)"
        with psycopg.connect(self._url, autocommit=True) as conn:
            self._answers += conn.execute(move, (run.id,)).fetchone() or ()

    def race(
        self,
        run: RunRef,
        lock: str,
        first: Callable[[psycopg.Connection[Any]], object],
        *,
        in_sql: bool = False,
    ) -> Any:
        """Lock the row, let the reschedule wait for it, do the other thing, commit."""
        move = self._move_in_sql if in_sql else self._move
        moving = threading.Thread(target=move, args=(run,), daemon=True)
        with (
            psycopg.connect(self._url) as holder,
            psycopg.connect(self._url, autocommit=True) as look,
        ):
            holder.execute(lock.encode())
            moving.start()
            eventually(
                lambda: (look.execute(WAITING, (look.info.dbname,)).fetchone() or (0,))[0],
                what="the reschedule waits for the row",
            )
            first(holder)
        moving.join(20)
        assert_sound(self._drive)
        return self._answers[0]


@pytest.fixture
def held(place: Place, pair: tuple[Driver, Driver]) -> Held:
    """For races of which the outcome is known."""
    return Held(place, pair[0])


READY = "select from windlass.ready for update"


@requires("parallel_writers")
def test_a_claim_that_came_first_is_told(held: Held, pair: tuple[Driver, Driver]) -> None:
    run = pair[1].add()
    claim = "select * from windlass.claim('worker-1', 1000, 1, array['greet'])"

    answer = held.race(run, READY, lambda conn: conn.execute(claim))

    assert isinstance(answer, IllegalTransition)
    assert answer.args == (run.id, Status.RUNNING, "reschedule")
    assert ids([pair[1].get(run)]) == [run.id]
    assert pair[1].positions(run) == ["leases"]


@requires("parallel_writers")
def test_a_cancel_that_came_first_is_undone_and_not_older(
    held: Held, pair: tuple[Driver, Driver]
) -> None:
    """The reschedule began first and comes second: its time is taken when the row is its own."""
    run = pair[1].add()
    cancel = "select windlass.cancel('default', %s)"

    answer = held.race(run, READY, lambda conn: conn.execute(cancel, (run.id,)))

    assert answer.status is Status.SCHEDULED
    canceled, moved = pair[1].events(run)[1:]
    assert (canceled.type, moved.type) == (EventType.CANCELED, EventType.RESCHEDULED)
    assert canceled.at <= moved.at


@requires("parallel_writers")
def test_a_move_within_the_queue_is_looked_for_again(
    held: Held, pair: tuple[Driver, Driver]
) -> None:
    """The row that was waited for is gone, and the new one was not there when the wait began.

    In plain SQL: the store would repeat a call that gave up.
    """
    run = pair[1].add()
    again = "select windlass.reschedule('default', %s, p_delay => 0)"

    answer = held.race(run, READY, lambda conn: conn.execute(again, (run.id,)), in_sql=True)

    assert answer == Status.SCHEDULED
    assert pair[1].trail(run)[1:] == [EventType.RESCHEDULED] * 2


@requires("parallel_writers")
def test_a_retry_that_came_first_is_moved(held: Held, pair: tuple[Driver, Driver]) -> None:
    run = pair[1].ended(Outcome.FAILED)
    retry = "select windlass.retry('default', %s)"
    lock = "select from windlass.runs for update"

    answer = held.race(run, lock, lambda conn: conn.execute(retry, (run.id,)))

    assert answer.status is Status.SCHEDULED
    assert pair[1].trail(run)[-2:] == [EventType.RETRIED, EventType.RESCHEDULED]


@requires("parallel_writers")
def test_a_dispatch_that_came_first_is_undone(held: Held, pair: tuple[Driver, Driver]) -> None:
    run = pair[1].add(delay=0.000001)
    lock = "select from windlass.timers for update"

    answer = held.race(run, lock, lambda conn: conn.execute("select windlass.dispatch()"))

    assert answer.status is Status.SCHEDULED
    assert pair[1].trail(run)[1:] == [EventType.QUEUED, EventType.RESCHEDULED]
