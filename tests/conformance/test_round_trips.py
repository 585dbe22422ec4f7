"""What a worker's round trip takes, on a server with its default settings.

The bound is far above what a trip takes (a millisecond or two), and far below what it takes a
server that compiles its plans first, or walks a table: that is hundreds of milliseconds.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import psycopg

from tests.conformance.kit import JOB, WORKER, held_of, make_finish, make_worker, raw
from windlass.domain.listing import RunFilter
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, NewRun, Want
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.sources import Sources
from windlass.store.postgres.store import PostgresStore

SOURCES = Sources.system()
TRIPS = 25
MOST = 0.02  # seconds, for the median
STEPS = (
    StepWrite(path="a", kind=StepKind.STEP, state=StepState.DONE),
    StepWrite(path="go", kind=StepKind.SIGNAL, state=StepState.WAITING, signal="go"),
)


def test_a_round_trip_takes_milliseconds(any_pg_database: str) -> None:
    with PostgresStore(any_pg_database, sources=SOURCES) as store:
        ops = store.operations
        store.run(ops.register(make_worker(), 600.0))
        store.run(ops.enqueue([_new(n) for n in range(4 * TRIPS)]))
        want = Want(limit=2, jobs=(JOB,), queues=None)
        took: dict[str, list[float]] = {"trip": [], "single": [], "list": []}
        took |= {"step": [], "signal": [], "steps": []}
        held: tuple[Claimed, ...] = ()
        for number in range(1, TRIPS + 1):
            ends = [
                make_finish(run, outcome)
                for run, outcome in zip(held, (Outcome.SUCCEEDED, Outcome.FAILED), strict=False)
            ]
            began = perf_counter()
            held = tuple(store.run(ops.cycle(WORKER, number, ends, want)).claimed)
            ended = perf_counter()
            store.run(ops.enqueue([_new(number)]))
            single = perf_counter()
            store.run(ops.list_runs(RunFilter(limit=20)))
            took["trip"].append(ended - began)
            took["single"].append(single - ended)
            took["list"].append(perf_counter() - single)
            assert len(held) == 2
            began = perf_counter()
            store.run(ops.signal(held[0].ref, "go", raw(1), None))
            sent = perf_counter()
            recorded = store.run(ops.record_steps(held_of(held[0]), STEPS))
            ended = perf_counter()
            store.run(ops.list_steps("default", held[0].id, None, 50))
            took["signal"].append(sent - began)
            took["step"].append(ended - sent)
            took["steps"].append(perf_counter() - ended)
            assert [step.state for step in recorded or ()] == [StepState.DONE] * 2

    assert {what: median(times) for what, times in took.items() if median(times) > MOST} == {}


def test_the_servers_have_their_default_settings(any_pg_database: str) -> None:
    with psycopg.connect(any_pg_database) as conn:
        changed = conn.execute(
            "select name, setting, boot_val from pg_settings "
            "where setting <> boot_val and (category like 'Query Tuning%' or name like 'jit%')"
        ).fetchall()

    assert changed == []


def _new(number: int) -> NewRun:
    return NewRun(id=SOURCES.new_id(), job=JOB, queue="main", input=raw({"n": number}))
