"""Somebody's open transaction holds a lock: it delays what it holds, and nothing else.

Each test opens a second session, as psql would, takes one lock, and leaves it. The worker is real,
and so is the server. `SOON` is much less than a call may take before it is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from tests.engine.test_large_trips import gathering
from tests.fixtures.apps import PATIENCE, hub_of, opened, reached, service_of, working
from tests.fixtures.postgres import shorten_lock_waits
from windlass import Run, Status, StoreBusy, Windlass
from windlass.engine.scheduler import Scheduler
from windlass.engine.worker import Worker

SOON = 6.0
MANY = 20
Connection = psycopg.Connection[tuple[Any, ...]]

SESSIONS = """
select count(*) filter (where a.wait_event_type = 'Lock'), count(*) from pg_stat_activity a
 where a.datname = current_database() and a.backend_type = 'client backend'
"""


@pytest.fixture
async def app(pg_database: str) -> AsyncIterator[Windlass]:
    async with opened(pg_database) as found:
        yield found


@pytest.fixture
def holder(pg_database: str) -> Iterator[Connection]:
    """Somebody who begins a transaction, and forgets it."""
    with psycopg.connect(pg_database, application_name="forgotten") as conn:
        yield conn


@pytest.fixture
def look(pg_database: str) -> Iterator[Connection]:
    with psycopg.connect(pg_database, autocommit=True) as conn:
        yield conn


async def ended(runs: Sequence[Run], within: float = SOON) -> None:
    """Wait until all have succeeded at the first attempt."""
    async with asyncio.timeout(within):
        for run in runs:
            await run.await_end(timeout=PATIENCE)
    assert {(run.status, run.attempt) for run in runs} == {(Status.SUCCEEDED, 1)}


async def running(app: Windlass, runs: Sequence[Run]) -> None:
    for run in runs:
        await reached(app, run.id, Status.RUNNING)


class Gate:
    """A job whose runs wait until they may end."""

    def __init__(self, app: Windlass) -> None:
        self.open = asyncio.Event()

        @app.job
        async def wait(n: int) -> int:
            await self.open.wait()
            return n

        @app.job
        async def quick(n: int) -> int:
            return n

        self.wait, self.quick = wait, quick


# -- ends -----------------------------------------------------------------------------------------

HOLDS = {
    "a cancel": "select windlass.cancel('default', %s)",
    "a lease": "select from windlass.leases where id = %s for update",
    "a lease, shared": "select from windlass.leases where id = %s for key share",
    "a record": "select from windlass.runs where id = %s for update",
}


@pytest.mark.parametrize("what", HOLDS)
@pytest.mark.parametrize("outcome", ["commit", "rollback"])
async def test_a_run_that_is_held_delays_itself_alone(
    app: Windlass, holder: Connection, look: Connection, what: str, outcome: str
) -> None:
    """Neither the ends beside it, nor claims, nor renewals. It is neither lost nor recorded."""
    gate = Gate(app)
    async with working(app, concurrency=2 * MANY):
        held, *others = runs = await app.aenqueue_many(gate.wait.request(n) for n in range(MANY))
        await running(app, runs)
        holder.execute(HOLDS[what], (held.id,))
        gate.open.set()
        await ended(others)
        for _ in range(3):
            await ended(await app.aenqueue_many(gate.quick.request(n) for n in range(MANY)))
            # One may wait behind the record, for half a second at a time.
            waiting, sessions = look.execute(SESSIONS).fetchone() or (0, 0)
            assert waiting <= 1
            assert sessions <= 12
        assert (await app.aget(held.id)).status is Status.RUNNING
        getattr(holder, outcome)()
        await ended([held])
        assert held.result == 0


async def test_many_that_are_held_delay_nobody_else(app: Windlass, holder: Connection) -> None:
    """More than the worker tries again at a time, and of several kinds of end."""
    gate = Gate(app)

    @app.job(max_attempts=1)
    async def fail(n: int) -> None:
        await gate.open.wait()
        raise ValueError(n)

    async with working(app, concurrency=10 * MANY):
        held = await app.aenqueue_many(gate.wait.request(n) for n in range(3 * MANY))
        failing = await app.aenqueue_many(fail.request(n) for n in range(MANY))
        others = await app.aenqueue_many(gate.wait.request(n) for n in range(MANY))
        await running(app, [*held, *failing, *others])
        ids = [run.id for run in [*held, *failing]]
        holder.execute("select from windlass.leases where id = any (%s::uuid[]) for update", (ids,))
        gate.open.set()
        await ended(others)
        await ended(await app.aenqueue_many(gate.quick.request(n) for n in range(MANY)))
        holder.rollback()
        await ended(held)
        for run in failing:
            await run.await_end(timeout=PATIENCE)
        assert {run.status for run in failing} == {Status.FAILED}


async def test_a_held_run_is_recorded_even_if_its_worker_is_told_to_stop(
    app: Windlass, holder: Connection
) -> None:
    gate = Gate(app)
    async with working(app, concurrency=MANY) as worker:
        held = await gate.wait.aenqueue(n=1)
        await running(app, [held])
        holder.execute("select windlass.cancel('default', %s)", (held.id,))
        gate.open.set()
        worker.stop()
        await asyncio.to_thread(holder.rollback)
    await ended([held])


# -- what waits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ready", "timers"])
async def test_a_run_that_waits_and_is_held_delays_itself_alone(
    app: Windlass, holder: Connection, kind: str
) -> None:
    """The first of its queue, or the first timer that is due."""
    gate = Gate(app)
    job = gate.quick if kind == "ready" else gate.quick.using(delay=0.3)
    held, *others = await app.aenqueue_many(job.request(n) for n in range(MANY))
    holder.execute(f"select from windlass.{kind} where id = %s for update", (held.id,))
    async with working(app, concurrency=2):
        await ended(others)
        assert (await app.aget(held.id)).status is not Status.SUCCEEDED
        holder.rollback()
        await ended([held])


async def test_a_worker_whose_row_is_held_records_its_ends_and_claims_later(
    app: Windlass, pg_database: str, holder: Connection
) -> None:
    gate = Gate(app)
    async with working(app, concurrency=MANY) as worker, opened(pg_database) as beside:
        other = Gate(beside)
        runs = await app.aenqueue_many(gate.wait.request(n) for n in range(MANY))
        await running(app, runs)
        holder.execute("select from windlass.workers where id = %s for update", (worker.id,))
        gate.open.set()
        await ended(runs)
        left = await app.aenqueue_many(gate.quick.request(n) for n in range(MANY))
        async with working(beside, concurrency=MANY):
            await ended(await beside.aenqueue_many(other.quick.request(n) for n in range(MANY)))
            await ended(left)
        last = await gate.quick.aenqueue(n=1)
        holder.rollback()
        await ended([last])


# -- sweeps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["a lease", "a record"])
async def test_runs_of_the_dead_are_taken_back_beside_one_that_is_held(
    app: Windlass, look: Connection, holder: Connection, what: str
) -> None:
    gate = Gate(app)
    runs = await app.aenqueue_many(gate.quick.request(n) for n in range(MANY))
    look.execute("select windlass.register('ghost', 3600, p_jobs => '{quick}')")
    look.execute("select count(*) from windlass.claim('ghost', 1, 100, '{quick}')")
    look.execute("update windlass.workers set alive_until = now() - interval '1 s'")
    holder.execute(HOLDS[what], (runs[0].id,))
    async with working(app, concurrency=MANY, max_crashes=1):
        async with asyncio.timeout(SOON):
            for run in runs[1:]:
                await run.await_end(timeout=PATIENCE)
        assert {run.status for run in runs[1:]} == {Status.FAILED}
        assert (await app.aget(runs[0].id)).status is Status.RUNNING
        holder.rollback()
        await runs[0].await_end(timeout=PATIENCE)


@pytest.mark.parametrize("what", ["ready", "timers", "runs"])
async def test_runs_expire_beside_one_that_is_held(
    app: Windlass, holder: Connection, what: str
) -> None:
    gate = Gate(app)
    job = gate.quick.using(delay=60) if what == "timers" else gate.quick.using(queue="nobody's")
    runs = await app.aenqueue_many(job.using(expires=0.2).request(n) for n in range(MANY))
    holder.execute(f"select from windlass.{what} where id = %s for update", (runs[0].id,))
    async with working(app, queues=["default"]):
        async with asyncio.timeout(SOON):
            for run in runs[1:]:
                await run.await_end(timeout=PATIENCE)
        assert {run.failure for run in runs[1:]} == {"expired"}
        due = await gate.quick.using(delay=0.1).aenqueue(n=1)
        await ended([due])
        assert (await app.aget(runs[0].id)).status is not Status.FAILED


# -- schedules ------------------------------------------------------------------------------------


class Ticks:
    """What the schedules of an application have done."""

    def __init__(self, app: Windlass, worker: Worker) -> None:
        self._app = app
        self._scheduler = service_of(worker, Scheduler)

    async def fired(self, key: str) -> int:
        """How often one has fired."""
        return (await self._app.schedules.aget(key)).fired

    async def more(self, key: str, times: int) -> None:
        """Wait until one has fired so many times more."""
        schedule = (await self._app.schedules.aget(key)).id
        with self._scheduler.fired.heard() as fired:
            async with asyncio.timeout(SOON):
                while times > 0:
                    times -= sum(run.schedule == schedule for run in await fired.next())


@asynccontextmanager
async def ticking(app: Windlass, overlap: str) -> AsyncIterator[Ticks]:
    """A worker and two schedules that fire each second."""

    @app.job
    async def tick() -> None:
        await asyncio.Event().wait()

    @app.job
    async def tock() -> None: ...

    await app.schedules.aput(tick, key="tick", interval="1s", overlap=overlap)
    await app.schedules.aput(tock, key="tock", interval="1s")
    async with working(app, concurrency=100, drain=0) as worker:
        yield Ticks(app, worker)


async def test_a_schedule_that_is_held_delays_no_other(app: Windlass, holder: Connection) -> None:
    async with ticking(app, "allow") as ticks:
        await ticks.more("tick", 1)
        holder.execute("select from windlass.schedules where key = 'tick' for update")
        before = await ticks.fired("tick")
        await ticks.more("tock", 3)
        assert await ticks.fired("tick") == before
        assert (await app.schedules.aget("tock")).missed == 0
        holder.rollback()
        await ticks.more("tick", 1)


async def test_a_run_that_a_schedule_cannot_stop_delays_no_other_schedule(
    app: Windlass, holder: Connection
) -> None:
    """`cancel_running` ends the earlier run; somebody has that locked."""
    async with ticking(app, "cancel_running") as ticks:
        await ticks.more("tick", 2)
        lock = "select from windlass.leases where job = 'tick' for update"
        async with asyncio.timeout(SOON):
            while not holder.execute(lock).rowcount:  # noqa: ASYNC110 - until it is claimed
                await asyncio.sleep(0.01)
        before = await ticks.fired("tick")
        await ticks.more("tock", 4)
        assert await ticks.fired("tick") == before
        # Each try of the one that is held costs the other a second at most, all five seconds.
        assert (await app.schedules.aget("tock")).missed <= 2
        holder.rollback()
        await ticks.more("tick", 1)


async def test_schedules_are_stored_beside_one_that_is_held(
    pg_database: str, app: Windlass, holder: Connection
) -> None:
    """By a worker that starts: it does start, and what it could not store it stores later."""
    Gate(app)
    for key in ("a", "b", "c"):
        app.schedule("quick", input={"n": 1}, key=key, interval="1h")
    await asyncio.to_thread(app.schedules.sync)
    holder.execute("select from windlass.schedules where key = 'b' for update")
    async with opened(pg_database) as newer:
        gate = Gate(newer)
        for key in ("a", "b", "c"):
            newer.schedule("quick", input={"n": 2}, key=key, interval="1h")
        async with working(newer) as worker:
            await ended([await gate.quick.aenqueue(n=1)])
            versions = {row.key: row.version for row in await newer.schedules.alist()}
            assert versions == {"a": 2, "b": 1, "c": 2}
            with hub_of(worker).roster.stored.heard() as stored:
                holder.rollback()
                await stored.until(lambda error: error is None, SOON)
            assert (await newer.schedules.aget("b")).version == 2


# -- definitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [False, True], ids=["as stored", "changed"])
async def test_a_worker_starts_beside_a_definition_that_is_held(
    pg_database: str, app: Windlass, holder: Connection, look: Connection, changed: bool
) -> None:
    gate = Gate(app)
    async with working(app):
        await ended([await gate.quick.aenqueue(n=1)])
    holder.execute("select from windlass.jobs where name = 'quick' for update")
    async with opened(pg_database) as newer:

        @newer.job(max_attempts=9 if changed else 5)
        async def quick(n: int) -> int:
            return n

        @newer.job
        async def young() -> None: ...

        async with working(newer) as worker:
            await ended([await quick.aenqueue(n=1)])
            await ended([await newer.aenqueue("young")])
            assert look.execute("select 1 from windlass.jobs where name = 'young'").fetchone()
            with hub_of(worker).roster.stored.heard() as stored:
                holder.rollback()
                if changed:
                    await stored.until(lambda error: error is None, SOON)
            asked = "select max_attempts from windlass.jobs where name = 'quick'"
            assert look.execute(asked).fetchone() == (9 if changed else 5,)


# -- whole tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["leases", "ready", "runs", "workers", "schedules", "timers"])
async def test_a_worker_outlives_the_lock_of_a_table(
    app: Windlass, holder: Connection, look: Connection, table: str
) -> None:
    """As a long ALTER or VACUUM FULL has it. Nothing is lost, nothing is done twice."""
    gate = Gate(app)
    async with working(app, concurrency=2 * MANY) as worker:
        runs = await app.aenqueue_many(gate.wait.request(n) for n in range(MANY))
        more = await app.aenqueue_many(gate.quick.using(delay=0.2).request(n) for n in range(MANY))
        await running(app, runs)
        holder.execute(f"lock table windlass.{table} in access exclusive mode")
        gate.open.set()
        for _ in range(10):
            await asyncio.sleep(0.1)
            _, sessions = look.execute(SESSIONS).fetchone() or (0, 0)
            assert sessions <= 12
        holder.rollback()
        await ended([*runs, *more], PATIENCE)
        assert worker.ended == 2 * MANY


# -- enqueue --------------------------------------------------------------------------------------


@pytest.mark.parametrize("face", ["blocking", "async"])
@pytest.mark.parametrize("many", [1, 3])
async def test_an_enqueue_behind_a_held_key_says_who_holds_it(
    app: Windlass,
    pg_database: str,
    holder: Connection,
    look: Connection,
    monkeypatch: pytest.MonkeyPatch,
    face: str,
    many: int,
) -> None:
    shorten_lock_waits(pg_database)
    monkeypatch.setattr(app.store, "_patience", 0.1)
    gate = Gate(app)
    holder.execute(
        "select windlass.enqueue('quick', p_queue => 'q', p_priority => 0, p_key => 'k')"
    )
    asked = [gate.quick.using(key="k" if n == 0 else f"{n}").request(n) for n in range(many)]
    who = rf"process {holder.info.backend_pid} \(forgotten\), open for .*: end it, or try again\.$"
    with pytest.raises(StoreBusy, match=who):
        await (app.aenqueue_many(asked) if face == "async" else blocking(app, asked))
    waiting, sessions = look.execute(SESSIONS).fetchone() or (0, 0)
    assert (waiting, sessions) == (0, 3)  # the test's two, and one of the application's
    holder.rollback()
    await app.aenqueue_many(asked)
    assert len(await app.alist()) == many


async def blocking(app: Windlass, asked: Any) -> Any:
    return await asyncio.to_thread(app.enqueue_many, asked)


def test_in_a_transaction_of_the_callers_the_wait_for_a_key_is_bounded_too(
    pg_database: str, holder: Connection
) -> None:
    shorten_lock_waits(pg_database)
    app = Windlass(pg_database)
    job = gathering(app, 1, lambda n: n)
    holder.execute(
        "select windlass.enqueue('gather', p_queue => 'q', p_priority => 0, p_key => 'k')"
    )
    with (
        psycopg.connect(pg_database) as caller,
        pytest.raises(StoreBusy, match="because another transaction holds a lock that it needs"),
    ):
        job.using(key="k", connection=caller).enqueue(n=1)
    app.close()


# -- calls that are given up ----------------------------------------------------------------------


@pytest.mark.parametrize("face", ["blocking", "async"])
async def test_a_call_that_is_given_up_is_canceled_on_the_server(
    pg_database: str, holder: Connection, look: Connection, face: str
) -> None:
    """It reads, and reading has no bound of the server's. With a lease of 3 s it has a second."""
    async with opened(pg_database, lease="3s") as app:
        await app.alist()
        app.list()
        holder.execute("lock table windlass.jobs in access exclusive mode")
        for _ in range(3):
            with pytest.raises(Exception, match="nothing was heard for 1 s"):
                await give_up(app, face)
        async with asyncio.timeout(SOON):
            while (look.execute(SESSIONS).fetchone() or (1,))[0]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def give_up(app: Windlass, face: str) -> None:
    store = app.store
    call = store.operations.get_job("default", "none")
    call.repeatable = False
    await (store.arun(call) if face == "async" else asyncio.to_thread(store.run, call))


async def test_a_call_whose_caller_was_canceled_is_canceled_on_the_server(
    app: Windlass, holder: Connection, look: Connection
) -> None:
    await app.alist()
    holder.execute("lock table windlass.jobs in access exclusive mode")
    task = asyncio.create_task(give_up(app, "async"))
    async with asyncio.timeout(PATIENCE):
        while not (look.execute(SESSIONS).fetchone() or (0,))[0]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while (look.execute(SESSIONS).fetchone() or (1,))[0]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
