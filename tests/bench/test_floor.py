"""The benchmark's own measurements, small, with bounds that hold on any machine.

Windlass and the bare database are measured in turns, and compared within this run. The bounds are
less than half of what `make bench` finds: they catch a statement that is planned anew each time, a
table that is read through, a round trip for each run.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench import raw_postgres, raw_sqlite
from bench.ours import Bench, run
from tests.fixtures.postgres import create_database, drop_database
from windlass import Windlass

RUNS = 4000
ROUNDS = 3


class Floor:
    """Measures one kind of store, each time in a fresh one."""

    def __init__(self, fresh: Callable[[], str], file: bool) -> None:
        self._fresh = fresh
        self._file = file

    def enqueue(self) -> float:
        """The share of the bare database's rate, for runs by the thousand."""
        return self._share(
            lambda url: Bench(url).enqueue(RUNS, 1000),
            lambda where: (raw_sqlite if self._file else raw_postgres).enqueue_bulk(
                where, RUNS, 1000
            ),
        )

    def drain(self) -> float:
        """The share of the bare database's rate, for a worker with no-op handlers."""

        async def measure(url: str) -> float:
            bench = Bench(url)
            rate, _ = await bench.drain(RUNS)
            await bench.close()
            return rate

        return self._share(
            lambda url: run(measure(url)),
            lambda where: (raw_sqlite if self._file else raw_postgres).drain(where, RUNS),
        )

    def _share(self, ours: Callable[[str], float], bare: Callable[[str], float]) -> float:
        shares = []
        for _ in range(ROUNDS):
            mine = ours(self._store())
            where = self._store()
            shares.append(mine / bare(where.removeprefix("sqlite:///") if self._file else where))
        return max(shares)  # one round without a disturbance is enough

    def _store(self) -> str:
        url = self._fresh()
        app = Windlass(url)
        app.migrate()
        app.close()
        return url


@pytest.fixture(params=["sqlite", "postgres"])
def floor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Floor]:
    """On each store."""
    made = [f"wl_floor_{secrets.token_hex(4)}_{n}" for n in range(2 * ROUNDS)]
    names = iter(made)
    if request.param == "sqlite":
        yield Floor(lambda: f"sqlite:///{tmp_path}/{next(names)}.db", file=True)
        return
    cluster = request.getfixturevalue("pg_cluster")
    yield Floor(lambda: create_database(cluster.dsn, next(names)), file=False)
    for name in made:
        drop_database(cluster.dsn, name)


def test_bulk_enqueue_is_not_far_from_the_bare_database(floor: Floor) -> None:
    assert floor.enqueue() > 0.2


def test_drain_is_not_far_from_the_bare_database(floor: Floor) -> None:
    assert floor.drain() > 0.12
