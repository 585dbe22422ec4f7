"""Claims beside a transaction that keeps vacuum away: what is gone stays in the index.

A claim under load must cost what it costs without: the lane remembers how far it came in a queue,
and which queues have something. Counted are blocks of the table and its indexes, not seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from windlass.domain.job import Executor
from windlass.domain.run import CycleReply
from windlass.engine.lanes import Lane
from windlass.engine.search import Reach
from windlass.store.operations import Operations
from windlass.store.postgres.operations import bind

GONE = 20_000  # of each of two queues; 500 blocks to step over
LEFT = 500
BATCH = 5
MOST = 80  # blocks that a claim of a batch may read

FILL = """
insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                            attempt, failures, crash_count, token, seq)
select 'default', windlass.uuid7(), 'greet', queue, 0, now() + n * interval '1 ms', 0, 0, 0, 0, 1
  from unnest(array['drained', 'main']) queue, generate_series(1, :all) n;
insert into windlass.runs (tenant, id, job, queue, priority, input, created_at, scheduled_for)
select r.tenant, r.id, r.job, r.queue, 0, '{}', now(), now() from windlass.ready r;
"""
TAKE = """
delete from windlass.ready
 where queue = 'drained' or ready_at <= now() + :gone * interval '1 ms'
"""
READ = """
select heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit
  from pg_statio_user_tables where schemaname = 'windlass' and relname = 'ready'
"""


class Claimer:
    """A worker's lane and its connection, and what its claims read."""

    def __init__(self, url: str, queues: tuple[str, ...] | None) -> None:
        self._conn: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._look = psycopg.connect(url, autocommit=True)
        self._conn.execute("select windlass.register('w1', 3600)")
        self._ops = Operations()
        self._lane = Lane(Executor.ASYNC, 1000, ("greet",), queues)
        self._lane.hear()

    def claim(self, now: float) -> tuple[Reach, CycleReply, int]:
        """Claim a batch; returns how, what came of it, and how many blocks were read."""
        before = self._blocks()
        look = self._lane.look(BATCH, now)
        call = self._ops.cycle("w1", 1, [], look.want)
        asked = bind(call)
        rows = self._conn.execute(asked.sql, asked.parameters, prepare=True).fetchall()
        reply: CycleReply = asked.answer(rows)
        self._lane.answered(look, reply, now)
        self._lane.settle(look)
        return look.reach, reply, self._blocks() - before

    def close(self) -> None:
        self._conn.close()
        self._look.close()

    def _blocks(self) -> int:
        self._conn.execute("select pg_stat_force_next_flush()")
        (blocks,) = self._look.execute(READ).fetchone() or (0,)
        return int(blocks)


@pytest.fixture
def crowded(any_pg_database: str) -> Iterator[str]:
    """A database with many index entries of rows that are gone, for as long as the test runs."""
    with psycopg.connect(any_pg_database) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1")
        with psycopg.connect(any_pg_database) as conn:
            conn.execute(FILL.replace(":all", str(GONE + LEFT)).encode())
            conn.execute(TAKE.replace(":gone", str(GONE)).encode())
        yield any_pg_database


@pytest.mark.parametrize("queues", [None, ("main",)])
def test_claims_under_load_step_over_nothing_that_is_gone(
    crowded: str, queues: tuple[str, ...] | None
) -> None:
    claimer = Claimer(crowded, queues)
    first, reply, blocks = claimer.claim(0.0)
    assert (first, len(reply.claimed)) == (Reach.HEAD, BATCH)
    assert blocks > MOST, "vacuum was not held back: the test tests nothing"
    for _ in range(8):  # PL/pgSQL settles for one plan after a few
        claimer.claim(0.0)
    deep, reply, blocks = claimer.claim(0.0)
    claimer.close()

    assert (deep, len(reply.claimed)) == (Reach.DEEP, BATCH)
    assert blocks <= MOST
