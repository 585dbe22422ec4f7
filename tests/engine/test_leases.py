"""Leases: kept while the process lives, given up when lost, and never acted on afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.fixtures.apps import (
    PATIENCE,
    Bell,
    at_rest,
    holds,
    hub_of,
    opened,
    reached,
    reap,
    stopped,
    take_ahead,
    told_of_work,
    within,
    working,
)
from windlass import (
    AttemptOutcome,
    Context,
    EventType,
    Status,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    SyncContext,
    Windlass,
    Worker,
    WorkerOptions,
)
from windlass.domain.outcome import Outcome
from windlass.domain.run import CycleReply, Finish, Want, WorkerInfo
from windlass.engine import registration
from windlass.engine.environment import Environment
from windlass.engine.holdings import Holdings
from windlass.engine.trip import Trip
from windlass.sources import Sources
from windlass.store.interface import Call
from windlass.transport.memory import MemoryTransport
from windlass.transport.store import StoreTransport


async def test_reaped_worker_is_reborn_and_goes_on(app: Windlass, url: str) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    seen: list[tuple[int, bool]] = []

    @app.job
    async def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            started.set()
            try:
                await go.wait()
            except asyncio.CancelledError:
                seen.append((ctx.attempt, ctx.canceled))
                raise
        return f"attempt {ctx.attempt}"

    run = await work.aenqueue()
    async with working(app) as worker:
        await within(started)
        before = worker.id
        await reap(app, url, run)
        assert await app.aresult(run.id, timeout=10) == "attempt 2"
        assert worker.id != before
        other = await work.using(key="more").aenqueue()
        await reached(app, other.id, Status.RUNNING)
        go.set()
        assert await app.aresult(other.id, timeout=10) == "attempt 1"
        workers = await app.store.arun(app.store.operations.list_workers())
        assert [info.id for info in workers] == [worker.id]
    await run.arefresh()
    assert (run.attempt, run.failures, run.crash_count) == (2, 0, 1)
    assert [a.outcome.value for a in run.attempts] == ["crashed", "succeeded"]
    assert [a.worker for a in run.attempts] == [before, run.worker]
    assert seen == [(1, True)]


@pytest.fixture(params=[StoreTransport, MemoryTransport], ids=lambda made: made.__name__)
async def carried(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Windlass]:
    """An application with a transport."""
    async with opened(url, transport=request.param()) as app:
        yield app


class Delayed:
    """Keeps the answer of the first claim that brings something, until it is let go."""

    def __init__(self, app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
        self._arun = app.store.arun
        self.claimed, self.go = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(app.store, "arun", self._delayed)

    async def _delayed(self, call: Call[Any]) -> Any:
        reply = await self._arun(call)
        if call.name == "cycle" and reply.claimed and not self.claimed.is_set():
            self.claimed.set()
            await self.go.wait()
        return reply


@pytest.mark.parametrize("when", ["while it is reborn", "when it is"])
async def test_claim_that_is_answered_after_the_worker_was_reborn_is_dropped(
    carried: Windlass, url: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker has the run by then; under its new name this one may take others."""
    app, started = carried, list[tuple[str, int]]()
    delayed = Delayed(app, monkeypatch)

    @app.job
    async def work(ctx: Context) -> int:
        started.append((ctx.run_id, ctx.attempt))
        return ctx.attempt

    async with working(app, services=False) as worker:
        await within(worker.started)
        run = await work.aenqueue()
        await within(delayed.claimed)
        before, taken, born = worker.id, asyncio.Event(), asyncio.Event()
        register = registration.register

        async def slow(*given: Any) -> None:
            await taken.wait()
            if when == "while it is reborn":
                delayed.go.set()
                await at_rest(worker)
            await register(*given)
            born.set()

        monkeypatch.setattr(registration, "register", slow)
        async with opened(url) as other:  # holds it, and does not end it
            await reap(app, url, run)
            info = WorkerInfo(
                id="other", host="h", pid=1, version="1", queues=None, jobs=("work",), seats=1
            )
            await other.store.arun(other.store.operations.register(info, 60))
            want = Want(limit=1, jobs=("work",), ids=(run.ref,))
            reply = await other.store.arun(other.store.operations.cycle("other", 1, [], want))
        assert [held.token for held in reply.claimed] == [2]
        taken.set()
        await within(born)
        delayed.go.set()
        await at_rest(worker)
        assert worker.id != before
        fresh = await work.using(key="fresh").aenqueue()
        assert await app.aresult(fresh.id, timeout=PATIENCE) == 1
        assert started == [(fresh.id, 1)]
        await holds(worker, 0)
    await run.arefresh()
    assert (run.status, run.worker) == (Status.RUNNING, "other")


async def test_refusal_of_a_worker_that_was_is_none_of_the_one_that_is(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.job(nothing)
    async with working(app) as worker:
        await within(worker.started)
        await at_rest(worker)
        hurried: list[str] = []
        hub = hub_of(worker)
        monkeypatch.setattr(hub, "renew_soon", lambda: hurried.append("refused"))
        reply = CycleReply(now=app.sources.now(), refused=True)
        for name in ("somebody else", worker.id):
            hub.pump._read(Trip([], worker=name, want=Want(limit=1, jobs=("nothing",))), reply)
        assert hurried == ["refused"]


async def nothing() -> None: ...


def test_claims_under_a_dead_name_hold_up_no_renewal_of_the_next() -> None:
    """What those have lost could not be given back while one of before is on its way."""
    holdings = Holdings()
    before = holdings.begin_claim()
    holdings.give_up_claims()
    holdings.settle(holdings.begin_claim())
    assert holdings.snapshot() == (2, [])
    open_one = holdings.begin_claim()
    holdings.settle(before)  # its answer comes after all
    assert holdings.snapshot() == (open_one - 1, [])


async def test_late_end_of_a_lost_attempt_records_nothing(app: Windlass, url: str) -> None:
    started, go, ended = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.job
    def work(ctx: SyncContext) -> str:
        if ctx.attempt == 1:
            loop.call_soon_threadsafe(started.set)
            go.wait(PATIENCE)
            ended.set()
        return f"attempt {ctx.attempt}"

    run = await work.aenqueue()
    async with working(app):
        await within(started)
        await reap(app, url, run)
        assert await app.aresult(run.id, timeout=10) == "attempt 2"
        go.set()
        assert await asyncio.to_thread(ended.wait, PATIENCE)
    await run.arefresh()
    assert (run.result, run.attempt) == ("attempt 2", 2)
    assert [a.outcome.value for a in run.attempts] == ["crashed", "succeeded"]


async def test_end_that_meets_a_reaper_records_nothing(app: Windlass, url: str) -> None:
    """The heartbeat is slow: the worker learns of its loss from the answer to its own end."""
    started, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            started.set()
            await go.wait()
        return f"attempt {ctx.attempt}"

    run = await work.aenqueue()
    async with working(app, lease="90s", renew="30s"):
        await within(started)
        await reap(app, url, run)
        go.set()
        assert await app.aresult(run.id, timeout=10) == "attempt 2"
    await run.arefresh()
    assert [a.outcome.value for a in run.attempts] == ["crashed", "succeeded"]


async def test_late_end_cannot_touch_the_lease_of_another(
    app: Windlass, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the token tells the two attempts apart: both are of the same run, and both run."""
    started, go = asyncio.Event(), asyncio.Event()
    taken, finish = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> str:
        started.set()
        await go.wait()
        return f"attempt {ctx.attempt}"

    async with opened(url) as other:

        @other.job(name="work")
        async def work_again(ctx: Context) -> str:
            taken.set()
            await finish.wait()
            return f"attempt {ctx.attempt}"

        run = await work.aenqueue()
        # The first worker hears nothing of its loss, and takes nothing new: a wake-up, its own
        # enqueue's included, would have it renew, learn of its death and start over.
        monkeypatch.setattr(app.store, "listen", Bell().listen)
        quiet: dict[str, Any] = {"lease": "90s", "renew": "30s", "poll": "20s", "sweep": "20s"}
        async with working(app, concurrency=1, **quiet) as first:
            await within(started)
            await reap(app, url, run)
            await app.store.anotify()
            async with working(other):
                await within(taken)
                go.set()
                await holds(first, 0)  # its end was answered
                assert (await run.arefresh()).status == "running"
                finish.set()
                assert await app.aresult(run.id, timeout=10) == "attempt 2"
    await run.arefresh()
    assert [a.outcome.value for a in run.attempts] == ["crashed", "succeeded"]


async def test_too_many_crashes_fail_the_run(app: Windlass, url: str) -> None:
    started = asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        started.set()
        await asyncio.Event().wait()

    run = await work.aenqueue()
    async with working(app, max_crashes=2):
        for _ in range(2):
            await within(started)
            started.clear()
            await reap(app, url, run, max_crashes=2)
        await run.await_end(timeout=10)
    assert (run.status, run.failure, run.failures, run.crash_count) == ("failed", "crashed", 0, 2)


async def test_cancel_that_meets_a_reaper_ends_the_run(
    app: Windlass, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = asyncio.Event()

    @app.job
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await work.aenqueue()
    # Nothing wakes the worker, so that the reaper is first.
    monkeypatch.setattr(app.store, "listen", Bell().listen)
    async with working(app, lease="90s", renew="30s", poll="20s", sweep="20s", drain=0):
        await within(started)
        ask = app.store.operations.cancel(run.ref, "while dying")
        await app.store.arun(ask)
        await reap(app, url, run)
        await run.await_end(timeout=10)
    assert (run.status, run.reason) == ("canceled", "while dying")


# -- a store that refuses -----------------------------------------------------------------------


class Moody:
    """The real store, which may be told to fail certain calls of the worker's traffic."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.fails: Callable[[list[Finish], Want | None], Exception | None] = lambda *_: None
        self.renewals: Exception | None = None
        self.cycles: list[tuple[list[Finish], Want | None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def arun(self, call: Call[Any]) -> Any:
        given = cycle_of(call)
        if given is not None:
            self.cycles.append(given)
            error = self.fails(*given)
            if error is not None:
                raise error
        return await self._store.arun(call)

    def run(self, call: Call[Any]) -> Any:
        if call.name == "renew" and self.renewals is not None:
            raise self.renewals
        return self._store.run(call)


def cycle_of(call: Call[Any]) -> tuple[list[Finish], Want | None] | None:
    """What a cycle is made of; None: it is another call."""
    if call.name != "cycle":
        return None
    _, _, finishes, want = call.arguments
    return list(finishes), want


@pytest.fixture
def moody(app: Windlass) -> Moody:
    return Moody(app.store)


class Serving:
    """A worker on a moody store."""

    def __init__(
        self, app: Windlass, moody: Any, *, sources: Sources | None = None, **options: Any
    ) -> None:
        given = {"renew": 0.05, "sweep": 0.05, "poll": 0.05} | options
        specs = [job.spec for job in app.jobs.values()]
        environment = Environment(moody, sources or app.sources, WorkerOptions(**given))
        self.worker = Worker(environment, specs)

    async def __aenter__(self) -> Worker:
        self.task = asyncio.create_task(self.worker.run())
        return self.worker

    async def __aexit__(self, *_: object) -> None:
        await stopped(self.worker, self.task)


async def test_one_end_that_is_refused_fails_no_neighbour(app: Windlass, moody: Moody) -> None:
    go, started = asyncio.Event(), asyncio.Semaphore(0)

    @app.job
    async def work(n: int) -> int:
        started.release()
        await go.wait()
        return n

    runs = await app.aenqueue_many(work.request(n) for n in range(30))
    marked = runs[7].id

    def refuses(finishes: list[Finish], want: Want | None) -> Exception | None:
        bad = any(f.id == marked and f.outcome is Outcome.SUCCEEDED for f in finishes)
        return StoreRefused("I do not like this result.") if bad else None

    moody.fails = refuses
    async with Serving(app, moody):
        for _ in runs:
            await asyncio.wait_for(started.acquire(), PATIENCE)
        go.set()  # all end together, in one batch
        for run in runs:
            await run.await_end(timeout=10)
    batch = next(finishes for finishes, _ in moody.cycles if any(f.id == marked for f in finishes))
    assert len(batch) > 1
    for n, run in enumerate(runs):
        if run.id == marked:
            assert (run.status, run.failure, run.failures) == ("failed", "fatal", 1)
            assert run.error is not None
            assert run.error.message == "I do not like this result."
        else:
            assert (run.status, run.result) == ("succeeded", n)
        assert run.attempt == 1


@pytest.mark.usefixtures("brief_pauses")
async def test_success_outlives_the_bad_moments_of_the_store(app: Windlass, moody: Moody) -> None:
    """It is not told as a failure because the store failed, nor is the run done again."""
    go, started = asyncio.Event(), asyncio.Semaphore(0)

    @app.job
    async def work(ctx: Context, n: int) -> int:
        started.release()
        await go.wait()
        return n

    refused = 0

    def fails(finishes: list[Finish], want: Want | None) -> Exception | None:
        nonlocal refused
        if not finishes or refused >= 8:
            return None
        refused += 1
        return StoreError("PostgreSQL refused cycle: cannot do that now")

    runs = await app.aenqueue_many(work.request(n) for n in range(10))
    async with Serving(app, moody):
        for _ in runs:
            await asyncio.wait_for(started.acquire(), PATIENCE)
        moody.fails = fails
        go.set()
        for n, run in enumerate(runs):
            assert await app.aresult(run.id, timeout=PATIENCE) == n
    assert refused == 8
    for run in runs:
        await run.arefresh()
        assert [a.outcome for a in run.attempts] == [AttemptOutcome.SUCCEEDED]


@pytest.mark.usefixtures("brief_pauses")
async def test_end_that_the_store_trips_over_holds_up_no_other(app: Windlass, moody: Moody) -> None:
    """Not the end's fault, as far as anybody knows: it is kept and tried again after the others."""
    go, started = asyncio.Event(), asyncio.Semaphore(0)

    @app.job
    async def work(n: int) -> int:
        started.release()
        await go.wait()
        return n

    runs = [*await app.aenqueue_many(work.request(n) for n in range(30))]
    odd = {run.id for run in runs[:10]}
    over = asyncio.Event()

    def trips(finishes: list[Finish], want: Want | None) -> Exception | None:
        bad = not over.is_set() and any(f.id in odd for f in finishes)
        return StoreError("page 7 is damaged") if bad else None

    moody.fails = trips
    async with Serving(app, moody):
        for _ in runs:
            await asyncio.wait_for(started.acquire(), PATIENCE)
        go.set()
        for run in runs[10:]:
            await run.await_end(timeout=PATIENCE)
        runs.append(await work.aenqueue(30))  # one that has yet to be claimed
        await runs[30].await_end(timeout=PATIENCE)
        over.set()
        for run in runs[:10]:
            await run.await_end(timeout=PATIENCE)
    assert [(run.status, run.attempt) for run in runs] == [("succeeded", 1)] * 31


@pytest.mark.parametrize("refused", [0, 1], ids=["first", "alone"])
async def test_end_whose_trip_is_canceled_with_the_loop_is_recorded(
    app: Windlass, moody: Moody, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """What asyncio.run does when its main coroutine has ended: cancel every task at once."""

    @app.job
    async def work() -> str:
        return "done"

    sent, real, refusals = asyncio.Event(), moody.arun, 0

    async def arun(call: Call[Any]) -> Any:
        nonlocal refusals
        given = cycle_of(call)
        if given is not None and given[0] and not sent.is_set():
            if refusals < refused:
                refusals += 1
                raise StoreError("not now")
            sent.set()
            await asyncio.Event().wait()
        return await real(call)

    monkeypatch.setattr(moody, "arun", arun)
    run = await work.aenqueue()
    serving = Serving(app, moody)
    await serving.__aenter__()
    await within(sent)
    for task in asyncio.all_tasks():
        if task.get_name() == "windlass-trip":
            task.cancel()
    serving.task.cancel()
    await asyncio.gather(serving.task, return_exceptions=True)
    await run.arefresh()
    assert (run.status, run.attempt, run.result) == ("succeeded", 1, "done")


async def test_end_that_cannot_be_recorded_at_all_is_tried_again(
    app: Windlass, moody: Moody
) -> None:
    @app.job
    async def work(ctx: Context) -> int:
        return ctx.attempt

    moody.fails = lambda finishes, want: (
        StoreRefused("no") if any(f.token == 1 for f in finishes) else None
    )
    run = await work.aenqueue()
    async with Serving(app, moody):
        # The lease is no longer named by the heartbeat, so the store gives the run back.
        assert await app.aresult(run.id, timeout=10) == 2
    await run.arefresh()
    assert run.attempts[0].outcome is AttemptOutcome.INTERRUPTED
    assert run.failures == 0


async def test_ends_are_kept_while_the_store_is_away(app: Windlass, moody: Moody) -> None:
    starts: list[int] = []

    @app.job
    async def work(n: int) -> int:
        starts.append(n)
        return n

    away = 4

    def fails(finishes: list[Finish], want: Want | None) -> Exception | None:
        nonlocal away
        if finishes and away:
            away -= 1
            return StoreUnavailable("gone fishing")
        return None

    moody.fails = fails
    runs = await app.aenqueue_many(work.request(n) for n in range(10))
    async with Serving(app, moody):
        for n, run in enumerate(runs):
            assert await app.aresult(run.id, timeout=10) == n
    assert away == 0
    assert sorted(starts) == list(range(10))  # none was run again


async def test_store_that_refuses_every_claim_is_not_asked_without_end(
    app: Windlass, moody: Moody
) -> None:
    refusals = 0
    healed = asyncio.Event()

    def fails(finishes: list[Finish], want: Want | None) -> Exception | None:
        nonlocal refusals
        if want is None or refusals == 4:
            return None
        refusals += 1
        if refusals == 4:
            healed.set()
        return StoreError("no claims today")

    moody.fails = fails

    @app.job
    async def work() -> str:
        return "done"

    run = await work.aenqueue()
    loop = asyncio.get_running_loop()
    async with Serving(app, moody):
        began = loop.time()
        await within(healed)
        # Four refusals with growing pauses between them, each at least half of its nominal length.
        assert loop.time() - began > 0.5 * (0.05 + 0.1 + 0.2) * 0.9
        assert await app.aresult(run.id, timeout=10) == "done"


async def test_run_that_comes_back_before_its_loss_is_told_ends_the_first_attempt(
    app: Windlass,
) -> None:
    """The store had given the lease back, and we are the ones who claim the run again."""
    started, canceled = asyncio.Event(), asyncio.Event()

    @app.job
    async def handler(ctx: Context) -> int:
        if ctx.attempt == 1:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                canceled.set()
        return ctx.attempt

    run = await handler.aenqueue()
    async with working(app, lease="3h", renew="1h") as worker:
        await within(started)
        await app.store.arun(app.store.operations.renew(worker.id, 10_800.0, [], 1_000))
        assert await app.aresult(run.id, timeout=PATIENCE) == 2
        await within(canceled)


async def test_who_cannot_renew_starts_nothing_new(app: Windlass, moody: Moody) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    order: list[int] = []

    @app.job
    async def work(n: int) -> int:
        order.append(n)
        started.set()
        await go.wait()
        return n

    first = await work.aenqueue(1)
    # A clock of the worker's own: in the store its lease is long, and nobody reaps it.
    sources = Sources.manual()
    async with Serving(app, moody, sources=sources, lease=90.0, concurrency=5) as worker:
        await within(started)
        moody.renewals = StoreUnavailable("cut off")
        sources.clock.advance(60.0)
        renewal: Any = worker.heart.renewal
        assert not renewal.safe
        await at_rest(worker)  # a claim that was on its way
        moody.cycles.clear()
        second = await work.aenqueue(2)
        told_of_work(worker)
        await at_rest(worker)
        go.set()
        assert await app.aresult(first.id, timeout=10) == 1  # what runs may end and be recorded
        assert order == [1]
        assert [want for _, want in moody.cycles if want is not None] == []
        moody.renewals = None
        assert await app.aresult(second.id, timeout=10) == 2


async def test_who_cannot_renew_starts_nothing_that_it_holds_either(
    app: Windlass, moody: Moody
) -> None:
    """Runs that were taken ahead of their seats may be another's by now."""
    started, go = asyncio.Event(), asyncio.Event()
    order: list[int] = []

    @app.job
    async def work(n: int) -> int:
        order.append(n)
        started.set()
        await go.wait()
        return n

    runs = await app.aenqueue_many(work.request(n) for n in range(4))
    sources = Sources.manual()
    async with Serving(app, moody, sources=sources, lease=90.0, concurrency=1) as worker:
        await within(started)
        await take_ahead(app, worker, 3)
        moody.renewals = StoreUnavailable("cut off")
        sources.clock.advance(60.0)
        go.set()
        assert await app.aresult(runs[0].id, timeout=PATIENCE) == 0  # and the seat is free
        await at_rest(worker)
        assert (order, worker.busy) == ([0], 3)
        moody.renewals = None
        for n, run in enumerate(runs):
            assert await app.aresult(run.id, timeout=PATIENCE) == n
    assert order == [0, 1, 2, 3]
    assert {run.refresh().attempt for run in runs} == {1}


async def test_unexpected_error_of_the_store_ends_the_worker_and_is_told(
    app: Windlass, moody: Moody
) -> None:
    @app.job
    async def work() -> None: ...

    moody.fails = lambda finishes, want: ZeroDivisionError("a bug") if finishes else None
    run = await work.aenqueue()
    serving = Serving(app, moody, drain=0.1)
    await serving.__aenter__()
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await asyncio.wait_for(serving.task, PATIENCE)
    # Its lease was given back, so that another worker can go on at once.
    assert (await run.arefresh()).status == "queued"
    assert [event.type for event in run.events()][-1] is EventType.INTERRUPTED


async def test_claims_whose_reply_was_lost_are_given_back(app: Windlass, moody: Moody) -> None:
    lost: list[str] = []

    @app.job
    async def work(ctx: Context) -> int:
        return ctx.attempt

    run = await work.aenqueue()
    real = moody._store.arun

    async def arun(call: Call[Any]) -> Any:
        reply = await real(call)
        if call.name == "cycle" and reply.claimed and not lost:
            lost.append("reply")
            raise StoreUnavailable("the connection broke after the commit")
        return reply

    moody.arun = arun  # type: ignore[method-assign]
    async with Serving(app, moody):
        assert await app.aresult(run.id, timeout=10) == 2
    await run.arefresh()
    assert [a.outcome.value for a in run.attempts] == ["interrupted", "succeeded"]
    assert (run.failures, run.crash_count) == (0, 0)
