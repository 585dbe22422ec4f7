"""Stages and fleets for the fault tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import (
    IMPORTS,
    Fleet,
    Stage,
    make_postgres_stage,
    make_sqlite_stage,
    proxy_for,
)
from tests.faults.proxy import Proxy
from tests.fixtures.nursery import Nursery


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """An empty database, once of each kind."""
    made: Stage = request.getfixturevalue(f"{request.param}_stage")
    return made


@pytest.fixture
def sqlite_stage(tmp_path: Path) -> Iterator[Stage]:
    """An empty SQLite file."""
    made = make_sqlite_stage(tmp_path)
    yield made
    made.close()


@pytest.fixture
def postgres_stage(tmp_path: Path, pg_database: str) -> Iterator[Stage]:
    """An empty PostgreSQL database."""
    made = make_postgres_stage(pg_database, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where the programs of these tests come from."""
    made = Nursery(*IMPORTS)
    yield made
    made.close()


@pytest.fixture
def fleet(request: pytest.FixtureRequest, nursery: Nursery) -> Iterator[Fleet]:
    """Processes on the stage of the test; they end with it."""
    names = [name for name in request.fixturenames if name.endswith("stage")]
    made = Fleet(request.getfixturevalue("stage" if "stage" in names else names[0]), nursery)
    yield made
    made.close()


@pytest.fixture
def proxy(postgres_stage: Stage) -> Iterator[Proxy]:
    """A proxy in front of the test's PostgreSQL database."""
    with proxy_for(postgres_stage.url) as made:
        yield made
