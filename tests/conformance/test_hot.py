"""What an end costs PostgreSQL: the record is completed in place, and no index hears of it.

So it is where the record finds room in its page, which is left for an end with a small result or
none. A larger one, or an error with its traceback, may have to move, with its index entries.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conformance.kit import JOB, WORKER, make_finish, make_worker, raw
from windlass.domain.outcome import Outcome
from windlass.domain.run import NewRun, Want
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore

SOURCES = Sources.system()
MANY = 3000
BATCH = 300
ENDS = (Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.CANCELED)
UPDATES = """
select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables
 where schemaname = 'windlass' and relname = 'runs'
"""


@pytest.fixture
def store(pg_database: str) -> Iterator[PostgresStore]:
    """A store that nobody else uses: what is counted is its own."""
    with PostgresStore(pg_database, sources=SOURCES) as made:
        yield made


def test_every_end_is_a_hot_update_of_the_record(store: PostgresStore, pg_database: str) -> None:
    ops = store.operations
    runs = [
        NewRun(id=SOURCES.new_id(), job=JOB, queue="main", input=raw({"n": n}), tags=("t",))
        for n in range(MANY)
    ]
    store.run(ops.enqueue(runs))
    store.run(ops.register(make_worker(seats=BATCH), 60))
    want = Want(limit=BATCH, jobs=(JOB,))
    held = store.run(ops.cycle(WORKER, 1, [], want)).claimed
    number = 1
    while held:
        number += 1
        ends = [make_finish(run, ENDS[n % len(ENDS)], result=raw(n)) for n, run in enumerate(held)]
        held = store.run(ops.cycle(WORKER, number, ends, want)).claimed

    assert updates(store, pg_database) == (MANY, MANY)


def updates(store: PostgresStore, url: str) -> tuple[int, int]:
    """How often a record was changed, and how often in place, without a word to an index."""
    with store._sync.connection() as conn:  # the one that did it all has not told of it yet
        conn.execute("select pg_stat_force_next_flush()")
    with psycopg.connect(url) as look:
        changed, in_place = look.execute(UPDATES).fetchone() or (0, 0)
    return int(changed), int(in_place)
