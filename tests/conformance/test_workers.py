"""Workers: registered, renewed, retired; what they hold, lose and are told."""

from __future__ import annotations

import pytest

from tests.conformance.kit import (
    JOB,
    LEASE,
    WORKER,
    Driver,
    held_of,
    make_worker,
)
from windlass.domain.event import AttemptOutcome, EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Held, JobRow, Ordered
from windlass.domain.states import Intent, Status

# -- register and list -----------------------------------------------------------------------


def test_a_worker_is_known_as_it_introduced_itself(drive: Driver) -> None:
    worker = make_worker(
        "w-1", host="box", pid=42, version="1.2", queues=("mail", 'odd",{q}'), jobs=(JOB, "b\\c"),
        seats=7,
    )  # fmt: skip

    told = drive.call(drive.ops.register(worker, 30.0))

    assert told == drive.now
    (known,) = drive.call(drive.ops.list_workers())
    assert (known.id, known.host, known.pid, known.version) == ("w-1", "box", 42, "1.2")
    assert (known.queues, known.jobs, known.seats) == (worker.queues, worker.jobs, 7)
    assert (known.started_at, known.alive_until) == (drive.now, drive.later(30))


def test_a_worker_of_every_queue_has_no_list_of_them(drive: Driver) -> None:
    drive.call(drive.ops.register(make_worker(queues=None), 30.0))

    (known,) = drive.call(drive.ops.list_workers())

    assert known.queues is None


def test_registering_again_keeps_the_start_and_moves_the_end(drive: Driver) -> None:
    start = drive.register()
    drive.advance(10)

    drive.register()

    (known,) = drive.call(drive.ops.list_workers())
    assert (known.started_at, known.alive_until) == (start, drive.later(LEASE))


def test_dead_workers_are_listed_until_they_are_reaped(drive: Driver) -> None:
    for name in ("w1", "w2"):
        drive.register(name)
        drive.advance(20)

    assert [w.id for w in drive.call(drive.ops.list_workers())] == ["w1", "w2"]
    drive.sweep(reap=True)
    assert [w.id for w in drive.call(drive.ops.list_workers())] == ["w2"]


# -- renew -----------------------------------------------------------------------------------


def test_a_renewal_keeps_the_worker_and_its_runs(drive: Driver) -> None:
    held = drive.start()
    drive.advance(20)

    reply = drive.renew([held])

    assert reply.now == drive.now
    assert reply.alive
    assert (reply.orders, reply.lost, reply.released) == ((), (), 0)
    drive.advance(29)
    assert drive.sweep(reap=True).reaped == 0
    assert drive.get(held.ref).status is Status.RUNNING


def test_a_worker_whose_time_ran_out_is_revived_if_nobody_reaped_it(drive: Driver) -> None:
    held = drive.start()
    drive.advance(3600)

    reply = drive.renew([held])

    assert reply.alive
    assert reply.lost == ()
    assert drive.sweep(reap=True).reaped == 0
    assert not drive.claim().refused


def test_a_reaped_worker_has_lost_everything(drive: Driver) -> None:
    held = drive.start()
    drive.advance(LEASE)
    drive.sweep(reap=True)

    reply = drive.renew([held])

    assert not reply.alive
    assert reply.now == drive.now
    assert reply.lost == (held_of(held),)
    assert drive.call(drive.ops.list_workers()) == []


def test_an_unknown_worker_is_not_made_known_by_a_renewal(drive: Driver) -> None:
    reply = drive.renew(worker="nobody")

    assert not reply.alive
    assert drive.call(drive.ops.list_workers()) == []


def test_a_renewal_brings_the_intents_for_its_own_runs_only(drive: Driver) -> None:
    mine = drive.start()
    alone = drive.start()
    theirs = drive.start("other")
    drive.cancel(mine.ref, "enough")
    drive.cancel(theirs.ref)

    reply = drive.renew([mine, alone])

    assert reply.orders == (Ordered(mine.tenant, mine.id, mine.token, Intent.CANCEL, "enough"),)
    (order,) = drive.renew([theirs], worker="other").orders
    assert (order.id, order.reason) == (theirs.id, None)


def test_an_intent_is_told_at_every_renewal(drive: Driver) -> None:
    held = drive.start()
    drive.cancel(held.ref)

    assert [len(drive.renew([held]).orders) for _ in range(3)] == [1, 1, 1]


def test_a_renewal_tells_what_is_no_longer_held(drive: Driver) -> None:
    kept, ended = drive.start(), drive.start()
    drive.finish(ended, Outcome.SUCCEEDED)
    wrong = Held(kept.tenant, kept.id, kept.token + 1)
    foreign = Held("acme", kept.id, kept.token)

    reply = drive.renew([kept, ended, wrong, foreign])

    assert set(reply.lost) == {held_of(ended), wrong, foreign}


def test_leases_that_the_worker_never_heard_of_are_given_back(drive: Driver) -> None:
    drive.add_many(3)
    drive.register()
    known = drive.claim(1, claim_no=1).claimed[0]
    unheard = drive.claim(2, claim_no=2).claimed
    drive.advance(1)

    reply = drive.renew([known], settled=2)

    assert reply.released == 2
    assert drive.get(known.ref).status is Status.RUNNING
    for run in unheard:
        record = drive.get(run.ref)
        assert record.status is Status.QUEUED
        assert (record.attempt, record.failures, record.crash_count) == (1, 0, 0)
        assert record.attempts[0].outcome is AttemptOutcome.INTERRUPTED
        assert drive.trail(run.ref)[-1] is EventType.INTERRUPTED


def test_a_claim_whose_reply_is_on_its_way_is_kept(drive: Driver) -> None:
    drive.add_many(2)
    drive.register()
    settled = drive.claim(1, claim_no=1).claimed[0]
    in_flight = drive.claim(1, claim_no=2).claimed[0]

    reply = drive.renew([], settled=1)

    assert reply.released == 1
    assert drive.get(settled.ref).status is Status.QUEUED
    assert drive.get(in_flight.ref).status is Status.RUNNING


def test_the_leases_of_other_workers_are_not_given_back(drive: Driver) -> None:
    theirs = drive.start("other")
    drive.register()

    assert drive.renew([], settled=1_000_000).released == 0
    assert drive.get(theirs.ref).status is Status.RUNNING


def test_naming_a_run_by_an_old_token_does_not_keep_its_new_lease(drive: Driver) -> None:
    old = drive.start()
    drive.finish(old, Outcome.RELEASED)
    drive.claim(1, claim_no=50)

    reply = drive.renew([old], settled=50)

    assert reply.released == 1
    assert reply.lost == (held_of(old),)
    assert drive.get(old.ref).status is Status.QUEUED


def test_an_unheard_lease_under_a_cancel_ends_canceled(drive: Driver) -> None:
    held = drive.start()
    drive.cancel(held.ref, "enough")

    reply = drive.renew([], settled=1_000)

    assert reply.released == 1
    assert reply.orders == ()
    record = drive.get(held.ref)
    assert (record.status, record.reason) == (Status.CANCELED, "enough")


# -- retire ------------------------------------------------------------------------------------


def test_a_worker_that_retires_gives_back_what_it_holds(drive: Driver) -> None:
    runs = drive.start_many(3)
    theirs = drive.start("other")

    assert drive.call(drive.ops.retire(WORKER)) == 3

    for run in runs:
        record = drive.get(run.ref)
        assert record.status is Status.QUEUED
        assert (record.failures, record.crash_count) == (0, 0)
        assert record.attempts[0].outcome is AttemptOutcome.INTERRUPTED
    assert [w.id for w in drive.call(drive.ops.list_workers())] == ["other"]
    assert drive.get(theirs.ref).status is Status.RUNNING
    assert drive.claim().refused


def test_a_run_to_be_canceled_ends_when_its_worker_retires(drive: Driver) -> None:
    held = drive.start()
    drive.cancel(held.ref)

    assert drive.call(drive.ops.retire(WORKER)) == 1
    assert drive.get(held.ref).status is Status.CANCELED


@pytest.mark.parametrize("times", [1, 2])
def test_retiring_an_unknown_worker_is_harmless(steer: Driver, times: int) -> None:
    assert [steer.call(steer.ops.retire("nobody")) for _ in range(times)] == [0] * times


def test_a_worker_can_change_its_jobs(drive: Driver) -> None:
    drive.call(drive.ops.register(make_worker("a", jobs=("old",)), LEASE))
    drive.call(drive.ops.register(make_worker("b", jobs=("old",)), LEASE))
    rows = [JobRow(name=name, queue="q") for name in ("one", "two")]
    drive.call(drive.ops.sync_jobs(rows, "a"))
    drive.call(drive.ops.sync_jobs(rows, "nobody"))

    jobs = {worker.id: worker.jobs for worker in drive.call(drive.ops.list_workers())}
    assert jobs == {"a": ("one", "two"), "b": ("old",)}
    assert len(drive.call(drive.ops.list_jobs("default"))) == 2
