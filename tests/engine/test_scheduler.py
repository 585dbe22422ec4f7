"""The scheduler as a service of a worker: woken, idle, beaten to it, and through a transport."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from tests.fixtures.apps import PATIENCE, opened, service_of, within, working
from tests.fixtures.planning import START, Planner, planner, scheduler_of
from windlass import Context, SyncContext, Windlass
from windlass.engine import scheduler
from windlass.engine.scheduler import LOOK_AGAIN, Scheduler
from windlass.sources import Sources
from windlass.transport.memory import MemoryTransport

__all__ = ["planner"]


async def test_declared_schedule_runs_and_the_handler_sees_its_slot(app: Windlass) -> None:
    came = asyncio.Event()
    slots: list[datetime | None] = []

    @app.job
    async def beat(ctx: Context) -> None:
        slots.append(ctx.slot)
        came.set()

    app.schedule(beat, interval="1s")
    async with working(app):
        await within(came)
        found = await app.schedules.aget("beat")
        told = await app.schedules.aslots(found.id)
    slot = slots[0]
    assert slot in [row.slot for row in told]
    [*_, run] = await app.alist(job="beat")
    assert (run.slot, run.schedule) == (slot, found.id)


async def test_run_that_was_enqueued_has_no_slot(app: Windlass) -> None:
    @app.job
    def plain(ctx: SyncContext) -> str:
        return str(ctx.slot)

    run = await plain.aenqueue()
    async with working(app):
        assert await app.aresult(run.id, timeout=10) == "None"


async def test_put_in_another_process_wakes_it(
    app: Windlass, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be asleep for long: a new schedule must not wait for that."""
    monkeypatch.setattr("windlass.engine.scheduler.LOOK_AGAIN", 3600.0)

    @app.job
    async def beat() -> None: ...

    async with working(app, poll="1h") as worker, opened(url) as other:
        with service_of(worker, Scheduler).worked.heard() as worked:
            await within(worker.started)
            assert await worked.next() > 600  # seconds until it looks again
            await other.schedules.aput("beat", key="k", interval="10m")
            await worked.until(lambda pause: pause <= 600)


async def test_it_sleeps_until_the_next_slot(planner: Planner) -> None:
    app = planner.app

    @app.job
    async def beat() -> None: ...

    pause = await planner.scheduler.work()
    assert LOOK_AGAIN * 0.7 < pause < LOOK_AGAIN * 1.3  # nothing at all to do
    await app.schedules.aput(beat, key="k", interval="3s")
    assert 2.9 < await planner.scheduler.work() <= 3.01
    await app.schedules.aput(beat, key="k", interval="1h")
    assert await planner.scheduler.work() > LOOK_AGAIN * 0.7
    await app.schedules.aput(beat, key="w", interval="1h", overlap="queue")
    for _ in range(2):
        app.sources.clock.advance(3600)  # type: ignore[attr-defined]
        while not await planner.scheduler.work():
            continue
    assert await planner.scheduler.work() <= 1.0  # a slot waits for the end of an earlier run


async def test_who_is_beaten_to_it_waits_a_moment(url: str) -> None:
    sources = Sources.manual(start=START)
    async with opened(url, sources=sources) as app, opened(url, sources=sources) as other:

        @app.job
        async def beat() -> None: ...

        await app.schedules.aput(beat, key="k", interval="1m")
        sources.clock.advance(60)
        first, second = scheduler_of(app), scheduler_of(other)
        reply = await other.store.arun(other.store.operations.due_schedules(10))
        decisions = await second._decisions(reply)  # as it was a moment ago
        await first.work()
        assert await second._fire(decisions) is True
        assert len(await app.alist(job="beat")) == 1


async def test_many_due_at_once_are_fired_in_pages(
    planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "LIMIT", 20)
    app = planner.app

    @app.job
    async def beat() -> None: ...

    for number in range(45):
        await app.schedules.aput(beat, key=f"s{number}", interval="1h", anchor=START)
    await planner.later(hours=1)
    assert len(await planner.runs("beat")) == 45


@pytest.mark.parametrize("kind", ["queued", "spread"])
async def test_runs_of_slots_go_through_a_transport(url: str, kind: str) -> None:
    transport = MemoryTransport()
    came = asyncio.Event()
    async with opened(url, transport=transport) as app:

        @app.job
        async def beat() -> None:
            came.set()

        spread = None if kind == "queued" else "300ms"
        app.schedule(beat, interval="1s", spread=spread)
        async with working(app, resend_after="1h"):
            await within(came)


async def test_worker_without_services_fires_nothing(app: Windlass) -> None:
    @app.job
    async def beat() -> None: ...

    app.schedule(beat, interval="1s")
    async with working(app, services=False) as worker:
        async with asyncio.timeout(PATIENCE):
            await worker.started.wait()
        assert (await app.schedules.aget("beat")).fired == 0
    assert worker.services == ()
