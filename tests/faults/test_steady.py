"""Workers in ordinary times: urgent runs, idle hours, jobs of others, long lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from tests.conformance.places import SqlitePlace
from tests.faults.harness import Fleet, Stage, eventually, rest, through
from tests.faults.proxy import Fault, Proxy
from tests.fixtures.apps import at_rest, within
from windlass import Status, Windlass
from windlass.store.interface import Call
from windlass.store.sqlite.store import SqliteStore

T = TypeVar("T")

DEFAULTS: Mapping[str, Any] = {"lease": "30s", "renew": "10s", "sweep": "5s", "poll": "1s"}
WINDOW = 3.0
# Runs before an urgent one: there are about thirty between two looks at the head of the queue.
BACKLOG, OVERTAKEN = 1500, 300


def most(began: float) -> float:
    """Two a second since then; the edges may each cut off a little less than one beat."""
    return 2 * (time.monotonic() - began) + 2


def test_an_urgent_run_overtakes_a_backlog_under_saturation(stage: Stage, fleet: Fleet) -> None:
    """Busy claims start behind what they took last; an urgent run sorts before that."""
    stage.load(BACKLOG, ms=(100, 150))
    worker = fleet.ready_worker(concurrency=16)
    stage.await_lines("effects", 32)
    for n in range(3):
        urgent = stage.app.enqueue("load", {"n": n, "ms": 1}, priority=10).id
        before = len(stage.witness.raw("starts"))
        stage.await_start(urgent)
        place = [line.run for line in stage.witness.lines("starts")].index(urgent)
        assert place - before <= OVERTAKEN
        assert place + OVERTAKEN < BACKLOG, "there was no backlog: the test tests nothing"
    worker.terminate()
    assert worker.wait(within=20) == 0
    stage.check(settled=False)


class CountingStore(SqliteStore):
    """Counts the calls."""

    calls = 0

    def run(self, call: Call[T]) -> T:
        self.calls += 1
        return super().run(call)

    async def arun(self, call: Call[T]) -> T:
        self.calls += 1
        return await super().arun(call)


async def test_an_idle_worker_makes_two_calls_a_second_at_most_on_sqlite(tmp_path: Path) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/windlass.db", **DEFAULTS)
    app.ground.store = store = CountingStore(tmp_path / "windlass.db")
    app.job(nothing)
    app.job(nothing_async)
    worker = app.worker()
    with ExitStack() as stack:
        worked = [stack.enter_context(each.worked.heard()) for each in worker.services]
        running = asyncio.create_task(worker.run())
        await within(worker.started)
        for each in worked:  # what it does once, when it starts, is over
            await each.next()
        await at_rest(worker)
    before, began = store.calls, time.monotonic()
    await asyncio.sleep(WINDOW)
    made, allowed = store.calls - before, most(began)
    worker.stop()
    await running
    await app.aclose()

    assert 0 < made <= allowed


def nothing() -> None:
    """A job in a thread."""


async def nothing_async() -> None:
    """A job on the loop."""


def test_an_idle_worker_makes_two_round_trips_a_second_at_most_on_postgres(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    fleet.ready_worker(url=through(proxy, postgres_stage.url), settings=DEFAULTS)
    eventually(lambda: listening(postgres_stage.url), what="the worker listens")
    eventually(lambda: still(proxy), what="what it does once, when it starts, is over")
    before, began = proxy.round_trips, time.monotonic()
    rest(WINDOW)
    made = proxy.round_trips - before

    assert 0 < made <= most(began)


def listening(url: str) -> bool:
    """Whether a session has said LISTEN, and was answered."""
    with psycopg.connect(url) as conn:
        found = conn.execute(
            "select 1 from pg_stat_activity where datname = current_database()"
            " and query ilike 'listen %' and state = 'idle'"
        )
        return found.fetchone() is not None


def still(proxy: Proxy) -> bool:
    """Whether nothing is said for a while."""
    before = proxy.round_trips
    rest(0.4)
    return proxy.round_trips == before


def test_a_run_that_a_worker_cannot_run_waits_for_one_that_can(stage: Stage, fleet: Fleet) -> None:
    """A job that it does not know, and a queue that it does not serve."""
    unknown = stage.app.enqueue("block", {"n": 1, "ms": 1}).id
    elsewhere = stage.app.enqueue("load", {"n": 2, "ms": 1}, queue="side").id
    first = fleet.worker(jobs=["load", "hold"], queues=("default",))
    marker = stage.app.enqueue("load", {"n": 3, "ms": 1}, priority=-1).id
    eventually(lambda: stage.app.get(marker).status.finished, what="the worker has looked")
    for run in (unknown, elsewhere):
        found = stage.app.get(run)
        assert (found.status, found.attempt) == (Status.QUEUED, 0)

    second = fleet.worker()
    stage.quiet()

    stage.check(acked=[unknown, elsewhere, marker])
    pids = {line.run: line.pid for line in stage.witness.lines("effects")}
    assert (pids[unknown], pids[elsewhere], pids[marker]) == (second.pid, second.pid, first.pid)


def test_runs_whose_wake_up_is_lost_are_found_by_polling_on_sqlite(
    sqlite_stage: Stage, fleet: Fleet
) -> None:
    stage = sqlite_stage
    assert isinstance(stage.place, SqlitePlace)
    bells = stage.place.path.with_name(stage.place.path.name + "-wake")
    fleet.ready_worker(services=False)
    eventually(lambda: bells.is_dir() and any(bells.iterdir()), what="the worker listens")
    for bell in bells.iterdir():
        bell.unlink()

    assert_found_by_polling(stage)


def test_runs_whose_wake_up_is_lost_are_found_by_polling_on_postgres(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    rule = proxy.expect(Fault.LOSE_REQUEST, "listen windlass", times=1_000_000)
    fleet.ready_worker(url=through(proxy, postgres_stage.url), services=False)
    assert rule.struck.wait(10), "the worker never tried to listen"

    assert_found_by_polling(postgres_stage)


def assert_found_by_polling(stage: Stage) -> None:
    for _ in range(3):
        (run,) = stage.load(1)
        stage.await_start(run.id)  # nothing but polling could find it
    stage.quiet()
    stage.check()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_memory_of_a_worker_does_not_grow_with_its_runs(stage: Stage, fleet: Fleet) -> None:
    """Fifty thousand runs."""
    worker = fleet.ready_worker(concurrency=50)
    total, batch = 50_000, 5_000
    sizes = []
    for _ in range(total // batch):
        requests = [stage.app.jobs["quick"].request(n=n) for n in range(batch)]
        stage.app.enqueue_many(requests)
        stage.quiet(within=120)
        sizes.append(resident(worker.pid))

    # The first batches fill caches and pools.
    assert sizes[-1] - sizes[1] < 20 * 1024**2, sizes


def resident(pid: int) -> int:
    """The memory of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")
