"""Resources and artifacts: what handlers find on their context."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, opened, reap, within, working
from windlass import BadOption, Context, LeaseLost, Retry, SyncContext, Windlass, resources
from windlass.domain.artifact import Artifact
from windlass.resources import AGAIN


def define_all(app: Windlass, seen: list[str]) -> None:
    @app.resource
    def plain() -> str:
        seen.append("open plain")
        return "plain"

    @app.resource
    async def awaited() -> str:
        seen.append("open awaited")
        await asyncio.sleep(0)
        return "awaited"

    @app.resource
    def steps() -> Iterator[str]:
        seen.append("open steps")
        yield "steps"
        seen.append("close steps")

    @app.resource(name="db")
    async def stream() -> AsyncIterator[str]:
        seen.append("open db")
        yield "db"
        seen.append("close db")


async def test_handlers_share_what_a_worker_opens_once(app: Windlass) -> None:
    seen: list[str] = []
    define_all(app, seen)

    @app.job
    async def on_the_loop(ctx: Context) -> list[str]:
        found = ctx.resources
        return [found.plain, found.awaited, found.steps, found.db, ctx.resource("db")]

    @app.job
    def in_a_thread(ctx: SyncContext) -> list[str]:
        found = ctx.resources
        return [found.plain, found.awaited, found.steps, found.db, ctx.resource("db")]

    async with working(app):
        runs = [await job.aenqueue() for job in (in_a_thread, on_the_loop) for _ in range(5)]
        for run in runs:
            assert await app.aresult(run.id, timeout=PATIENCE) == [
                "plain", "awaited", "steps", "db", "db",
            ]  # fmt: skip
        assert seen == ["open plain", "open awaited", "open steps", "open db"]
    assert seen[4:] == ["close db", "close steps"]


async def test_nothing_is_opened_for_handlers_without_a_context(app: Windlass) -> None:
    seen: list[str] = []
    define_all(app, seen)

    @app.job
    async def bare() -> None: ...

    async with working(app):
        run = await bare.aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)
    assert seen == []


async def test_what_cannot_be_opened_fails_who_asks_and_is_tried_again(app: Windlass) -> None:
    tries: list[int] = []

    @app.resource
    async def db() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("the database is not there")
        return "db"

    # Later than it is tried again: the store's clock is not the one that this is judged by.
    @app.job(retry=Retry.fixed(1.5 * AGAIN, jitter=0.0))
    async def asks(ctx: Context) -> str:
        found: str = ctx.resources.db
        return found

    @app.job
    async def does_not(ctx: Context) -> str:
        return "fine"

    async with working(app):
        run, other = await asks.aenqueue(), await does_not.aenqueue()
        assert await app.aresult(other.id, timeout=PATIENCE) == "fine"
        assert await app.aresult(run.id, timeout=PATIENCE) == "db"
    first, _ = (await app.aget(run.id)).attempts
    assert first.error is not None
    assert (first.error.type, first.error.message) == (
        "ConnectionError", "the database is not there",
    )  # fmt: skip


async def test_a_name_that_there_is_not(app: Windlass) -> None:
    define_all(app, [])

    @app.job(max_attempts=1)
    async def asks(ctx: Context) -> None:
        with pytest.raises(AttributeError, match=r"there is no resource 'bd' .*plain, awaited"):
            _ = ctx.resources.bd
        assert dir(ctx.resources) == ["awaited", "db", "plain", "steps"]

    async with working(app):
        run = await asks.aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)


async def test_an_attempt_that_is_canceled_does_not_break_off_the_opening(app: Windlass) -> None:
    go, begun = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    @app.resource
    async def slow() -> str:
        begun.set()
        seen.append("begun")
        await go.wait()
        seen.append("opened")
        return "slow"

    @app.job
    async def asks(ctx: Context) -> str:
        found: str = ctx.resources.slow
        return found

    async with working(app):
        first = await asks.aenqueue()
        await within(begun)
        second = await asks.aenqueue()
        await app.acancel(first.id)
        assert (await first.await_end(timeout=PATIENCE)).status == "canceled"
        go.set()
        assert await app.aresult(second.id, timeout=PATIENCE) == "slow"
    assert seen == ["begun", "opened"]


async def test_what_fails_to_close_keeps_nothing_else_from_closing(app: Windlass) -> None:
    closed: list[str] = []

    @app.resource
    def first() -> Iterator[int]:
        yield 1
        closed.append("first")

    @app.resource
    async def second() -> AsyncIterator[int]:
        yield 2
        raise ValueError("no")

    @app.resource
    def third() -> Iterator[int]:
        yield 3
        yield 4

    @app.job
    def asks(ctx: SyncContext) -> str:
        return threading.current_thread().name

    async with working(app):
        run = await asks.aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)
    assert closed == ["first"]


def leave() -> str:
    sys.exit("enough")


async def leave_async() -> str:
    sys.exit("enough")


def leave_steps() -> Iterator[str]:
    yield sys.exit("enough")


async def leave_stream() -> AsyncIterator[str]:
    yield sys.exit("enough")


def run_out() -> str:
    return next(iter(()))


@pytest.mark.parametrize(
    ("opener", "error"),
    [
        (leave, "SystemExit"),
        (leave_async, "SystemExit"),
        (leave_steps, "SystemExit"),
        (leave_stream, "SystemExit"),
        (run_out, "RuntimeError"),
    ],
)
async def test_opener_that_exits_fails_who_asks_and_nothing_else(
    app: Windlass, opener: Any, error: str
) -> None:
    app.resource(name="db")(opener)

    @app.job(max_attempts=1)
    async def asks(ctx: Context) -> str:
        found: str = ctx.resources.db
        return found

    @app.job
    async def does_not(ctx: Context) -> str:
        return "fine"

    async with working(app):
        run, other = await asks.aenqueue(), await does_not.aenqueue()
        assert await app.aresult(other.id, timeout=PATIENCE) == "fine"
        ended = await run.await_end(timeout=PATIENCE)
        assert ended.error is not None
        assert ended.error.type == error


async def test_closer_that_exits_keeps_nothing_else_from_closing(app: Windlass) -> None:
    closed: list[str] = []

    @app.resource
    def first() -> Iterator[int]:
        yield 1
        closed.append("first")

    @app.resource
    async def second() -> AsyncIterator[int]:
        yield 2
        sys.exit("enough")

    @app.job
    def asks(ctx: SyncContext) -> None: ...

    async with working(app):
        await app.aresult((await asks.aenqueue()).id, timeout=PATIENCE)
    assert closed == ["first"]


async def never() -> None:
    await asyncio.Event().wait()


def hang_in_thread(forever: threading.Event) -> Iterator[int]:
    yield 1
    forever.wait()


async def hang_on_loop(_: threading.Event) -> AsyncIterator[int]:
    yield 1
    await never()


@pytest.mark.parametrize("hang", [hang_in_thread, hang_on_loop])
async def test_closer_that_hangs_is_not_waited_for(
    app: Windlass, hang: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resources, "CLOSING", 0.05)
    forever, closed = threading.Event(), list[str]()

    @app.resource
    def first() -> Iterator[int]:
        yield 1
        closed.append("first")

    app.resource(name="second")(partial(hang, forever))

    @app.job
    async def asks(ctx: Context) -> None: ...

    async with working(app):
        await app.aresult((await asks.aenqueue()).id, timeout=PATIENCE)
    forever.set()
    assert closed == ["first"]
    (record,) = [r for r in caplog.records if r.message == "resource not closed in time"]
    assert vars(record)["resource"] == "second"


@pytest.mark.parametrize("blocks", [True, False])
def test_opener_that_hangs_does_not_keep_its_host(
    url: str, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even at its very end, when a loop waits for its own threads."""
    monkeypatch.setattr(resources, "CLOSING", 0.05)
    forever, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        forever.wait(2 * PATIENCE)

    async def hang_async() -> None:
        begun.set()
        await never()

    async def host() -> None:
        async with opened(url, drain="50ms") as app:
            app.resource(name="db")(hang if blocks else hang_async)

            @app.job
            async def asks(ctx: Context) -> None: ...

            await asks.aenqueue()
            async with working(app):
                await asyncio.to_thread(begun.wait, PATIENCE)

    before = time.monotonic()
    asyncio.run(host())
    assert time.monotonic() - before < PATIENCE
    forever.set()


async def test_openers_run_in_no_attempts_context() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nobody's")
    seen: list[str] = []

    def plain() -> None:
        seen.append(variable.get())

    async def awaited() -> None:
        seen.append(variable.get())

    made = resources.OpenResources({"plain": plain, "awaited": awaited})
    variable.set("an attempt's")
    await resources.open_all(made)
    assert seen == ["nobody's", "nobody's"]


async def test_a_variable_that_an_opener_sets_is_reset_when_it_closes() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="closed")
    seen: list[str] = []

    async def stream() -> AsyncIterator[int]:
        token = variable.set("open")
        yield 1
        variable.reset(token)
        seen.append(variable.get())

    made = resources.OpenResources({"stream": stream})
    await resources.open_all(made)
    await resources.close_all(made)
    assert seen == ["closed"]


@pytest.mark.parametrize("name", ["a b", "_hidden", "1", "clash"])
def test_names_that_cannot_be(app: Windlass, name: str) -> None:
    app.resource(name="clash")(lambda: 1)
    with pytest.raises(BadOption):
        app.resource(name=name)(lambda: 1)


def test_resources_take_no_arguments(app: Windlass) -> None:
    def needs(url: str) -> str:
        return url

    opener: Any = needs
    with pytest.raises(BadOption, match="without arguments"):
        app.resource(opener)


def make(app: Windlass) -> Artifact:
    return Artifact(
        id=app.sources.new_id(), name="a.txt", content_type="text/plain", size=1,
        sha256="0" * 64, location="file:///a.txt",
    )  # fmt: skip


async def test_artifacts(url: str, tmp_path: Path) -> None:
    app = Windlass(url, artifacts=str(tmp_path / "kept"))
    made = make(app)

    @app.job
    async def on_the_loop(ctx: Context) -> list[Any]:
        found = await ctx.artifacts.find(made)
        assert found is not None
        return [found.name, await ctx.artifacts.delete(made), await ctx.artifacts.find(made)]

    @app.job
    def in_a_thread(ctx: SyncContext) -> list[Any]:
        found = ctx.artifacts.find(made)
        assert found is not None
        return [found.name, ctx.artifacts.delete(made), ctx.artifacts.delete(made)]

    async with working(app):
        for job, last in ((on_the_loop, None), (in_a_thread, False)):
            await app.store.arun(app.store.operations.put_artifact(made))
            run = await job.aenqueue()
            assert await app.aresult(run.id, timeout=PATIENCE) == ["a.txt", True, last]
    await app.aclose()


async def test_who_lost_the_lease_deletes_no_artifact(app: Windlass, url: str) -> None:
    made = make(app)
    await app.store.arun(app.store.operations.put_artifact(made))
    started, lost, told = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    errors: list[LeaseLost] = []

    def tell(error: LeaseLost) -> None:
        errors.append(error)
        loop.call_soon_threadsafe(told.set)

    @app.job
    def in_a_thread(ctx: SyncContext) -> None:
        if ctx.attempt == 1:
            loop.call_soon_threadsafe(started.set)
            lost.wait(PATIENCE)
            try:
                ctx.artifacts.delete(made)
            except LeaseLost as error:
                tell(error)

    @app.job
    async def on_the_loop(ctx: Context) -> None:
        if ctx.attempt == 1:
            started.set()
            # It is told, and goes on; were it told later, that would end the delete.
            while not (lost.is_set() and ctx.canceled):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.005)
            try:
                await ctx.artifacts.delete(made)
            except LeaseLost as error:
                tell(error)

    async with working(app, cancel_grace="60s"):
        for job in (in_a_thread, on_the_loop):
            run = await job.aenqueue()
            await within(started)
            await reap(app, url, run)
            lost.set()
            await within(told)
            await run.await_end(timeout=PATIENCE)
            for event in (started, lost, told):
                event.clear()
    assert [error.token for error in errors] == [1, 1]
    assert await app.store.arun(app.store.operations.get_artifact("default", made.id)) is not None
