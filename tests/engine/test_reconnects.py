"""A fleet that lost its store together comes back spread: no two wait for the same time.

Nothing is waited for here. The server is not there, and whoever would sleep until the next try
says for how long instead.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from statistics import mean
from types import ModuleType
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE
from tests.fixtures.hosts import HeartHost
from windlass.engine.environment import Environment
from windlass.engine.holdings import Holdings
from windlass.engine.options import WorkerOptions
from windlass.engine.renewal import Renewal
from windlass.errors import StoreUnavailable
from windlass.sources import ManualSources, Sources
from windlass.store.postgres import listen, store
from windlass.store.postgres.store import PostgresStore

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
FLEET = 20


class Sleepless:
    """A module whose `sleep` says for how long, and is not slept."""

    def __init__(self, module: ModuleType, sleep: Any) -> None:
        self._module = module
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def fleet() -> Sequence[ManualSources]:
    """As many sources as there are workers, each with a chance of its own."""
    return [Sources.manual(seed=seed) for seed in range(FLEET)]


def spread(pauses: Sequence[float]) -> float:
    """How far apart they are, as a share of the usual one."""
    return (max(pauses) - min(pauses)) / mean(pauses)


@pytest.fixture
def opened() -> Any:
    """Opens stores that have no server."""
    made: list[PostgresStore] = []

    def open_one(sources: Sources, **options: Any) -> PostgresStore:
        made.append(PostgresStore(NOWHERE, sources=sources, **options))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


async def test_listeners_come_back_spread(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    told = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == FLEET:
            told.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(listen, "asyncio", Sleepless(asyncio, sleep))
    listeners = [await opened(sources).listen() for sources in fleet()]
    async with asyncio.timeout(PATIENCE):
        await told.wait()
    for listener in listeners:
        await listener.close()

    assert spread(pauses) > 0.3
    assert all(listen._PAUSE / 2 <= pause < listen._PAUSE * 1.5 for pause in pauses)
    assert sorted(pauses) == sorted(
        listen._PAUSE * (0.5 + Sources.manual(seed=seed).jitter()) for seed in range(FLEET)
    )


@pytest.mark.parametrize("face", ["sync", "async"])
def test_calls_are_repeated_spread(opened: Any, monkeypatch: pytest.MonkeyPatch, face: str) -> None:
    first: list[float] = []
    third: list[float] = []
    for sources in fleet():
        pauses: list[float] = []

        def sleep(seconds: float, pauses: list[float] = pauses, now: Any = sources) -> None:
            pauses.append(seconds)
            now.clock.advance(1.0)

        async def asleep(seconds: float, sleep: Any = sleep) -> None:
            sleep(seconds)

        monkeypatch.setattr(store, "time", Sleepless(time, sleep))
        monkeypatch.setattr(store, "asyncio", Sleepless(asyncio, asleep))
        made = opened(sources, patience=2.5)
        call = made.operations.backlog(None, None)
        with pytest.raises(StoreUnavailable):
            asyncio.run(made.arun(call)) if face == "async" else made.run(call)
        first.append(pauses[0])
        third.append(pauses[2])

    assert spread(first) > 0.3
    assert spread(third) > 0.3
    assert mean(third) > 2 * mean(first)


class Impatient(threading.Event):
    """Says for how long it would wait, so many times, and then lets the renewal end."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._times = times
        self.over = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        assert timeout is not None
        self.waits.append(timeout)
        if len(self.waits) > self._times:
            self.over.set()
        return True


async def test_renewals_are_repeated_spread(opened: Any) -> None:
    """Soon after one that failed, each at a time of its own."""
    every = 10.0
    pauses: list[float] = []
    for sources in fleet():
        waits = await renewing(opened(sources, patience=-1.0), sources, every)
        assert waits[0] == every
        pauses += waits[1:]

    assert len(set(pauses)) == len(pauses) == 2 * FLEET
    assert spread(pauses) > 0.3
    assert all(every / 8 <= pause < every * 3 / 8 for pause in pauses)


async def renewing(store: PostgresStore, sources: Sources, every: float) -> list[float]:
    """How long a renewal waits, before the first time and after two that failed."""
    host = HeartHost()
    environment = Environment(store, sources, WorkerOptions(renew=every))
    renewal = Renewal(environment, Holdings(), host, host, worker="w", since=0.0)
    impatient = Impatient(2)
    renewal._now, renewal._stopped = impatient, impatient.over
    renewal.start()
    assert await renewal.ended(PATIENCE)
    assert host.told == []
    return impatient.waits
