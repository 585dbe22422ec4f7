"""A reaper that notices that the store's clock was set."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.fixtures.apps import opened
from windlass import Status, Windlass
from windlass.domain.run import Want, WorkerInfo
from windlass.engine.sweeper import Sweeper
from windlass.sources import ManualSources, Sources
from windlass.transport.store import StoreTransport

SECOND = 0.02  # a server that has just started reaps nothing for two thirds of a lease
LEASE = 30 * SECOND

SET_ON_EVENT = """
create function windlass.set_the_clock() returns trigger language plpgsql as $$
begin
  perform set_config('windlass.fake_now', (clock_timestamp() + interval '1 hour')::text, true);
  return new;
end
$$;
create trigger set_the_clock after insert on windlass.events
   for each row execute function windlass.set_the_clock()
"""


@pytest.fixture
def sources() -> ManualSources:
    return Sources.manual()


@pytest.mark.parametrize("heard", ["by a sweep", "as it registered"])
async def test_a_clock_that_was_set_ahead_is_no_crash_of_the_workers(
    url: str, sources: ManualSources, heard: str
) -> None:
    async with opened(url, sources=sources) as app:

        @app.job
        async def nap() -> None: ...

        app.migrate()
        operations = app.store.operations
        info = WorkerInfo(
            id="w", host="box", pid=1, version="1", queues=None, jobs=("nap",), seats=1
        )
        now = await app.store.arun(operations.register(info, LEASE))
        run = await nap.aenqueue()
        await app.store.arun(operations.cycle("w", 1, [], Want(limit=1, jobs=("nap",))))
        sweeper = Sweeper(
            app.store, sources, StoreTransport(), lease=LEASE, sweep=5 * SECOND, poll=SECOND,
            max_crashes=3,
        )  # fmt: skip
        if heard == "by a sweep":
            await sweeper.work()
        else:
            sweeper.hear(now)
        sources.clock.advance(5 * SECOND)
        sources.clock.jump(timedelta(hours=1))

        for _ in range(3):  # for two thirds of a lease
            await sweeper.work()
            sources.clock.advance(6 * SECOND)
        assert (await app.aget(run.id)).status is Status.RUNNING
        await app.store.arun(operations.renew("w", LEASE, [], 0))
        sources.clock.advance(6 * SECOND)
        await sweeper.work()
        assert (await app.aget(run.id)).status is Status.RUNNING

        for _ in range(1000):  # the first ones may come too soon after the start of the server
            sources.clock.advance(6 * SECOND)
            await sweeper.work()
            if (await app.aget(run.id)).status is Status.QUEUED:
                return
        raise AssertionError("a worker that does not renew is never found dead")


def test_a_clock_that_is_set_during_a_sweep_is_no_crash_either(pg_database: str) -> None:
    """PostgreSQL's reaper asks for the time after the sweep has judged it."""
    app = Windlass(pg_database)

    @app.job
    async def nap() -> None: ...

    app.migrate()
    held, expired = nap.enqueue(), nap.using(expires="0s").enqueue()
    with psycopg.connect(pg_database, autocommit=True) as conn:
        conn.execute("select windlass.register('w', 60)")
        (claimed,) = conn.execute("select id::text from windlass.claim('w', 1, 9, '{nap}')")
        assert claimed == (held.id,)
        # What has expired is told of, and in that moment the clock is set.
        conn.execute(SET_ON_EVENT)
        sweep = "select windlass.sweep(p_grace => 0.5, p_believed => clock_timestamp())"
        ((reply,),) = conn.execute(sweep).fetchall()
    assert (reply["reaped"], reply["crashed"], reply["expired"]) == (0, 0, 0)
    assert (held.refresh().status, expired.refresh().status) == (Status.RUNNING, Status.QUEUED)
    app.close()
