"""Reads are functions: every role that may call them gets the same answer, in every session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psycopg
import pytest
from psycopg import sql

from tests.conformance.desk import Desk
from tests.conformance.kit import JOB, Driver, held_of, logged, make_worker, raw
from tests.conformance.places import PostgresPlace, opened
from tests.conformance.test_roles import Login, login
from windlass.domain.artifact import Artifact
from windlass.domain.batch import NewBatch, ShardWrite, UnitFailure
from windlass.domain.counts import By
from windlass.domain.envelope import About
from windlass.domain.listing import RunFilter
from windlass.domain.outcome import Outcome
from windlass.domain.pause import PauseKind
from windlass.domain.report import ErrorInfo
from windlass.domain.run import JobRow, Options, RunRef
from windlass.domain.runlog import LogLine
from windlass.domain.scheduling.rows import ScheduleFilter, ScheduleRef
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.sources import Sources
from windlass.store.operations import Access, Call, Operations
from windlass.store.operations.declare import declared
from windlass.store.postgres.store import PostgresStore
from windlass.store.queries import load_queries, read_folder

__all__ = ["login"]

Calls = Mapping[str, Call[Any]]
CLOCKS = {"now", "seen_at", "left"}  # the time of the look
# Of the owner, who migrates (those tables have no tenants), or whose test store it is.
BOOKKEEPING = {"schema.sql", "scratch.sql"}

ROW_SECURITY = """
select format('alter table %s enable row level security', c.oid::regclass) from pg_class c
 where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'r'
   and c.relname not in ('migrations', 'routines')
"""
HELD_BACK = """
select max(moment) >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint from windlass.pages
"""
ODD_SETTINGS = "timezone=Asia/Kolkata", "extra_float_digits=-10", "datestyle=German"


def test_no_statement_names_a_table() -> None:
    """Under row-level security a bare select would find nothing, and nobody would notice."""
    names = {
        name: re.findall(r"(?<!')\bwindlass\.\w+\b(?!\()", load_queries("postgres")[name])
        for file, text in read_folder("postgres", "queries")
        if file not in BOOKKEEPING
        for name in re.findall(r"^-- name: (\w+)", text, re.MULTILINE)
    }

    assert {name: tables for name, tables in names.items() if tables} == {}
    assert {"get_runs", "inspect_overdue", "list_slots", "join_enqueue"} <= set(names)


def _reads(drive: Driver) -> Calls:
    """Every read, of a store that has something for each of them."""
    ops, desk = drive.ops, Desk(drive)
    drive.call(ops.sync_jobs([JobRow(name=JOB, queue="main", timeout=0.1)]))
    drive.call(ops.register(make_worker("dead"), 0.0))
    held = drive.take(drive.add(options=Options(timeout=1 / 3)))
    dead = drive.ended(Outcome.FAILED)
    waits = drive.waits()
    drive.call(ops.signal(waits, "other", raw(1 / 3), None))
    step = StepWrite(path="kid", kind=StepKind.CHILD, state=StepState.WAITING)
    drive.call(ops.start_children(held_of(held), step, 0, [drive.new()], None))
    line = LogLine(at=drive.now, level="INFO", logger="shop", message="x")
    drive.call(ops.record_logs([logged(held_of(held), line)]))
    batch = drive.start()
    drive.call(ops.open_batch(held_of(batch), NewBatch(total=1, size=1, shards=1), True))
    shards = StepWrite(path="shards", kind=StepKind.CHILDREN, state=StepState.WAITING)
    shard = drive.new()
    drive.call(ops.start_children(held_of(batch), shards, 0, [shard], None))
    taken = drive.take(RunRef(shard.tenant, shard.id))
    drive.call(ops.open_shard(held_of(taken)))
    failure = UnitFailure(n=0, unit=raw(1 / 3), error=ErrorInfo(type="E", message="no"))
    flush = ShardWrite(succeeded=0, failed=1, failures=(failure,))
    drive.call(ops.flush_shard(held_of(taken), flush))
    drive.call(ops.stage_units("default", batch.id, 0, [raw(1 / 3)], 60.0))
    drive.add(after=(held.id,))
    asking = drive.start()
    drive.finish(asking, Outcome.CONTINUED)
    asking = drive.take(asking.ref)
    question = StepWrite(
        path="deploy", kind=StepKind.APPROVAL, state=StepState.WAITING, signal="approval#deploy",
        input='{"question": "Deploy?"}',
    )  # fmt: skip
    drive.call(ops.record_steps(held_of(asking), [question]))
    drive.add()
    row = desk.put(key="k")
    desk.fire(row)
    artifact = Artifact(
        tenant="default", id=drive.sources.new_id(), name="a", content_type="text/plain", size=1,
        sha256="0" * 64, location="file:///a", run=held.id, created_at=drive.now,
    )  # fmt: skip
    drive.call(ops.put_artifact(artifact))
    drive.call(ops.pause_work("default", PauseKind.QUEUE, "aside"))
    return {
        call.name: call
        for call in (
            ops.get_run(held.ref),
            ops.has_ended(held.ref),
            ops.get_runs("default", [held.id]),
            ops.list_runs(RunFilter(finished_from=drive.now - timedelta(days=1))),
            ops.find_runs(RunFilter(created_to=drive.now + timedelta(days=1))),
            ops.ids_between("default", held.id, "f" * 32, 10),
            ops.look_for_ends("default", [held.id, dead.id]),
            ops.list_events(held.ref, 0, 2**40),
            ops.list_attempts(dead, None, 10),
            ops.list_feed(None, 10),
            ops.find_place(drive.now - timedelta(days=1)),
            ops.list_event_facts("default", [About(held.id, 1), About(dead.id, 1)]),
            ops.list_audit("default", limit=10),
            ops.list_pauses("default"),
            ops.list_logs("default", held.id, None, 10),
            ops.list_steps("default", waits.id, None, 10),
            ops.list_signals("default", waits.id, 0, 10),
            ops.list_children("default", held.id, None, None, 10),
            ops.list_follows("default", held.id, True, 10),
            ops.list_approvals("default", None, 10),
            ops.get_batch("default", batch.id),
            ops.list_failed_units("default", batch.id, -1, 10),
            ops.list_units("default", batch.id, 0),
            ops.list_generations("default", asking.id, 0, 10),
            ops.backlog(None, None),
            ops.list_workers(),
            ops.get_job("default", JOB),
            ops.list_jobs("default"),
            ops.get_schedule(row.ref),
            ops.list_schedules(ScheduleFilter(limit=2**40)),
            ops.due_schedules(10),
            ops.coming_schedules(None, 10),
            ops.list_slots(ScheduleRef(key="k"), drive.now + timedelta(days=1), 2**40),
            ops.get_artifact("default", artifact.id),
            ops.find_artifact("default", held.id, artifact.name),
            ops.list_artifacts("default", held.id, None, 10),
            ops.known_artifacts("default", [artifact.id]),
            ops.inspect_workers(10),
            ops.inspect_demand(10),
            ops.inspect_overdue(-60.0, 10),
            ops.count_runs("default", By.QUEUE, 10),
            ops.queue_ages("default", 10),
            ops.measure_growth("default"),
        )
    }


def _answers(store: PostgresStore, calls: Calls) -> Mapping[str, object]:
    return {name: _timeless(store.run(call)) for name, call in calls.items()}


def _timeless(answer: object) -> object:
    if isinstance(answer, msgspec.Struct):
        fields = msgspec.structs.asdict(answer).items()
        return {name: _timeless(value) for name, value in fields if name not in CLOCKS}
    return [_timeless(item) for item in answer] if isinstance(answer, list | tuple) else answer


@pytest.fixture
def filled(pg_database: str) -> Iterator[tuple[PostgresStore, Calls]]:
    """A store with something to read, opened by its owner."""
    sources = Sources.system()
    with (
        PostgresStore(pg_database, sources=sources) as store,
        opened(PostgresPlace(pg_database)) as tables,
    ):
        calls = _reads(Driver(store, store.run, sources, tables))
        # The feed shows nothing that is younger than a transaction of any other test.
        with psycopg.connect(pg_database) as conn:
            while conn.execute(HELD_BACK).fetchone() == (True,):
                conn.rollback()
        yield store, calls


def test_every_read_is_asked_for(filled: tuple[PostgresStore, Calls]) -> None:
    store, calls = filled
    operations = declared(Operations).values()

    assert set(calls) == {found.name for found in operations if found.access is not Access.WRITE}
    assert [name for name, answer in _answers(store, calls).items() if answer in ([], None)] == []


@pytest.mark.parametrize("may_select", [True, False])
def test_reads_answer_a_role_that_no_policy_lets_see_a_row(
    filled: tuple[PostgresStore, Calls], pg_database: str, login: Login, may_select: bool
) -> None:
    store, calls = filled
    login.grant(
        pg_database,
        "grant usage on schema windlass to {}",
        "grant execute on all functions in schema windlass to {}",
    )
    if may_select:
        login.grant(pg_database, "grant select on all tables in schema windlass to {}")
    with psycopg.connect(pg_database, autocommit=True) as conn:
        for (statement,) in conn.execute(ROW_SECURITY).fetchall():
            conn.execute(sql.SQL(statement))
    with PostgresStore(
        login.url(urlsplit(pg_database).path[1:]), sources=Sources.system()
    ) as theirs:
        assert _answers(theirs, calls) == _answers(store, calls)
    login.grant(pg_database, "drop owned by {}")


def test_reads_answer_alike_whatever_is_set_in_the_session(
    filled: tuple[PostgresStore, Calls], pg_database: str
) -> None:
    store, calls = filled
    options = "%20".join(f"-c%20{setting.replace('=', '%3D')}" for setting in ODD_SETTINGS)
    with PostgresStore(f"{pg_database}?options={options}", sources=Sources.system()) as odd:
        assert _answers(odd, calls) == _answers(store, calls)
