"""Whose fault a crash is: a dead child is its run's own, a dead worker any of its runs'."""

from __future__ import annotations

import pytest

from tests.conformance.kit import Driver, make_error, make_finish
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Blocked, RunRef
from windlass.domain.states import Failure, Status

DIED = make_error("its process ended by SIGSEGV", "windlass.ProcessDied")


def lose_worker(drive: Driver, *runs: RunRef, max_crashes: int = 3) -> tuple[int, int]:
    """Let one worker claim these and die; how many went back, and how many were given up."""
    for run in runs:
        drive.take(run)
    drive.kill()
    drive.advance(1)
    reply = drive.sweep(reap=True, max_crashes=max_crashes)
    return reply.reaped, reply.crashed


def test_a_crash_that_its_worker_outlived_sends_the_run_back(drive: Driver) -> None:
    held, neighbour = drive.start(priority=3), drive.start()

    drive.finish(held, Outcome.CRASHED, error=DIED)

    record = drive.get(held.ref)
    assert (record.status, record.crash_count, record.failures) == (Status.QUEUED, 1, 0)
    (attempt,) = record.attempts
    assert (attempt.outcome, attempt.error) == (AttemptOutcome.CRASHED, DIED)
    last = drive.events(held.ref)[-1]
    assert (last.type, last.data, last.attempt) == (EventType.CRASHED, None, 1)
    assert drive.positions(held.ref) == ["ready"]
    again = drive.take(held.ref)
    assert (again.token, again.attempt, again.crash_count) == (2, 2, 1)
    assert drive.get(held.ref).priority == 3
    assert drive.get(neighbour.ref).crash_count == 0


def test_a_crash_too_many_ends_the_run(drive: Driver) -> None:
    held = drive.start()

    drive.finish(held, Outcome.CRASHED, failure=Failure.CRASHED, error=DIED)

    record = drive.get(held.ref)
    assert (record.status, record.failure) == (Status.FAILED, Failure.CRASHED)
    assert (record.crash_count, record.failures, record.error) == (1, 0, DIED)
    assert [a.outcome for a in record.attempts] == [AttemptOutcome.CRASHED]
    last = drive.events(held.ref)[-1]
    assert (last.type, last.data) == (EventType.FAILED, {"failure": "crashed"})
    (letter,) = drive.rows("failures")
    assert (letter["failure"], letter["error_type"]) == ("crashed", DIED.type)
    assert drive.positions(held.ref) == []


@pytest.mark.parametrize("failure", [None, Failure.CRASHED])
def test_a_crash_under_a_cancel_ends_canceled(drive: Driver, failure: Failure | None) -> None:
    held = drive.start()
    drive.cancel(held.ref, "enough")

    drive.finish(held, Outcome.CRASHED, failure=failure, error=DIED)

    record = drive.get(held.ref)
    assert (record.status, record.failure, record.reason) == (Status.CANCELED, None, "enough")
    assert record.crash_count == 1


def test_a_crash_told_under_a_stale_token_counts_for_nothing(drive: Driver) -> None:
    held = drive.start()
    drive.finish(held, Outcome.RELEASED)
    drive.take(held.ref)

    (lost,) = drive.finish_all([make_finish(held, Outcome.CRASHED, error=DIED)]).lost

    assert lost.token == held.token
    assert drive.get(held.ref).crash_count == 0


def test_a_worker_that_cannot_vouch_for_its_runs_counts_only_who_is_to_blame(
    drive: Driver,
) -> None:
    blocker, neighbour, isolated = (drive.start() for _ in range(3))
    end = make_finish(blocker, Outcome.CRASHED, error=DIED)
    blocked = Blocked(seconds=30.0, tenant="default", run=blocker.id, blamed=(end,))

    reply = drive.renew([isolated], settled=100, blocked=blocked)

    assert (reply.alive, reply.released, reply.lost) == (True, 2, ())
    record = drive.get(blocker.ref)
    assert (record.status, record.crash_count, record.failures) == (Status.QUEUED, 1, 0)
    assert [(a.outcome, a.error) for a in record.attempts] == [(AttemptOutcome.CRASHED, DIED)]
    record = drive.get(neighbour.ref)
    assert (record.status, record.crash_count) == (Status.QUEUED, 0)
    assert [a.outcome for a in record.attempts] == [AttemptOutcome.INTERRUPTED]
    assert drive.get(isolated.ref).status is Status.RUNNING
    again = drive.renew([isolated], settled=100, blocked=blocked)
    assert (again.released, drive.get(blocker.ref).crash_count) == (0, 1)


def test_a_run_that_blocks_once_too_often_is_given_up(drive: Driver) -> None:
    blocker = drive.start()
    end = make_finish(blocker, Outcome.CRASHED, failure=Failure.CRASHED, error=DIED)

    drive.renew(settled=100, blocked=Blocked(seconds=30.0, blamed=(end,)))

    record = drive.get(blocker.ref)
    assert (record.status, record.failure, record.crash_count) == (
        Status.FAILED,
        Failure.CRASHED,
        1,
    )


def test_who_is_blamed_but_still_vouched_for_keeps_its_lease(drive: Driver) -> None:
    held, other = drive.start(), drive.start(worker="w2")
    ends = tuple(make_finish(run, Outcome.CRASHED) for run in (held, other))

    reply = drive.renew([held], settled=100, blocked=Blocked(seconds=2.0, blamed=ends))

    assert (reply.released, reply.lost) == (0, ())
    assert {drive.get(run.ref).status for run in (held, other)} == {Status.RUNNING}


def test_a_blocked_run_that_is_to_be_canceled_ends_canceled(drive: Driver) -> None:
    blocker = drive.start()
    drive.cancel(blocker.ref, "enough")

    ends = (make_finish(blocker, Outcome.CRASHED),)
    drive.renew(settled=100, blocked=Blocked(seconds=30.0, blamed=ends))

    record = drive.get(blocker.ref)
    assert (record.status, record.reason, record.crash_count) == (Status.CANCELED, "enough", 1)


def test_neighbours_in_a_worker_that_dies_again_and_again_are_not_given_up(drive: Driver) -> None:
    runs = drive.add_many(3)

    assert [lose_worker(drive, *runs) for _ in range(5)] == [(3, 0)] * 5

    assert [drive.get(run).crash_count for run in runs] == [5, 5, 5]


def test_the_only_run_of_a_worker_that_died_is_to_blame(drive: Driver) -> None:
    one, other = drive.add_many(2)
    for _ in range(2):
        lose_worker(drive, one, other)

    assert lose_worker(drive, one) == (0, 1)

    assert drive.get(one).failure is Failure.CRASHED
    assert drive.get(other).status is Status.QUEUED


def test_runs_that_take_each_other_down_are_given_up_in_the_end(drive: Driver) -> None:
    runs = drive.add_many(2)

    fates = [lose_worker(drive, *runs, max_crashes=2) for _ in range(20)]

    assert fates == [(2, 0)] * 19 + [(0, 2)]
    assert {drive.get(run).failure for run in runs} == {Failure.CRASHED}


def test_where_one_crash_is_too_many_nobody_is_spared(drive: Driver) -> None:
    assert lose_worker(drive, *drive.add_many(2), max_crashes=1) == (0, 2)


def test_what_is_left_of_a_worker_reaped_in_part_was_not_alone(drive: Driver) -> None:
    runs = drive.add_many(3)
    for _ in range(2):
        lose_worker(drive, *runs)
    for run in runs:
        drive.take(run)
    drive.kill()
    drive.advance(1)

    replies = [drive.sweep(reap=True, limit=2) for _ in range(2)]

    assert [(reply.reaped, reply.crashed) for reply in replies] == [(2, 0), (1, 0)]


def test_the_limit_of_a_sweep_changes_nobodys_blame(drive: Driver) -> None:
    """Two workers die, each with one run; the second is left for the next sweep."""
    runs = [drive.add(), drive.add()]
    for run in runs:
        for _ in range(2):
            lose_worker(drive, run)
    for number, run in enumerate(runs):
        drive.take(run, f"w{number}")
    for number in range(2):
        drive.kill(f"w{number}")
    drive.advance(1)

    replies = [drive.sweep(reap=True, max_crashes=3, limit=1) for _ in range(2)]

    assert [(reply.crashed, len(reply.workers)) for reply in replies] == [(1, 1), (1, 1)]
    assert {drive.get(run).failure for run in runs} == {Failure.CRASHED}
