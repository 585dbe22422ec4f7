"""The store under test: each of them, through each of its faces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.conformance.kit import Driver, Face, Opened
from tests.conformance.places import (
    KINDS,
    POSTGRES,
    Kind,
    Place,
    PostgresPlace,
    SqlitePlace,
    Tables,
    opened,
)
from windlass.sources import ManualSources, Sources
from windlass.store.interface import Call, Store

T = TypeVar("T")


def pytest_configure(config: pytest.Config) -> None:
    """Make the suite's own marker known."""
    config.addinivalue_line("markers", "requires(*capabilities): only on stores that have them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on every store that can do what it requires, through both faces."""
    if "place" in metafunc.fixturenames:
        marks = metafunc.definition.iter_markers("requires")
        needed = {capability for mark in marks for capability in mark.args}
        kinds = [kind for kind in KINDS if needed <= kind.capabilities]
        metafunc.parametrize("place", kinds, ids=[kind.name for kind in kinds], indirect=True)
    if "face" in metafunc.fixturenames:
        metafunc.parametrize("face", ["sync", "async"], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty database of the test's own."""
    kind: Kind = request.param
    if kind is POSTGRES:
        return PostgresPlace(request.getfixturevalue("pg_database"))
    return SqlitePlace(tmp_path / "windlass.db")


@pytest.fixture
def sources() -> ManualSources:
    """A clock that stands still until the test moves it."""
    return Sources.manual()


@pytest.fixture
def store(place: Place, sources: ManualSources) -> Iterator[Store]:
    """The store under test, on the test's own clock."""
    yield from _opened_store(place, sources)


@pytest.fixture
def real_store(place: Place) -> Iterator[Store]:
    """The store under test, on the machine's clock."""
    yield from _opened_store(place, Sources.system())


@pytest.fixture
def tables(place: Place, store: Store) -> Iterator[Tables]:
    """The store's tables, read from outside."""
    with opened(place) as found:
        yield found


@pytest.fixture
def face(request: pytest.FixtureRequest, store: Store) -> Iterator[Face]:
    """One of the store's two faces."""
    if request.param == "sync":
        yield store.run
        return
    loop = asyncio.new_event_loop()

    def call(call: Call[T]) -> T:
        return loop.run_until_complete(store.arun(call))

    yield call
    loop.run_until_complete(store.aclose())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def drive(store: Store, face: Face, sources: ManualSources, tables: Tables) -> Driver:
    """A driver on the test's own clock, once through each face."""
    return Driver(store, face, sources, tables)


@pytest.fixture
def steer(store: Store, sources: ManualSources, tables: Tables) -> Driver:
    """A driver on the test's own clock, through the blocking face alone."""
    return Driver(store, store.run, sources, tables)


@pytest.fixture
def open_real(place: Place) -> Iterator[Opened]:
    """Opens drivers on the machine's clock, each with connections of its own."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(real_driver(place))


@contextmanager
def real_driver(place: Place) -> Iterator[Driver]:
    """A driver on the machine's clock."""
    sources = Sources.system()
    with place.open(sources) as store, opened(place) as tables:
        yield Driver(store, store.run, sources, tables)


def _opened_store(place: Place, sources: Sources) -> Iterator[Store]:
    with place.open(sources) as opened_store:
        yield opened_store
