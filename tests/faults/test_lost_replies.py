"""Clients that are killed, or whose reply is lost: a repeated enqueue makes no second run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.faults.harness import Fleet, Stage, through
from tests.faults.programs.jobs import define_jobs
from tests.faults.proxy import Fault, Proxy
from windlass import Run, Status, Windlass
from windlass.domain.outcome import Outcome
from windlass.domain.run import Finish, Want, WorkerInfo

ARGUMENTS = {"n": 1, "ms": 1}


@pytest.fixture
def remote(postgres_stage: Stage, proxy: Proxy) -> Iterator[Windlass]:
    """An application whose way to the database can be disturbed."""
    app = Windlass(through(proxy, postgres_stage.url), **postgres_stage.settings)
    define_jobs(app, postgres_stage.witness)
    app.enqueue("load", ARGUMENTS)  # connected, its schema looked at
    yield app
    app.close()


@pytest.mark.parametrize("fault", [Fault.LOSE_REPLY, Fault.LOSE_REQUEST], ids=lambda f: f.name)
@pytest.mark.parametrize("options", [{}, {"key": "once"}], ids=["id", "key"])
def test_an_enqueue_that_breaks_off_is_repeated_and_makes_one_run(
    postgres_stage: Stage, proxy: Proxy, remote: Windlass, fault: Fault, options: dict[str, str]
) -> None:
    """F03: neither the caller nor the store can tell a lost request from a lost reply."""
    rule = proxy.expect(fault, "windlass.enqueue", times=3)
    before = len(postgres_stage.rows("runs"))

    run = remote.enqueue("load", ARGUMENTS, **options)  # type: ignore[arg-type]

    assert rule.times == 0, "the fault did not happen"
    assert len(postgres_stage.rows("runs")) == before + 1
    assert postgres_stage.rows("runs", id=run.id)
    assert len(postgres_stage.rows("events", subject=run.id)) == 1
    postgres_stage.check(settled=False)


async def test_a_group_of_enqueues_that_breaks_off_makes_one_run_each(
    postgres_stage: Stage, proxy: Proxy, remote: Windlass
) -> None:
    """F03, through the async face, many in one transaction."""
    rule = proxy.expect(Fault.LOSE_REPLY, "windlass.enqueue", times=2)
    before = len(postgres_stage.rows("runs"))

    requests = [remote.jobs["load"].request(n=n, ms=1) for n in range(50)]
    runs = await remote.aenqueue_many(requests)
    await remote.aclose()

    assert rule.times == 0, "the fault did not happen"
    assert len({run.id for run in runs}) == 50
    assert len(postgres_stage.rows("runs")) == before + 50
    postgres_stage.check(acked=[run.id for run in runs], settled=False)


async def get(app: Windlass, run: str, *, blocking: bool) -> object:
    return (app.get(run) if blocking else await app.aget(run)).id == run


async def find(app: Windlass, run: str, *, blocking: bool) -> object:
    found = app.list(limit=10) if blocking else await app.alist(limit=10)
    return run in [one.id for one in found]


async def result(app: Windlass, run: str, *, blocking: bool) -> object:
    return app.result(run, timeout=20) if blocking else await app.aresult(run, timeout=20)


async def cancel(app: Windlass, run: str, *, blocking: bool) -> object:
    found = app.cancel(run) if blocking else await app.acancel(run)
    return found.status, found.cancel_requested


CALLS: dict[str, tuple[str, Any, Status, Any]] = {
    "get": ("get_runs", get, Status.QUEUED, True),
    "list": ("page_runs", find, Status.RUNNING, True),
    "result": ("get_runs", result, Status.SUCCEEDED, "done"),
    "cancel": ("cancel", cancel, Status.QUEUED, (Status.CANCELED, False)),
    "cancel running": ("cancel", cancel, Status.RUNNING, (Status.RUNNING, True)),
}


@pytest.mark.parametrize("blocking", [True, False], ids=["sync", "async"])
async def test_calls_that_break_off_are_repeated_and_answer_as_if_nothing_had_happened(
    postgres_stage: Stage, proxy: Proxy, remote: Windlass, blocking: bool
) -> None:
    """F11: whoever reads or cancels hears of no connection; a cancel is recorded once."""
    told = {}
    for fault in (Fault.LOSE_REPLY, Fault.LOSE_REQUEST):
        for name, (function, call, status, _) in CALLS.items():
            (run,) = postgres_stage.load(1)
            bring(postgres_stage.app, run, status)
            rule = proxy.expect(fault, f"windlass.{function}")
            told[fault, name] = await call(remote, run.id, blocking=blocking)
            assert rule.times == 0, f"{fault} did not happen to {name}"
            events = [row["type"] for row in postgres_stage.rows("events", subject=run.id)]
            assert sum("cancel" in event for event in events) == (function == "cancel")
    await remote.aclose()

    assert told == {(fault, name): CALLS[name][3] for fault, name in told}


def bring(app: Windlass, run: Run, status: Status) -> None:
    """Bring a run that is queued into a status, by a worker that is not there."""
    store, operations = app.store, app.store.operations
    if status is Status.QUEUED:
        return
    ghost = WorkerInfo(id="w", host="", pid=1, version="", queues=None, jobs=("load",), seats=1)
    store.run(operations.register(ghost, 60.0))
    want = Want(limit=1, jobs=("load",), ids=(run.ref,))
    (held,) = store.run(operations.cycle("w", 1, [], want)).claimed
    if status is Status.SUCCEEDED:
        end = Finish(
            tenant=held.tenant,
            id=held.id,
            token=held.token,
            outcome=Outcome.SUCCEEDED,
            result=msgspec.Raw(b'"done"'),
        )
        store.run(operations.cycle("w", 2, [end], None))


def test_a_client_that_dies_before_the_reply_may_repeat_the_key(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    """F03: the run exists, nobody was told; the same key answers with it, five times."""
    rule = proxy.expect(Fault.HOLD_REPLY, "windlass.enqueue", "key-0")
    client = fleet.client(url=through(proxy, postgres_stage.url), by="key", count=1)
    assert rule.struck.wait(10), "the enqueue was never sent"
    client.kill()

    (row,) = postgres_stage.rows("runs")
    for _ in range(5):
        again = postgres_stage.app.enqueue("load", {"n": 0, "ms": 20}, key="key-0")
        assert again.id == row["id"]
    assert len(postgres_stage.rows("runs")) == 1
    assert postgres_stage.acked() == {}


def test_streams_that_are_killed_and_begun_again_make_each_run_once(
    stage: Stage, fleet: Fleet
) -> None:
    """F03: clients are killed in the midst of calls; the next ones repeat all of them."""
    streams: list[dict[str, Any]] = [{"by": "key", "first": 0}, {"by": "id", "first": 1_000_000}]
    for _ in range(2):
        before = len(stage.witness.raw("acks"))
        clients = [fleet.client(**stream) for stream in streams]
        stage.await_lines("acks", before + 40)
        for client in clients:
            client.kill()
    asked = {int(n) for n in stage.witness.raw("asked")}
    counts = [sum(n - stream["first"] in range(1_000_000) for n in asked) for stream in streams]
    last = [fleet.client(**s, count=count) for s, count in zip(streams, counts, strict=True)]
    assert [client.wait(within=15) for client in last] == [0, 0]

    answers = defaultdict(set)
    for line in stage.witness.raw("acks"):
        n, run = line.split()
        answers[int(n)].add(run)
    assert {len(runs) for runs in answers.values()} == {1}, "a repetition got another answer"
    assert set(answers) == asked
    made = {row["id"] for row in stage.rows("runs")}
    assert made == set().union(*answers.values())
    assert len(made) == len(asked)
    stage.check(acked=made, settled=False)
