"""Runs that go on with another input: one transaction, and what is kept of the one before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, held_of, make_error, raw, value_of
from windlass.domain.changes import Changes
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Held, RunRef
from windlass.domain.states import Status
from windlass.domain.step import Generation, StepKind, StepState, StepWrite
from windlass.errors import BadArguments, InputInUse


def record(drive: Driver, run: Claimed, *paths: str) -> None:
    steps = [
        StepWrite(path=p, kind=StepKind.STEP, state=StepState.DONE, value=raw(p)) for p in paths
    ]
    assert drive.call(drive.ops.record_steps(held_of(run), steps)) is not None


def wait(drive: Driver, run: Claimed, name: str) -> StepState:
    step = StepWrite(path=name, kind=StepKind.SIGNAL, state=StepState.WAITING, signal=name)
    recorded = drive.call(drive.ops.record_steps(held_of(run), [step]))
    assert recorded is not None
    return recorded[0].state


def paths(drive: Driver, run: RunRef, generation: int = 0) -> list[str]:
    found = drive.call(drive.ops.list_steps(run.tenant, run.id, None, 100, generation))
    assert all(step.generation == generation for step in found)
    return [step.path for step in found]


def generations(drive: Driver, run: RunRef, after: int = 0, limit: int = 10) -> list[Generation]:
    return list(drive.call(drive.ops.list_generations(run.tenant, run.id, after, limit)))


def go_on(drive: Driver, run: Claimed, input: object) -> None:
    assert drive.finish(run, Outcome.CONTINUED, result=raw(input)).lost == ()


def test_input_and_steps_are_kept_as_a_generation(drive: Driver) -> None:
    run = drive.start(input=raw({"page": 1}))
    record(drive, run, "fetch", "save")
    drive.advance(5)

    go_on(drive, run, {"page": 2})

    now = drive.get(run.ref)
    assert (now.status, value_of(now.input)) == (Status.QUEUED, {"page": 2})
    assert [attempt.outcome for attempt in now.attempts] == [AttemptOutcome.CONTINUED]
    (first,) = generations(drive, run.ref)
    assert (first.number, value_of(first.input), first.attempt) == (1, {"page": 1}, 1)
    assert first.at == drive.now
    assert paths(drive, run.ref) == []
    assert paths(drive, run.ref, 1) == ["fetch", "save"]
    last = drive.events(run.ref)[-1]
    assert (last.type, last.data, last.seq) == (
        EventType.CONTINUED, {"generation": 1}, first.seq,
    )  # fmt: skip

    again = drive.take(run.ref)
    assert (value_of(again.input), again.attempt, again.token) == ({"page": 2}, 2, run.token + 1)
    record(drive, again, "fetch")
    go_on(drive, again, {"page": 3})
    last_one = drive.take(run.ref)
    drive.finish(last_one, Outcome.SUCCEEDED, result=raw("done"))

    assert [(g.number, value_of(g.input)) for g in generations(drive, run.ref)] == [
        (1, {"page": 1}), (2, {"page": 2}),
    ]  # fmt: skip
    assert [g.number for g in generations(drive, run.ref, after=1)] == [2]
    assert [g.number for g in generations(drive, run.ref, limit=1)] == [1]
    assert paths(drive, run.ref, 2) == ["fetch"]
    ended = drive.get(run.ref)
    assert (value_of(ended.input), value_of(ended.result)) == ({"page": 3}, "done")
    assert violations(History.read(drive.tables)) == []


def test_failures_and_crashes_are_counted_anew(drive: Driver) -> None:
    run = drive.start()
    drive.finish(run, Outcome.RETRY, delay=0.0)
    run = drive.take(run.ref)
    drive.finish(run, Outcome.CRASHED)
    run = drive.take(run.ref)
    assert (run.failures, run.crash_count, run.attempt) == (1, 1, 3)

    go_on(drive, run, {"n": 1})

    again = drive.take(run.ref)
    assert (again.failures, again.crash_count, again.attempt) == (0, 0, 4)
    assert violations(History.read(drive.tables)) == []


def test_a_cancel_wins(drive: Driver) -> None:
    run = drive.start(input=raw({"page": 1}))
    drive.finish(run, Outcome.RETRY, delay=0.0)
    run = drive.take(run.ref)
    record(drive, run, "fetch")
    drive.cancel(run.ref, "enough")

    go_on(drive, run, {"page": 2})

    ended = drive.get(run.ref)
    assert (ended.status, ended.reason, ended.failures) == (Status.CANCELED, "enough", 1)
    assert value_of(ended.input) == {"page": 1}
    assert generations(drive, run.ref) == []
    assert paths(drive, run.ref) == ["fetch"]
    assert violations(History.read(drive.tables)) == []


def test_under_another_token_nothing_changes(drive: Driver) -> None:
    run = drive.start(input=raw({"page": 1}))
    record(drive, run, "fetch")
    before = drive.get(run.ref)
    stale = Held(run.tenant, run.id, run.token + 1)

    assert drive.finish(stale, Outcome.CONTINUED, result=raw({"page": 2})).lost == (stale,)

    assert drive.get(run.ref) == before
    assert (generations(drive, run.ref), paths(drive, run.ref)) == ([], ["fetch"])


def test_said_twice_it_goes_on_once(drive: Driver) -> None:
    run = drive.start()
    go_on(drive, run, {"n": 1})
    late = drive.finish(run, Outcome.CONTINUED, result=raw({"n": 2}))
    assert late.lost == (held_of(run),)
    assert len(generations(drive, run.ref)) == 1


def test_signals_that_answered_nothing_stay(drive: Driver) -> None:
    run = drive.start()
    for payload in (1, 2):
        drive.call(drive.ops.signal(run.ref, "paid", raw(payload), None))
    assert wait(drive, run, "paid") is StepState.DONE
    assert wait(drive, run, "late") is StepState.WAITING

    go_on(drive, run, {"n": 1})

    again = drive.take(run.ref)
    assert wait(drive, again, "paid") is StepState.DONE
    found = drive.call(drive.ops.list_steps(run.tenant, run.id, None, 10))
    assert [(step.path, value_of(step.value or raw(None))) for step in found] == [("paid", 2)]
    # A wait of the generation before is over: its signal wakes nobody.
    drive.finish(again, Outcome.WAITING, waits=("other",))
    drive.call(drive.ops.signal(run.ref, "late", raw(3), None))
    assert drive.get(run.ref).status is Status.WAITING
    assert violations(History.read(drive.tables)) == []


def test_a_deadline_goes_on(drive: Driver) -> None:
    run = drive.start(deadline_in=60.0)
    go_on(drive, run, {"n": 1})
    drive.advance(61)
    drive.sweep(expire=True)
    assert drive.get(run.ref).status is Status.FAILED


def test_another_input_is_refused_by_the_steps_of_this_one_alone(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, "fetch")
    go_on(drive, run, {"n": 1})
    drive.call(drive.ops.change(run.ref, Changes(input=raw({"n": 7}))))
    again = drive.take(run.ref)
    record(drive, again, "fetch")
    drive.finish(again, Outcome.RETRY, delay=60.0)
    with pytest.raises(InputInUse):
        drive.call(drive.ops.change(run.ref, Changes(input=raw({"n": 8}))))


@pytest.mark.parametrize("verb", ["retry", "reschedule"])
def test_a_run_that_is_reopened_has_its_last_input(drive: Driver, verb: str) -> None:
    run = drive.start(input=raw({"page": 1}))
    go_on(drive, run, {"page": 2})
    again = drive.take(run.ref)
    failed = StepWrite(
        path="save", kind=StepKind.STEP, state=StepState.FAILED, error=make_error(), failures=1
    )
    drive.call(drive.ops.record_steps(held_of(again), [failed]))
    drive.finish(again, Outcome.FAILED)
    if verb == "retry":
        drive.retry(run.ref)
    else:
        drive.reschedule(run.ref, delay=0.0)
    third = drive.take(run.ref)
    assert value_of(third.input) == {"page": 2}
    go_on(drive, third, {"page": 3})
    assert [g.number for g in generations(drive, run.ref)] == [1, 2]
    assert violations(History.read(drive.tables)) == []


@pytest.mark.parametrize("result", [None, raw(None)], ids=["none", "null"])
def test_without_an_input_nothing_happens(drive: Driver, result: Any) -> None:
    run = drive.start()
    with pytest.raises(BadArguments, match="not an object: a run has an input"):
        drive.finish(run, Outcome.CONTINUED, result=result)
    assert drive.get(run.ref).status is Status.RUNNING
    assert violations(History.read(drive.tables)) == []
