"""What every test may ask for.

PostgreSQL: one private server per test session, started by the process that the developer started
(with xdist the controller, before its workers; otherwise the first test that asks for it) and
stopped by the same process. Each test gets a database of its own, copied from a template.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
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
    with_database,
)

settings.register_profile("windlass", deadline=None, print_blob=True)
settings.load_profile("windlass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where the tests' databases are made."""

    dsn: str
    template: str


class SharedPostgres:
    """The session's PostgreSQL: started when first needed, closed when pytest ends."""

    def __init__(self) -> None:
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
        dsn = os.environ.get("WINDLASS_TEST_PG_DSN")
        if dsn:
            # That server may serve other test sessions at the same time.
            cluster = Cluster(dsn=dsn, template=f"wl_template_{secrets.token_hex(4)}")
        else:
            self._server = PostgresServer(volatile=True)
            self._server.start()
            cluster = Cluster(dsn=self._server.dsn(), template="wl_template")
        prepare_template(create_database(cluster.dsn, cluster.template))
        return cluster


shared_postgres = pytest.StashKey[SharedPostgres]()


def pytest_configure(config: pytest.Config) -> None:
    """Give the process its handle on the server; nothing is started yet."""
    # What a shell starts in the background ignores SIGINT; so would every process of the tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[shared_postgres] = SharedPostgres()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind, also after Ctrl-C."""
    config.stash[shared_postgres].close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell an xdist worker where the controller's server is."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]
    cluster = _cluster(config)
    node.workerinput["windlass_postgres"] = (cluster.dsn, cluster.template)  # type: ignore[attr-defined]


def _cluster(config: pytest.Config) -> Cluster:
    told = getattr(config, "workerinput", {}).get("windlass_postgres")
    if told is not None:
        dsn, template = told
        return Cluster(dsn=dsn, template=template)
    try:
        return config.stash[shared_postgres].cluster()
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
