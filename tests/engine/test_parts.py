"""The worker's parts by themselves: numbers of claims, deadlines, services, the sweeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import ClassVar

import msgspec
import pytest

from tests.fixtures.apps import PATIENCE, opened, stopped, within
from tests.fixtures.hosts import HeartHost
from windlass import StoreUnavailable, Windlass, Worker, WorkerOptions
from windlass.domain.job import define_job
from windlass.domain.run import Claimed, Held, Want, WorkerInfo
from windlass.engine.deadlines import Deadlines
from windlass.engine.environment import Environment
from windlass.engine.holdings import Holding, Holdings
from windlass.engine.renewal import Renewal
from windlass.engine.service import News, Service
from windlass.engine.services import Services
from windlass.engine.sweeper import Sweeper
from windlass.sources import ManualSources, Sources


async def handler() -> None: ...


SPEC = define_job(handler)


def make_claimed(run: str = "a", token: int = 1) -> Claimed:
    return Claimed(
        tenant="default", id=run, job="handler", queue="default", token=token, attempt=1,
        failures=0, crash_count=0, input=msgspec.Raw(b"{}"),
    )  # fmt: skip


def make_holding(run: str = "a", token: int = 1) -> Holding:
    return Holding(make_claimed(run, token), SPEC)


# -- holdings -----------------------------------------------------------------------------------


def test_claim_is_settled_only_when_all_before_it_are() -> None:
    holdings = Holdings()
    assert holdings.snapshot() == (0, [])
    first, second, third = (holdings.begin_claim() for _ in range(3))
    holdings.settle(second)
    assert holdings.snapshot()[0] == 0
    holdings.settle(first)
    assert holdings.snapshot()[0] == second
    holdings.settle(third)
    assert holdings.snapshot()[0] == third


def test_claim_that_begins_while_the_renewal_looks_is_not_settled() -> None:
    """The two run in different threads: its runs are not held yet, and must not be given back."""

    class Meanwhile(set[int]):
        def copy(self) -> set[int]:
            seen = set(self)
            begun.append(holdings.begin_claim())
            return seen

    begun: list[int] = []
    holdings = Holdings(_open_claims=Meanwhile())
    settled, held = holdings.snapshot()
    assert begun == [1]
    assert (settled, held) == (0, [])


def test_lease_of_another_token_is_not_dropped() -> None:
    holdings = Holdings()
    holdings.add(make_holding("a", token=2))
    holdings.drop(make_claimed("a", 1))
    assert holdings.find("default", "a", 1) is None
    assert holdings.find("other", "a", 2) is None
    assert holdings.snapshot()[1] == [Held("default", "a", 2)]
    holdings.drop(make_claimed("a", 2))
    assert len(holdings) == 0


def test_claim_that_begins_while_others_are_renounced_is_not_settled() -> None:
    """The loop has just come back, and the renewal thread is about to give up what it held."""
    holdings = Holdings()
    old = holdings.begin_claim()
    holdings._open_claims.add(old + 1)  # as far as `begin_claim` has come
    holdings.renounce_claims(holdings.standing().claims)
    holdings._claim_no = old + 1
    assert [holdings.is_renounced(claim) for claim in (old, old + 1)] == [True, False]
    assert holdings.snapshot() == (old, [])


# -- deadlines ----------------------------------------------------------------------------------


async def test_deadlines_call_in_order_and_leave_out_what_is_concluded() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    called: list[str] = []
    done = asyncio.Event()

    def due(holding: Holding) -> None:
        called.append(holding.claimed.id)
        if holding.claimed.id == "last":
            done.set()

    last, first, over = make_holding("last"), make_holding("first"), make_holding("over")
    deadlines.after(0.03, last, due)
    deadlines.after(0.01, first, due)
    deadlines.after(0.02, over, due)
    over.concluded = True
    await within(done)
    assert called == ["first", "last"]


async def test_deadline_set_by_a_deadline_is_kept() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    done = asyncio.Event()
    deadlines.after(0, make_holding(), lambda h: deadlines.after(0, h, lambda _: done.set()))
    await within(done)


async def test_closed_deadlines_call_nobody() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    called: list[Holding] = []
    deadlines.after(0, make_holding(), called.append)
    deadlines.close()
    done = asyncio.Event()  # by another's, which is due later
    Deadlines(asyncio.get_running_loop()).after(0.001, make_holding(), lambda _: done.set())
    await within(done)
    assert called == []


# -- services -----------------------------------------------------------------------------------


class Failing(Service):
    """Fails a few times, then works."""

    def __init__(self, environment: Environment, failures: list[Exception]) -> None:
        super().__init__(environment)
        self.failures = failures

    async def work(self) -> float:
        if self.failures:
            raise self.failures.pop(0)
        return 3600.0


async def test_service_outlives_its_errors(app: Windlass) -> None:
    failures = [StoreUnavailable("away"), ZeroDivisionError("a bug")]
    service = Failing(Environment(app.store, app.sources), failures)
    with service.worked.heard() as worked:
        service.start()
        await worked.next()
        assert service.failures == []
        service.wake()
        await worked.next()
    await service.stop()
    await service.stop()  # again is harmless


class Recurring(Service):
    """Wakes up by news alone."""

    wakes_on: ClassVar[Mapping[News, float]] = {News.STORE_CHANGED: 0.0, News.RUN_DUE: 0.05}

    async def work(self) -> float:
        return 3600.0


async def test_worker_starts_wakes_and_stops_any_service_it_is_given(app: Windlass) -> None:
    app.job(handler)
    environment = Environment(app.store, app.sources, WorkerOptions(poll=3600.0))
    service = Recurring(environment)
    worker = Worker(environment, app.jobs.specs(), services=[service])
    with service.worked.heard() as worked:
        running = asyncio.create_task(worker.run())
        await worked.next()
        assert service.host is not None
        await within(worker.started)
        await app.store.anotify()
        await worked.next()
    await stopped(worker, running)
    assert "windlass-recurring" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_news_wake_those_that_want_them_and_not_too_often(app: Windlass) -> None:
    service = Recurring(Environment(app.store, app.sources))
    services = Services([service])
    loop = asyncio.get_running_loop()
    with service.worked.heard() as worked:
        service.start()
        await worked.next()
        began = loop.time()
        services.spread(News.RUN_DUE)
        await worked.next()
        services.spread(News.JOBS_STORED)  # for others
        for _ in range(5):
            services.spread(News.RUN_DUE)  # one wake-up, when the pause is over
        await worked.next()
        assert loop.time() - began >= 0.05
        services.spread(News.STORE_CHANGED)
        await worked.next()
    await service.stop()
    assert len(worked.all) == 4


# -- heartbeat and sweeper, on a clock of the test's own ------------------------------------------

LEASE = 0.9
STEP = LEASE / 6  # four of them are the time in which nothing is reaped


@pytest.fixture
def sources() -> ManualSources:
    """A clock that stands still until the test moves it."""
    return Sources.manual()


@pytest.fixture
async def later(url: str, sources: ManualSources) -> AsyncIterator[Windlass]:
    """An application on that clock."""
    async with opened(url, sources=sources) as app:
        yield app


async def test_lease_is_beyond_doubt_for_two_thirds_of_its_time(
    later: Windlass, sources: ManualSources
) -> None:
    host = HeartHost()
    environment = Environment(later.store, sources, WorkerOptions(lease=LEASE, renew=3600.0))
    since = sources.clock.monotonic()
    renewal = Renewal(environment, Holdings(), host, host, worker="w", since=since)
    info = WorkerInfo(id="w", host="h", pid=1, version="1", queues=None, jobs=("handler",), seats=1)
    await later.store.arun(later.store.operations.register(info, LEASE))
    safe = [renewal.safe]
    sources.clock.advance(LEASE * 2 / 3 - 0.01)
    safe.append(renewal.safe)
    sources.clock.advance(0.02)
    safe.append(renewal.safe)
    assert safe == [True, True, False]
    with host.answered.heard() as answered:
        renewal.start()
        renewal.hurry()
        assert (await answered.next()).alive
    assert renewal.safe
    renewal.stop()
    assert await renewal.ended(PATIENCE)


async def dead_worker(app: Windlass) -> None:
    """A run that is leased to a worker of which nothing more will be heard."""
    operations = app.store.operations
    info = WorkerInfo(id="w", host="h", pid=1, version="1", queues=None, jobs=("handler",), seats=1)
    await app.store.arun(operations.register(info, LEASE))
    await app.job(handler).aenqueue()
    reply = await app.store.arun(operations.cycle("w", 1, [], Want(limit=1, jobs=("handler",))))
    assert len(reply.claimed) == 1


class Claimer:
    """A host that counts how often there may be something to claim."""

    def __init__(self) -> None:
        self.called = 0

    def runs_ready(self) -> None:
        self.called += 1

    def task_ended(self, task: asyncio.Task[None]) -> None:
        raise AssertionError("no task was started")


def make_sweeper(app: Windlass, sources: ManualSources, host: Claimer) -> Sweeper:
    options = WorkerOptions(sweep=STEP, poll=STEP, max_crashes=3)
    sweeper = Sweeper(Environment(app.store, sources, options))
    sweeper.host = host
    return sweeper


async def test_sweeper_reaps_when_the_lease_has_run_out(
    later: Windlass, sources: ManualSources
) -> None:
    host = Claimer()
    await dead_worker(later)
    sweeper = make_sweeper(later, sources, host)
    with sweeper.swept.heard() as swept:
        for _ in range(6):
            await sweeper.work()
            sources.clock.advance(STEP)
        assert host.called == 0
        sources.clock.advance(0.01)
        await sweeper.work()
    assert [reply.reaped for reply in swept.all] == [0] * 6 + [1]
    assert host.called == 1


async def test_sweeper_reaps_nothing_right_after_an_outage(
    later: Windlass, sources: ManualSources
) -> None:
    """A machine that slept, or had no way to the store, must first let the others renew."""
    host = Claimer()
    await dead_worker(later)
    sweeper = make_sweeper(later, sources, host)
    with sweeper.swept.heard() as swept:
        for _ in range(6):
            await sweeper.work()
            sources.clock.advance(STEP)
        sources.clock.advance(LEASE)
        for _ in range(4):
            await sweeper.work()
            assert host.called == 0
            sources.clock.advance(STEP)
        sources.clock.advance(0.01)
        await sweeper.work()
    assert [reply.reaped for reply in swept.all] == [0] * 10 + [1]
    assert host.called == 1


async def test_sweeper_sleeps_until_the_next_run_is_due(
    later: Windlass, sources: ManualSources
) -> None:
    job = later.job(handler)
    sweeper = make_sweeper(later, sources, Claimer())
    assert await sweeper.work() == STEP  # nothing is due: as often as it polls
    await job.using(delay="40ms").aenqueue()
    assert await sweeper.work() == pytest.approx(0.04)
    sources.clock.advance(0.04)
    await sweeper.work()
    [run] = await later.alist()
    assert run.status == "queued"
