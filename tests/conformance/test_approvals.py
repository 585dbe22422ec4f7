"""Questions to people: one answer, the first, and none when it is too late."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import ABSENT, Driver, held_of, raw
from windlass.domain.approval import (
    AnswerOutcome,
    AnswerReply,
    Approval,
    OpenApproval,
    Question,
    hash_of,
    read_answer,
    signal_of,
)  # fmt: skip
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, RunRef
from windlass.domain.states import Status
from windlass.domain.step import Step, StepKind, StepState, StepWrite
from windlass.errors import IllegalTransition, RunNotFound


def ask(
    drive: Driver, run: Claimed, path: str = "deploy", *, wait: float | None = None,
    token: str | None = None, nonce: str = "n",
) -> Step:  # fmt: skip
    question = Question(question=f"{path}?", token=token and hash_of(token))
    step = StepWrite(
        path=path, kind=StepKind.APPROVAL, state=StepState.WAITING, wait=wait,
        input=msgspec.json.encode(question).decode(), signal=signal_of(path, nonce),
    )  # fmt: skip
    recorded = drive.call(drive.ops.record_steps(held_of(run), [step]))
    assert recorded is not None
    return recorded[0]


def answer(
    drive: Driver, run: RunRef, path: str = "deploy", approved: bool = True, **said: Any
) -> AnswerReply:
    given = (said.get("by"), said.get("comment"), said.get("token"))
    return drive.call(drive.ops.answer_approval(run, path, approved, *given))


def asked(
    drive: Driver, after: tuple[str, str] | None = None, limit: int = 10
) -> list[OpenApproval]:
    return list(drive.call(drive.ops.list_approvals("default", after, limit)))


def test_an_answer_wakes_the_run_and_is_what_its_step_gets(drive: Driver) -> None:
    run = drive.start()
    waits = ask(drive, run, wait=60.0)
    assert waits.state is StepState.WAITING
    drive.finish(run, Outcome.WAITING, waits=("deploy",), until=waits.until)
    drive.advance(5)

    reply = answer(drive, run.ref, by="ann", comment="go ahead")

    expected = Approval(approved=True, at=drive.now, by="ann", comment="go ahead")
    assert (reply.outcome, reply.answer) == (AnswerOutcome.ANSWERED, expected)
    assert drive.get(run.ref).status is Status.QUEUED
    done = ask(drive, drive.take(run.ref), wait=60.0)
    assert done.state is StepState.DONE
    assert done.value is not None
    assert read_answer(done.value) == expected
    assert EventType.SIGNALED in drive.trail(run.ref)
    assert violations(History.read(drive.tables)) == []


def test_the_first_answer_counts(drive: Driver) -> None:
    run = drive.start()
    ask(drive, run)
    first = answer(drive, run.ref, by="ann").answer
    drive.advance(1)
    for approved in (True, False):
        again = answer(drive, run.ref, approved=approved, by="bob")
        assert (again.outcome, again.answer) == (AnswerOutcome.KNOWN, first)
    # That stays so when the run has taken it, and when it has ended.
    ask(drive, run)
    drive.finish(run, Outcome.SUCCEEDED)
    assert answer(drive, run.ref, approved=False).answer == first
    assert len(drive.call(drive.ops.list_signals("default", run.id, 0, 10))) == 1


def test_too_late(drive: Driver) -> None:
    run = drive.start()
    ask(drive, run, wait=60.0)
    drive.advance(60)
    assert answer(drive, run.ref).outcome is AnswerOutcome.EXPIRED
    assert ask(drive, run, wait=60.0).state is StepState.TIMED_OUT
    assert answer(drive, run.ref).outcome is AnswerOutcome.EXPIRED
    assert drive.call(drive.ops.list_signals("default", run.id, 0, 10)) == []


def test_nobody_asked(drive: Driver) -> None:
    run = drive.start()
    wait = StepWrite(path="deploy", kind=StepKind.SIGNAL, state=StepState.WAITING, signal="deploy")
    drive.call(drive.ops.record_steps(held_of(run), [wait]))
    assert answer(drive, run.ref).outcome is AnswerOutcome.UNKNOWN
    with pytest.raises(RunNotFound):
        answer(drive, RunRef("default", ABSENT))
    ask(drive, run, "other")
    drive.finish(run, Outcome.SUCCEEDED)
    with pytest.raises(IllegalTransition):
        answer(drive, run.ref, "other")


def test_a_token_answers_its_own_question(drive: Driver) -> None:
    run = drive.start()
    ask(drive, run, "one", token="right")
    ask(drive, run, "other")
    for path, token in (("one", "wrong"), ("other", "right")):
        reply = answer(drive, run.ref, path, token=hash_of(token))
        assert reply.outcome is AnswerOutcome.REFUSED
    right = answer(drive, run.ref, "one", token=hash_of("right"))
    assert right.outcome is AnswerOutcome.ANSWERED
    again = answer(drive, run.ref, "one", token=hash_of("wrong"))
    assert (again.outcome, again.answer) == (AnswerOutcome.REFUSED, None)
    assert answer(drive, run.ref, "other").outcome is AnswerOutcome.ANSWERED  # an operator


def test_what_is_asked_and_has_no_answer_is_listed(drive: Driver) -> None:
    runs = [drive.start() for _ in range(3)]
    for run in runs:
        ask(drive, run, "b", wait=60.0)
        ask(drive, run, "a")
    names = [(one.run, one.name, one.question) for one in asked(drive)]
    assert names == [(run.id, path, f"{path}?") for run in runs for path in ("a", "b")]
    first, second = asked(drive)[:2]
    assert (first.job, first.asked_at, first.expires_at) == ("greet", drive.now, None)
    assert second.expires_at == drive.later(60)
    assert asked(drive, after=(first.run, first.name), limit=1) == [second]
    assert asked(drive, after=(second.run, second.name))[0].run == runs[1].id
    assert drive.call(drive.ops.list_approvals("other", None, 10)) == []

    answer(drive, runs[0].ref, "a")
    drive.finish(runs[1], Outcome.CANCELED)
    drive.advance(60)
    assert [(one.run, one.name) for one in asked(drive)] == [(runs[2].id, "a")]


def test_a_late_answer_does_not_answer_the_next_generation(drive: Driver) -> None:
    run = drive.start()
    ask(drive, run, nonce="one")
    answer(drive, run.ref, by="ann")
    drive.finish(run, Outcome.CONTINUED)
    again = drive.take(run.ref)
    assert ask(drive, again, nonce="two").state is StepState.WAITING
    assert [one.name for one in asked(drive)] == ["deploy"]
    assert answer(drive, run.ref, approved=False).outcome is AnswerOutcome.ANSWERED
    assert violations(History.read(drive.tables)) == []


def test_a_signal_of_anybody_is_no_answer(drive: Driver) -> None:
    run = drive.start()
    ask(drive, run)
    drive.call(drive.ops.signal(run.ref, "deploy", raw(True), None))
    drive.call(drive.ops.signal(run.ref, "approval", raw(True), None))
    assert ask(drive, run).state is StepState.WAITING
