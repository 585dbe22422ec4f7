"""What a worker whose event loop is blocked says to the store: who crashed, and who did not."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.engine.test_parts import SPEC, handler, make_holding
from tests.fixtures.apps import PATIENCE
from tests.fixtures.hosts import HeartHost
from windlass import AttemptOutcome, Run, Windlass
from windlass.domain.run import Want, WorkerInfo
from windlass.engine.environment import Environment
from windlass.engine.heart import Heart
from windlass.engine.holdings import Holding, Holdings, Stop
from windlass.engine.options import WorkerOptions
from windlass.engine.renewal import Renewal
from windlass.engine.vouching import vouch
from windlass.engine.watchdog import Blockage

LEASE = 30.0


def held(*runs: str) -> tuple[Holdings, list[Holding]]:
    """Runs that have started on the loop."""
    holdings, found = Holdings(), [make_holding(run) for run in runs]
    for holding in found:
        holding.started = 0.0
        holdings.add(holding)
    return holdings, found


def blamed(holdings: Holdings, blockage: Blockage) -> list[str]:
    said = vouch(holdings, lambda: blockage, LEASE, max_crashes=3)
    assert said.blocked is not None
    assert said.held == []
    return [end.id for end in said.blocked.blamed]


def make_blockage(
    holding: Holding | None = None, *, anybody: bool = False, seconds: float = LEASE
) -> Blockage:
    # A file's name may be no text at all, and a line of generated code anything.
    stack = 'File "jobs/\udc80.py"\0'
    return Blockage(seconds=seconds, holding=holding, anybody=anybody, stack=stack)


def test_the_run_that_blocks_is_blamed_alone() -> None:
    holdings, (blocker, _) = held("blocker", "neighbour")
    assert blamed(holdings, make_blockage(blocker)) == ["blocker"]


def test_nobody_is_blamed_for_a_run_that_has_ended_and_left_a_task_behind() -> None:
    holdings, _ = held("one", "other")
    assert blamed(holdings, make_blockage(make_holding("gone"))) == []


def test_in_a_callback_all_that_run_on_the_loop_are_blamed() -> None:
    holdings, (_, over, waiting, _) = held("one", "over", "waiting", "other")
    over.concluded, waiting.started = True, None
    assert blamed(holdings, make_blockage(anybody=True)) == ["one", "other"]


def test_nobody_is_blamed_for_the_task_of_a_host() -> None:
    holdings, _ = held("one", "other")
    assert blamed(holdings, make_blockage()) == []


def test_until_a_lease_has_passed_everything_is_vouched_for() -> None:
    holdings, (blocker, neighbour) = held("blocker", "neighbour")
    blockage = make_blockage(blocker, seconds=LEASE - 0.5)
    said = vouch(holdings, lambda: blockage, LEASE, max_crashes=3)
    assert said.held == [blocker.held, neighbour.held]
    assert said.blocked is not None
    assert (said.blocked.run, said.blocked.blamed) == ("blocker", ())


def test_what_a_loop_takes_that_has_just_come_back_is_not_given_up() -> None:
    holdings, (blocker,) = held("blocker")
    old = holdings.begin_claim()

    def look() -> Blockage:
        """Between this look and what follows from it, the loop comes back and claims."""
        for claim in (holdings.begin_claim(), holdings.begin_claim()):
            holdings.add(make_holding(f"claim {claim}"))
        holdings.settle(old + 1)
        return make_blockage(blocker)

    said = vouch(holdings, look, LEASE, max_crashes=3)

    assert said.given_up == [blocker]
    assert [holdings.is_renounced(old + n) for n in range(3)] == [True, False, False]
    assert said.settled == old, "or the store would give the new ones back"


async def hold_one(app: Windlass, holdings: Holdings) -> tuple[Run, Holding]:
    """A run that the worker `w` has claimed, and started on its loop."""
    store = app.store
    info = WorkerInfo(id="w", host="h", pid=1, version="1", queues=None, jobs=("handler",), seats=1)
    await store.arun(store.operations.register(info, LEASE))
    run = await app.job(handler).aenqueue()
    number = holdings.begin_claim()
    want = Want(limit=1, jobs=("handler",))
    reply = await store.arun(store.operations.cycle("w", number, [], want))
    holding = Holding(reply.claimed[0], SPEC, started=0.0)
    holdings.add(holding)
    holdings.settle(number)
    return run, holding


async def test_what_a_renewal_gave_up_is_told_on_the_loop(app: Windlass) -> None:
    """And at once: its handler would go on until the next renewal."""
    holdings, host = Holdings(), HeartHost()
    run, holding = await hold_one(app, holdings)
    host.blockage = make_blockage(holding)
    environment = Environment(app.store, app.sources, WorkerOptions(lease=LEASE, renew=3600.0))
    since = app.sources.clock.monotonic()
    renewal = Renewal(environment, holdings, host, host, worker="w", since=since)
    renewal.start()
    try:
        with host.lost.heard() as lost:
            renewal.hurry()
            assert await lost.next() == holding.held
        assert holding.stop is Stop.LOST
        assert (await app.aget(run.id)).crash_count == 1
    finally:
        renewal.stop()
        assert await renewal.ended(PATIENCE)


@pytest.mark.parametrize(("seconds", "crashes"), [(1.5, 0), (25.0, 1)])
async def test_who_blocks_a_stop_has_crashed_if_it_blocked_for_the_whole_grace(
    app: Windlass, seconds: float, crashes: int
) -> None:
    """A handler that blocks for a second or two, and did not end in time, is not to crash a little
    with every deployment."""
    left, holdings = threading.Event(), Holdings()
    run, holding = await hold_one(app, holdings)
    options = WorkerOptions(lease=LEASE, renew=3600.0, drain=25.0)
    heart = Heart(Environment(app.store, app.sources, options), holdings, HeartHost())
    heart.hopeless = left.set
    heart.beat("w", app.sources.clock.monotonic())

    await asyncio.to_thread(heart._part, make_blockage(holding, seconds=seconds))

    assert left.is_set()
    assert await app.aworkers() == []
    found = await app.aget(run.id)
    assert (found.status, found.crash_count) == ("queued", crashes)
    (attempt,) = found.attempts
    if crashes:
        assert attempt.outcome is AttemptOutcome.CRASHED
        assert attempt.error is not None
        assert attempt.error.traceback == 'File "jobs/\\udc80.py"\\x00'
    else:
        assert attempt.outcome is AttemptOutcome.INTERRUPTED
