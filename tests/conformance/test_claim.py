"""Claim: leases for runs that are ready, the most urgent first, for workers that are alive."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.conformance.kit import (
    ABSENT,
    JOB,
    LEASE,
    QUEUE,
    WORKER,
    Driver,
    held_of,
    ids,
    make_finish,
    raw,
    ref,
    requires,
    value_of,
)
from tests.conformance.places import Place, PostgresPlace
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Mark, Options
from windlass.domain.states import Status

pytestmark = pytest.mark.every_server


def test_a_claimed_run_is_running_under_a_token(drive: Driver) -> None:
    run = drive.add(input=raw({"user": 7}), options=Options(max_attempts=2), trace="00-t")
    drive.register()
    drive.advance(1)

    reply = drive.claim()

    (claimed,) = reply.claimed
    assert reply.now == drive.now
    assert not reply.refused
    assert claimed.ref == run
    assert (claimed.job, claimed.queue) == (JOB, QUEUE)
    assert (claimed.token, claimed.attempt, claimed.failures, claimed.crash_count) == (1, 1, 0, 0)
    assert value_of(claimed.input) == {"user": 7}
    assert claimed.options == Options(max_attempts=2)
    assert claimed.trace == "00-t"
    record = drive.get(run)
    assert record.status is Status.RUNNING
    assert (record.token, record.attempt) == (1, 1)
    assert record.worker == WORKER
    assert record.started_at == record.updated_at == drive.now
    assert drive.positions(run) == ["leases"]
    assert drive.trail(run) == [EventType.ENQUEUED, EventType.STARTED]
    assert drive.events(run)[1].attempt == 1


def test_token_and_attempt_grow_with_each_claim(drive: Driver) -> None:
    run = drive.add()

    seen = []
    for _ in range(3):
        claimed = drive.take(run)
        seen.append((claimed.token, claimed.attempt))
        drive.finish(claimed, Outcome.RELEASED)

    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_the_most_urgent_come_first_then_the_longest_ready(drive: Driver) -> None:
    calm = drive.add(priority=-5)
    first = drive.add()
    drive.advance(1)
    urgent = drive.add(priority=9)
    second = drive.add()
    drive.register()

    assert ids(drive.claim().claimed) == ids([urgent, first, second, calm])


def test_runs_that_became_ready_at_once_come_by_id(steer: Driver) -> None:
    runs = [steer.new() for _ in range(10)]
    steer.enqueue(*reversed(runs))
    steer.register()

    assert ids(steer.claim().claimed) == sorted(ids(runs))


def test_a_run_that_was_ready_before_keeps_no_place_in_front(drive: Driver) -> None:
    early = drive.add(delay=10.0)
    drive.advance(5)
    waiting = drive.add()
    drive.advance(10)
    drive.sweep(dispatch=True)
    drive.register()

    assert ids(drive.claim().claimed) == ids([waiting, early])


def test_no_more_are_claimed_than_wanted(drive: Driver) -> None:
    drive.add_many(5)
    drive.register()

    assert len(drive.claim(3).claimed) == 3
    assert len(drive.rows("ready")) == 2
    assert len(drive.claim(3).claimed) == 2
    assert drive.claim(3).claimed == ()


def test_a_limit_of_none_claims_nothing(drive: Driver) -> None:
    drive.add()
    drive.register()

    reply = drive.claim(0)

    assert reply.claimed == ()
    assert not reply.refused


def test_the_limit_counts_over_all_queues(drive: Driver) -> None:
    for queue in ("a", "b", "c"):
        drive.add_many(2, queue=queue)
    drive.register()

    claimed = drive.claim(3, queues=("b", "a", "c")).claimed

    assert [run.queue for run in claimed] == ["b", "b", "a"]


def test_no_run_is_claimed_twice(drive: Driver) -> None:
    drive.add_many(6)
    drive.register("w1")
    drive.register("w2")

    taken = [
        claimed.id
        for worker in ("w1", "w2", "w1", "w2")
        for claimed in drive.claim(2, worker=worker).claimed
    ]

    assert len(taken) == len(set(taken)) == 6


def test_unknown_jobs_are_never_claimed(drive: Driver) -> None:
    known = drive.add(job="known")
    drive.add(job="unknown", priority=100)
    drive.register()

    assert ids(drive.claim(jobs=("known", "other")).claimed) == [known.id]
    assert drive.claim(jobs=("known",)).claimed == ()
    assert drive.claim(jobs=()).claimed == ()


def test_names_of_jobs_and_queues_are_taken_literally(steer: Driver) -> None:
    odd = ['a"b', "'a", "{a}", "a\\b", "ü", "null", "a;b", "%s"]
    runs = [steer.add(job=name, queue=name) for name in odd]
    steer.add(job="a", queue="b")
    steer.register()

    claimed = steer.claim(20, jobs=odd, queues=odd).claimed

    assert sorted(ids(claimed)) == sorted(ids(runs))


def test_queues_that_are_not_served_are_left_alone(drive: Driver) -> None:
    mine = drive.add(queue="mine")
    drive.add(queue="theirs", priority=9)
    drive.register()

    assert ids(drive.claim(queues=("mine", "none")).claimed) == [mine.id]
    assert drive.claim(queues=()).claimed == ()


def test_every_queue_is_served_unless_some_are_named(drive: Driver) -> None:
    runs = [drive.add(queue=name) for name in ("z", "a", "m")]
    drive.register()

    assert sorted(ids(drive.claim(queues=None).claimed)) == sorted(ids(runs))


def test_queues_are_visited_in_the_order_given(drive: Driver) -> None:
    for queue in ("a", "b", "c"):
        drive.add(queue=queue)
    drive.register()

    claimed = drive.claim(queues=("c", "a", "b")).claimed

    assert [run.queue for run in claimed] == ["c", "a", "b"]


def test_no_queue_is_always_first_where_all_are_served(steer: Driver) -> None:
    steer.register()
    for queue in ("a", "b", "c"):
        steer.add_many(10, queue=queue)

    firsts = [steer.claim(1, turn=turn).claimed[0].queue for turn in range(6)]

    assert firsts == ["a", "b", "c", "a", "b", "c"]


def test_a_claim_of_all_queues_tells_which_have_something(drive: Driver) -> None:
    drive.register()
    for queue in ("a", "b", "c"):
        drive.add_many(2, queue=queue)
    drive.claim(2, queues=("b",))

    assert drive.claim(1, turn=1).queues == ("c", "a")
    assert drive.claim(4, turn=0).queues == ("a", "c")
    assert drive.claim(4).queues == ()


def test_a_claim_of_named_queues_tells_of_none(drive: Driver) -> None:
    drive.register()
    drive.add()

    assert drive.claim(1, queues=("main",)).queues == ()


def test_the_number_of_a_claim_does_not_say_which_queue_is_first(steer: Driver) -> None:
    """Numbers are shared by all that one worker claims; each of its lanes has turns of its own."""
    steer.register()
    for queue in ("a", "b"):
        steer.add_many(10, queue=queue)

    claims = [steer.claim(1, turn=n // 2, claim_no=n) for n in range(1, 9)]

    firsts = [claim.claimed[0].queue for claim in claims]
    assert {firsts[n] for n in (0, 2, 4, 6)} == {"a", "b"}
    assert {firsts[n] for n in (1, 3, 5, 7)} == {"a", "b"}


def test_what_is_not_yet_due_is_not_claimed(drive: Driver) -> None:
    drive.add(delay=5.0)
    drive.register()
    drive.advance(10)

    assert drive.claim().claimed == (), "only the dispatcher makes it ready"


def test_what_has_expired_is_not_claimed(drive: Driver) -> None:
    stays = drive.add(expires_in=10.000001)
    drive.add(expires_in=10.0)
    drive.register()
    drive.advance(10)

    assert ids(drive.claim().claimed) == [stays.id]


def test_runs_of_all_tenants_are_claimed(drive: Driver) -> None:
    runs = [drive.add(tenant=tenant) for tenant in ("acme", "default", "zeta")]
    drive.register()

    assert {claimed.ref for claimed in drive.claim().claimed} == set(runs)


# -- workers -------------------------------------------------------------------------------


def test_an_unknown_worker_is_refused(drive: Driver) -> None:
    run = drive.add()

    reply = drive.claim(worker="nobody")

    assert reply.refused
    assert reply.claimed == ()
    assert reply.now == drive.now
    assert drive.get(run).status is Status.QUEUED


def test_a_worker_whose_time_has_run_out_is_refused(drive: Driver) -> None:
    run = drive.add()
    drive.register(lease=30)
    drive.advance(30)

    assert drive.claim().refused
    assert drive.get(run).status is Status.QUEUED


def test_a_worker_may_claim_until_its_time_runs_out(drive: Driver) -> None:
    drive.add()
    drive.register(lease=30)
    drive.advance(29.999999)

    assert len(drive.claim().claimed) == 1


@pytest.mark.parametrize("ends", [[Outcome.SUCCEEDED], [Outcome.RETRY], list(Outcome)])
def test_a_refused_worker_still_records_what_it_finished(
    drive: Driver, ends: list[Outcome]
) -> None:
    held = drive.start_many(len(ends))
    more = drive.add()
    drive.advance(LEASE)

    reply = drive.claim(
        finishes=[make_finish(run, end) for run, end in zip(held, ends, strict=True)]
    )

    assert reply.refused
    assert (reply.claimed, reply.lost) == ((), ())
    assert drive.rows("leases") == []
    assert len(drive.rows("attempts")) == len(ends)
    assert drive.get(more).status is Status.QUEUED


def test_a_reaped_worker_is_refused_until_it_registers_anew(drive: Driver) -> None:
    drive.add()
    drive.register()
    drive.advance(LEASE)
    drive.sweep(reap=True)

    assert drive.claim().refused
    drive.register()
    assert len(drive.claim().claimed) == 1


def test_a_refused_claim_by_ids_takes_nothing(drive: Driver) -> None:
    run = drive.add()

    reply = drive.claim(worker="nobody", ids=(run,))

    assert reply.refused
    assert drive.get(run).status is Status.QUEUED


# -- finishing and claiming at once ----------------------------------------------------------


def test_one_call_finishes_and_claims(drive: Driver) -> None:
    held = drive.start()
    following = drive.add()

    reply = drive.claim(finishes=[make_finish(held, Outcome.SUCCEEDED)])

    assert ids(reply.claimed) == [following.id]
    assert drive.get(held.ref).status is Status.SUCCEEDED


def test_a_run_given_back_may_be_claimed_by_the_same_call(drive: Driver) -> None:
    held = drive.start()

    reply = drive.claim(finishes=[make_finish(held, Outcome.RELEASED)])

    (again,) = reply.claimed
    assert (again.id, again.token) == (held.id, held.token + 1)


# -- marks and windows -----------------------------------------------------------------------


def test_a_mark_per_queue_names_the_last_run_taken(drive: Driver) -> None:
    for queue in ("a", "b"):
        drive.add_many(3, queue=queue)
    drive.register()

    reply = drive.claim(5, queues=("a", "b"))

    assert set(reply.marks) == {"a", "b"}
    assert [reply.marks[q].id for q in ("a", "b")] == [reply.claimed[2].id, reply.claimed[4].id]
    assert {mark.rank for mark in reply.marks.values()} == {0}


def test_a_claim_after_a_mark_goes_on_behind_it(drive: Driver) -> None:
    runs = drive.add_many(6)
    drive.register()

    first = drive.claim(2)
    second = drive.claim(2, after=first.marks)
    third = drive.claim(5, after=second.marks)

    assert ids(first.claimed + second.claimed + third.claimed) == ids(runs)


def test_rows_up_to_the_mark_are_passed_over_and_found_without_it(drive: Driver) -> None:
    drive.add_many(2)
    drive.register()
    marks = drive.claim(2).marks
    urgent = drive.add(priority=5)
    drive.advance(1)
    usual = drive.add()

    assert ids(drive.claim(after=marks).claimed) == [usual.id]
    assert ids(drive.claim().claimed) == [urgent.id]


def test_a_mark_of_one_queue_does_not_hide_another(steer: Driver) -> None:
    steer.add(queue="a")
    steer.register()
    marks = steer.claim(queues=("a",)).marks
    other = steer.add(queue="b", priority=5)

    assert ids(steer.claim(queues=("a", "b"), after=marks).claimed) == [other.id]


def test_a_mark_survives_the_wire(steer: Driver) -> None:
    steer.add(priority=-3)
    steer.register()

    (mark,) = steer.claim().marks.values()

    assert mark == Mark(mark.rank, str(mark.ready_at), mark.id)
    assert mark.rank == 3


def test_a_claim_that_took_nothing_leaves_no_mark(drive: Driver) -> None:
    drive.register()

    assert drive.claim().marks == {}


# -- by name -------------------------------------------------------------------------------


def test_named_runs_are_claimed_and_no_others(drive: Driver) -> None:
    runs = drive.add_many(4)
    drive.register()

    reply = drive.claim(ids=(runs[3], runs[1]))

    assert set(ids(reply.claimed)) == {runs[3].id, runs[1].id}
    assert [claimed.token for claimed in reply.claimed] == [1, 1]
    assert all(drive.trail(run)[-1] is EventType.STARTED for run in (runs[1], runs[3]))
    assert len(drive.rows("ready")) == 2


def test_named_runs_leave_no_mark(drive: Driver) -> None:
    runs = drive.add_many(3)
    drive.register()

    reply = drive.claim(ids=(runs[2],))

    assert reply.marks == {}, "the heads before it were not looked at"


def test_a_message_that_comes_twice_claims_once(drive: Driver) -> None:
    run = drive.add()
    drive.register()

    assert len(drive.claim(ids=(run, run)).claimed) == 1
    assert drive.claim(ids=(run,)).claimed == ()


def test_named_runs_that_may_not_be_claimed_are_passed_over(drive: Driver) -> None:
    good = drive.add()
    passed = [
        drive.add(job="unknown"),
        drive.add(queue="unserved"),
        drive.add(delay=60.0),
        drive.add(expires_in=1.0),
        drive.add(deadline_in=1.0),
        drive.ended(Outcome.SUCCEEDED),
        ref(ABSENT),
        ref("not-an-id"),
        ref(good.id, "another tenant"),
    ]
    drive.register()
    drive.advance(2)

    reply = drive.claim(ids=(*passed, good), queues=(QUEUE,))

    assert ids(reply.claimed) == [good.id]


def test_of_named_runs_no_more_are_claimed_than_wanted(drive: Driver) -> None:
    runs = drive.add_many(5)
    drive.register()

    assert len(drive.claim(2, ids=tuple(runs)).claimed) == 2
    assert len(drive.rows("ready")) == 3


def test_no_names_claim_nothing(drive: Driver) -> None:
    drive.add()
    drive.register()

    assert drive.claim(ids=()).claimed == ()


def test_many_runs_are_claimed_at_once(drive: Driver) -> None:
    runs = drive.add_many(1_000)
    drive.register()

    claimed = drive.claim(1_000).claimed

    assert ids(claimed) == ids(runs)
    assert len(drive.rows("leases")) == 1_000
    assert drive.rows("ready") == []


def test_a_clock_that_jumps_back_hides_nothing(steer: Driver) -> None:
    steer.add()
    steer.jump(-timedelta(hours=1))
    steer.register()

    assert len(steer.claim().claimed) == 1
    steer.jump(timedelta(hours=1))


@requires("parallel_writers")
def test_a_run_that_somebody_moves_just_now_is_skipped(drive: Driver, place: Place) -> None:
    assert isinstance(place, PostgresPlace)
    runs = drive.add_many(3)
    drive.register()
    with psycopg.connect(place.url) as other:
        other.execute("select 1 from windlass.ready where id = %s for update", (runs[0].id,))

        claimed = drive.claim().claimed

    assert ids(claimed) == ids(runs[1:])
    assert [held_of(run).token for run in claimed] == [1, 1]


@pytest.mark.parametrize("pattern", ["ao", "oa", "aoo", "aao", "oaoaoa", "aaooaa"])
def test_what_lies_between_claimed_runs_stays(drive: Driver, pattern: str) -> None:
    """As many as are taken, fewer or more, before, between or after them."""
    names = {"a": JOB, "o": "other"}
    runs = [drive.add(job=names[letter]) for letter in pattern * 2]
    drive.register()
    claimed = drive.claim(100).claimed

    mine = [run.id for run, letter in zip(runs, pattern * 2, strict=True) if letter == "a"]
    others = [run.id for run, letter in zip(runs, pattern * 2, strict=True) if letter == "o"]
    assert [run.id for run in claimed] == mine
    assert sorted(row["id"] for row in drive.rows("ready")) == sorted(others)
