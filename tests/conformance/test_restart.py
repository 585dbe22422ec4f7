"""Restart: a run begins anew, from its start or from a step on."""

from __future__ import annotations

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, raw, value_of
from tests.conformance.test_children import children_of, end, look, park, refs, start
from tests.conformance.test_steps import done, record, send, steps_of, waits_for
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed
from windlass.domain.states import Status
from windlass.domain.step import StepState
from windlass.errors import IllegalTransition, InputInUse, StepNotRecorded


def failed(drive: Driver, *paths: str) -> Claimed:
    """A run that has recorded these steps, one after the other, and failed."""
    run = drive.start()
    for path in paths:
        record(drive, run, done(path, path))
    drive.finish(run, Outcome.FAILED)
    return run


def test_a_run_begins_anew_without_its_steps(drive: Driver) -> None:
    run = failed(drive, "load", "charge")

    restarted = drive.restart(run.ref)

    assert (restarted.status, restarted.failures, restarted.error) == (Status.QUEUED, 0, None)
    assert drive.events(run.ref)[-1].type is EventType.RESTARTED
    assert drive.events(run.ref)[-1].data is None
    again = drive.take(run.ref)
    assert (again.attempt, again.token) == (run.attempt + 1, run.token + 1)
    assert steps_of(drive, again) == {}
    record(drive, again, done("load", "anew"))
    assert value_of(steps_of(drive, again)["load"].value) == "anew"  # type: ignore[arg-type]
    assert violations(History.read(drive.tables)) == []


def test_a_run_begins_anew_from_a_step(drive: Driver) -> None:
    run = failed(drive, "load", "charge", "charge/log", "mail")

    drive.restart(run.ref, "charge")

    assert drive.events(run.ref)[-1].data == {"step": "charge"}
    assert set(steps_of(drive, drive.take(run.ref))) == {"load"}
    assert violations(History.read(drive.tables)) == []


def test_a_step_that_failed_can_be_named(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, done("load"))
    failure = done("charge", "exhausted", failures=1)
    record(drive, run, type(failure)(
        path="charge", kind=failure.kind, state=StepState.FAILED, value=raw("exhausted"),
        failures=1,
    ))  # fmt: skip
    record(drive, run, done("mail"))
    drive.finish(run, Outcome.FAILED)

    drive.restart(run.ref, "charge")

    assert set(steps_of(drive, drive.take(run.ref))) == {"load"}


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.WAITING, Status.PAUSED])
def test_a_run_that_lives_but_does_not_run_begins_anew(drive: Driver, status: Status) -> None:
    run = drive.bring(status)

    assert drive.restart(run).status is Status.QUEUED

    assert drive.rows("steps", generation=0) == []
    assert violations(History.read(drive.tables)) == []


def test_a_running_run_is_refused(drive: Driver) -> None:
    run = drive.start()
    with pytest.raises(IllegalTransition):
        drive.restart(run.ref)


def test_a_step_that_is_not_recorded_is_refused(drive: Driver) -> None:
    run = failed(drive, "load")
    with pytest.raises(StepNotRecorded) as caught:
        drive.restart(run.ref, "charge")
    assert caught.value.args == (run.id, "charge")
    assert drive.get(run.ref).status is Status.FAILED
    assert set(steps_of(drive, run)) == {"load"}


def test_signals_that_were_taken_can_be_taken_again(drive: Driver) -> None:
    run = drive.start()
    send(drive, run.ref, "paid", 7)
    (step,) = record(drive, run, waits_for("paid"))
    assert step.state is StepState.DONE
    drive.finish(run, Outcome.FAILED)

    drive.restart(run.ref)

    again = drive.take(run.ref)
    (step,) = record(drive, again, waits_for("paid"))
    assert (step.state, value_of(step.value)) == (StepState.DONE, 7)  # type: ignore[arg-type]


def test_children_are_started_again(drive: Driver) -> None:
    """Those that succeeded too: the parent does all of its work again."""
    parent = drive.start()
    start(drive, parent, 2)
    ended, lives = refs(parent, children_of(drive, parent))
    end(drive, ended)
    drive.take(lives)
    park(drive, parent)

    drive.restart(parent.ref)
    drive.sweep(dispatch=True)

    assert drive.get(ended).status is Status.SUCCEEDED
    assert drive.get(lives).intent == "cancel"
    again = drive.take(parent.ref)
    assert children_of(drive, again) == []
    assert len(start(drive, again, 2).ready) == 2
    assert violations(History.read(drive.tables)) == []


def test_children_that_are_held_back_never_start(drive: Driver) -> None:
    parent = drive.start()
    start(drive, parent, 3, parallel=1)
    kids = refs(parent, children_of(drive, parent))
    park(drive, parent)

    drive.restart(parent.ref)
    drive.sweep(dispatch=True)
    drive.sweep(dispatch=True)

    assert {drive.get(kid).status for kid in kids} == {Status.CANCELED}


def test_the_input_of_a_run_that_began_anew_stays(drive: Driver) -> None:
    """Its forgotten steps were made with it."""
    run = failed(drive, "load")
    drive.restart(run.ref)
    drive.terminate(run.ref)
    with pytest.raises(InputInUse):
        drive.retry(run.ref, input=raw({"n": 2}))


def test_signals_of_an_input_that_the_run_went_on_from_stay_taken(drive: Driver) -> None:
    run = drive.start()
    send(drive, run.ref, "paid", 1)
    record(drive, run, waits_for("paid"))
    drive.finish(run, Outcome.CONTINUED)
    again = drive.take(run.ref)
    send(drive, run.ref, "paid", 2)
    record(drive, again, waits_for("paid"))
    drive.finish(again, Outcome.FAILED)

    drive.restart(run.ref)

    (step,) = record(drive, drive.take(run.ref), waits_for("paid"))
    assert value_of(step.value) == 2  # type: ignore[arg-type]


def test_a_phase_that_has_begun_can_be_named(drive: Driver) -> None:
    """Only what it did is recorded yet."""
    run = failed(drive, "load", "process/one", "process/two")
    drive.restart(run.ref, "process")
    assert set(steps_of(drive, drive.take(run.ref))) == {"load"}


def test_runs_that_have_not_the_step_do_not_undo_the_others(drive: Driver) -> None:
    one, other = failed(drive, "load", "charge"), failed(drive, "load")
    ids = [one.id, other.id]

    answers = drive.call(drive.ops.apply_to_many("restart", "default", ids, {"step": "charge"}))

    by_id = {answer.id: answer for answer in answers}
    assert by_id[one.id].status is Status.QUEUED
    assert isinstance(by_id[other.id].error, StepNotRecorded)
    assert drive.get(other.ref).status is Status.FAILED


def test_children_that_succeeded_are_started_again_if_others_failed(drive: Driver) -> None:
    parent = drive.start()
    start(drive, parent, 2)
    good, bad = refs(parent, children_of(drive, parent))
    end(drive, good)
    end(drive, bad, Outcome.FAILED)
    assert look(drive, parent).state is StepState.FAILED
    drive.finish(parent, Outcome.FAILED)

    drive.restart(parent.ref)

    again = drive.take(parent.ref)
    assert children_of(drive, again) == []
    assert len(start(drive, again, 2).ready) == 2


@pytest.mark.parametrize("act", ["restart", "reschedule"])
def test_a_child_that_is_held_back_can_be_let_go_by_hand(drive: Driver, act: str) -> None:
    """It counts as one that may run; the sweep goes on."""
    parent = drive.start()
    start(drive, parent, 3, parallel=1)
    first, second, third = refs(parent, children_of(drive, parent))
    if act == "restart":
        drive.restart(second)
    else:
        drive.reschedule(second, delay=0.0)
    end(drive, first)

    drive.sweep(dispatch=True)

    states = {row.id: row.state for row in children_of(drive, parent)}
    assert (states[second.id], states[third.id]) == ("live", "held")
    end(drive, second)
    drive.sweep(dispatch=True)
    end(drive, third)
    assert violations(History.read(drive.tables)) == []


def test_a_child_that_is_retried_with_its_parent_is_left_alone(drive: Driver) -> None:
    parent = drive.start()
    start(drive, parent, 1)
    (child,) = refs(parent, children_of(drive, parent))
    end(drive, child, Outcome.FAILED)
    look(drive, parent)
    drive.finish(parent, Outcome.FAILED)
    drive.retry(parent.ref)
    drive.retry(child)
    again = drive.take(parent.ref)
    (new,) = start(drive, again, 1).ready
    end(drive, new)

    drive.sweep(dispatch=True)

    assert drive.get(child).status is Status.QUEUED
