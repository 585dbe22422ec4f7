"""Applications on virtual clocks, on each store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Cluster
from tests.fixtures.apps import STORES
from windlass import Windlass
from windlass.testing import VirtualClock, clock_of
from windlass.testing.places import moved, scratch

START = "2030-03-01T12:00:00Z"


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest) -> Iterator[Windlass]:
    """An application without jobs on an empty store, at noon of the first of March 2030."""
    if request.param == "sqlite":
        with scratch() as url, moved(None, url, start=START) as found:
            yield found
    else:
        cluster: Cluster = request.getfixturevalue("pg_cluster")
        template = cluster.dsn.rsplit("/", 1)[0] + f"/{cluster.template}"
        with scratch(cluster.dsn, template) as url, moved(None, url, start=START) as found:
            yield found


@pytest.fixture
def clock(app: Windlass) -> VirtualClock:
    """Its clock."""
    return clock_of(app)
