"""SIGTERM: what is running may end, what cannot is given back, nothing counts as a failure."""

from __future__ import annotations

import time

from tests.faults.harness import Fleet, Stage, eventually, rest, through
from tests.faults.proxy import Proxy
from windlass import Status

DRAIN = 1.0
SEATS = 6


def test_a_worker_that_is_told_to_go_ends_what_it_can_and_gives_back_the_rest(
    stage: Stage, fleet: Fleet
) -> None:
    """F22: under load, with handlers that take longer than the grace, async and in a thread."""
    long = [stage.app.enqueue(job).id for job in ("hold", "hold", "patient")]
    worker = fleet.ready_worker(drain=DRAIN, concurrency=SEATS, lease=30.0, ahead=60.0)
    stage.await_start(*long)
    load = [run.id for run in stage.load(500)]
    stage.await_lines("effects", 20)

    told = worker.terminate()
    eventually(lambda: "worker stopping" in worker.log(), what="it has heard")
    begun = len(stage.witness.raw("starts"))
    assert worker.wait(within=20) == 0
    ended = time.monotonic()

    # Within the grace, and not at the end of a lease.
    assert DRAIN <= ended - told <= DRAIN + 10
    assert stage.rows("leases") == []
    assert stage.workers(worker.pid) == []
    # What had its seat then may have written its line a moment later.
    assert len(stage.witness.raw("starts")) - begun <= SEATS
    for run in long:
        found = stage.app.get(run)
        assert (found.status, found.failures, found.crash_count) == (Status.QUEUED, 0, 0)
        assert [row["outcome"] for row in stage.rows("attempts", run=run)] == ["interrupted"]
        assert stage.said("told", run), "the handler was told nothing"
    assert stage.said("told", long[-1], word="stopping"), "it was told only when it was over"
    done = {(row["run"], row["attempt"]) for row in stage.rows("attempts", outcome="succeeded")}
    effects = {(line.run, line.attempt) for line in stage.witness.lines("effects")}
    assert effects == done, "work that was done in time was thrown away"
    stage.witness.raise_flag("release")
    fleet.worker(concurrency=40)
    stage.quiet()
    stage.check(acked=[*long, *load])
    assert {stage.app.get(run).status for run in long} == {Status.SUCCEEDED}


def test_a_worker_that_cannot_reach_its_store_goes_all_the_same(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    """F22: what it cannot give back runs out; it must not be killed for waiting."""
    stage = postgres_stage
    worker = fleet.ready_worker(url=through(proxy, stage.url), drain=DRAIN)
    held = stage.app.enqueue("hold").id
    stage.await_start(held)
    load = [run.id for run in stage.load(50)]
    proxy.swallow()
    rest(0.4)  # let its calls begin to wait

    worker.terminate()
    # The grace, and four seconds for what can still be recorded; no answer will ever come.
    assert worker.wait(within=20) == 0

    stage.witness.raise_flag("release")
    fleet.worker()
    stage.quiet()
    stage.check(acked=[held, *load])


def test_an_idle_worker_goes_at_once(stage: Stage, fleet: Fleet) -> None:
    worker = fleet.ready_worker(drain=30.0)

    worker.terminate()

    assert worker.wait(within=10) == 0
    assert stage.rows("workers") == []
