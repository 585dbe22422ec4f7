"""`@app.on(...)`: functions that a worker calls with what has happened."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, working
from windlass import BadOption, Event, Router, Status, Windlass
from windlass.engine.audience import Audience
from windlass.listeners import Listener


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what listeners do: other tests' transactions may hold the feed back for a moment."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The listeners that failed, as the log says."""
    failed = [r for r in caplog.records if r.getMessage() == "listener failed"]
    return [record.__dict__["listener"] for record in failed]


async def test_functions_are_called_in_order_and_see_the_state(app: Windlass) -> None:
    told: list[str] = []
    seen: list[Status] = []
    threads: set[str] = set()

    @app.job
    async def walk(number: int) -> int:
        return number

    @app.job
    async def other() -> None: ...

    @app.on("run.enqueued", "run.succeeded", job=walk)
    async def on_loop(event: Event) -> None:
        told.append(event.type.value)
        if event.type == "run.succeeded":
            seen.append((await app.aget(str(event.run))).status)

    @app.on("run.*", job="walk")
    def in_thread(event: Event) -> None:
        threads.add(threading.current_thread().name)

    async with working(app) as worker:
        await worker.started.wait()
        for number in range(3):
            await other.aenqueue()
            run = await walk.aenqueue(number)
            await app.aresult(run, timeout=PATIENCE)
        asked: dict[str, Any] = {"types": "run.succeeded", "run": run.id, "follow": False}
        async with asyncio.timeout(PATIENCE):
            while not [e async for e in app.aevents(since="start", **asked)]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    # All is told by the end of the worker, which waits for it.
    assert told == ["run.enqueued", "run.succeeded"] * 3
    assert seen == [Status.SUCCEEDED] * 3
    assert threads == {"windlass-listener"}


async def test_one_that_fails_or_hangs_harms_no_run_and_no_other(
    app: Windlass, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.engine.audience._FAREWELL", 0.2)
    told: list[str] = []

    @app.job
    async def walk() -> str:
        return "there"

    @app.on("run.succeeded")
    async def fails(event: Event) -> None:
        raise ValueError("no")

    @app.on("run.succeeded")
    def exits(event: Event) -> None:
        raise SystemExit(3)

    @app.on("run.succeeded")
    async def cancels(event: Event) -> None:
        raise asyncio.CancelledError

    @app.on()
    async def hangs(event: Event) -> None:
        await asyncio.Event().wait()

    @app.on("run.succeeded")
    async def listens(event: Event) -> None:
        told.append(event.subject)

    runs = []
    async with working(app) as worker:
        await worker.started.wait()
        for _ in range(2):
            run = await walk.aenqueue()
            assert await app.aresult(run, timeout=PATIENCE) == "there"
            runs.append(run.id)
        await until(lambda: len(told) == 2 and len(failures(caplog)) == 6)
    assert worker.failure is None
    assert told == runs
    assert sorted(failures(caplog)) == sorted(["fails", "exits", "cancels"] * 2)
    assert "listeners have not heard all" in caplog.text


async def test_one_that_is_behind_is_logged_and_misses_nothing(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    job = app.job(_nothing)
    told: list[str] = []
    go_on = asyncio.Event()
    behind = asyncio.Event()

    async def slow(event: Event) -> None:
        await go_on.wait()
        told.append(event.subject)

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == "listener is behind":
                behind.set()

    handler = Heard()
    logging.getLogger("windlass").addHandler(handler)
    audience = Audience(app.scope, [Listener(slow, ("run.enqueued",), None)], buffer=2)
    await app.acounts()
    await audience.start()
    try:
        runs = []
        async with app.aevents(types="run.enqueued") as events:
            reader = aiter(events)
            for _ in range(8):
                runs.append((await job.aenqueue()).id)
                await anext(reader)  # the tail has read so far
        go_on.set()
        async with asyncio.timeout(PATIENCE):
            await behind.wait()
    finally:
        logging.getLogger("windlass").removeHandler(handler)
        await audience.stop()
    assert told == runs


def _nothing() -> None:
    """Do nothing."""


async def test_routers_have_listeners_before_and_after_they_are_included(app: Windlass) -> None:
    router = Router(prefix="mail")
    told: list[str] = []

    @router.job
    async def send() -> None: ...

    @router.on("run.succeeded", job=send)
    async def first(event: Event) -> None:
        told.append(f"first {event.job}")

    app.include(router)

    @router.on("run.succeeded", job=send)
    async def second(event: Event) -> None:
        told.append(f"second {event.job}")

    async with working(app) as worker:
        await worker.started.wait()
        await app.aresult(await send.aenqueue(), timeout=PATIENCE)
        await until(lambda: len(told) == 2)
    assert sorted(told) == ["first mail.send", "second mail.send"]

    elsewhere = Windlass("sqlite:///never.db")
    elsewhere.include(router, take_over=True)
    assert (len(app.on.all), len(elsewhere.on.all)) == (0, 2)


def test_what_no_event_is_named_after_is_refused() -> None:
    app = Windlass("sqlite:///never.db")
    with pytest.raises(BadOption, match=r"@app.on\(\) is for all events"):
        app.on(_nothing)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="did you mean"):
        app.on("run.faild")
