"""Keys that are free again when their run has ended: `unique="live"`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.conformance.kit import Driver, Opened, raw, ref, requires
from tests.conformance.places import Place, PostgresPlace
from tests.conformance.test_races import assert_sound, race
from tests.conformance.test_undone import PATIENCE, waiting
from windlass.domain.outcome import Outcome
from windlass.domain.run import Options, RunRef
from windlass.domain.states import Status
from windlass.errors import BadArguments, KeyConflict, KeyTaken

LIVE = Options(unique="live")
ENDS = [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELED]
ROUNDS = 40


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("outcome", ENDS)
def test_the_key_of_a_run_that_has_ended_is_free(
    drive: Driver, outcome: Outcome, batch: int
) -> None:
    first = drive.ended(outcome, key="k", options=LIVE)
    second = drive.new(key="k", options=LIVE)

    answer = drive.enqueue(second, *(drive.new() for _ in range(batch - 1)))[0]

    assert (answer.id, answer.created) == (second.id, True)
    assert first.id != second.id


def test_a_run_that_was_canceled_before_it_started_has_no_key(drive: Driver) -> None:
    drive.cancel(drive.add(key="k", options=LIVE))

    (answer,) = drive.enqueue(drive.new(key="k", options=LIVE))

    assert answer.created


@pytest.mark.parametrize("status", [Status.QUEUED, Status.SCHEDULED, Status.RUNNING])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_key_of_a_live_run_is_taken(drive: Driver, status: Status, batch: int) -> None:
    first = _live(drive, status, key="k", options=LIVE)

    answer = drive.enqueue(
        drive.new(key="k", options=LIVE), *(drive.new() for _ in range(batch - 1))
    )[0]

    assert (answer.id, answer.created, answer.status) == (first.id, False, status)


def test_a_run_between_two_attempts_is_live(drive: Driver) -> None:
    first = drive.start(key="k", options=LIVE)
    drive.finish(first, Outcome.RETRY)

    (answer,) = drive.enqueue(drive.new(key="k", options=LIVE))

    assert (answer.id, answer.created) == (first.id, False)


def test_two_of_one_batch_are_one(drive: Driver) -> None:
    one, two = drive.new(key="k", options=LIVE), drive.new(key="k", options=LIVE)

    answers = drive.enqueue(one, two)

    assert [(a.id, a.created) for a in answers] == [(one.id, True), (one.id, False)]


@pytest.mark.parametrize(("first", "second"), [(LIVE, None), (None, LIVE)])
def test_either_side_may_want_it(
    drive: Driver, first: Options | None, second: Options | None
) -> None:
    drive.ended(Outcome.SUCCEEDED, key="k", options=first)

    (answer,) = drive.enqueue(drive.new(key="k", options=second))

    assert answer.created


def test_without_it_the_key_stays_with_a_run_that_has_ended(drive: Driver) -> None:
    first = drive.ended(Outcome.FAILED, key="k")

    (answer,) = drive.enqueue(drive.new(key="k"))

    assert (answer.id, answer.created) == (first.id, False)


def test_other_input_is_a_conflict_while_the_run_lives(drive: Driver) -> None:
    first = drive.start(key="k", options=LIVE, input=raw({"n": 1}))
    with pytest.raises(KeyConflict) as caught:
        drive.enqueue(drive.new(key="k", options=LIVE, input=raw({"n": 2})))
    assert caught.value.run == first.id

    drive.finish(first, Outcome.SUCCEEDED)

    assert drive.enqueue(drive.new(key="k", options=LIVE, input=raw({"n": 2})))[0].created


def test_its_time_may_pass_before_its_run_ends(drive: Driver) -> None:
    drive.add(key="k", key_ttl=60.0, options=LIVE)
    drive.advance(61)

    (answer,) = drive.enqueue(drive.new(key="k", options=LIVE))

    assert answer.created


def test_it_needs_a_key(drive: Driver) -> None:
    for batch in (1, 2):
        with pytest.raises(BadArguments):
            drive.enqueue(*(drive.new(options=LIVE) for _ in range(batch)))
    assert drive.rows("runs") == []


# -- reopening -----------------------------------------------------------------------------------


def test_a_run_that_is_reopened_has_its_key_again(drive: Driver) -> None:
    first = drive.ended(Outcome.FAILED, key="k", options=LIVE)
    drive.retry(first)

    (answer,) = drive.enqueue(drive.new(key="k", options=LIVE))

    assert (answer.id, answer.created) == (first.id, False)


def test_it_takes_its_key_back_from_one_that_has_ended(drive: Driver) -> None:
    first = drive.ended(Outcome.FAILED, key="k", options=LIVE)
    drive.ended(Outcome.SUCCEEDED, key="k", options=LIVE)
    drive.retry(first, 7)

    (answer,) = drive.enqueue(drive.new(key="k", options=LIVE))

    assert (answer.id, answer.created) == (first.id, False)
    assert drive.get(first).options == Options(max_attempts=7, unique="live")


@pytest.mark.parametrize("verb", ["retry", "reschedule"])
def test_it_is_not_reopened_while_another_has_its_key(drive: Driver, verb: str) -> None:
    first = drive.ended(Outcome.FAILED, key="k", options=LIVE)
    second = drive.add(key="k", options=LIVE)
    reopen = partial(drive.retry, first) if verb == "retry" else partial(
        drive.reschedule, first, delay=60.0
    )  # fmt: skip

    with pytest.raises(KeyTaken) as caught:
        reopen()

    assert (caught.value.key, caught.value.owner) == ("k", second.id)
    assert drive.get(first).status is Status.FAILED
    assert [row["id"] for row in drive.rows("failures")] == [first.id]
    drive.cancel(second)
    assert reopen().status in (Status.QUEUED, Status.SCHEDULED)


def test_its_key_may_have_passed_to_one_whose_time_is_over(drive: Driver) -> None:
    first = drive.ended(Outcome.FAILED, key="k", options=LIVE)
    drive.add(key="k", key_ttl=60.0, options=LIVE)
    drive.advance(61)

    assert drive.retry(first).status is Status.QUEUED


# -- races ---------------------------------------------------------------------------------------


@pytest.fixture
def crowd(open_real: Opened) -> Iterator[list[Driver]]:
    """Drivers whose connections are open, so that they start level."""
    drivers = [open_real() for _ in range(4)]
    for drive in drivers:
        drive.register()
    yield drivers
    assert_sound(drivers[0])


def test_one_of_many_takes_the_key_of_a_run_that_has_ended(crowd: list[Driver]) -> None:
    for number in range(ROUNDS):
        key = f"k{number}"
        first = crowd[0].ended(Outcome.SUCCEEDED, key=key, options=LIVE)
        new = [drive.new(key=key, options=LIVE) for drive in crowd]

        answers = race(
            *(partial(drive.enqueue, run) for drive, run in zip(crowd, new, strict=True))
        )

        made = [answer.id for (answer,) in answers if answer.created]
        assert len(made) == 1
        assert {answer.id for (answer,) in answers} == set(made)
        assert first.id not in made


def test_of_a_retry_and_an_enqueue_one_lives(crowd: list[Driver]) -> None:
    seen: Counter[str] = Counter()
    for number in range(ROUNDS):
        key = f"k{number}"
        first = crowd[0].ended(Outcome.FAILED, key=key, options=LIVE)

        reopened, enqueued = race(
            partial(_retried, crowd[0], first),
            partial(crowd[1].enqueue, crowd[1].new(key=key, options=LIVE)),
        )

        (answer,) = enqueued
        seen["new" if answer.created else "old"] += 1
        assert answer.created is isinstance(reopened, KeyTaken)
        assert answer.created is (answer.id != first.id)
        live = [row["id"] for row in crowd[0].rows("runs", key=key) if row["status"] is None]
        assert live == [answer.id]
    assert sum(seen.values()) == ROUNDS


def _retried(drive: Driver, run: RunRef) -> Any:
    try:
        return drive.retry(run)
    except KeyTaken as refusal:
        return refusal


def _live(drive: Driver, status: Status, **fields: Any) -> RunRef:
    match status:
        case Status.QUEUED:
            return drive.add(**fields)
        case Status.SCHEDULED:
            return drive.add(delay=60.0, **fields)
        case _:
            return ref(drive.start(**fields).id)


@requires("server")
def test_a_retry_that_comes_first_keeps_the_key(place: Place, open_real: Opened) -> None:
    """Whoever enqueues has seen that the run had ended; by the time the key is his it lives."""
    drive, reopen = open_real(), "select windlass.retry('default', %s)"
    first = drive.ended(Outcome.FAILED, key="k", options=LIVE)

    (answer,) = _after(
        place, reopen, first, partial(drive.enqueue, drive.new(key="k", options=LIVE))
    )

    assert (answer.id, answer.created) == (first.id, False)
    assert drive.get(first).status is Status.QUEUED


@requires("server")
def test_an_enqueue_that_comes_first_keeps_the_key(place: Place, open_real: Opened) -> None:
    drive = open_real()
    first = drive.ended(Outcome.FAILED, key="k", options=LIVE)
    enqueue = (
        "select windlass.enqueue(r.job, r.input, gen_random_uuid(), p_queue => 'main', "
        "p_priority => 0, p_key => 'k', p_options => '{\"unique\": \"live\"}') "
        "from windlass.runs r where r.id = %s"
    )

    refusal = _after(place, enqueue, first, partial(_retried, drive, first))

    assert isinstance(refusal, KeyTaken)
    assert drive.get(first).status is Status.FAILED


def _after(place: Place, statement: str, run: RunRef, call: Callable[[], Any]) -> Any:
    """What a call answers that waits for somebody's open transaction, which then commits."""
    assert isinstance(place, PostgresPlace)
    with psycopg.connect(place.url) as conn, ThreadPoolExecutor(1) as pool:
        conn.execute(statement, (run.id,))
        answer = pool.submit(call)
        waiting(place, 1)
        conn.commit()
        return answer.result(PATIENCE)
