"""The transition table: exhaustively, and what must hold of any table."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.domain.states import (
    FINISHED,
    TRANSITIONS,
    Intent,
    Status,
    Verb,
    advance,
    under_intent,
)
from windlass.errors import IllegalTransition

# Written down a second time on purpose: a change of the table must be meant.
ALLOWED = {
    ("scheduled", "due"): "queued",
    ("scheduled", "cancel"): "canceled",
    ("scheduled", "expire"): "failed",
    ("scheduled", "overrun"): "failed",
    ("scheduled", "reschedule"): "scheduled",
    ("scheduled", "reprioritize"): "scheduled",
    ("scheduled", "change"): "scheduled",
    ("scheduled", "signal"): "scheduled",
    ("queued", "claim"): "running",
    ("queued", "cancel"): "canceled",
    ("queued", "expire"): "failed",
    ("queued", "overrun"): "failed",
    ("queued", "reschedule"): "scheduled",
    ("queued", "reprioritize"): "queued",
    ("queued", "change"): "queued",
    ("queued", "signal"): "queued",
    ("running", "succeed"): "succeeded",
    ("running", "fail"): "failed",
    ("running", "backoff"): "scheduled",
    ("running", "snooze"): "scheduled",
    ("queued", "hold"): "scheduled",
    ("running", "sleep"): "scheduled",
    ("running", "wait"): "waiting",
    ("running", "continue"): "queued",
    ("running", "release"): "queued",
    ("running", "reap"): "queued",
    ("running", "crash"): "failed",
    ("running", "overrun"): "failed",
    ("running", "stop"): "canceled",
    ("running", "cancel"): "running",
    ("running", "signal"): "running",
    ("waiting", "due"): "queued",
    ("waiting", "cancel"): "canceled",
    ("waiting", "expire"): "failed",
    ("waiting", "overrun"): "failed",
    ("waiting", "reprioritize"): "waiting",
    ("waiting", "change"): "waiting",
    ("waiting", "signal"): "waiting",
    ("scheduled", "pause"): "paused",
    ("scheduled", "resume"): "scheduled",
    ("scheduled", "terminate"): "canceled",
    ("queued", "pause"): "paused",
    ("queued", "resume"): "queued",
    ("queued", "terminate"): "canceled",
    ("running", "pause"): "running",
    ("running", "resume"): "running",
    ("running", "terminate"): "canceled",
    ("waiting", "pause"): "paused",
    ("waiting", "resume"): "waiting",
    ("waiting", "terminate"): "canceled",
    ("paused", "pause"): "paused",
    ("paused", "resume"): "queued",
    ("paused", "resume_timer"): "scheduled",
    ("paused", "resume_wait"): "waiting",
    ("paused", "cancel"): "canceled",
    ("paused", "expire"): "failed",
    ("paused", "overrun"): "failed",
    ("paused", "reprioritize"): "paused",
    ("paused", "change"): "paused",
    ("paused", "signal"): "paused",
    ("paused", "terminate"): "canceled",
    ("scheduled", "restart"): "queued",
    ("queued", "restart"): "queued",
    ("waiting", "restart"): "queued",
    ("paused", "restart"): "queued",
    ("failed", "restart"): "queued",
    ("canceled", "restart"): "queued",
    ("failed", "retry"): "queued",
    ("failed", "reschedule"): "scheduled",
    ("canceled", "retry"): "queued",
    ("canceled", "reschedule"): "scheduled",
}

REOPENING = {
    Verb.RETRY: Status.QUEUED,
    Verb.RESTART: Status.QUEUED,
    Verb.RESCHEDULE: Status.SCHEDULED,
}


@pytest.mark.parametrize(("status", "verb"), list(product(Status, Verb)))
def test_only_what_is_in_the_table_is_allowed(status: Status, verb: Verb) -> None:
    target = ALLOWED.get((status.value, verb.value))
    if target is not None:
        assert advance(status, verb) is Status(target)
        return
    with pytest.raises(IllegalTransition) as refused:
        advance(status, verb, run="r1")
    assert (refused.value.run, refused.value.status, refused.value.verb) == ("r1", status, verb)
    assert str(refused.value).startswith(f"Run r1 is {status}: {verb} is ")


@pytest.mark.parametrize("verb", Verb)
def test_a_stale_success_may_be_reopened_and_nothing_else(verb: Verb) -> None:
    if verb in REOPENING:
        assert advance(Status.SUCCEEDED, verb, stale=True) is REOPENING[verb]
        return
    with pytest.raises(IllegalTransition):
        advance(Status.SUCCEEDED, verb, stale=True)


@given(
    st.lists(st.sampled_from(Verb), max_size=30), st.sampled_from([Status.SCHEDULED, Status.QUEUED])
)
def test_no_path_leaves_a_finished_run_unless_it_is_reopened(
    verbs: list[Verb], start: Status
) -> None:
    status = start
    for verb in verbs:
        try:
            following = advance(status, verb)
        except IllegalTransition:
            continue
        if status.finished:
            assert verb in REOPENING
        if following is Status.RUNNING and status is not Status.RUNNING:
            assert (status, verb) == (Status.QUEUED, Verb.CLAIM)
        status = following


@pytest.mark.parametrize("verb", Verb)
def test_a_cancel_intent_ends_what_would_go_round_again(verb: Verb) -> None:
    again = {Verb.BACKOFF, Verb.SNOOZE, Verb.SLEEP, Verb.WAIT, Verb.CONTINUE}
    again |= {Verb.RELEASE, Verb.REAP, Verb.CRASH}
    assert under_intent(verb, None) is verb
    assert under_intent(verb, Intent.CANCEL) is (Verb.STOP if verb in again else verb)


def test_every_end_of_a_running_run_is_legal_under_an_intent() -> None:
    for verb in TRANSITIONS[Status.RUNNING]:
        after = advance(Status.RUNNING, under_intent(verb, Intent.CANCEL))
        asked = (Verb.CANCEL, Verb.PAUSE, Verb.RESUME, Verb.SIGNAL)
        assert after in FINISHED or verb in asked


def test_statuses_are_equal_to_their_text() -> None:
    text: str = "queued"
    assert text == Status.QUEUED
    assert [status.value for status in Status if status.finished] == [
        "succeeded",
        "failed",
        "canceled",
    ]
