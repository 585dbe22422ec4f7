"""The pytest plugin: `windlass_app`, which is also called `app`, and `windlass_clock`.

pytest imports this in every project where Windlass is installed, so nothing of Windlass is
imported until a fixture is asked for. The fixtures are plain ones: they start no event loop and
set none, and serve tests with and without one alike.

    windlass_app     the application that `windlass_app` in pytest's ini file (or --windlass-app)
                     names as module:name, else `app` of windlass.toml or $WINDLASS_APP, else a new
                     one without jobs; on an empty store and a virtual clock
    app              the same; a fixture `app` of a project's own counts more
    windlass_clock   its clock
    windlass_database   the URL of a PostgreSQL database for tests that roll back (in_transaction)

    @pytest.mark.windlass(start="2030-03-30T12:00Z", max_attempts=1)      what one test needs

The store is a temporary SQLite file; with --windlass-url or $WINDLASS_TEST_URL, a new database for
each test on that PostgreSQL server, whose user needs CREATEDB.

While pytest runs, no other store is opened (:mod:`windlass.guard`), except SQLite files in pytest's
temporary folder. `windlass_real_stores = true` in the ini file takes that back.
"""

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from windlass import guard

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.testing.clock import VirtualClock

APP = "windlass_app"
REAL_STORES = "windlass_real_stores"
_before = pytest.StashKey["str | None"]()
MARK = "windlass(**options): what windlass_app gets, such as start= and settings"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make the options known."""
    group = parser.getgroup("windlass")
    group.addoption("--windlass-app", metavar="MODULE:NAME", help="the application under test")
    group.addoption(
        "--windlass-url",
        metavar="URL",
        help="a PostgreSQL server for windlass_app, instead of a SQLite file",
    )
    parser.addini(APP, "the application under test, as module:name", default=None)
    parser.addini(REAL_STORES, "let tests open any store", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Declare the test session, before any module of the project is imported."""
    every_store = bool(early_config.getini(REAL_STORES))
    early_config.stash[_before] = guard.begin(every_store=every_store)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARK)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The session is over; pytest may have been called by a program that goes on."""
    if _before in config.stash:
        guard.end(config.stash[_before])


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: "pytest.FixtureDef[Any]",
) -> Generator[None, object, object]:
    """Stores in pytest's temporary folder were made for a test."""
    value = yield
    if isinstance(value, pytest.TempPathFactory):
        guard.allow_folder(value.getbasetemp())
    return value


@pytest.fixture(scope="session")
def _windlass_template(request: pytest.FixtureRequest) -> Iterator["tuple[str, str] | None"]:
    """The server and the migrated database that each test gets a copy of; None for SQLite."""
    config = request.config
    server = config.getoption("--windlass-url") or os.environ.get("WINDLASS_TEST_URL")
    if not server:
        yield None
        return
    from windlass.app import Windlass
    from windlass.testing.places import real_store, scratch

    with scratch(server) as template:
        with real_store(Windlass(template)) as app:
            app.migrate()
        yield server, template


@pytest.fixture(scope="session")
def windlass_database(_windlass_template: "tuple[str, str] | None") -> Iterator[str]:
    """The URL of a PostgreSQL database for the whole session, with Windlass' schema in it."""
    if _windlass_template is None:
        pytest.fail("windlass_database needs a PostgreSQL server: give --windlass-url.")
    from windlass.testing.places import scratch

    with scratch(*_windlass_template) as url:
        yield url


@pytest.fixture
def windlass_app(
    request: pytest.FixtureRequest, _windlass_template: "tuple[str, str] | None"
) -> Iterator["Windlass"]:
    """The application under test, on an empty store and a virtual clock."""
    from windlass.testing.places import load, moved, scratch

    mark = request.node.get_closest_marker("windlass")
    options = dict(mark.kwargs) if mark is not None else {}
    config = request.config
    named = config.getoption("--windlass-app") or config.getini(APP)
    app = load(named, config.rootpath)
    with scratch(*(_windlass_template or ())) as url, moved(app, url, **options) as found:
        yield found


@pytest.fixture(name="app")
def _app(windlass_app: "Windlass") -> "Windlass":
    """The same as `windlass_app`; define a fixture of this name, and yours is taken."""
    return windlass_app


@pytest.fixture
def windlass_clock(windlass_app: "Windlass") -> "VirtualClock":
    """The clock of `windlass_app`; it stands still until the test moves it."""
    from windlass.testing.places import clock_of

    return clock_of(windlass_app)
