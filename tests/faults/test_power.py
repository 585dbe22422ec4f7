"""F16 on PostgreSQL: the power fails under a server of the test's own."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.faults.harness import Fleet, Stage, make_postgres_stage
from tests.fixtures.postgres import PostgresServer, prepare_template
from tests.fixtures.wal import LAZY, Wreck, flushed

MARKS = 60
CUTS = 12


class Mark(NamedTuple):
    """Up to where the log was flushed, at a moment when at least so many were acknowledged."""

    position: int
    acked: int


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A durable server of the test's own."""
    with PostgresServer(LAZY) as made:
        yield made


@pytest.fixture
def mains_stage(server: PostgresServer, tmp_path: Path) -> Iterator[Stage]:
    """An empty database on it."""
    url = server.create_database("mains")
    prepare_template(url)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create extension amcheck")  # on the disk before the first cut
        conn.execute("checkpoint")
    made = make_postgres_stage(url, tmp_path)
    yield made
    made.close()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_power_cut_loses_no_acknowledged_run(
    server: PostgresServer, mains_stage: Stage, fleet: Fleet, tmp_path: Path
) -> None:
    stage = mains_stage
    worker, *clients = fleet.ready_worker(), fleet.client(ms=5), fleet.client(first=100_000, ms=5)
    stage.await_lines("acks", 50)
    marks = watch(stage)
    server.stop("immediate")
    for process in (worker, *clients):
        process.kill()
    acks = [line.split()[1] for line in stage.witness.raw("acks")]
    wreck = Wreck(server, tmp_path)

    dice = random.Random(16)
    lost: list[int] = []
    for seed in range(CUTS):
        mark = dice.choice(marks)
        sectors = wreck.cut(mark.position, seed)
        server.start()
        stage.check(acked=acks[: mark.acked], settled=False)
        known = {row["id"] for row in stage.rows("runs")}
        lost.append(sum(run not in known for run in acks) if sectors else 0)
        server.stop("immediate")
    # What was acknowledged after the cut is gone: it was no cut of nothing.
    assert sum(count > 0 for count in lost) > CUTS / 2


def watch(stage: Stage) -> list[Mark]:
    """Note time and again what was acknowledged, and then what is on the disk."""
    marks = []
    with psycopg.connect(stage.url, autocommit=True) as conn:
        for n in range(MARKS):
            stage.await_lines("acks", 50 + 5 * n)
            acked = len(stage.witness.raw("acks"))
            marks.append(Mark(flushed(conn), acked))
    return marks
