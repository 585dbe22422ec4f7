"""Steps and operators: a run that is reopened, another input, other times for one that waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, held_of, make_error, raw, value_of
from windlass.domain.changes import Changes
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, RunRef
from windlass.domain.states import Failure, Status
from windlass.domain.step import Step, StepKind, StepState, StepWrite
from windlass.errors import IllegalTransition, InputInUse, RunExpires

Reopen = Callable[[Driver, RunRef], object]


def step(path: str, state: StepState, **fields: Any) -> StepWrite:
    return StepWrite(path=path, kind=StepKind.STEP, state=state, **fields)


def record(drive: Driver, run: Claimed, *steps: StepWrite) -> list[Step]:
    recorded = drive.call(drive.ops.record_steps(held_of(run), steps))
    assert recorded is not None
    return list(recorded)


def states(drive: Driver, run: RunRef, generation: int = 0) -> dict[str, StepState]:
    found = drive.call(drive.ops.list_steps(run.tenant, run.id, None, 100, generation))
    return {step.path: step.state for step in found}


def one_of_each(drive: Driver, run: Claimed) -> None:
    """Record a step of every state."""
    record(
        drive,
        run,
        step("done", StepState.DONE, value=raw(1)),
        step("failed", StepState.FAILED, error=make_error("declined"), failures=3),
        step("retrying", StepState.RETRYING, error=make_error(), failures=1, wait=60.0),
        step("waiting", StepState.WAITING, signal="paid"),
        step("timed_out", StepState.WAITING, signal="never", wait=0.0),
    )


REOPENINGS: dict[str, Reopen] = {
    "retry": lambda drive, run: drive.retry(run),
    "reschedule": lambda drive, run: drive.reschedule(run, delay=0.0),
}


@pytest.mark.parametrize("verb", REOPENINGS)
def test_what_failed_is_tried_anew_and_what_is_done_stays(drive: Driver, verb: str) -> None:
    run = drive.start()
    one_of_each(drive, run)
    drive.finish(run, Outcome.FAILED)
    before = drive.trail(run.ref)

    REOPENINGS[verb](drive, run.ref)

    kept = {name: StepState(name) for name in ("done", "waiting", "timed_out")}
    assert states(drive, run.ref) == kept
    assert drive.trail(run.ref)[: len(before)] == before, "the history keeps what happened"
    again = drive.take(run.ref)
    (anew,) = record(drive, again, step("failed", StepState.DONE, value=raw(2)))
    assert (anew.state, anew.failures, anew.error, anew.attempt) == (StepState.DONE, 0, None, 2)
    assert value_of(anew.value) == 2  # type: ignore[arg-type]
    (still,) = record(drive, again, step("done", StepState.DONE, value=raw(3)))
    assert value_of(still.value) == 1  # type: ignore[arg-type]
    assert violations(History.read(drive.tables)) == []


def test_each_time_that_a_run_is_reopened_its_failures_are_kept_apart(drive: Driver) -> None:
    run = drive.start()
    for _ in range(3):
        record(drive, run, step("charge", StepState.FAILED), step("mail", StepState.RETRYING))
        drive.finish(run, Outcome.FAILED)
        drive.retry(run.ref)
        run = drive.take(run.ref)

    assert states(drive, run.ref) == {}
    for attempt in (1, 2, 3):
        assert states(drive, run.ref, -attempt) == {
            "charge": StepState.FAILED,
            "mail": StepState.RETRYING,
        }
    assert drive.trail(run.ref).count(EventType.STEP_FAILED) == 3
    assert violations(History.read(drive.tables)) == []


def test_a_retry_by_the_worker_forgets_nothing(drive: Driver) -> None:
    run = drive.start()
    one_of_each(drive, run)

    drive.finish(run, Outcome.RETRY, delay=0.0)

    assert set(states(drive, run.ref)) == {"done", "failed", "retrying", "waiting", "timed_out"}


@pytest.mark.parametrize("state", sorted(set(StepState) - {StepState.TIMED_OUT}))
def test_a_run_with_recorded_steps_keeps_its_input(drive: Driver, state: StepState) -> None:
    run = drive.start()
    record(drive, run, step("charge", state))
    drive.finish(run, Outcome.FAILED)
    before = drive.get(run.ref)

    with pytest.raises(InputInUse) as caught:
        drive.call(drive.ops.retry(run.ref, None, raw({"n": 2})))

    assert caught.value.run == run.id
    assert drive.get(run.ref) == before
    assert set(states(drive, run.ref)) == {"charge"}, "nothing was done"
    drive.retry(run.ref)
    with pytest.raises(InputInUse):
        drive.change(run.ref, input=raw({"n": 2}))
    assert drive.get(run.ref).input == before.input
    assert drive.change(run.ref, tags=("t",)).tags == ("t",)
    assert violations(History.read(drive.tables)) == []


def test_a_run_that_waits_keeps_its_input(drive: Driver) -> None:
    run = drive.waits()

    with pytest.raises(InputInUse):
        drive.change(run, input=raw({"n": 2}))

    assert drive.get(run).status is Status.WAITING


def test_a_run_without_steps_may_have_another_input(drive: Driver) -> None:
    run = drive.start()
    other = drive.start()
    record(drive, other, step("charge", StepState.DONE))
    drive.call(drive.ops.signal(run.ref, "paid", raw(1), None))
    drive.finish(run, Outcome.FAILED)

    drive.call(drive.ops.retry(run.ref, None, raw({"n": 2})))
    drive.change(run.ref, input=raw({"n": 3}))

    assert value_of(drive.get(run.ref).input) == {"n": 3}


def test_many_runs_are_refused_one_by_one(drive: Driver) -> None:
    stepped, plain = drive.start(), drive.start()
    record(drive, stepped, step("charge", StepState.DONE))
    for run in (stepped, plain):
        drive.finish(run, Outcome.RELEASED)
    changes = {"changes": Changes(input=raw({"n": 2}))}

    answers = drive.call(
        drive.ops.apply_to_many("change", "default", [stepped.id, plain.id], changes)
    )

    errors = {applied.id: applied.error for applied in answers}
    assert isinstance(errors[stepped.id], InputInUse)
    assert errors[plain.id] is None
    assert value_of(drive.get(plain.ref).input) == {"n": 2}


# -- a run that waits, and its times -------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "failure"), [("deadline_in", Failure.DEADLINE), ("expires_in", Failure.EXPIRED)]
)
@pytest.mark.parametrize("limit", [None, 500.0])
def test_a_run_that_waits_may_be_given_an_end(
    drive: Driver, which: str, failure: Failure, limit: float | None
) -> None:
    """It may go on at any time, whenever its wait would be over."""
    run = drive.start()
    record(drive, run, step("paid", StepState.WAITING, signal="paid", wait=limit))
    until = None if limit is None else drive.later(limit)
    drive.finish(run, Outcome.WAITING, waits=("paid",), until=until)

    changed = drive.change(run.ref, **{which: 100.0})

    assert (changed.status, changed.due_at) == (Status.WAITING, until)
    drive.advance(101)
    drive.sweep(dispatch=True, expire=True)
    ended = drive.get(run.ref)
    assert (ended.status, ended.failure) == (Status.FAILED, failure)
    assert violations(History.read(drive.tables)) == []


def test_an_end_that_has_come_is_refused(drive: Driver) -> None:
    run = drive.waits()

    with pytest.raises(RunExpires):
        drive.change(run, deadline_at=drive.now - timedelta(seconds=1))


def test_a_run_that_waits_is_not_rescheduled(drive: Driver) -> None:
    run = drive.waits()

    with pytest.raises(IllegalTransition) as caught:
        drive.reschedule(run, delay=10.0)

    assert caught.value.args == (run.id, "waiting", "reschedule")
    assert drive.get(run).waits == ("go",)


def test_a_wait_keeps_its_end_whatever_it_is_asked_for_next(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, step("paid", StepState.WAITING, signal="paid"))

    (again,) = record(drive, run, step("paid", StepState.WAITING, signal="paid", wait=0.0))

    assert (again.state, again.until, again.left) == (StepState.WAITING, None, None)
