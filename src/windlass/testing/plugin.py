"""The pytest plugin: `windlass_app`, which is also called `app`, and `windlass_clock`.

pytest imports this in every project where Windlass is installed, so nothing of Windlass is
imported until a fixture is asked for. The fixtures are plain ones: they start no event loop and
set none, and serve tests with and without one alike.

    windlass_app     the application that `windlass_app` in pytest's ini file (or --windlass-app)
                     names as module:name, else `app` of windlass.toml or $WINDLASS_APP, else a new
                     one without jobs; on an empty store and a virtual clock
    app              the same; a fixture `app` of a project's own counts more
    windlass_clock   its clock

    @pytest.mark.windlass(start="2030-03-30T12:00Z", max_attempts=1)      what one test needs

The store is a temporary SQLite file; with --windlass-url or $WINDLASS_TEST_URL, a new database for
each test on that PostgreSQL server, whose user needs CREATEDB.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.testing.clock import VirtualClock

APP = "windlass_app"
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


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARK)


@pytest.fixture(scope="session")
def _windlass_template(request: pytest.FixtureRequest) -> Iterator["tuple[str, str] | None"]:
    """The server and the migrated database that each test gets a copy of; None for SQLite."""
    config = request.config
    server = config.getoption("--windlass-url") or os.environ.get("WINDLASS_TEST_URL")
    if not server:
        yield None
        return
    from windlass.app import Windlass
    from windlass.testing.places import scratch

    with scratch(server) as template:
        app = Windlass(template)
        app.migrate()
        app.close()
        yield server, template


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
