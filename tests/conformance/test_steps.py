"""Steps and signals: what a run remembers of the work inside it, and how it waits."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.conformance.kit import (
    ABSENT,
    Driver,
    held_of,
    make_error,
    make_finish,
    raw,
    value_of,
)
from tests.fixtures.apps import PATIENCE
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Held, RunRef
from windlass.domain.states import Failure, Status
from windlass.domain.step import Signal, Step, StepKind, StepState, StepWrite
from windlass.errors import IllegalTransition, RunNotFound
from windlass.store.operations.handlers import make_call, pack_arguments


def done(path: str, value: object = None, **fields: Any) -> StepWrite:
    return StepWrite(
        path=path, kind=StepKind.STEP, state=StepState.DONE, value=raw(value), **fields
    )


def waits_for(name: str, *, path: str | None = None, wait: float | None = None) -> StepWrite:
    return StepWrite(
        path=path or name, kind=StepKind.SIGNAL, state=StepState.WAITING, signal=name, wait=wait
    )


def sleeps(path: str, seconds: float) -> StepWrite:
    return StepWrite(path=path, kind=StepKind.SLEEP, state=StepState.WAITING, wait=seconds)


def record(drive: Driver, run: Claimed | Held, *steps: StepWrite) -> list[Step]:
    held = held_of(run) if isinstance(run, Claimed) else run
    recorded = drive.call(drive.ops.record_steps(held, steps))
    assert recorded is not None
    return list(recorded)


def steps_of(drive: Driver, run: Claimed) -> dict[str, Step]:
    found = drive.call(drive.ops.list_steps(run.tenant, run.id, None, 100))
    return {step.path: step for step in found}


def send(drive: Driver, run: RunRef, name: str, payload: object = None, **key: Any) -> Signal:
    return drive.call(drive.ops.signal(run, name, raw(payload), key.get("key")))


def park(drive: Driver, run: Claimed, *paths: str, seconds: float | None = None) -> None:
    until = None if seconds is None else drive.later(seconds)
    reply = drive.finish_all([make_finish(run, Outcome.WAITING, waits=paths, until=until)])
    assert reply.lost == ()


def same(one: Step, other: Step) -> bool:
    """JSON may come back written in another way."""
    values = [None if step.value is None else value_of(step.value) for step in (one, other)]
    bare = [msgspec.structs.replace(step, value=None) for step in (one, other)]
    return values[0] == values[1] and bare[0] == bare[1]


def test_a_step_is_remembered(drive: Driver) -> None:
    run = drive.start()
    drive.advance(5)

    (step,) = record(drive, run, done("charge", {"id": 7}, took=2.0, input="[1]"))

    assert (step.path, step.kind, step.state) == ("charge", StepKind.STEP, StepState.DONE)
    assert value_of(step.value) == {"id": 7}  # type: ignore[arg-type]
    assert step.started_at == drive.now - timedelta(seconds=2)
    assert (step.at, step.attempt, step.seq, step.input) == (drive.now, 1, 3, "[1]")
    assert same(steps_of(drive, run)["charge"], step)
    assert drive.trail(run.ref)[-1] is EventType.STEP_SUCCEEDED
    event = drive.events(run.ref)[-1]
    assert (event.seq, event.data) == (3, {"step": "charge"})
    assert drive.feed(at_least=3)[-1].data == {"step": "charge"}


def test_what_has_ended_stays(drive: Driver) -> None:
    run = drive.start()
    (first,) = record(drive, run, done("charge", 1))

    (again,) = record(drive, run, done("charge", 2))

    assert same(again, first)
    assert drive.get(run.ref).token == 1
    assert drive.trail(run.ref).count(EventType.STEP_SUCCEEDED) == 1


def test_several_at_once_have_their_numbers_in_order(drive: Driver) -> None:
    run = drive.start()

    steps = record(drive, run, done("a", 1), done("b", 2), waits_for("c"), done("d", 4))

    assert [step.seq for step in steps] == [3, 4, None, 5]
    drive.finish(run, Outcome.SUCCEEDED)
    assert [event.seq for event in drive.events(run.ref)] == [1, 2, 3, 4, 5, 6]
    mine = [event for event in drive.feed(at_least=6) if event.subject == run.id]
    assert [event.seq for event in mine] == [1, 2, 3, 4, 5, 6]


def test_nothing_is_remembered_under_another_token(drive: Driver) -> None:
    run = drive.start()
    stale = Held(run.tenant, run.id, run.token + 1)

    assert drive.call(drive.ops.record_steps(stale, [done("a")])) is None
    assert drive.call(drive.ops.record_steps(Held("default", ABSENT, 1), [done("a")])) is None
    assert steps_of(drive, run) == {}


def test_a_failure_is_remembered_with_its_error(drive: Driver) -> None:
    run = drive.start()
    write = StepWrite(
        path="charge",
        kind=StepKind.STEP,
        state=StepState.FAILED,
        error=make_error("declined"),
        failures=3,
    )

    (step,) = record(drive, run, write)

    assert (step.state, step.failures) == (StepState.FAILED, 3)
    assert step.error == make_error("declined")
    assert drive.trail(run.ref)[-1] is EventType.STEP_FAILED


def test_tries_are_counted_and_keep_their_beginning(drive: Driver) -> None:
    run = drive.start()

    def failed(times: int) -> StepWrite:
        return StepWrite(
            path="charge", kind=StepKind.STEP, state=StepState.RETRYING,
            error=make_error(f"{times}"), failures=times, wait=60.0,
        )  # fmt: skip

    (first,) = record(drive, run, failed(1))
    began = drive.now
    drive.advance(70)
    (second,) = record(drive, run, failed(2))
    drive.advance(70)
    (last,) = record(drive, run, done("charge", "ok", failures=2))

    assert first.until == began + timedelta(seconds=60)
    assert first.left == pytest.approx(60.0)
    assert (second.failures, second.started_at) == (2, began)
    assert (last.state, last.error, last.until) == (StepState.DONE, None, None)
    assert last.started_at == began
    assert drive.trail(run.ref)[2:] == [
        EventType.STEP_RETRYING,
        EventType.STEP_RETRYING,
        EventType.STEP_SUCCEEDED,
    ]
    assert drive.events(run.ref)[2].data == {"step": "charge", "failures": 1, "delay": 60}


def test_a_sleep_keeps_its_end(drive: Driver) -> None:
    run = drive.start()
    began = drive.now

    record(drive, run, sleeps("nap", 100))
    drive.advance(40)
    (again,) = record(drive, run, sleeps("nap", 100))

    assert again.until == began + timedelta(seconds=100)
    assert again.left == pytest.approx(60.0)
    assert (again.state, again.seq) == (StepState.WAITING, None)


def test_a_sleeping_run_has_no_lease_and_comes_back(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, sleeps("nap", 100))

    drive.finish(run, Outcome.SLEEPING, waits=("nap",), until=drive.later(100))

    asleep = drive.get(run.ref)
    assert (asleep.status, asleep.waiting_for) == (Status.SCHEDULED, "sleep")
    assert (asleep.waits, asleep.due_at) == (("nap",), drive.later(100))
    assert asleep.attempts[-1].outcome is AttemptOutcome.WAITED
    assert drive.events(run.ref)[-1].type is EventType.SLEEPING
    drive.advance(100)
    drive.sweep(dispatch=True, expire=True)
    again = drive.take(run.ref)
    assert (again.id, again.attempt, again.failures, again.token) == (run.id, 2, 0, 2)


def test_a_run_waits_until_its_signal_comes(drive: Driver) -> None:
    run = drive.start()
    (step,) = record(drive, run, waits_for("paid"))
    assert step.state is StepState.WAITING

    park(drive, run, "paid")

    parked = drive.get(run.ref)
    assert (parked.status, parked.waits, parked.due_at) == (Status.WAITING, ("paid",), None)
    assert drive.events(run.ref)[-1].type is EventType.WAITING
    assert drive.events(run.ref)[-1].data == {"for": ["paid"]}
    drive.advance(10**8)
    drive.sweep(dispatch=True, expire=True)
    assert drive.get(run.ref).status is Status.WAITING

    send(drive, run.ref, "other")
    assert drive.get(run.ref).status is Status.WAITING
    sent = send(drive, run.ref, "paid", {"amount": 7})

    assert drive.get(run.ref).status is Status.QUEUED
    assert drive.trail(run.ref)[-2:] == [EventType.SIGNALED, EventType.QUEUED]
    again = drive.take(run.ref)
    (answered,) = record(drive, again, waits_for("paid"))
    assert answered.state is StepState.DONE
    assert value_of(answered.value) == {"amount": 7}  # type: ignore[arg-type]
    (other, taken) = drive.call(drive.ops.list_signals("default", run.id, 0, 10))
    assert (other.taken_by, taken.taken_by, taken.number) == (None, "paid", sent.number)


def test_a_signal_that_came_before_the_wait_is_not_missed(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, waits_for("paid"))
    send(drive, run.ref, "paid", 1)  # after the look, before the lease is given up

    park(drive, run, "paid")

    assert drive.get(run.ref).status is Status.QUEUED
    again = drive.take(run.ref)
    (answered,) = record(drive, again, waits_for("paid"))
    assert value_of(answered.value) == 1  # type: ignore[arg-type]


def test_signals_answer_one_wait_each_in_order(drive: Driver) -> None:
    run = drive.start()
    for number in (1, 2, 3):
        send(drive, run.ref, "item", number)

    first, second = record(drive, run, waits_for("item"), waits_for("item", path="item#2"))
    (third,) = record(drive, run, waits_for("item", path="item#3"))
    (fourth,) = record(drive, run, waits_for("item", path="item#4"))

    values = [value_of(step.value) for step in (first, second, third)]  # type: ignore[arg-type]
    assert values == [1, 2, 3]
    assert fourth.state is StepState.WAITING
    (again,) = record(drive, run, waits_for("item"))
    assert same(again, first)


def test_a_wait_times_out_once_and_for_all(drive: Driver) -> None:
    run = drive.start()
    (step,) = record(drive, run, waits_for("paid", wait=60))
    assert step.until == drive.later(60)
    park(drive, run, "paid", seconds=60)
    drive.advance(60)
    drive.sweep(dispatch=True, expire=True)
    again = drive.take(run.ref)

    (late,) = record(drive, again, waits_for("paid", wait=60))
    send(drive, run.ref, "paid", 1)
    (still,) = record(drive, again, waits_for("paid", wait=60))

    assert late.state is still.state is StepState.TIMED_OUT
    assert EventType.STEP_TIMED_OUT in drive.trail(run.ref)
    (signal,) = drive.call(drive.ops.list_signals("default", run.id, 0, 10))
    assert signal.taken_by is None


def test_a_repeated_key_sends_nothing(drive: Driver) -> None:
    run = drive.start()

    first = send(drive, run.ref, "paid", 1, key="invoice-7")
    again = send(drive, run.ref, "paid", 2, key="invoice-7")
    other = send(drive, run.ref, "refunded", 3, key="invoice-7")

    assert (first.created, again.created, other.created) == (True, False, True)
    assert again.number == first.number
    assert value_of(again.payload) == 1
    assert len(drive.call(drive.ops.list_signals("default", run.id, 0, 10))) == 2


@pytest.mark.parametrize("where", ["scheduled", "queued", "running", "waiting"])
def test_every_live_run_takes_signals(drive: Driver, where: str) -> None:
    if where == "scheduled":
        ref = drive.add(delay=60.0)
    else:
        ref = drive.add()
        if where != "queued":
            run = drive.take(ref)
            if where == "waiting":
                record(drive, run, waits_for("other"))
                park(drive, run, "other")
    before = drive.get(ref)

    send(drive, ref, "paid")

    after = drive.get(ref)
    assert after.status is before.status is Status(where)
    assert drive.trail(ref)[-1] is EventType.SIGNALED


@pytest.mark.parametrize("end", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELED])
def test_ended_runs_take_no_signals(drive: Driver, end: Outcome) -> None:
    run = drive.start()
    drive.finish(run, end)

    with pytest.raises(IllegalTransition) as caught:
        send(drive, run.ref, "paid")

    assert caught.value.verb == "signal"
    with pytest.raises(RunNotFound):
        send(drive, RunRef("default", ABSENT), "paid")


def test_a_waiting_run_can_be_canceled(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, waits_for("paid"))
    park(drive, run, "paid")

    drive.call(drive.ops.cancel(run.ref, "enough"))

    assert drive.get(run.ref).status is Status.CANCELED


def test_a_canceled_run_does_not_begin_to_wait(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, waits_for("paid"))
    drive.call(drive.ops.cancel(run.ref, "enough"))

    park(drive, run, "paid")

    assert drive.get(run.ref).status is Status.CANCELED


def test_a_waiting_run_ends_at_its_deadline(drive: Driver) -> None:
    run = drive.start(deadline_in=100.0)
    record(drive, run, waits_for("paid"))
    park(drive, run, "paid")
    drive.advance(101)

    drive.sweep(dispatch=True, expire=True)

    ended = drive.get(run.ref)
    assert (ended.status, ended.failure) == (Status.FAILED, Failure.DEADLINE)


def test_a_waiting_run_keeps_its_wait_when_its_place_changes(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, waits_for("paid"))
    park(drive, run, "paid")

    drive.call(drive.ops.reprioritize(run.ref, priority=5, queue=None))

    assert drive.get(run.ref).waits == ("paid",)
    assert drive.get(run.ref).status is Status.WAITING
    send(drive, run.ref, "paid")
    assert drive.get(run.ref).status is Status.QUEUED


def test_steps_come_in_pages(drive: Driver) -> None:
    run = drive.start()
    record(drive, run, *(done(name) for name in ("b", "a", "c", "B", "é")))

    first = drive.call(drive.ops.list_steps(run.tenant, run.id, None, 2))
    rest = drive.call(drive.ops.list_steps(run.tenant, run.id, first[-1].path, 10))

    assert [step.path for step in (*first, *rest)] == ["B", "a", "b", "c", "é"]


async def test_steps_of_several_runs_are_recorded_together(steer: Driver) -> None:
    """However a call names its arguments: those of child processes come by name."""
    runs = [held_of(steer.start()) for _ in range(5)]
    packed = pack_arguments(steer.ops, steer.ops.record_steps(runs[0], [done("charge", 7)]))
    calls = [make_call(steer.ops, "record_steps", held, packed) for held in runs]

    async with asyncio.timeout(PATIENCE):
        recorded = await asyncio.gather(*map(steer.store.arun, calls))

    assert [[step.path for step in steps] for steps in recorded] == [["charge"]] * 5


def test_a_cancel_that_is_repeated_after_a_step_is_told_once(drive: Driver) -> None:
    run = drive.start()
    drive.cancel(run.ref)
    record(drive, run, done("charge"))

    drive.cancel(run.ref, "too late")

    kinds = [EventType.ENQUEUED, EventType.STARTED]
    kinds += [EventType.CANCEL_REQUESTED, EventType.STEP_SUCCEEDED]
    assert drive.trail(run.ref) == kinds
    assert drive.get(run.ref).reason == "too late"
