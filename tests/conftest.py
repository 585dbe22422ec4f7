"""What every test may ask for.

PostgreSQL: a private server per test session, started by the process that the developer started
(with xdist the controller, before its workers; otherwise the first test that asks for it) and
stopped by the same process. Each test gets a database of its own, copied from a template.

Where the system has a PostgreSQL of its own there is a second server, with its default settings:
most users run one of those, and an older one plans otherwise. Tests that ask for `any_pg_database`
run on both. A run without a second server says so.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
import pytest
from hypothesis import settings

from tests.fixtures.postgres import (
    PostgresServer,
    PostgresUnavailable,
    create_database,
    drop_database,
    make_database,
    prepare_template,
    remove_database,
    second_programs,
    with_database,
)

settings.register_profile("long", deadline=None, print_blob=True)
settings.register_profile("short", settings.get_profile("long"), max_examples=40)
settings.load_profile("short")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where the tests' databases are made."""

    dsn: str
    template: str


OWN, SECOND = "own", "system"
SERVERS = (OWN, SECOND) if second_programs() else (OWN,)


class SharedPostgres:
    """A PostgreSQL of the session: started when first needed, closed when pytest ends."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._cluster: Cluster | None = None
        self._server: PostgresServer | None = None

    def cluster(self) -> Cluster:
        """Return the server, with its template prepared."""
        if self._cluster is None:
            self._cluster = self._open()
        return self._cluster

    def close(self) -> None:
        """Stop our server, or remove the template from a server that is not ours."""
        if self._server is not None:
            self._server.close()
        elif self._cluster is not None:
            drop_database(self._cluster.dsn, self._cluster.template)

    def _open(self) -> Cluster:
        dsn = os.environ.get("WINDLASS_TEST_PG_DSN") if self._name == OWN else None
        if dsn:
            # That server may serve other test sessions at the same time.
            cluster = Cluster(dsn=dsn, template=f"wl_template_{secrets.token_hex(4)}")
        else:
            programs = second_programs() if self._name == SECOND else None
            self._server = PostgresServer(volatile=True, programs=programs)
            self._server.start()
            cluster = Cluster(dsn=self._server.dsn(), template="wl_template")
        prepare_template(create_database(cluster.dsn, cluster.template))
        return cluster


shared_postgres = pytest.StashKey[dict[str, SharedPostgres]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make quick` leave PostgreSQL out."""
    parser.addoption(
        "--sqlite-only", action="store_true", help="only tests that need no PostgreSQL"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out what was not asked for; pytest tells how many tests that are."""
    if not config.getoption("--sqlite-only"):
        return
    left_out = [item for item in items if _needs_postgres(item)]
    items[:] = [item for item in items if not _needs_postgres(item)]
    config.hook.pytest_deselected(items=left_out)


def _needs_postgres(item: pytest.Item) -> bool:
    asked: Sequence[str] = getattr(item, "fixturenames", ())
    callspec = getattr(item, "callspec", None)
    variant = [] if callspec is None else callspec.id.split("-")
    return "pg_cluster" in asked or not {"postgres", OWN, SECOND}.isdisjoint(variant)


def pytest_configure(config: pytest.Config) -> None:
    """Give the process its handle on the servers; nothing is started yet."""
    # What a shell starts in the background ignores SIGINT; so would every process of the tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.markexpr != "not long":
        settings.load_profile("long")
    config.stash[shared_postgres] = {name: SharedPostgres(name) for name in SERVERS}


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind, also after Ctrl-C."""
    for server in config.stash[shared_postgres].values():
        server.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say so where no second PostgreSQL was there to run on."""
    if SECOND not in SERVERS:
        terminalreporter.write_line(
            "Tested on one PostgreSQL only: no other is installed under /usr/lib/postgresql."
        )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell an xdist worker where the controller's servers are."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]
    if config.getoption("--sqlite-only"):
        return
    found = {name: _cluster(config, name) for name in SERVERS}
    node.workerinput["windlass_postgres"] = {  # type: ignore[attr-defined]
        name: (cluster.dsn, cluster.template) for name, cluster in found.items()
    }


def _cluster(config: pytest.Config, name: str = OWN) -> Cluster:
    told = getattr(config, "workerinput", {}).get("windlass_postgres")
    if told is not None:
        dsn, template = told[name]
        return Cluster(dsn=dsn, template=template)
    try:
        return config.stash[shared_postgres][name].cluster()
    except (PostgresUnavailable, psycopg.OperationalError) as problem:
        pytest.exit(f"No PostgreSQL for the tests. {problem}", returncode=3)


@pytest.fixture(scope="session")
def pg_cluster(request: pytest.FixtureRequest) -> Cluster:
    """The session's PostgreSQL server and the template of its databases."""
    return _cluster(request.config)


@pytest.fixture(scope="session")
def pg_desk(pg_cluster: Cluster) -> Iterator[psycopg.Connection]:
    """One connection for the coming and going of thousands of databases."""
    with psycopg.connect(pg_cluster.dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def pg_database(pg_cluster: Cluster, pg_desk: psycopg.Connection) -> Iterator[str]:
    """The URL of a fresh PostgreSQL database, dropped after the test."""
    name = f"wl_test_{secrets.token_hex(6)}"
    make_database(pg_desk, name, pg_cluster.template)
    yield with_database(pg_cluster.dsn, name)
    remove_database(pg_desk, name)


@pytest.fixture(scope="session")
def second_cluster(request: pytest.FixtureRequest) -> Cluster:
    """The second server, for tests that ran on the first as well."""
    return _cluster(request.config, SECOND)


@pytest.fixture(scope="session")
def second_desk(second_cluster: Cluster) -> Iterator[psycopg.Connection]:
    """One connection for the databases of the second server."""
    with psycopg.connect(second_cluster.dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def second_pg_database(second_cluster: Cluster, second_desk: psycopg.Connection) -> Iterator[str]:
    """The URL of a fresh database on the second server, dropped after the test."""
    name = f"wl_test_{secrets.token_hex(6)}"
    make_database(second_desk, name, second_cluster.template)
    yield with_database(second_cluster.dsn, name)
    remove_database(second_desk, name)


@pytest.fixture(params=SERVERS)
def any_pg_database(request: pytest.FixtureRequest) -> str:
    """The URL of a fresh database on each of the servers: for what an older one plans otherwise."""
    return _database_on(request)


@pytest.fixture(params=[OWN, *(pytest.param(name, marks=pytest.mark.long) for name in SERVERS[1:])])
def each_pg_database(request: pytest.FixtureRequest) -> str:
    """The same, the second server in the long form alone: for what hardly depends on a version."""
    return _database_on(request)


def _database_on(request: pytest.FixtureRequest) -> str:
    name = "pg_database" if request.param == OWN else "second_pg_database"
    found: str = request.getfixturevalue(name)
    return found
