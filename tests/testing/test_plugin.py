"""The pytest plugin, in projects of its own: cheap to load, and in nobody's way."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.conftest import Cluster
from tests.fixtures.inner_pytest import run_pytest
from windlass.store.postgres.scratch import end_sessions

JOBS = """
from windlass import Windlass

app = Windlass("sqlite:///production.db")

@app.job
async def double(n: int) -> int:
    return 2 * n
"""


def test_start_of_pytest_imports_no_store(tmp_path: Path) -> None:
    (tmp_path / "test_cheap.py").write_text(
        "import sys\n\n\n"
        "def test_nothing_is_loaded(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('windlass')\n"
        "    loaded = [name for name in sys.modules if name.startswith('windlass')]\n"
        "    names = ['', '.guard', '.testing', '.testing.plugin']\n"
        "    assert sorted(loaded) == [f'windlass{name}' for name in names]\n"
        "    assert not {'apsw', 'psycopg', 'msgspec', 'asyncio'} & sys.modules.keys()\n"
    )
    # Other plugins load what they need.
    others = ("asyncio", "anyio", "hypothesispytest", "xdist", "xdist.looponfail", "timeout")
    run_pytest(tmp_path, *(f"-pno:{name}" for name in others), passed=1)


def test_app_is_the_same_unless_a_project_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "windlass.toml").write_text('[windlass]\napp = "jobs:app"\n')
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    )
    (tmp_path / "test_ours.py").write_text(
        "def test_ours(app, windlass_app):\n"
        "    assert app is windlass_app\n"
        "    assert 'double' in app.jobs\n"
    )
    web = tmp_path / "web"
    web.mkdir()
    (web / "conftest.py").write_text(
        "import pytest\n\n\n@pytest.fixture\ndef app():\n    return 'a web server'\n"
    )
    (web / "test_theirs.py").write_text(
        "def test_theirs(app, windlass_app):\n    assert app == 'a web server'\n"
    )
    run_pytest(tmp_path, passed=2)


def test_coroutine_tests_keep_their_loops(tmp_path: Path) -> None:
    """Under pytest-asyncio and under anyio, beside tests without a loop."""
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "windlass.toml").write_text('[windlass]\napp = "jobs:app"\n')
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\n"
    )
    (tmp_path / "test_loops.py").write_text(
        """
import asyncio
import pytest
from windlass.testing import adrain, drain


@pytest.fixture
def double(windlass_app):
    assert windlass_app.settings.url.startswith("sqlite:")
    return windlass_app.jobs["double"]


def test_before(windlass_app, double):
    run = double.enqueue(2)
    drain(windlass_app).check()
    assert run.refresh().result == 4


@pytest.mark.asyncio
async def test_asyncio(windlass_app, double):
    loop = asyncio.get_running_loop()
    run = await double.aenqueue(3)
    (await adrain(windlass_app)).check()
    assert (await run.arefresh()).result == 6
    assert asyncio.get_running_loop() is loop


@pytest.mark.anyio
async def test_anyio(windlass_app, windlass_clock, double):
    run = await double.using(delay="1d").aenqueue(4)
    windlass_clock.advance("1d")
    (await adrain(windlass_app)).check()
    assert (await run.arefresh()).result == 8


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.windlass(start="2030-01-01T00:00Z", max_attempts=1)
def test_after(windlass_app, windlass_clock, double):
    assert windlass_app.settings.max_attempts == 1
    assert windlass_clock.now().year == 2030
    assert windlass_app.list() == []
"""
    )
    run_pytest(tmp_path, passed=4)
    assert not (tmp_path / "production.db").exists()


def test_fresh_database_for_each_test_on_a_server(tmp_path: Path, pg_cluster: Cluster) -> None:
    (tmp_path / "test_server.py").write_text(
        """
from pathlib import Path

import pytest
from windlass.testing import drain

urls = []


@pytest.mark.parametrize("n", range(3))
def test_empty_each_time(windlass_app, windlass_clock, n):
    assert windlass_app.settings.url.startswith("postgresql:")
    assert windlass_app.settings.url not in urls
    urls.append(windlass_app.settings.url)
    Path("urls").write_text(" ".join(urls))

    @windlass_app.job
    async def job() -> None: ...

    assert windlass_app.list() == []
    job.using(delay="30d").enqueue()
    windlass_clock.advance("30d")
    assert len(drain(windlass_app).succeeded) == 1
"""
    )
    run_pytest(tmp_path, "-pno:asyncio", f"--windlass-url={pg_cluster.dsn}", passed=3)
    names = (tmp_path / "urls").read_text().split()
    assert len(names) == 3
    with psycopg.connect(pg_cluster.dsn) as conn:
        rows = conn.execute("select datname from pg_database").fetchall()
    assert not {name for (name,) in rows} & {url.rpartition("/")[2] for url in names}


def test_application_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("app = 7\n")
    (tmp_path / "test_it.py").write_text("def test_it(windlass_app): ...\n")
    done = run_pytest(tmp_path, "-pno:asyncio", "--windlass-app=jobs:app")
    assert "jobs:app is no Windlass" in done.stdout


def test_only_databases_made_for_tests_are_dropped(pg_database: str) -> None:
    from windlass import UsageError
    from windlass.store.postgres.scratch import drop_database

    with pytest.raises(UsageError, match="not made for tests"):
        drop_database(pg_database, pg_database)


def test_sessions_are_gone_before_their_database_is_dropped(
    pg_desk: psycopg.Connection, pg_database: str
) -> None:
    """PostgreSQL would look for them every 100 ms, in each test that ends with a session."""
    name = pg_database.rpartition("/")[2]
    with psycopg.connect(pg_database) as left:
        end_sessions(pg_desk, name)

        found = pg_desk.execute("select pid from pg_stat_activity where datname = %s", (name,))
        assert found.fetchall() == []
        with pytest.raises(psycopg.OperationalError):
            left.execute("select 1")
