"""Races: real threads and processes, real clock, connections of their own.

Each round starts its contenders at one barrier. What is asserted holds for every order in which
the database may have served them; nothing here waits for a length of time.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.conformance.history import History, violations
from tests.conformance.kit import Driver, Opened, held_of, ids, make_finish, ref, requires
from tests.conformance.places import Place, PostgresPlace, opened
from tests.conformance.racers import KEY, SHARE, enqueue_and_claim
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, RunRef
from windlass.domain.states import Intent, Status
from windlass.errors import IllegalTransition
from windlass.sources import Sources

ROUNDS = 60


def race(*contenders: Callable[[], Any]) -> list[Any]:
    """Start them at one instant; return what each returned, or raised."""
    barrier = threading.Barrier(len(contenders))

    def run(contender: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return contender()
        except IllegalTransition as refusal:
            return refusal

    with ThreadPoolExecutor(len(contenders)) as pool:
        return list(pool.map(run, contenders))


def assert_sound(drive: Driver) -> None:
    """Nothing is wrong with the history of any run."""
    assert violations(History.read(drive.tables)) == []


@pytest.fixture
def pair(open_real: Opened) -> tuple[Driver, Driver]:
    """Two drivers whose connections are open, so that they start level."""
    drivers = (open_real(), open_real())
    for drive in drivers:
        drive.register()
        drive.sweep(dispatch=True)
    return drivers


# -- claim -----------------------------------------------------------------------------------


def test_no_run_is_claimed_by_two(open_real: Opened) -> None:
    drivers = [open_real() for _ in range(4)]
    runs = drivers[0].add_many(500)
    for number, drive in enumerate(drivers):
        drive.register(f"w{number}")

    def claim_all(number: int) -> Callable[[], list[Claimed]]:
        def claim() -> list[Claimed]:
            taken: list[Claimed] = []
            # Others may have locked what is left: an empty reply alone is not the end.
            while drivers[number].rows("ready"):
                some = drivers[number].claim(7, worker=f"w{number}").claimed
                assert len(some) <= 7
                taken += some
            return taken

        return claim

    shares = race(*(claim_all(number) for number in range(4)))

    taken = [run.id for share in shares for run in share]
    assert sorted(taken) == sorted(ids(runs))
    assert all(run.token == 1 for share in shares for run in share)
    for number, share in enumerate(shares):
        assert {drivers[0].get(run.ref).worker for run in share[:3]} <= {f"w{number}"}
    assert_sound(drivers[0])


def test_a_hundred_workers_share_what_is_ready(place: Place) -> None:
    """Each with a connection of its own, one run at a time, all started at one instant."""
    crowd = [f"w{number}" for number in range(100)]
    with ExitStack() as stack, opened(place) as tables:
        stores = [stack.enter_context(place.open(Sources.system())) for _ in crowd]
        drivers = [Driver(store, store.run, Sources.system(), tables) for store in stores]
        runs = drivers[0].add_many(300)
        for drive, worker in zip(drivers, crowd, strict=True):
            drive.register(worker)

        def claim(drive: Driver, worker: str) -> list[Claimed]:
            return [one for _ in range(3) for one in drive.claim(1, worker=worker).claimed]

        contenders = [
            partial(claim, drive, worker) for drive, worker in zip(drivers, crowd, strict=True)
        ]
        taken = [one for some in race(*contenders) for one in some]
        # Whoever found all that was left locked by others came back empty-handed, without waiting.
        while left := drivers[0].claim(50, worker=crowd[0]).claimed:
            taken += left

        assert sorted(ids(taken)) == sorted(run.id for run in runs)
        holders = {row["id"]: row["worker"] for row in tables.rows("leases")}
        assert len(holders) == 300
        assert len(set(holders.values())) > 50
        assert_sound(drivers[0])


def test_no_named_run_is_claimed_by_two(pair: tuple[Driver, Driver]) -> None:
    one, two = pair
    for _ in range(ROUNDS // 3):
        runs = tuple(one.add_many(8))

        shares = race(
            partial(one.claim, 5, ids=runs), partial(two.claim, 5, ids=tuple(reversed(runs)))
        )

        taken = [run.id for share in shares for run in share.claimed]
        assert len(taken) == len(set(taken))
        assert max(len(share.claimed) for share in shares) <= 5
    assert_sound(one)


def test_processes_share_keys_and_runs(place: Place) -> None:
    spawn = multiprocessing.get_context("spawn")
    with place.open(Sources.system()) as store, opened(place) as tables:
        drive = Driver(store, store.run, Sources.system(), tables)
        runs = drive.add_many(60)
        start, told = spawn.Barrier(2), spawn.Queue()
        children = [
            spawn.Process(target=enqueue_and_claim, args=(place, f"w{number}", start, told))
            for number in range(2)
        ]
        for child in children:
            child.start()
        answers = [told.get(timeout=40) for _ in children]
        for child in children:
            child.join()

        assert len({ident for ident, _, _ in answers}) == 1
        assert sorted(created for _, created, _ in answers) == [False, True]
        assert [row["key"] for row in drive.rows("runs", queue="keyed")] == [KEY]
        claimed = [ident for _, _, share in answers for ident in share]
        assert len(claimed) == len(set(claimed))
        # A process that found the rest locked by the other stopped early: at most its last share.
        assert len(runs) - len(claimed) <= SHARE
        assert_sound(drive)


# -- the end of an attempt ---------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.RETRY])
def test_a_lease_is_finished_or_reaped_but_not_both(
    pair: tuple[Driver, Driver], outcome: Outcome
) -> None:
    worker, reaper = pair
    for _ in range(ROUNDS // 3):
        held = worker.start_many(10)
        worker.kill()

        finished, swept = race(
            partial(worker.finish_all, [make_finish(run, outcome) for run in held]),
            partial(reaper.sweep, reap=True),
        )

        assert swept.reaped == len(finished.lost)
        lost = set(finished.lost)
        for run in held:
            record = worker.get(run.ref)
            assert (record.crash_count == 1) is (held_of(run) in lost)
            assert len(record.attempts) == 1
        assert_sound(worker)
        worker.tables.empty()


def test_a_cancel_and_an_end_agree_on_who_came_first(pair: tuple[Driver, Driver]) -> None:
    worker, operator = pair
    runs = worker.start_many(200)
    outcomes = [(Outcome.SUCCEEDED, Outcome.RETRY, Outcome.FAILED)[n % 3] for n in range(200)]
    level = threading.Barrier(2)

    def finish() -> list[bool]:
        lost = []
        for run, outcome in zip(runs, outcomes, strict=True):
            level.wait()
            lost.append(bool(worker.finish(run, outcome).lost))
        return lost

    def cancel() -> list[Any]:
        answers: list[Any] = []
        for run in runs:
            level.wait()
            try:
                answers.append(operator.cancel(run.ref, "enough"))
            except IllegalTransition as refusal:
                answers.append(refusal)
        return answers

    lost, answers = race(finish, cancel)

    assert not any(lost), "a cancel takes no lease away"
    status = {row["id"]: row["status"] for row in worker.rows("runs")}
    requested = {row["subject"] for row in worker.rows("events", type=EventType.CANCEL_REQUESTED)}
    for run, outcome, answer in zip(runs, outcomes, answers, strict=True):
        if outcome is Outcome.RETRY:
            assert status[run.id] == Status.CANCELED
            assert not isinstance(answer, IllegalTransition)
            continue
        assert status[run.id] == outcome.value, "the outcome that ends the run stands"
        asked = run.id in requested
        assert asked is not isinstance(answer, IllegalTransition)
        if asked:
            assert (answer.status, answer.intent) == (Status.RUNNING, Intent.CANCEL)
    assert_sound(worker)


def test_two_that_finish_the_same_lease_record_one_end(pair: tuple[Driver, Driver]) -> None:
    one, two = pair
    for _ in range(ROUNDS // 2):
        held = one.start()

        first, second = race(
            partial(one.finish, held, Outcome.SUCCEEDED),
            partial(two.finish, held, Outcome.FAILED),
        )

        assert len(first.lost) + len(second.lost) == 1
        status = one.get(held.ref).status
        assert status is (Status.FAILED if first.lost else Status.SUCCEEDED)
    assert_sound(one)


# -- enqueue -----------------------------------------------------------------------------------


@pytest.mark.parametrize("known_by", ["key", "id"])
def test_of_twenty_that_enqueue_the_same_one_makes_the_run(
    open_real: Opened, known_by: str
) -> None:
    drivers = [open_real() for _ in range(20)]
    ident = drivers[0].sources.new_id()
    batches = [
        (drive.new(key="k"), drive.new())[: 1 + number % 2]
        if known_by == "key"
        else (drive.new(id=ident), drive.new())[: 1 + number % 2]
        for number, drive in enumerate(drivers)
    ]
    for drive in drivers:
        drive.register()

    answers = race(
        *(partial(drive.enqueue, *batch) for drive, batch in zip(drivers, batches, strict=True))
    )

    assert len({answer[0].id for answer in answers}) == 1
    assert sum(answer[0].created for answer in answers) == 1
    assert len(drivers[0].rows("runs")) == 1 + 10
    assert_sound(drivers[0])


def test_batches_with_the_same_keys_in_any_order_do_not_block_each_other(
    pair: tuple[Driver, Driver],
) -> None:
    one, two = pair
    for number in range(ROUNDS // 3):
        keys = [f"k{number}-{n}" for n in range(6)]

        answers = race(
            partial(one.enqueue, *(one.new(key=key) for key in keys)),
            partial(two.enqueue, *(two.new(key=key) for key in reversed(keys))),
        )

        assert ids(answers[0]) == list(reversed(ids(answers[1])))
        assert sum(answer.created for answer in (*answers[0], *answers[1])) == 6
    assert_sound(one)


def test_a_key_whose_time_has_passed_is_taken_over_by_one(pair: tuple[Driver, Driver]) -> None:
    one = pair[0]
    for number in range(ROUNDS // 2):
        first = one.add(key=f"k{number}", key_ttl=0.0)

        answers = race(*(partial(x.enqueue, x.new(key=f"k{number}")) for x in pair))

        assert sorted(answer.created for (answer,) in answers) == [False, True]
        assert len({answer.id for (answer,) in answers} - {first.id}) == 1
    assert_sound(one)


# -- control -----------------------------------------------------------------------------------


def test_of_two_that_retry_one_reopens_the_run(pair: tuple[Driver, Driver]) -> None:
    one, two = pair
    for _ in range(ROUNDS // 2):
        run = one.ended(Outcome.FAILED)

        answers = race(partial(one.retry, run), partial(two.retry, run))

        refused = [answer for answer in answers if isinstance(answer, IllegalTransition)]
        assert [refusal.status for refusal in refused] == [Status.QUEUED]
        assert one.trail(run).count(EventType.RETRIED) == 1
        assert one.positions(run) == ["ready"]
    assert_sound(one)


def test_of_two_that_discard_one_counts(pair: tuple[Driver, Driver]) -> None:
    one, two = pair
    for _ in range(ROUNDS // 2):
        runs = [one.ended(Outcome.FAILED).id for _ in range(3)]

        counts = race(
            partial(one.call, one.ops.discard("default", runs)),
            partial(two.call, two.ops.discard("default", runs[::-1])),
        )

        assert sum(counts) == 3
        assert [one.trail(ref(run)).count(EventType.DISCARDED) for run in runs] == [1] * 3
    assert_sound(one)


def test_a_run_is_canceled_before_it_starts_or_asked_to_end(pair: tuple[Driver, Driver]) -> None:
    worker, operator = pair
    for _ in range(ROUNDS):
        run = worker.add()

        reply, record = race(partial(worker.claim, 1), partial(operator.cancel, run, "enough"))

        started = ids(reply.claimed) == [run.id]
        assert record.status is (Status.RUNNING if started else Status.CANCELED)
        assert worker.get(run).status is record.status
        if started:
            assert worker.get(run).intent is Intent.CANCEL
            worker.finish(reply.claimed[0], Outcome.RELEASED)
        assert worker.get(run).status is Status.CANCELED
    assert_sound(worker)


def test_canceling_twice_at_once_tells_it_once(pair: tuple[Driver, Driver]) -> None:
    one, two = pair
    for number in range(ROUNDS // 2):
        run = one.start().ref if number % 2 else one.add()

        records = race(partial(one.cancel, run), partial(two.cancel, run))

        assert records[0].status is records[1].status
        told = EventType.CANCEL_REQUESTED if number % 2 else EventType.CANCELED
        assert one.trail(run).count(told) == 1
    assert_sound(one)


# -- services ------------------------------------------------------------------------------------


def test_a_worker_is_revived_or_reaped_but_not_both(pair: tuple[Driver, Driver]) -> None:
    worker, reaper = pair
    for _ in range(ROUNDS):
        held = worker.start_many(3)
        worker.kill()

        renewed, swept = race(partial(worker.renew, held), partial(reaper.sweep, reap=True))

        if renewed.alive:
            assert (swept.reaped, renewed.lost) == (0, ())
            assert {worker.get(run.ref).status for run in held} == {Status.RUNNING}
            assert not worker.claim(1).refused
        else:
            assert swept.reaped == 3
            assert set(renewed.lost) == {held_of(run) for run in held}
        assert_sound(worker)
        worker.tables.empty()


def test_a_claim_of_a_dying_worker_is_refused_or_reaped(pair: tuple[Driver, Driver]) -> None:
    worker, reaper = pair
    for _ in range(ROUNDS // 2):
        worker.register(lease=30)
        run = worker.add()

        reply, _ = race(partial(worker.claim, 1), partial(kill_and_reap, reaper))

        reaper.sweep(reap=True)
        record = worker.get(run)
        assert record.status is Status.QUEUED
        assert record.crash_count == len(reply.claimed)
        assert_sound(worker)
        worker.tables.empty()


def kill_and_reap(drive: Driver) -> None:
    """Let the worker die, and take back what it holds at that instant."""
    drive.kill()
    drive.sweep(reap=True)


def test_what_is_due_is_dispatched_once(pair: tuple[Driver, Driver]) -> None:
    one = pair[0]
    for _ in range(ROUNDS // 4):
        runs = one.add_many(30, delay=0.000001)

        replies = race(*(partial(drive.sweep, dispatch=True, limit=20) for drive in pair))
        replies.append(one.sweep(dispatch=True))

        sent = [run for reply in replies for run in reply.dispatched]
        assert sorted(sent, key=_name) == sorted(runs, key=_name)
        assert_sound(one)
        one.tables.empty()


def _name(run: RunRef) -> str:
    return run.id


# -- plans that the planner would rarely choose ----------------------------------------------------

FORCED: Sequence[dict[str, str]] = [
    {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off"},
    {"enable_nestloop": "off"},
    {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_tidscan": "off"},
    {"plan_cache_mode": "force_generic_plan"},
]


@requires("planner")
@pytest.mark.parametrize("settings", FORCED, ids=lambda settings: next(iter(settings)))
def test_no_plan_takes_more_than_was_asked_for(place: Place, settings: dict[str, str]) -> None:
    assert isinstance(place, PostgresPlace)
    forced = place.having(**settings)
    with (
        forced.open(Sources.system()) as one,
        forced.open(Sources.system()) as two,
        opened(place) as tables,
    ):
        pair = [Driver(store, store.run, Sources.system(), tables) for store in (one, two)]
        pair[0].add_many(60)
        pair[0].add_many(60, delay=0.000001)
        pair[0].add_many(60, expires_in=0.0, queue="expiring")
        for drive in pair:
            drive.register()

        claims = race(*(partial(drive.claim, 7) for drive in pair))
        named = [ref(row["id"]) for row in tables.rows("ready") if row["queue"] == "main"]
        by_name = race(*(partial(drive.claim, 7, ids=tuple(named)) for drive in pair))
        dispatched = race(*(partial(drive.sweep, dispatch=True, limit=7) for drive in pair))
        expired = race(*(partial(drive.sweep, expire=True, limit=7) for drive in pair))
        pair[0].kill()
        reaped = race(*(partial(drive.sweep, reap=True, limit=7) for drive in pair))
        published = race(*(partial(drive.call, drive.ops.unpublished(0.0, 7)) for drive in pair))

        taken = [reply.claimed for reply in (*claims, *by_name)]
        taken += [reply.dispatched for reply in dispatched]
        for some in (*taken, *published):
            assert len(some) == len(set(ids(some))) <= 7
        assert max(reply.expired for reply in expired) <= 7
        assert max(reply.reaped for reply in reaped) <= 7
        assert any(reply.claimed for reply in claims)
        assert_sound(pair[0])
