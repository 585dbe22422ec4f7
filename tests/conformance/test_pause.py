"""Pause, resume, terminate: what operators do to runs that live, wherever these are."""

from __future__ import annotations

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import LEASE, Driver, make_finish, raw
from tests.conformance.test_children import children_of, end, park, refs, start
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Held, RunRef
from windlass.domain.states import Intent, Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.errors import IllegalTransition, RunNotFound

SOON = 60.0  # seconds until what the driver brings to wait is due

WAITS = (Status.SCHEDULED, Status.QUEUED, Status.WAITING)


def send(drive: Driver, run: RunRef, name: str) -> None:
    drive.call(drive.ops.signal(run, name, raw(1), None))


@pytest.mark.parametrize("status", WAITS)
def test_a_paused_run_goes_on_where_it_was(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    before = drive.get(run)

    paused = drive.pause(run, "maintenance")

    assert paused.status is Status.PAUSED
    assert paused.due_at is None
    assert drive.events(run)[-1].type is EventType.PAUSED
    assert drive.events(run)[-1].data == {"reason": "maintenance"}
    assert drive.claim().claimed == ()
    drive.advance(SOON / 2)
    assert not drive.sweep(dispatch=True, expire=True).dispatched

    resumed = drive.resume(run)

    assert resumed.status is status
    assert (resumed.due_at, resumed.waits) == (before.due_at, before.waits)
    assert drive.events(run)[-1].data == {"to": status}
    if status is not Status.QUEUED:
        drive.advance(SOON)
        drive.sweep(dispatch=True)
    assert drive.take(run).token == before.token + 1
    assert violations(History.read(drive.tables)) == []


@pytest.mark.parametrize("status", WAITS)
def test_a_run_whose_time_came_while_it_was_paused_is_ready(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    drive.pause(run)
    drive.advance(2 * SOON)
    assert not drive.sweep(dispatch=True).dispatched

    assert drive.resume(run).status is Status.QUEUED


def test_a_signal_that_came_while_it_was_paused_is_not_lost(drive: Driver) -> None:
    run = drive.waits()
    drive.pause(run)

    send(drive, run, "other")
    assert drive.resume(run).status is Status.WAITING
    drive.pause(run)
    send(drive, run, "go")

    assert drive.get(run).status is Status.PAUSED
    assert drive.resume(run).status is Status.QUEUED


def test_a_parent_that_is_paused_hears_of_its_children_when_it_is_resumed(drive: Driver) -> None:
    parent = drive.start()
    start(drive, parent, 1)
    assert park(drive, parent) is Status.WAITING
    drive.pause(parent.ref)
    (child,) = refs(parent, children_of(drive, parent))
    end(drive, child)
    drive.sweep(dispatch=True)
    assert drive.get(parent.ref).status is Status.PAUSED

    assert drive.resume(parent.ref).status is Status.QUEUED


def test_a_child_that_is_held_back_can_be_paused(drive: Driver) -> None:
    """It holds up no sibling, and the parent waits for it."""
    parent = drive.start()
    start(drive, parent, 3, parallel=1)
    first, second, third = refs(parent, children_of(drive, parent))
    drive.pause(second)
    end(drive, first)

    drive.sweep(dispatch=True)
    drive.sweep(dispatch=True)
    assert drive.get(second).status is Status.PAUSED
    assert drive.resume(second).status is Status.QUEUED
    end(drive, second)
    drive.sweep(dispatch=True)
    end(drive, third)
    assert violations(History.read(drive.tables)) == []


@pytest.mark.parametrize("status", list(Status))
def test_pausing_and_resuming_can_be_repeated(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    if status.finished:
        for act in (drive.pause, drive.resume):
            with pytest.raises(IllegalTransition):
                act(run)
        return
    once = drive.pause(run)
    trail = drive.trail(run)
    assert drive.pause(run) == once
    assert drive.trail(run) == trail
    again = drive.resume(run)
    trail = drive.trail(run)
    assert drive.resume(run) == again
    assert drive.trail(run) == trail


def test_nobody_can_be_paused(drive: Driver) -> None:
    nobody = RunRef("default", drive.sources.new_id())
    for act in (drive.pause, drive.resume, drive.terminate):
        with pytest.raises(RunNotFound):
            act(nobody)
    stranger = RunRef("stranger", drive.add().id)
    for act in (drive.pause, drive.resume, drive.terminate):
        with pytest.raises(RunNotFound):
            act(stranger)


def test_a_running_run_is_asked_to_pause(drive: Driver) -> None:
    run = drive.start()

    asked = drive.pause(run.ref, "maintenance")

    assert (asked.status, asked.intent) == (Status.RUNNING, Intent.PAUSE)
    (order,) = drive.renew([run]).orders
    assert (order.id, order.intent, order.reason) == (run.id, Intent.PAUSE, "maintenance")
    assert drive.resume(run.ref).intent is None
    assert drive.renew([run]).orders == ()
    assert drive.trail(run.ref)[-2:] == [EventType.PAUSE_REQUESTED, EventType.RESUMED]


@pytest.mark.parametrize(
    ("outcome", "back"),
    [
        (Outcome.RETRY, Status.SCHEDULED),
        (Outcome.SNOOZED, Status.SCHEDULED),
        (Outcome.SLEEPING, Status.SCHEDULED),
        (Outcome.WAITING, Status.WAITING),
        (Outcome.CONTINUED, Status.QUEUED),
        (Outcome.RELEASED, Status.QUEUED),
        (Outcome.CRASHED, Status.QUEUED),
    ],
)
def test_a_run_that_goes_round_again_is_paused_instead(
    drive: Driver, outcome: Outcome, back: Status
) -> None:
    run = drive.start()
    write = StepWrite(path="go", kind=StepKind.SIGNAL, state=StepState.WAITING, signal="go")
    assert drive.call(drive.ops.record_steps(Held(run.tenant, run.id, run.token), [write]))
    drive.pause(run.ref, "maintenance")

    assert drive.finish(run, outcome).lost == ()

    paused = drive.get(run.ref)
    assert (paused.status, paused.intent) == (Status.PAUSED, None)
    assert paused.failures == (outcome is Outcome.RETRY)
    assert paused.crash_count == (outcome is Outcome.CRASHED)
    assert drive.events(run.ref)[-1].data == {"reason": "maintenance"}
    assert len(paused.attempts) == 1
    assert drive.resume(run.ref).status is back
    assert violations(History.read(drive.tables)) == []


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.SUCCEEDED, Status.SUCCEEDED),
        (Outcome.FAILED, Status.FAILED),
        (Outcome.CANCELED, Status.CANCELED),
    ],
)
def test_an_end_wins_over_a_pause(drive: Driver, outcome: Outcome, status: Status) -> None:
    run = drive.start()
    drive.pause(run.ref, "maintenance")

    drive.finish(run, outcome)

    ended = drive.get(run.ref)
    assert (ended.status, ended.reason) == (status, None)


def test_a_dead_workers_run_is_paused_if_that_was_asked(drive: Driver) -> None:
    run = drive.start()
    drive.pause(run.ref)
    drive.kill()
    drive.advance(1)

    drive.sweep(reap=True)

    paused = drive.get(run.ref)
    assert (paused.status, paused.crash_count) == (Status.PAUSED, 1)
    assert paused.attempts[-1].outcome is AttemptOutcome.CRASHED


def test_a_cancel_wins_over_a_pause(drive: Driver) -> None:
    run = drive.start()
    drive.pause(run.ref, "maintenance")

    drive.cancel(run.ref, "never mind")
    asked = drive.pause(run.ref, "again")

    assert (asked.intent, asked.reason) == (Intent.CANCEL, "never mind")
    assert drive.resume(run.ref).intent is Intent.CANCEL
    drive.finish(run, Outcome.RELEASED)
    ended = drive.get(run.ref)
    assert (ended.status, ended.reason) == (Status.CANCELED, "never mind")


def test_a_canceled_parent_ends_children_that_were_asked_to_pause(drive: Driver) -> None:
    parent = drive.start()
    start(drive, parent, 1)
    (child,) = refs(parent, children_of(drive, parent))
    claimed = drive.take(child)
    drive.pause(child)
    park(drive, parent)

    drive.cancel(parent.ref)
    drive.sweep(dispatch=True)

    assert [order.intent for order in drive.renew([claimed]).orders] == [Intent.CANCEL]


def test_a_paused_run_expires_and_has_a_deadline(drive: Driver) -> None:
    expires, overruns = drive.add(expires_in=5.0), drive.add(deadline_in=5.0)
    for run in (expires, overruns):
        drive.pause(run)
    drive.advance(10)

    drive.sweep(expire=True)

    assert [str(drive.get(run).failure) for run in (expires, overruns)] == ["expired", "deadline"]


def test_a_paused_run_can_be_changed_and_moved(drive: Driver) -> None:
    run = drive.bring(Status.SCHEDULED)
    due = drive.get(run).due_at
    drive.pause(run)

    drive.reprioritize(run, priority=7)
    drive.change(run, tags=("later",), expires_in=5.0)

    changed = drive.get(run)
    assert (changed.status, changed.priority, changed.tags) == (Status.PAUSED, 7, ("later",))
    assert drive.resume(run).due_at == due


def test_paused_runs_are_listed_and_counted(drive: Driver) -> None:
    runs = [drive.bring(status) for status in WAITS]
    for run in runs:
        drive.pause(run)
    drive.bring(Status.SCHEDULED)

    listed = drive.list(status=Status.PAUSED)

    assert set(listed) == {run.id for run in runs}
    assert len(drive.list(status=Status.SCHEDULED)) == 1
    both = drive.list(status=(Status.PAUSED, Status.SCHEDULED))
    assert len(both) == 4


@pytest.mark.parametrize("status", [status for status in Status if not status.finished])
def test_terminate_ends_a_run_at_once(drive: Driver, status: Status) -> None:
    run = drive.bring(status)
    token = drive.get(run).token

    ended = drive.terminate(run, "stuck")

    assert (ended.status, ended.reason) == (Status.CANCELED, "stuck")
    assert drive.terminate(run, "again") == ended
    late = drive.finish_all([make_finish(Held(run.tenant, run.id, token), Outcome.SUCCEEDED)])
    assert [held.id for held in late.lost] == [run.id]
    assert drive.get(run) == ended
    assert violations(History.read(drive.tables)) == []


def test_a_worker_hears_of_a_run_that_was_terminated(drive: Driver) -> None:
    run = drive.start()
    drive.terminate(run.ref)

    reply = drive.renew([run])

    assert [lost.id for lost in reply.lost] == [run.id]
    ended = drive.get(run.ref)
    assert ended.reason == "terminated"
    assert [attempt.outcome for attempt in ended.attempts] == [AttemptOutcome.CANCELED]


def test_time_alone_does_not_end_a_pause(drive: Driver) -> None:
    run = drive.bring(Status.PAUSED)
    drive.advance(1000 * LEASE)
    drive.sweep(dispatch=True, expire=True, reap=True)
    assert drive.get(run).status is Status.PAUSED


def test_many_running_runs_are_resumed_if_they_were_asked_to_pause(drive: Driver) -> None:
    asked, other = drive.start(), drive.start()
    drive.pause(asked.ref)

    answers = drive.call(
        drive.ops.apply_to_many("resume", "default", [asked.id, other.id], {"by": "ann"})
    )

    assert {answer.id for answer in answers if answer.error is None} == {asked.id}
    entries = drive.call(drive.ops.list_audit("default", actor="ann"))
    assert [entry.subject for entry in entries] == [asked.id]
