"""Runs behind walls of others: found, however long the wall, and no claim reads through it."""

from __future__ import annotations

import asyncio
from typing import Any

import apsw
import psycopg
import pytest

from tests.fixtures.apps import PATIENCE, at_rest, hub_of, told_of_work, working
from windlass import Status, Windlass
from windlass.engine.lanes import Lane
from windlass.engine.search import Look, Reach

LONG = 30_000
QUIET: dict[str, Any] = {"poll": 60.0, "renew": 10.0, "services": False}  # nothing nudges it

WALL_IN_SERVER = """
with made as (select n, windlass.uuid7() as id from generate_series(1, {count}) n),
     noted as (insert into windlass.runs (tenant, id, job, queue, priority, input, created_at,
                                          scheduled_for)
               select 'default', id, 'unknown', '{queue}', 0, '{{}}', now(), now() from made)
insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                            attempt, failures, crash_count, token, seq)
select 'default', id, 'unknown', '{queue}', 0, now() - interval '1 hour', 0, 0, 0, 0, 1 from made
"""
WALL_IN_FILE = """
create temporary table made as
with recursive counted (n) as (select 1 union all select n + 1 from counted where n < {count})
select n, randomblob(16) as id from counted;
insert into runs (tenant, id, job, queue, priority, input, created_at, scheduled_for)
select 'default', id, 'unknown', '{queue}', 0, '{{}}', 0, 0 from made;
insert into ready (tenant, id, job, queue, rank, ready_at, attempt, failures, crash_count, token,
                   seq)
select 'default', id, 'unknown', '{queue}', 0, n, 0, 0, 0, 0, 1 from made;
drop table made;
"""


def build_wall(url: str, count: int = LONG, queue: str = "default") -> None:
    """Make many runs ready, of a job that no worker here has."""
    if url.startswith("sqlite"):
        file = apsw.Connection(url.removeprefix("sqlite:///"))
        with file:
            file.execute(WALL_IN_FILE.format(count=count, queue=queue))
        file.close()
    else:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(WALL_IN_SERVER.format(count=count, queue=queue).encode())


def empty_queues(url: str) -> None:
    """Take away all that is ready."""
    if url.startswith("sqlite"):
        file = apsw.Connection(url.removeprefix("sqlite:///"))
        file.set_busy_timeout(10_000)
        file.execute("delete from ready")
        file.close()
    else:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("delete from windlass.ready")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """Every claim of every lane."""
    found: list[Look] = []
    look = Lane.look

    def note(lane: Lane, limit: int, now: float) -> Look:
        found.append(look(lane, limit, now))
        return found[-1]

    monkeypatch.setattr(Lane, "look", note)
    return found


def most_looked_at(looks: list[Look], queues: int) -> int:
    """How many rows the greatest of these claims may look at, where there are so many queues."""
    return max(
        (look.want.window or 10**9) * (len(look.want.queues) if look.want.queues else queues)
        for look in looks
    )


@pytest.mark.parametrize("queues", [None, ("default",)])
async def test_a_run_behind_a_wall_is_found(
    app: Windlass, url: str, looks: list[Look], queues: tuple[str, ...] | None
) -> None:
    @app.job
    async def known() -> str:
        return "here"

    app.migrate()
    build_wall(url)
    run = await known.aenqueue()
    async with working(app, queues=queues, **QUIET):
        assert await app.aresult(run.id, timeout=PATIENCE) == "here"

    assert most_looked_at(looks, 1) <= 10_000
    walks = [look for look in looks if look.reach is Reach.WALK]
    assert len(walks) >= LONG // 10_000


async def test_runs_behind_walls_of_several_queues_are_found(
    app: Windlass, url: str, looks: list[Look]
) -> None:
    """Also while another queue has a backlog that fills all seats all the time."""
    going = True

    @app.job
    async def busy() -> None:
        if going:
            await busy.using(queue="busy").aenqueue()

    @app.job
    async def known() -> str:
        return "here"

    app.migrate()
    for queue in ("a", "b"):
        build_wall(url, 12_000, queue)
    runs = [await known.using(queue=queue).aenqueue() for queue in ("a", "b")]
    await app.aenqueue_many(busy.using(queue="busy").request() for _ in range(20))
    async with working(app, concurrency=2):
        for run in runs:
            assert await app.aresult(run.id, timeout=PATIENCE) == "here"
        going = False

    assert most_looked_at(looks, 3) <= 10_000


async def test_many_runs_behind_a_wall_are_found_one_after_another(
    app: Windlass, url: str, looks: list[Look]
) -> None:
    @app.job
    async def known() -> None: ...

    app.migrate()
    build_wall(url, 12_000)
    await app.aenqueue_many(known.request() for _ in range(300))
    async with working(app, concurrency=20) as worker, asyncio.timeout(PATIENCE):
        await worker.drained()

    assert len(await app.alist(status="succeeded", limit=1000)) == 300


async def test_draining_waits_for_what_is_behind_a_wall(app: Windlass, url: str) -> None:
    @app.job
    async def known() -> None: ...

    app.migrate()
    build_wall(url)
    run = await known.aenqueue()
    async with working(app) as worker, asyncio.timeout(PATIENCE):
        await worker.drained()

    assert (await app.aget(run.id)).status is Status.SUCCEEDED


async def test_a_job_that_is_learnt_is_found_in_the_wall(app: Windlass, url: str) -> None:
    @app.job
    async def known() -> None: ...

    app.migrate()
    build_wall(url, 5_000)
    async with working(app) as worker:
        await worker.started.wait()

        @app.job
        async def unknown() -> None: ...

        with worker.signals.recorded.heard() as recorded:
            worker.adopt([job.spec for job in app.jobs.values()])
            await recorded.next()
        assert await app.alist(status="succeeded", limit=1)


async def test_a_worker_without_a_wall_does_not_walk(
    app: Windlass, url: str, looks: list[Look]
) -> None:
    """Also where there was one: the walk that is under way ends with its next look."""

    @app.job
    async def known() -> None: ...

    app.migrate()
    build_wall(url)
    async with working(app, poll=60.0, services=False) as worker:
        pump = hub_of(worker).pump
        with pump.sent.heard() as sent, pump.rested.heard() as rested:
            await sent.until(lambda trip: trip.look is not None and trip.look.reach is Reach.WALK)
            await at_rest(worker)
            empty_queues(url)
            before = len(looks)
            if rested.all[-1] is not None:  # its walk is to go on
                rested.skip()
                await rested.until(lambda again: again is None)
            for _ in range(3):
                told_of_work(worker)
                await at_rest(worker)
            assert rested.all[-1] is None

    assert sum(look.reach is Reach.WALK for look in looks[before:]) <= 2
    assert [look.reach for look in looks[-3:]] == [Reach.HEAD] * 3
