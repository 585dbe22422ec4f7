"""The store under test: each of them, through each of its faces.

Every test finds the database empty. SQLite has a file of the test's own. PostgreSQL has one
database for each test process, made from the template, whose tables are emptied before each
test: making a database and connecting to it costs ten times what the test does. Tests that do
something to the schema, or to the server, ask for `pg_database` and get one of their own.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest

from tests.conformance.kit import Driver, Face, Opened
from tests.conformance.places import (
    KINDS,
    POSTGRES,
    SQLITE,
    SYSTEM,
    Kind,
    Place,
    PostgresPlace,
    SqlitePlace,
    Tables,
    opened,
)
from tests.conformance.plain_sql import Client, plain_client
from tests.conftest import SECOND, SERVERS, Cluster
from tests.fixtures.postgres import create_database, drop_database
from windlass.sources import ManualSources, Sources
from windlass.store.interface import Call, Store
from windlass.store.sqlite.store import SqliteStore

T = TypeVar("T")

FACES = ("sync", "async")
MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    """Make the suite's own markers known."""
    config.addinivalue_line("markers", "requires(*capabilities): only on stores that have them")
    config.addinivalue_line("markers", "both_faces: through the blocking and the async face")
    config.addinivalue_line("markers", "every_server: also on the system's PostgreSQL")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on every store that can do what it requires.

    A test that has a face runs through one of them on each store, by turns: half of the suite
    goes through each, and `test_faces` takes every operation through both.
    """
    if "place" not in metafunc.fixturenames:
        return
    marks = list(metafunc.definition.iter_markers("requires"))
    needed = {capability for mark in marks for capability in mark.args}
    kinds = [kind for kind in KINDS if needed <= kind.capabilities]
    assert kinds, f"no store has {sorted(needed)}"  # pytest would skip the test, silently
    everywhere = metafunc.definition.get_closest_marker("every_server") is not None
    if everywhere and SECOND in SERVERS and POSTGRES in kinds:
        kinds.append(SYSTEM)
    if "face" not in metafunc.fixturenames:
        metafunc.parametrize("setting", kinds, ids=[kind.name for kind in kinds], indirect=True)
        return
    both = metafunc.definition.get_closest_marker("both_faces") is not None
    turn = crc32(metafunc.definition.name.encode())
    pairs = [
        (kind, face)
        for kind in kinds
        for face in (FACES if both else [FACES[(turn + (kind is SQLITE)) % 2]])
    ]
    names = [f"{kind.name}-{face}" for kind, face in pairs]
    metafunc.parametrize(("setting", "face"), pairs, ids=names, indirect=True)


@dataclass(slots=True, kw_only=True)
class Setting:
    """A database, and what the tests reach it by, on a clock that the tests move."""

    place: Place
    store: Store
    tables: Tables
    sources: ManualSources
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @classmethod
    def make(cls, place: Place) -> Setting:
        sources = Sources.manual()
        store = place.open(sources)
        return cls(place=place, store=store, tables=place.tables(), sources=sources)

    def close(self) -> None:
        """Leave nothing open."""
        self.loop.run_until_complete(self.store.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.tables.close()


@contextmanager
def shared(cluster: Cluster) -> Iterator[Setting]:
    """A PostgreSQL database of this test process."""
    name = f"wl_shared_{secrets.token_hex(6)}"
    setting = Setting.make(PostgresPlace(create_database(cluster.dsn, name, cluster.template)))
    yield setting
    setting.close()
    drop_database(cluster.dsn, name)


@pytest.fixture(scope="session")
def shared_setting(pg_cluster: Cluster) -> Iterator[Setting]:
    """The database of this test process on the tests' own server."""
    with shared(pg_cluster) as setting:
        yield setting


@pytest.fixture(scope="session")
def second_setting(second_cluster: Cluster) -> Iterator[Setting]:
    """The database of this test process on the second server."""
    with shared(second_cluster) as setting:
        yield setting


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty file with the schema, to be copied: to migrate one takes four times as long."""
    path = tmp_path_factory.mktemp("template") / "windlass.db"
    with SqliteStore(path, sources=Sources.system()) as store:
        store.migrate()
    return path


@pytest.fixture
def setting(request: pytest.FixtureRequest) -> Iterator[Setting]:
    """An empty database."""
    kind: Kind = request.param
    if kind is not SQLITE:
        found: Setting = request.getfixturevalue(
            "shared_setting" if kind is POSTGRES else "second_setting"
        )
        found.tables.empty()
        yield found
        return
    folder = Path(tempfile.mkdtemp(prefix="windlass-", dir=MEMORY if MEMORY.exists() else None))
    path = folder / "windlass.db"
    shutil.copyfile(request.getfixturevalue("sqlite_file"), path)
    made = Setting.make(SqlitePlace(path))
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def shared_client(shared_setting: Setting) -> Iterator[Client]:
    """A bare connection to the database of this test process: a new one knows no plans yet."""
    assert isinstance(shared_setting.place, PostgresPlace)
    made = Client(shared_setting.place.url)
    yield made
    made.conn.close()


@pytest.fixture
def client(shared_setting: Setting, shared_client: Client) -> Iterator[Client]:
    """A client that has nothing of Windlass but what is in the database."""
    shared_setting.tables.empty()
    with plain_client(shared_client, shared_setting.tables) as made:
        yield made


@pytest.fixture
def own_client(pg_database: str) -> Iterator[Client]:
    """The same in a database of its own, for tests that change the schema."""
    made = Client(pg_database)
    with opened(PostgresPlace(pg_database)) as tables, plain_client(made, tables):
        yield made
    made.conn.close()


@pytest.fixture
def place(setting: Setting) -> Place:
    """Where the empty database is."""
    return setting.place


@pytest.fixture
def store(setting: Setting, place: Place) -> Store:
    """The store under test, on the tests' clock."""
    return setting.store


@pytest.fixture
def real_store(place: Place) -> Iterator[Store]:
    """The store under test, on the machine's clock."""
    with place.open(Sources.system()) as opened_store:
        yield opened_store


@pytest.fixture
def face(request: pytest.FixtureRequest, setting: Setting) -> Face:
    """One of the store's two faces."""
    if request.param == "sync":
        return setting.store.run

    def call(call: Call[T]) -> T:
        return setting.loop.run_until_complete(setting.store.arun(call))

    return call


@pytest.fixture
def drive(setting: Setting, place: Place, face: Face) -> Driver:
    """A driver on the tests' clock, through one of the faces or, if asked for, each."""
    return Driver(setting.store, face, setting.sources, setting.tables)


@pytest.fixture
def steer(setting: Setting, place: Place) -> Driver:
    """A driver on the tests' clock, through the blocking face alone."""
    return Driver(setting.store, setting.store.run, setting.sources, setting.tables)


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
