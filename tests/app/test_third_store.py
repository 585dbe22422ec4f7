"""A store of somebody's own plugs in by `store=`, without a change of Windlass."""

from __future__ import annotations

import pytest

from tests.fixtures.apps import working
from tests.fixtures.toy_store import ToyStore
from windlass import Retry, RunFailed, UsageError, Windlass
from windlass.sources import Sources
from windlass.store.interface import Store


@pytest.fixture
def app() -> Windlass:
    sources = Sources.system()
    return Windlass(store=ToyStore(sources), sources=sources)


def test_it_is_a_store_to_the_type_checker() -> None:
    store: Store = ToyStore(Sources.system())
    assert store.place == "toy://"


async def test_runs_are_made_worked_on_and_waited_for(app: Windlass) -> None:
    tries: list[int] = []

    @app.job(retry=Retry.fixed(0), max_attempts=3)
    async def flaky(n: int) -> int:
        tries.append(n)
        if len(tries) < 3:
            raise ValueError("not yet")
        return n * 2

    @app.job(max_attempts=1)
    def hopeless() -> None:
        raise ValueError("never")

    run = await flaky.aenqueue(21)
    bad = hopeless.enqueue()
    async with working(app, services=False, poll=0.02):
        assert await app.aresult(run.id, timeout=10) == 42
        with pytest.raises(RunFailed):
            await app.aresult(bad.id, timeout=10)
    assert tries == [21, 21, 21]
    assert (run.refresh().failures, run.attempt) == (2, 3)


def test_what_it_does_not_have_it_refuses(app: Windlass) -> None:
    with pytest.raises(UsageError, match="has no list_runs"):
        app.list()
