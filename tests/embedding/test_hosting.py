"""A worker inside another program: it works, stops gracefully, and leaves the rest alone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.conftest import Cluster
from tests.fixtures.apps import PATIENCE, reached, within
from tests.fixtures.postgres import create_database, drop_database
from windlass import SchemaMismatch, Status, UsageError, Windlass, WorkerDisrupted
from windlass.contrib.starlette import Lifespan, lifespan


async def test_worker_and_services_run_while_the_block_lasts(app: Windlass) -> None:
    @app.job
    async def handler() -> str:
        return "ran"

    async with app.running() as worker:
        assert worker.started.is_set()
        run = await handler.using(delay="20ms").aenqueue()  # the dispatcher runs, too
        assert await app.aresult(run.id, timeout=PATIENCE) == "ran"
    later = await handler.aenqueue()
    assert (await later.arefresh()).status == "queued"
    assert await app.aworkers() == []


async def test_what_runs_at_the_end_of_the_block_is_finished(app: Windlass) -> None:
    started, may_end = asyncio.Event(), asyncio.Event()

    @app.job
    async def handler() -> str:
        started.set()
        await may_end.wait()
        return "finished"

    async with app.running() as worker:
        run = await handler.aenqueue()
        await within(started)
        asyncio.get_running_loop().call_later(0.05, may_end.set)
    assert worker.busy == 0
    assert (await run.arefresh()).result == "finished"


async def test_what_does_not_end_in_time_is_given_back(app: Windlass) -> None:
    started = asyncio.Event()

    @app.job
    async def handler() -> None:
        started.set()
        await asyncio.Event().wait()

    async with app.running(drain="10ms"):
        run = await handler.aenqueue()
        await within(started)
    await run.arefresh()
    assert (run.status, run.failures, run.crash_count) == ("queued", 0, 0)


async def test_error_in_the_block_stops_the_worker_and_goes_on(app: Windlass) -> None:
    @app.job
    async def handler() -> None: ...

    with pytest.raises(LookupError):
        async with app.running():
            raise LookupError
    assert await app.aworkers() == []


async def test_host_that_is_canceled_drains(app: Windlass) -> None:
    started, may_end = asyncio.Event(), asyncio.Event()

    @app.job
    async def handler() -> str:
        started.set()
        await may_end.wait()
        return "finished"

    async def host() -> None:
        async with app.running():
            await asyncio.Event().wait()

    hosting = asyncio.create_task(host())
    run = await handler.aenqueue()
    await within(started)
    hosting.cancel()
    asyncio.get_running_loop().call_later(0.05, may_end.set)
    with pytest.raises(asyncio.CancelledError):
        await hosting
    assert (await run.arefresh()).result == "finished"


async def test_signals_are_the_hosts(app: Windlass) -> None:
    @app.job
    async def handler() -> None: ...

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    async with app.running():
        during = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert during == before


@pytest.fixture
def bare(pg_cluster: Cluster) -> Iterator[str]:
    """A database without the schema."""
    name = f"wl_bare_{os.urandom(4).hex()}"
    yield create_database(pg_cluster.dsn, name)
    drop_database(pg_cluster.dsn, name)


async def test_what_makes_work_impossible_is_raised_at_the_start(bare: str) -> None:
    app = Windlass(bare, poll="100ms")

    @app.job
    async def handler() -> None: ...

    with pytest.raises(SchemaMismatch):
        async with app.running():
            raise AssertionError("not entered")
    with pytest.raises(SchemaMismatch):
        await asyncio.to_thread(app.running_in_thread().start)


async def test_worker_that_dies_is_logged_and_raised_at_the_end(
    bare: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Windlass(bare, poll="100ms")

    @app.job
    async def handler() -> None: ...

    async def host() -> None:
        async with app.running(wait=False), asyncio.timeout(PATIENCE):
            while "worker ended by an error" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    with caplog.at_level(logging.ERROR), pytest.raises(SchemaMismatch) as caught:
        await host()
    assert "worker ended by an error" in caplog.text
    assert caught.value.__context__ is None  # the host itself ended in peace


# -- in a thread ----------------------------------------------------------------------------------


def test_thread_works_for_a_program_without_a_loop(app: Windlass) -> None:
    names: list[str] = []

    @app.job
    def handler() -> str:
        names.append(threading.current_thread().name)
        return "ran"

    with app.running_in_thread():
        run = handler.enqueue()
        assert app.result(run.id, timeout=PATIENCE) == "ran"
    assert names[0].startswith("windlass-handler")
    assert app.workers() == []
    assert not [t for t in threading.enumerate() if t.name == "windlass-worker"]
    assert app.get(run.id).result == "ran"  # connections open again


def test_thread_drains_when_it_is_stopped(app: Windlass) -> None:
    started, may_end = threading.Event(), threading.Event()

    @app.job
    def handler() -> str:
        started.set()
        may_end.wait(PATIENCE)
        return "finished"

    thread = app.running_in_thread().start()
    run = handler.enqueue()
    assert started.wait(PATIENCE)
    threading.Timer(0.05, may_end.set).start()
    thread.stop()
    thread.stop()  # again is harmless
    assert app.get(run.id).result == "finished"


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_handler_that_ends_the_loop_of_the_thread_is_blamed(app: Windlass, how: str) -> None:
    """Nobody else has that loop: whoever stops it is a handler."""

    @app.job
    async def disruptive() -> None:
        if how == "stop":
            asyncio.get_running_loop().stop()
        else:
            for task in asyncio.all_tasks():
                task.cancel()
        await asyncio.Event().wait()

    thread = app.running_in_thread(drain="10ms")
    thread.start()
    run = disruptive.enqueue()
    assert thread._thread is not None
    thread._thread.join(PATIENCE)
    with pytest.raises(WorkerDisrupted):
        thread.stop()
    run.refresh()
    assert (run.status, run.crash_count, run.attempts[0].outcome) == ("queued", 1, "crashed")
    assert app.workers() == []


async def test_handler_may_stop_its_worker_by_its_own_face(app: Windlass) -> None:
    """That is what a program of one's own says: it counts for nothing."""
    told = asyncio.Event()

    @app.job
    async def last() -> None:
        worker.stop()
        told.set()
        await asyncio.Event().wait()

    async with app.running(drain="10ms") as worker:
        run = await last.aenqueue()
        await within(told)
    await run.arefresh()
    assert (run.status, run.crash_count, run.attempts[0].outcome) == ("queued", 0, "interrupted")


def test_thread_is_started_once(app: Windlass) -> None:
    @app.job
    def handler() -> None: ...

    with app.running_in_thread() as thread, pytest.raises(UsageError):
        thread.start()
    app.running_in_thread().stop()  # one that was never started


def test_forked_child_does_not_stop_its_parents_thread(app: Windlass) -> None:
    @app.job
    def handler() -> None: ...

    with app.running_in_thread(wait=False) as thread:
        thread._pid = -1  # as a forked child sees it
        thread.stop()
        thread._pid = os.getpid()
        assert thread._thread is not None
        assert thread._thread.is_alive()


# -- lifespan -------------------------------------------------------------------------------------


async def test_lifespan_goes_around_another(app: Windlass) -> None:
    order: list[str] = []

    @app.job
    async def handler() -> None: ...

    @contextlib.asynccontextmanager
    async def mine(host: str) -> AsyncIterator[dict[str, str]]:
        order.append(f"mine begins for {host}")
        yield {"pool": "open"}
        order.append(f"mine ends, {len(await app.aworkers())} workers")

    async with lifespan(app, mine)("host") as state:
        assert state == {"pool": "open"}
        run = await handler.aenqueue()
        await reached(app, run.id, Status.SUCCEEDED)
    assert order == ["mine begins for host", "mine ends, 0 workers"]


async def test_lifespan_without_a_worker_enqueues_only(app: Windlass) -> None:
    @app.job
    async def handler() -> None: ...

    around: Lifespan = lifespan(app, worker=False)
    async with around(None) as state:
        assert state is None
        run = await handler.aenqueue()
        assert await app.aworkers() == []
    assert (await run.arefresh()).status == "queued"
