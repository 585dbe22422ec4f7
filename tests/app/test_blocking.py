"""Blocking calls inside a running loop: they work, and those that take long are told, once."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.apps import opened
from windlass import Run, RunNotFound, Status, Windlass
from windlass.sources import Ids, Sources, SystemClock
from windlass.store import blocking
from windlass.testing import assert_enqueued

HERE = Path(__file__).name
ABSENT = "00000000-0000-7000-8000-000000000000"


class Stopwatch(SystemClock):
    """A clock on which some time passes between any two looks."""

    def __init__(self) -> None:
        self.step = 0.0
        self._at = 1000.0

    def monotonic(self) -> float:
        self._at += self.step
        return self._at


@pytest.fixture
def watch() -> Stopwatch:
    """The clock of the application."""
    return Stopwatch()


@pytest.fixture
async def app(url: str, watch: Stopwatch) -> AsyncIterator[Windlass]:
    sources = Sources(clock=watch, ids=Ids(watch), random=Sources.system().random)
    async with opened(url, sources=sources) as made:

        @made.job
        async def greet(n: int = 0) -> None: ...

        yield made


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was said so far of blocking."""
    caplog.set_level(logging.DEBUG)
    return lambda: [
        record.getMessage() for record in caplog.records if record.name == blocking.__name__
    ]


CALLS: dict[str, Callable[[Windlass, Run], Any]] = {
    "enqueue": lambda app, run: app.jobs["greet"].enqueue(),
    "enqueue_many": lambda app, run: app.enqueue_many([app.jobs["greet"].request()]),
    "get": lambda app, run: app.get(run.id),
    "list": lambda app, run: app.list(),
    "cancel": lambda app, run: app.cancel(run.id),
    "refresh": lambda app, run: run.refresh(),
    "run_events": lambda app, run: app.run_events(run.id),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_held_up_the_loop_is_told(
    app: Windlass, watch: Stopwatch, warnings: Callable[[], list[str]], name: str
) -> None:
    run = await app.jobs["greet"].aenqueue()
    watch.step = 0.125
    assert CALLS[name](app, run) is not None
    watch.step = 0.0
    (told,) = warnings()
    place = rf"{HERE}:{CALLS[name].__code__.co_firstlineno}"
    twin = rf"in async code use `await a{name}\(...\)`"
    said = re.fullmatch(
        rf"{name}\(\) held up the event loop for (\d+) ms, at {place}: {twin}", told
    )
    assert said is not None, told
    assert int(said[1]) in (125, 250)  # one store looks at the clock once more


async def test_waiting_for_an_end_is_told(
    app: Windlass, watch: Stopwatch, warnings: Callable[[], list[str]]
) -> None:
    """Its looks are quick; what takes long is the time between them."""
    run = await app.jobs["greet"].aenqueue()
    await run.acancel()
    watch.step = 0.04
    assert run.wait(timeout=30).status is Status.CANCELED
    (told,) = warnings()
    assert told.startswith("wait() held up the event loop for ")
    assert told.endswith("in async code use `await await_end(...)`")


async def test_calls_without_a_twin_belong_in_a_thread(
    app: Windlass, watch: Stopwatch, warnings: Callable[[], list[str]]
) -> None:
    await app.jobs["greet"].aenqueue()
    watch.step = 0.125
    assert_enqueued("greet", app=app)
    (told,) = warnings()
    assert told.startswith("assert_enqueued() held up the event loop for ")
    assert told.endswith("in async code use `await asyncio.to_thread(assert_enqueued, ...)`")


async def test_a_call_that_fails_is_told_as_well(
    app: Windlass, watch: Stopwatch, warnings: Callable[[], list[str]]
) -> None:
    watch.step = 0.125
    with pytest.raises(RunNotFound):
        app.get(ABSENT)
    assert len(warnings()) == 1


async def test_each_place_is_told_once(
    app: Windlass, watch: Stopwatch, warnings: Callable[[], list[str]]
) -> None:
    watch.step = 0.125
    for _ in range(5):
        app.list()
    assert len(warnings()) == 1
    app.list()
    assert len(warnings()) == 2


async def test_a_quick_call_is_nobodys_business(
    app: Windlass, watch: Stopwatch, warnings: Callable[[], list[str]]
) -> None:
    watch.step = blocking.LONG * 0.24  # the call, and its round trip within, look twice each
    run = app.jobs["greet"].enqueue()
    app.get(run.id)
    app.cancel(run.id)
    assert warnings() == []


def test_without_a_loop_a_call_may_take_its_time(
    url: str, watch: Stopwatch, warnings: Callable[[], list[str]]
) -> None:
    sources = Sources(clock=watch, ids=Ids(watch), random=Sources.system().random)
    app = Windlass(url, sources=sources)
    watch.step = 10.0
    app.list()
    app.close()
    assert warnings() == []


async def test_in_a_thread_a_call_may_take_its_time(
    app: Windlass, watch: Stopwatch, warnings: Callable[[], list[str]]
) -> None:
    await app.alist()
    watch.step = 10.0
    await asyncio.to_thread(app.list)
    assert warnings() == []


async def test_the_async_face_never_holds_up_the_loop(
    app: Windlass, watch: Stopwatch, warnings: Callable[[], list[str]]
) -> None:
    watch.step = 1.0
    run = await app.jobs["greet"].aenqueue()
    await app.aenqueue_many([app.jobs["greet"].request() for _ in range(3)])
    await app.aget(run.id)
    await app.alist()
    await app.acancel(run.id)
    await run.arefresh()
    await run.await_end()
    await app.arun_events(run.id)
    await app.schedules.alist()
    assert warnings() == []
