"""What a run costs a store, in units that do not depend on the machine: rows, bytes, pages.

A run that is enqueued with others, started once and succeeded is what nearly all runs are. If a
change makes it write more, this fails, whatever the machine's mood. The bounds are a few percent
above what was counted when they were set; raise one only with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.conformance.kit import JOB, WORKER, make_finish, make_worker, raw
from windlass.domain.outcome import Outcome
from windlass.domain.run import NewRun, Want
from windlass.sources import Sources
from windlass.store.operations import Call, Operations
from windlass.store.postgres.operations import bind
from windlass.store.sqlite.store import SqliteStore

SOURCES = Sources.system()
INPUT = raw({"user_id": 12345, "template": "welcome", "locale": "en", "note": "x" * 40})
BATCH = 500
PAGE = 8192

ROWS = """
select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)
  from pg_stat_xact_all_tables where schemaname = 'windlass'
"""


class Cost(NamedTuple):
    """What was written for each run."""

    rows: float  # inserted, updated or deleted
    wal: float  # bytes, without the copies of whole pages that follow a checkpoint


class Meter:
    """Runs calls in one session and counts what they write."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        self.ops = Operations()

    def run(self, call: Call[Any]) -> Any:
        """Run a call; returns its answer."""
        asked = bind(call)
        rows = self._conn.execute(asked.sql, asked.parameters, prepare=True).fetchall()
        self._conn.commit()
        return asked.answer(rows)

    def cost(self, call: Call[Any], runs: int) -> Cost:
        """What a call writes, for each of so many runs; it is undone."""
        asked = bind(call)
        query = "explain (analyze, wal, format json) " + asked.sql
        before = self._written()
        ((plan,),) = self._conn.execute(query, asked.parameters).fetchall()
        rows = self._written() - before
        self._conn.rollback()
        found = (plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]
        wal = found["WAL Bytes"] - PAGE * found["WAL FPI"]
        return Cost(rows / runs, wal / runs)

    def _written(self) -> int:
        """Rows so far: also those of earlier transactions, as long as nobody was told of them."""
        ((rows,),) = self._conn.execute(ROWS).fetchall()
        return int(rows)

    def new(self) -> Call[Any]:
        """An enqueue of a whole batch."""
        return self.ops.enqueue(
            [NewRun(id=i, job=JOB, queue="main", input=INPUT) for i in SOURCES.new_ids(BATCH)]
        )


@pytest.fixture
def meter(any_pg_database: str) -> Iterator[Meter]:
    """A session on each of the servers. Its plans are made, and its tables have rows."""
    with psycopg.connect(any_pg_database) as conn:
        meter = Meter(conn)
        meter.run(meter.ops.register(make_worker(seats=BATCH), 600.0))
        want = Want(limit=BATCH, jobs=(JOB,), queues=("main",))
        for number in range(1, 4):
            meter.run(meter.new())
            held = meter.run(meter.ops.cycle(WORKER, 2 * number, [], want)).claimed
            ends = [make_finish(run, Outcome.SUCCEEDED) for run in held]
            meter.run(meter.ops.cycle(WORKER, 2 * number + 1, ends, None))
        yield meter


def test_enqueue_writes_two_rows_a_run(meter: Meter) -> None:
    cost = meter.cost(meter.new(), BATCH)

    assert cost.rows <= 2.05  # the record, the position; a page for many
    assert cost.wal <= 850


def test_claim_and_success_write_four_rows_a_run(meter: Meter) -> None:
    want = Want(limit=BATCH, jobs=(JOB,), queues=("main",))
    meter.run(meter.new())
    claim = meter.cost(meter.ops.cycle(WORKER, 100, [], want), BATCH)
    held = meter.run(meter.ops.cycle(WORKER, 101, [], want)).claimed
    ends = [make_finish(run, Outcome.SUCCEEDED) for run in held]
    success = meter.cost(meter.ops.cycle(WORKER, 102, ends, None), BATCH)

    assert len(held) == BATCH
    assert claim.rows <= 2.05  # the position goes, the lease comes
    assert success.rows <= 2.05  # the lease goes, the record is completed
    assert claim.wal + success.wal <= 700


def test_a_failure_writes_what_only_it_can_tell(meter: Meter) -> None:
    want = Want(limit=BATCH, jobs=(JOB,), queues=("main",))
    meter.run(meter.new())
    held = meter.run(meter.ops.cycle(WORKER, 100, [], want)).claimed
    ends = [make_finish(run, Outcome.RETRY, delay=10.0) for run in held]

    cost = meter.cost(meter.ops.cycle(WORKER, 101, ends, None), BATCH)

    assert cost.rows <= 4.05  # the lease goes, a timer comes, an attempt, an event


FRAME = 4096 + 24  # of SQLite's log: a page, and where it belongs


def test_sqlite_writes_few_pages(tmp_path: Path) -> None:
    """Ids and times are always the same here, and so are the trees of the file."""
    sources = Sources.manual()
    path = tmp_path / "windlass.db"
    log = Path(f"{path}-wal")
    want = Want(limit=BATCH, jobs=(JOB,), queues=("main",))
    written: dict[str, float] = {}
    with SqliteStore(path, sources=sources) as store:
        store.migrate()
        ops = store.operations
        store.run(ops.register(make_worker(seats=BATCH), 600.0))
        for number in range(1, 4):  # the first are of trees that still grow
            runs = [
                NewRun(id=i, job=JOB, queue="main", input=INPUT) for i in sources.new_ids(BATCH)
            ]
            before = log.stat().st_size
            store.run(ops.enqueue(runs))
            enqueued = log.stat().st_size
            held = store.run(ops.cycle(WORKER, 2 * number, [], want)).claimed
            ends = [make_finish(run, Outcome.SUCCEEDED) for run in held]
            store.run(ops.cycle(WORKER, 2 * number + 1, ends, None))
            ended = log.stat().st_size
            assert len(held) == BATCH
            written = {
                "enqueue": (enqueued - before) / FRAME,
                "claim and success": (ended - enqueued) / FRAME,
            }

    assert written["enqueue"] <= 72
    assert written["claim and success"] <= 95
