"""The heartbeat: whatever ends it is heard, and it outlives nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from tests.fixtures.apps import PATIENCE, Bell, opened, within, working
from tests.fixtures.hosts import HeartHost
from windlass import Context, Retry, Windlass, WorkerOptions
from windlass.domain.run import WorkerInfo
from windlass.domain.states import Intent
from windlass.engine.environment import Environment
from windlass.engine.holdings import Holdings
from windlass.engine.renewal import Renewal
from windlass.sources import Sources
from windlass.store.interface import Call


async def test_error_of_the_heartbeat_ends_the_worker_and_is_told(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent, it would hold its runs until they are taken for crashed, and take no others."""
    started, run_call = asyncio.Event(), app.store.run

    def run(call: Call[Any]) -> Any:
        if call.name == "renew":
            raise ValueError("an answer that nobody understands")
        return run_call(call)

    @app.job
    async def long(ctx: Context) -> None:
        started.set()
        await asyncio.Event().wait()

    found = await long.aenqueue()
    worker = app.worker(drain="10ms", renew="10s")
    task = asyncio.create_task(worker.run())
    await within(started)
    monkeypatch.setattr(app.store, "run", run)
    assert worker.heart.renewal is not None
    worker.heart.renewal.hurry()
    with pytest.raises(ValueError, match="an answer that nobody understands"):
        await asyncio.wait_for(task, PATIENCE)
    monkeypatch.undo()
    await found.arefresh()
    assert (found.status, found.crash_count, found.failures) == ("queued", 0, 0)
    assert await app.aworkers() == []


def test_heartbeat_ends_with_the_loop_of_its_worker(tmp_path: Path) -> None:
    """Nobody stopped it: a loop may be closed under whatever runs on it."""
    app = Windlass(f"sqlite:///{tmp_path}/windlass.db")
    app.migrate()
    info = WorkerInfo(id="w", host="h", pid=1, version="1", queues=None, jobs=(), seats=1)
    app.store.run(app.store.operations.register(info, 30.0))

    async def begin() -> Renewal:
        environment = Environment(app.store, Sources.system(), WorkerOptions(renew=3600.0))
        host = HeartHost()
        renewal = Renewal(environment, Holdings(), host, host, worker="w", since=0.0)
        renewal.start()
        return renewal

    renewal = asyncio.run(begin())
    renewal.hurry()
    renewal._thread.join(PATIENCE)
    assert not renewal._thread.is_alive()
    app.close()


async def test_first_lease_counts_from_when_the_registration_was_sent(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on the store may count; its answer may be long on its way."""
    sources = Sources.manual()
    async with opened(url, sources=sources, lease="90s", renew="30s", sweep="10s") as app:
        arun = app.store.arun

        async def slow(call: Call[Any]) -> Any:
            reply = await arun(call)
            if call.name == "register":
                sources.clock.advance(60.0)
            return reply

        @app.job
        async def never() -> None: ...

        monkeypatch.setattr(app.store, "arun", slow)
        monkeypatch.setattr(app.store, "listen", Bell().listen)
        worker = app.worker(services=False)
        task = asyncio.create_task(worker.run())
        await within(worker.started)
        assert worker.heart.renewal is not None
        assert not worker.heart.renewal.safe
        worker.stop()
        await asyncio.wait_for(task, PATIENCE)


def wish(url: str, intent: str) -> None:
    """What a newer program may want of all that runs now."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        connection.execute("pragma ignore_check_constraints = on")
        connection.execute("update leases set intent = ?", (intent,))
        connection.close()
        return
    with psycopg.connect(url) as server:
        server.execute("alter table windlass.leases drop constraint leases_intent_check")
        server.execute("update windlass.leases set intent = %s", (intent,))


async def test_intent_of_a_newer_program_is_left_alone(app: Windlass, url: str) -> None:
    started, go = asyncio.Semaphore(0), asyncio.Event()

    @app.job(max_attempts=2, retry=Retry.fixed(0))
    async def work(ctx: Context) -> int:
        started.release()
        await go.wait()
        if ctx.attempt == 1:
            raise ValueError("again")
        return ctx.attempt

    run = await work.aenqueue()
    async with working(app) as worker:
        await asyncio.wait_for(started.acquire(), PATIENCE)
        wish(url, "hurry")
        with worker.signals.renewed.heard() as renewed:
            reply = await renewed.until(lambda reply: bool(reply.orders))
        assert [order.intent for order in reply.orders] == [Intent.OTHER]
        await run.arefresh()
        assert (run.status, run.cancel_requested) == ("running", False)
        go.set()
        assert await app.aresult(run.id, timeout=PATIENCE) == 2


async def test_a_cancel_over_the_intent_of_a_newer_program_is_in_the_history(
    app: Windlass, url: str
) -> None:
    started = asyncio.Event()

    @app.job
    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    run = await work.aenqueue()
    async with working(app):
        await within(started)
        wish(url, "pause")
        await run.acancel("enough")
        await run.acancel("more than enough")
        assert (await run.await_end(timeout=PATIENCE)).status == "canceled"
    events = await app.arun_events(run.id)
    requests = [event for event in events if event.type == "run.cancel_requested"]
    assert [event.data for event in requests] == [{"reason": "enough"}]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
