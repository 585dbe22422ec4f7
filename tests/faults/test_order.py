"""Events of a run in time's order, also where one call waits for another."""

from __future__ import annotations

import threading

import msgspec
import psycopg

from tests.faults.harness import Stage, eventually
from windlass.domain.outcome import Outcome
from windlass.domain.run import Finish, Want, WorkerInfo

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"


def test_a_cancel_that_waited_for_an_end_is_not_older_than_it(postgres_stage: Stage) -> None:
    """The cancel begins first, and comes second: it must take its time when the row is its own."""
    stage = postgres_stage
    store = stage.app.store
    ghost = WorkerInfo(id="w", host="", pid=1, version="", queues=None, jobs=("load",), seats=1)
    run = stage.load(1)[0]
    store.run(store.operations.register(ghost, 60.0))
    want = Want(limit=1, jobs=("load",))
    (claimed,) = store.run(store.operations.cycle("w", 1, [], want)).claimed
    end = Finish(
        tenant=claimed.tenant,
        id=run.id,
        token=claimed.token,
        outcome=Outcome.RETRY,
        delay=60.0,
        counts=True,
    )
    canceling = threading.Thread(target=lambda: stage.app.cancel(run.id), daemon=True)
    with psycopg.connect(stage.url) as other, psycopg.connect(stage.url, autocommit=True) as look:
        other.execute("select from windlass.leases for update")
        canceling.start()
        eventually(
            lambda: (look.execute(WAITING, (look.info.dbname,)).fetchone() or (0,))[0],
            what="the cancel waits for the row",
        )
        other.execute("select windlass.finish(%s::json)", (msgspec.json.encode([end]).decode(),))
    canceling.join(10)

    kinds = [row["type"] for row in stage.rows("events")]
    assert kinds == ["run.enqueued", "run.started", "run.retrying", "run.canceled"]
    stage.check(settled=True)
