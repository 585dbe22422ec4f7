"""A verb for many runs in one transaction: each by the verb's own rules, none undone by another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.conformance.desk import Desk
from tests.conformance.history import History, violations
from tests.conformance.kit import ABSENT, Driver, Opened, ids, reachable, ref, requires
from tests.conformance.places import Place, PostgresPlace
from windlass.domain.bulk import BULK_VERBS, MOST_AT_ONCE, Applied
from windlass.domain.changes import Changes
from windlass.domain.outcome import Outcome
from windlass.domain.run import Options, RunRef
from windlass.domain.scheduling.rows import Decision, Firing
from windlass.domain.states import Status
from windlass.errors import (
    BadArguments,
    IllegalTransition,
    KeyTaken,
    RunExpires,
    RunNotFound,
    StoreBusy,
    WindlassError,
)

ARGUMENTS: dict[str, dict[str, Any]] = {
    "cancel": {"reason": "enough"},
    "pause": {"reason": "a break"},
    "resume": {},
    "terminate": {"reason": "stuck"},
    "restart": {"step": None},
    "retry": {"max_attempts": 3},
    "reschedule": {"at": None, "delay": 60.0},
    "reprioritize": {"priority": 7, "queue": "other"},
    "change": {"changes": Changes(tags=("late",), timeout=9.0, deadline_in=600.0)},
    "discard": {},
}
NO_TIME = {"at": None, "delay": 0.0}


def apply(drive: Driver, verb: str, runs: Sequence[str], **arguments: Any) -> dict[str, Applied]:
    """Apply a verb, with the usual arguments unless others are given; the answers by id."""
    given = arguments or ARGUMENTS[verb]
    answers = drive.call(drive.ops.apply_to_many(verb, "default", runs, given))
    assert len(answers) == len(set(runs))
    return {applied.id: applied for applied in answers}


def one_by_one(drive: Driver, verb: str, run: RunRef) -> tuple[Any, ...]:
    """What the verb for one run does: the status, or the error without the run's id."""
    try:
        if verb == "discard":
            record = drive.get(run)
            if not drive.call(drive.ops.discard("default", [run.id])):
                raise IllegalTransition(run.id, record.status, "discard")
            return (record.status,)
        operation = getattr(drive.ops, verb)
        return (drive.call(operation(run, **ARGUMENTS[verb])).status,)
    except WindlassError as error:
        return (type(error), *error.args[1:])


def test_every_verb_has_its_arguments_here() -> None:
    assert set(ARGUMENTS) == set(BULK_VERBS)


@pytest.mark.parametrize("verb", BULK_VERBS)
def test_each_run_is_treated_as_by_the_verb_for_one(steer: Driver, verb: str) -> None:
    singly = {status: steer.bring(status) for status in reachable()}
    together = {status: steer.bring(status) for status in reachable()}

    answers = apply(steer, verb, ids(together.values()))

    for status, run in together.items():
        if (verb, status) == ("resume", Status.RUNNING):
            continue  # only if it was asked to pause: see `test_pause.py`
        applied = answers[run.id]
        error = applied.error
        got = (applied.status,) if error is None else (type(error), *error.args[1:])
        assert got == one_by_one(steer, verb, singly[status]), status
        trails = (steer.trail(run), steer.trail(singly[status]))
        assert trails[0] == trails[1], status
        assert (error is None) == (status in BULK_VERBS[verb].where)
        records = (steer.get(run), steer.get(singly[status]))
        for name in (
            "status",
            "priority",
            "queue",
            "reason",
            "scheduled_for",
            "options",
            "tags",
            "deadline_at",
        ):
            assert getattr(records[0], name) == getattr(records[1], name), (status, name)
    assert violations(History.read(steer.tables)) == []


def test_a_run_that_refuses_undoes_no_other(steer: Driver) -> None:
    first, last = steer.add(), steer.add()
    short = steer.add(expires_in=5.0)
    done = steer.ended(Outcome.SUCCEEDED)

    answers = apply(steer, "reschedule", [last.id, short.id, ABSENT, done.id, first.id, "no id"])

    errors = {ident: type(applied.error) for ident, applied in answers.items() if applied.error}
    assert errors == {
        short.id: RunExpires, done.id: IllegalTransition, ABSENT: RunNotFound, "no id": RunNotFound,
    }  # fmt: skip
    assert {steer.get(run).status for run in (first, last)} == {Status.SCHEDULED}
    assert steer.get(short).status is Status.QUEUED
    assert violations(History.read(steer.tables)) == []


def test_two_runs_of_one_key_are_not_both_reopened(steer: Driver) -> None:
    fields: dict[str, Any] = {"key": "k", "options": Options(unique="live")}
    runs = [steer.ended(Outcome.FAILED, **fields) for _ in range(2)]

    answers = apply(steer, "retry", ids(runs))

    found = [answers[run.id] for run in runs]
    assert [applied.status for applied in found] == [Status.QUEUED, None]
    assert isinstance(found[1].error, KeyTaken)
    assert found[1].error.owner == runs[0].id
    assert violations(History.read(steer.tables)) == []


def test_discarded_runs_say_that_they_are(steer: Driver) -> None:
    dead = steer.ended(Outcome.FAILED)
    apply(steer, "discard", [dead.id])

    error = apply(steer, "discard", [dead.id])[dead.id].error

    assert isinstance(error, IllegalTransition)
    assert error.status == "discarded"


def test_an_argument_that_no_run_can_have_is_an_error_and_changes_nothing(steer: Driver) -> None:
    runs = ids(steer.add_many(2))

    with pytest.raises(BadArguments):
        apply(steer, "reschedule", runs, at=None, delay=-1.0)
    with pytest.raises(BadArguments):
        apply(steer, "retry", [steer.ended(Outcome.FAILED).id], max_attempts=0)

    assert {record["id"] for record in steer.rows("ready")} == set(runs)


def test_another_tenants_runs_are_left_alone(steer: Driver) -> None:
    run = steer.add(tenant="acme")

    assert isinstance(apply(steer, "cancel", [run.id])[run.id].error, RunNotFound)
    assert steer.get(run).status is Status.QUEUED


def test_an_id_that_comes_twice_is_one_run(steer: Driver) -> None:
    run = steer.add()

    answers = steer.call(
        steer.ops.apply_to_many("reschedule", "default", [run.id, run.id], NO_TIME)
    )

    assert [applied.id for applied in answers] == [run.id]


def test_no_runs_are_no_trouble(steer: Driver) -> None:
    assert apply(steer, "cancel", []) == {}


# -- somebody else has a lock ---------------------------------------------------------------------


@pytest.fixture
def drive(open_real: Opened) -> Driver:
    """On the machine's clock."""
    return open_real()


@pytest.fixture
def other(place: Place) -> Iterator[psycopg.Connection[Any]]:
    """Somebody with an open transaction."""
    assert isinstance(place, PostgresPlace)
    with psycopg.connect(place.url) as conn:
        yield conn


def _queued(drive: Driver) -> RunRef:
    return drive.add()


def _scheduled(drive: Driver) -> RunRef:
    return drive.add(delay=60.0)


def _running(drive: Driver) -> RunRef:
    return drive.start().ref


def _failed(drive: Driver) -> RunRef:
    return drive.ended(Outcome.FAILED)


HELD: dict[str, tuple[Callable[[Driver], RunRef], str, str]] = {
    "queued": (_queued, "cancel", "select from windlass.ready where id = %s for update"),
    "scheduled": (_scheduled, "cancel", "select from windlass.timers where id = %s for update"),
    "running": (_running, "cancel", "select from windlass.leases where id = %s for update"),
    "ended": (_failed, "retry", "select from windlass.runs where id = %s for update"),
    "a live record": (_queued, "cancel", "select from windlass.runs where id = %s for update"),
    "being canceled": (_queued, "reschedule", "select windlass.cancel('default', %s)"),
    "being retried": (_failed, "retry", "select windlass.retry('default', %s)"),
    "being discarded": (_failed, "discard", "select windlass.discard('default', array[%s::uuid])"),
}  # fmt: skip


@requires("server")
@pytest.mark.parametrize("what", HELD)
def test_what_somebody_else_holds_is_busy_and_delays_no_other(
    drive: Driver, other: psycopg.Connection[Any], what: str
) -> None:
    bring, verb, statement = HELD[what]
    runs = [bring(drive) for _ in range(3)]
    other.execute(statement, (runs[1].id,))
    # A wait would last for half a second at least; the answer comes while the lock is held.
    answers = apply(drive, verb, ids(runs))

    assert isinstance(answers[runs[1].id].error, StoreBusy)
    assert [answers[runs[n].id].error for n in (0, 2)] == [None, None]
    other.rollback()
    assert apply(drive, verb, [runs[1].id])[runs[1].id].error is None
    assert violations(History.read(drive.tables)) == []


@requires("server")
def test_the_schedule_and_the_key_of_a_reopened_run_are_not_waited_for(
    drive: Driver, other: psycopg.Connection[Any]
) -> None:
    row = Desk(drive).put()
    run = drive.new()
    slots = (Firing(slot=drive.now, run=run),)
    drive.call(
        drive.ops.fire_schedules(
            [Decision(tenant=row.tenant, id=row.id, advance=False, slots=slots)]
        )
    )
    drive.finish(drive.take(ref(run.id)), Outcome.FAILED)
    keyed = drive.ended(Outcome.FAILED, key="k", options=Options(unique="live"))
    free = drive.ended(Outcome.FAILED)
    other.execute("select from windlass.schedules where id = %s for update", (row.id,))
    other.execute("select from windlass.run_keys where key = 'k' for update")

    answers = apply(drive, "retry", [run.id, keyed.id, free.id])

    assert isinstance(answers[run.id].error, StoreBusy)
    assert isinstance(answers[keyed.id].error, StoreBusy)
    assert answers[free.id].status is Status.QUEUED
    other.rollback()
    again = apply(drive, "retry", [run.id, keyed.id])
    assert {applied.status for applied in again.values()} == {Status.QUEUED}
    assert violations(History.read(drive.tables)) == []


@requires("server")
def test_a_key_that_is_being_made_is_waited_for_once(
    drive: Driver, other: psycopg.Connection[Any]
) -> None:
    """The key of an ended run may be in nobody's table: then an enqueue that is not committed yet
    can only be waited for. What else there is to do is left for the next call."""
    keyed = drive.ended(Outcome.FAILED, job="greet", key="k", options=Options(unique="live"))
    later = drive.ended(Outcome.FAILED, key="l", options=Options(unique="live"))
    other.execute("delete from windlass.run_keys")
    other.commit()
    other.execute(
        "select windlass.enqueue('greet', p_queue => 'q', p_priority => 0, p_key => 'k',"
        ' p_options => \'{"unique": "live"}\')'
    )

    answers = apply(drive, "retry", ids([keyed, later]))

    assert isinstance(answers[keyed.id].error, StoreBusy)
    assert isinstance(answers[later.id].error, StoreBusy)
    other.rollback()
    assert violations(History.read(drive.tables)) == []


@requires("server")
def test_the_same_runs_in_opposite_order_by_two_at_once(open_real: Opened) -> None:
    one, two = open_real(), open_real()
    runs = ids(one.add_many(MOST_AT_ONCE))
    with ThreadPoolExecutor(2) as pool:
        for n in range(10):
            first = pool.submit(apply, one, "reprioritize", runs, priority=n, queue=None)
            second = pool.submit(apply, two, "reprioritize", runs[::-1], priority=-n, queue=None)
            for answers in (first.result(), second.result()):
                errors = {type(applied.error) for applied in answers.values()}
                assert errors <= {type(None), StoreBusy}
    assert violations(History.read(one.tables)) == []


@requires("server")
def test_more_than_fit_into_one_transaction_are_refused(drive: Driver) -> None:
    runs = ids(drive.add_many(MOST_AT_ONCE + 1))

    with pytest.raises(BadArguments):
        apply(drive, "cancel", runs)

    assert len(drive.rows("ready")) == len(runs)
