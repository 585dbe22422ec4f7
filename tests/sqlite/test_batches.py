"""Batches of every width: each run gets its record, its position and its first event, once."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.sqlite.kit import new_run
from windlass.domain.run import NewRun
from windlass.sources import ManualSources
from windlass.store.sqlite.store import SqliteStore

ROWS = """
select lower(hex(n.id)), n.created_at, n.scheduled_for, n.expires_at,
       coalesce(r.ready_at, t.due_at), r.id is not null, t.id is not null,
       coalesce(r.rank, t.rank), e.data
  from runs n left join ready r on r.tenant = n.tenant and r.id = n.id
       left join timers t on t.tenant = n.tenant and t.id = n.id
       left join events e on e.tenant = n.tenant and e.subject = n.id and e.seq = 1
 order by n.rowid
"""


@pytest.mark.parametrize("count", [1, 2, 3, 7, 63, 64, 65, 127, 128, 300])
def test_all_rows_of_a_batch(path: Path, sources: ManualSources, count: int) -> None:
    with closing(SqliteStore(path, sources=sources)) as store:
        earlier = [new_run(sources) for _ in range(5)]
        store.run(store.operations.enqueue(earlier))
        runs = [_run(sources, n) for n in range(count)]
        answers = store.run(store.operations.enqueue(runs))
    assert [answer.id for answer in answers] == [run.id for run in runs]
    rows: list[Any] = apsw.Connection(str(path)).execute(ROWS).fetchall()
    assert [row[0] for row in rows] == [run.id.replace("-", "") for run in [*earlier, *runs]]
    for run, (_, created, scheduled, expires, due, ready, timer, rank, data) in zip(
        runs, rows[5:], strict=True
    ):
        wait = int((run.delay or 0) * 1_000_000)
        assert (ready, timer) == (not wait, bool(wait))
        assert scheduled == due == created + wait
        assert expires == (None if run.expires_in is None else created + 60_000_000)
        assert rank == -run.priority
        assert data == ('{"why":"delay"}' if wait else None)


def test_a_batch_that_is_refused_leaves_the_earlier_ones(
    path: Path, sources: ManualSources
) -> None:
    """The rows of the next batch are found by their numbers: those of one undone are free again."""
    with closing(SqliteStore(path, sources=sources)) as store:
        first = new_run(sources)
        store.run(store.operations.enqueue([first]))
        some = [new_run(sources) for _ in range(70)]
        # The last is known: the batch is undone, and done again run by run.
        answers = store.run(store.operations.enqueue([*some, first]))
        assert [answer.created for answer in answers] == [True] * 70 + [False]
    rows: list[Any] = apsw.Connection(str(path)).execute(ROWS).fetchall()
    assert len(rows) == 71
    assert all(ready and not timer for *_, ready, timer, _, _ in rows)


def _run(sources: ManualSources, n: int) -> NewRun:
    return new_run(
        sources,
        delay=float(n) if n % 3 == 1 else None,
        priority=n % 5,
        expires_in=60.0 if n % 4 == 0 else None,
    )
