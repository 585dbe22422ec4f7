"""Every status and every verb: the store does what `domain.states` says, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import LEASE, Driver, raw, reachable
from windlass.domain.outcome import Outcome
from windlass.domain.run import Held, RunRef
from windlass.domain.states import (
    TRANSITIONS,
    Intent,
    Status,
    Verb,
    advance,
    is_paused_next,
    under_intent,
)
from windlass.errors import IllegalTransition

LONG = 1_000.0  # seconds after which a run is due, expired, and its worker dead


def _end(outcome: Outcome) -> Callable[[Driver, RunRef], object]:
    """The end of an attempt under the last token that the run had."""

    def apply(steer: Driver, run: RunRef) -> object:
        token = steer.get(run).token
        return steer.finish(Held(run.tenant, run.id, token), outcome)

    return apply


def _sweep(**what: bool | int) -> Callable[[Driver, RunRef], object]:
    """The services, when enough time has passed for all of them."""

    def apply(steer: Driver, run: RunRef) -> object:
        steer.advance(LONG)
        return steer.sweep(**what)  # type: ignore[arg-type]

    return apply


def _claim(steer: Driver, run: RunRef) -> object:
    steer.register("claimer")
    return steer.claim(worker="claimer")


OPERATIONS: Mapping[Verb, Callable[[Driver, RunRef], object]] = {
    Verb.DUE: _sweep(dispatch=True),
    Verb.CLAIM: _claim,
    Verb.SUCCEED: _end(Outcome.SUCCEEDED),
    Verb.FAIL: _end(Outcome.FAILED),
    Verb.BACKOFF: _end(Outcome.RETRY),
    Verb.SNOOZE: _end(Outcome.SNOOZED),
    Verb.SLEEP: _end(Outcome.SLEEPING),
    Verb.WAIT: _end(Outcome.WAITING),
    Verb.CONTINUE: _end(Outcome.CONTINUED),
    Verb.RELEASE: _end(Outcome.RELEASED),
    Verb.STOP: _end(Outcome.CANCELED),
    Verb.REAP: _sweep(reap=True),
    Verb.CRASH: _sweep(reap=True, max_crashes=1),
    Verb.CANCEL: lambda steer, run: steer.cancel(run),
    Verb.PAUSE: lambda steer, run: steer.pause(run),
    Verb.RESUME: lambda steer, run: steer.resume(run),
    Verb.RESTART: lambda steer, run: steer.restart(run),
    Verb.TERMINATE: lambda steer, run: steer.terminate(run),
    Verb.EXPIRE: _sweep(expire=True),
    Verb.OVERRUN: _sweep(expire=True),
    Verb.RETRY: lambda steer, run: steer.retry(run),
    Verb.RESCHEDULE: lambda steer, run: steer.reschedule(run, delay=LONG),
    Verb.REPRIORITIZE: lambda steer, run: steer.reprioritize(run, priority=7),
    Verb.CHANGE: lambda steer, run: steer.change(run, tags=("other",)),
    # Not the one that a waiting run waits for: that would be two verbs.
    Verb.SIGNAL: lambda steer, run: steer.call(steer.ops.signal(run, "for nobody", raw(1), None)),
}

# What has its time ends by that, but not before it is swept; what runs, a lease later.
TIMES: Mapping[Verb, Mapping[str, float]] = {
    Verb.EXPIRE: {"expires_in": LONG},
    Verb.OVERRUN: {"deadline_in": LONG - LEASE},
}

# Verbs of an operator, who is told no; what finds nothing to do stays silent.
ASKED = (
    *(Verb.CANCEL, Verb.RETRY, Verb.RESCHEDULE, Verb.REPRIORITIZE, Verb.CHANGE, Verb.SIGNAL),
    *(Verb.PAUSE, Verb.RESUME, Verb.TERMINATE, Verb.RESTART),
)


def test_every_verb_and_every_status_is_tried() -> None:
    # Only a new child is held, in the transaction that starts it: see `test_children.py`. Where a
    # paused run goes on is in `test_pause.py`.
    elsewhere = {Verb.HOLD, Verb.RESUME_TIMER, Verb.RESUME_WAIT}
    assert set(OPERATIONS) == set(Verb) - elsewhere
    assert set(reachable()) == {status for status, verbs in TRANSITIONS.items() if verbs}


@pytest.mark.parametrize("verb", list(OPERATIONS))
@pytest.mark.parametrize("status", reachable())
def test_a_verb_leads_where_the_table_says(steer: Driver, status: Status, verb: Verb) -> None:
    run = steer.bring(status, **TIMES.get(verb, {}))
    before = steer.get(run)
    try:
        expected = advance(status, verb, run=run.id)
    except IllegalTransition as refusal:
        _assert_refused(steer, run, verb, refusal)
        return

    OPERATIONS[verb](steer, run)

    after = steer.get(run)
    assert after.status is expected
    assert len(steer.trail(run)) == len(steer.tables.rows("events"))
    assert after.updated_at == steer.now
    assert after.token == before.token + (verb is Verb.CLAIM)
    assert violations(History.read(steer.tables)) == []


def _assert_refused(steer: Driver, run: RunRef, verb: Verb, refusal: IllegalTransition) -> None:
    before, trail = steer.get(run), steer.trail(run)
    ending = verb in (Verb.CANCEL, Verb.TERMINATE)
    already = ending and before.status is Status.CANCELED
    if verb in ASKED and not already:
        with pytest.raises(IllegalTransition) as caught:
            OPERATIONS[verb](steer, run)
        assert caught.value.args == refusal.args
    else:
        OPERATIONS[verb](steer, run)
    assert steer.get(run) == before
    assert steer.trail(run) == trail
    assert violations(History.read(steer.tables)) == []


@pytest.mark.parametrize("verb", [verb for verb in Verb if verb in TRANSITIONS[Status.RUNNING]])
def test_a_verb_under_a_cancel_leads_where_the_table_says(steer: Driver, verb: Verb) -> None:
    run = steer.bring(Status.RUNNING, **TIMES.get(verb, {}))
    steer.cancel(run)
    expected = advance(Status.RUNNING, under_intent(verb, Intent.CANCEL))

    OPERATIONS[verb](steer, run)

    assert steer.get(run).status is expected
    assert violations(History.read(steer.tables)) == []


@pytest.mark.parametrize("verb", [verb for verb in Verb if verb in TRANSITIONS[Status.RUNNING]])
def test_a_verb_under_a_pause_leads_where_the_table_says(steer: Driver, verb: Verb) -> None:
    run = steer.bring(Status.RUNNING, **TIMES.get(verb, {}))
    steer.pause(run)
    expected = advance(Status.RUNNING, under_intent(verb, Intent.PAUSE))
    if is_paused_next(expected, Intent.PAUSE) and expected is not Status.RUNNING:
        expected = Status.PAUSED

    OPERATIONS[verb](steer, run)

    assert steer.get(run).status is expected
    assert violations(History.read(steer.tables)) == []


@pytest.mark.parametrize("status", [status for status in reachable() if status.finished])
@pytest.mark.parametrize("verb", [Verb.RETRY, Verb.RESTART, Verb.RESCHEDULE])
def test_a_stale_run_may_be_reopened(steer: Driver, status: Status, verb: Verb) -> None:
    run = steer.bring(status)
    steer.tables.mark_stale(run, steer.now)

    OPERATIONS[verb](steer, run)

    assert steer.get(run).status is advance(status, verb, stale=True)
    assert steer.get(run).stale_at is None


@pytest.mark.parametrize("status", reachable())
def test_time_alone_changes_nothing(steer: Driver, status: Status) -> None:
    run = steer.bring(status, expires_in=1.0, deadline_in=1.0)
    before = steer.get(run)

    steer.advance(100 * LEASE)

    assert steer.get(run) == before
