"""Plans: with many rows, statements find theirs by an index and read no large table through.

PostgreSQL's functions are judged by what they did: `auto_explain` tells of every statement inside
them. Their plans are kept by the session, so the tables are filled after the plans were made, and
nothing is analysed: that is how a burst of work meets a worker that was idle. SQLite's statements
are judged by EXPLAIN QUERY PLAN, with the statistics of filled tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

from tests.conformance.kit import logged
from windlass.domain.changes import Changes
from windlass.domain.envelope import About
from windlass.domain.listing import RunFilter
from windlass.domain.outcome import Outcome
from windlass.domain.pause import PauseKind
from windlass.domain.run import Blocked, Finish, Held, NewRun, ProgressWrite, RunRef, Want
from windlass.domain.runlog import LogLine, LogWrite
from windlass.domain.scheduling.rows import Decision, Firing, ScheduleRef
from windlass.domain.states import Failure, Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.sources import Sources
from windlass.store.interface import Call
from windlass.store.operations import Operations
from windlass.store.postgres.operations import bind
from windlass.store.queries import load_queries
from windlass.store.sqlite.store import SqliteStore

SOURCES = Sources.system()
PART = 4_000  # rows in each position table, and finished runs
LEASE = 3600.0  # seconds: longer than the test takes on a busy machine, or claims are refused
LARGE = frozenset(
    {"runs", "ready", "leases", "timers", "event_rows", "attempt_rows", "pages", "failures"}
    | {"run_keys", "run_tags", "steps", "signals"}
    | {"schedules", "schedule_slots", "schedule_live"}
)
# -- PostgreSQL --------------------------------------------------------------------------------

SESSION = """
load 'auto_explain';
set auto_explain.log_min_duration = 0;
set auto_explain.log_nested_statements = on;
set auto_explain.log_analyze = on;
set auto_explain.log_timing = off;
set auto_explain.log_format = json;
set auto_explain.log_level = notice;
"""

LEADING = """
select c.relname, a.attname
  from pg_index i join pg_class c on c.oid = i.indexrelid
  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
 where c.relnamespace = 'windlass'::regnamespace
"""

FILL = """
create table made as
select n, windlass.uuid7() as id,
       (array['ready', 'leases', 'timers', 'failed'])[1 + n % 4] as part
  from generate_series(1, 4 * :part) n;
insert into windlass.runs (tenant, id, job, queue, priority, input, created_at, scheduled_for,
                           status, failure, attempt, failures, crash_count, token, seq,
                           finished_at, key, schedule)
select 'default', id, 'job' || n % 20, 'main', 0, '{}', now(), now(),
       case part when 'failed' then part end, case part when 'failed' then 'fatal' end,
       1, 1, 0, 1, 3, case part when 'failed' then now() end,
       case n % 9 when 0 then 'k' || n % 10 end, case n % 9 when 1 then windlass.uuid7() end
  from made;
insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                            attempt, failures, crash_count, token, seq, expires_at,
                            deadline_at)
select 'default', id, case when n % 10 = 0 then 'rare' else 'greet' end, 'main', 0, now(),
       0, 0, 0, 0, 1, now() + interval '1 day', now() + interval '1 day'
  from made where part = 'ready';
insert into windlass.leases (tenant, id, job, queue, rank, worker_no, claim_no, started_at,
                             attempt, failures, crash_count, token, seq, started_seq, deadline_at)
select 'default', id, 'greet', 'main', 0,
       coalesce((select w.worker_no from windlass.workers w where w.id = 'w' || (n / 4 % 50)),
                1000 + n / 4 % 50),
       1, now(), 1, 0, 0, 1, 2, 2, now() + interval '1 day'
  from made where part = 'leases';
insert into windlass.timers (tenant, id, job, queue, rank, due_at, why,
                             attempt, failures, crash_count, token, seq, expires_at,
                             deadline_at)
select 'default', id, 'greet', 'main', 0, now() + (n - 100) * interval '1 minute', 'delay',
       0, 0, 0, 0, 1, now() + interval '1 day', now() + interval '1 day'
  from made where part = 'timers';
update windlass.timers t set why = 'wait', waits = '{go}', due_at = 'infinity'
  from made where made.id = t.id and made.n % 3 = 0;
insert into windlass.steps (tenant, run, path, kind, state, seq, attempt, failures, started_at, at,
                            signal)
select 'default', id, 's' || s, 'step', 'done', 10 + s, 1, 0, now(), now(), null
  from made, generate_series(1, 4) s where part in ('leases', 'timers')
 union all
select 'default', id, 'go', 'signal', 'waiting', null, 1, 0, now(), now(), 'go'
  from made where part in ('leases', 'timers');
insert into windlass.signals (tenant, run, number, name, key, payload, at)
select 'default', id, 20 + s, case s when 1 then 'went' else 'other' end, 'k' || n || s, '1', now()
  from made, generate_series(1, 4) s where part in ('leases', 'timers');
insert into windlass.failures (tenant, id, job, queue, status, failure, at)
select 'default', id, 'greet', 'main', 'failed', 'fatal', now() from made where part = 'failed';
insert into windlass.attempt_rows (tenant, run, attempt, token, worker, outcome, started_seq,
                                   ended_seq, started_at, finished_at)
select 'default', id, 1, 1, 'w1', 'failed', 2, 3, now(), now() from made where part = 'failed';
insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
select 'default', id, 1, 'run.enqueued', now(), 0 from made where part = 'timers';
insert into windlass.event_rows (tenant, subject, seq, type, at, attempt)
select 'default', id, 3, 'run.failed', now(), 1 from made where part = 'failed';
insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
select n, now(), 2, 1, 'default', 'run.started', array[id] from made where part = 'leases';
insert into windlass.run_tags (tenant, tag, id) select 'default', 't' || n % 10, id from made;
insert into windlass.schedules (tenant, id, key, job, rule, input, options, overlap, enabled,
                                origin, next_slot, seq, created_at, updated_at)
select 'default', id, ':part-' || n, 'greet', '{}', '{}', '{}', 'queue', true, 'code',
       '2026-01-01Z'::timestamptz + n * interval '1 day', 1, now(), now()
  from made where n <= 2 * :part;
insert into windlass.schedule_slots (tenant, schedule, slot, outcome, run, at)
select 'default', id, now() - s * interval '1 hour', 'fired', id, now()
  from made, generate_series(1, 4) s where n <= 2 * :part;
insert into windlass.schedule_slots (tenant, schedule, slot, outcome, at, pending)
select 'default', id, now(), 'waiting', now(),
       json_build_object('id', windlass.uuid7(), 'job', 'greet', 'queue', 'main')
  from made where n % 100 = 0 and n <= 2 * :part;
insert into windlass.schedule_live (tenant, schedule, slot, run)
select 'default', id, now() - interval '1 hour', id from made where n <= 2 * :part;
insert into windlass.run_keys (tenant, job, key, run, input_hash)
select 'default', 'greet', ':part-' || n, id, md5('{}') from made on conflict do nothing;
drop table made;
"""


@dataclass(slots=True)
class Plan:
    """What the statements of one call did."""

    leading: Mapping[str, str] = field(repr=False)  # each index's first column
    scanned: set[str] = field(default_factory=set)  # large tables read from end to end
    walked: set[str] = field(default_factory=set)  # indexes read from end to end
    indexes: set[str] = field(default_factory=set)
    rows: int = 0  # of large tables, returned or passed over
    compiled: bool = False  # which costs more than running it

    def add(self, node: Mapping[str, Any]) -> None:
        """Take in a node and those below it."""
        table = node.get("Relation Name")
        if "Index Name" in node:
            index, condition = node["Index Name"], node.get("Index Cond")
            self.indexes.add(index)
            # Entries that fit no condition on the first column are read, and counted nowhere.
            if condition and not re.search(rf"\({self.leading[index]}\b", condition):
                self.walked.add(index)
        if table in LARGE and node["Node Type"].endswith("Scan"):
            passed = node.get("Rows Removed by Filter", 0)
            self.rows += int((node["Actual Rows"] + passed) * node["Actual Loops"])
            if node["Node Type"] == "Seq Scan" and node["Actual Loops"]:
                self.scanned.add(str(table))
        for child in node.get("Plans", ()):
            self.add(child)


class Session:
    """One session of a client that was there before the rows were."""

    def __init__(self, conn: psycopg.Connection[Any], url: str) -> None:
        self._conn = conn
        self._url = url
        self._plans: list[Mapping[str, Any]] = []
        conn.execute(SESSION)
        self._leading = dict(conn.execute(LEADING).fetchall())
        conn.add_notice_handler(self._note)
        self.ops = Operations()
        self._numbers = count(PART + 2, 4)

    def call(self, call: Call[Any]) -> Plan:
        """Run a call as the store does, and tell what it did."""
        asked = bind(call)
        self._plans.clear()
        self._conn.execute(asked.sql, asked.parameters, prepare=True).fetchall()
        plan = Plan(self._leading)
        for found in self._plans:
            plan.add(found["Plan"])
            plan.compiled |= "JIT" in found
        return plan

    def doomed(self) -> str:
        """The key of a schedule that was not deleted yet."""
        return f"{PART}-{next(self._numbers)}"

    def ids(self, table: str) -> Sequence[str]:
        """The ids that are in a table."""
        query = {
            # Those that are claimed last come last, and whoever has steps is left out: a call that
            # is made before must not take a run away from one that is made later.
            # `not in` is hashed; `not exists` reads all steps for each run if never analysed.
            "ready": "select id::text from windlass.ready where id not in "
            "(select run from windlass.steps) order by rank, ready_at, id",
            "waiting": "select id::text from windlass.timers where why = 'wait' order by id",
            "leases": "select id::text from windlass.leases order by id",
            "failures": "select id::text from windlass.failures order by id",
            "schedules": "select id::text from windlass.schedules order by next_slot limit 50",
        }[table]
        return [row[0] for row in self._conn.execute(query)]

    def fill(self, part: int) -> None:
        """Make so many rows of everything; without a temporary table, for the schema of the first
        one makes all sessions plan anew."""
        # By somebody else: a session forgets what it has prepared when it drops something.
        with psycopg.connect(self._url, autocommit=True) as other:
            other.execute(FILL.replace(":part", str(part)).encode())

    def analyse(self) -> None:
        """Let the server learn how many rows there are."""
        self._conn.execute("analyze")

    def _note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        _, found, text = (diagnostic.message_primary or "").partition("plan:\n")
        if found:
            self._plans.append(json.loads(text))


def _line_of(held: Held) -> LogWrite:
    line = LogLine(at=datetime(2026, 11, 1, tzinfo=UTC), level="INFO", logger="shop", message="x")
    return logged(held, line)


def _calls(session: Session) -> Mapping[str, tuple[Call[Any], str, int]]:
    """Each call, an index it must use, and how many rows of large tables it may touch."""
    ops = session.ops
    ready, held, dead = (session.ids(table) for table in ("ready", "leases", "failures"))
    middle = dead[len(dead) // 2] if dead else None
    ends = [
        Finish(tenant="default", id=ident, token=1, outcome=Outcome.SUCCEEDED)
        for ident in held[:50]
    ]
    others = [
        Finish(tenant="default", id=ident, token=1, outcome=Outcome.FAILED, failure=Failure.FATAL)
        for ident in held[50:100]
    ]
    mixed = [
        msgspec.structs.replace(end, id=ident)
        for end, ident in zip(others, held[300:], strict=False)
    ]
    blamed = tuple(
        Finish(tenant="default", id=ident, token=1, outcome=Outcome.CRASHED) for ident in held
    )
    named = tuple(RunRef("default", ident) for ident in ready[-50:])
    absent = "00000000-0000-7000-8000-000000000000"
    one = RunRef("default", (held[200:] or held or [absent])[0])
    waits = RunRef("default", (ready[-60:] or [absent])[0])
    moves = RunRef("default", (ready[-70:] or [absent])[0])
    first = RunRef("default", (ready[-80:] or [absent])[0])
    second = RunRef("default", (ready[-90:] or [absent])[0])
    every = Changes(input=msgspec.Raw(b"{}"), tags=("t3",), timeout=1.0, expires_in=60.0)
    failed = RunRef("default", middle or absent)
    parked = [RunRef("default", ident) for ident in session.ids("waiting")[-9:] or [absent] * 9]
    mine = Held("default", (held[210:] or held or [absent])[0], 1)
    parks = [
        Finish(tenant="default", id=ident, token=1, outcome=Outcome.WAITING, waits=("go", "s1"))
        for ident in held[350:400]
    ]
    other = RunRef("default", (dead[100:] or dead or [absent])[0])

    def want(**fields: Any) -> Want:
        given: dict[str, Any] = {"limit": 50, "jobs": ("greet",), "queues": ("main",)}
        return Want(**(given | fields))

    told = ProgressWrite(tenant="default", id=one.id, token=1, fraction=0.5)

    def keyed(*names: str) -> Call[Any]:
        given: Any = {"job": "greet", "queue": "main", "input": msgspec.Raw(b"{}")}
        return ops.enqueue([NewRun(id=SOURCES.new_id(), key=name, **given) for name in names])

    return {
        "enqueue with a key": (keyed(SOURCES.new_id()), "runs_pkey", 50),
        "enqueue many with keys": (keyed(*(SOURCES.new_id() for _ in range(20))), "runs_pkey", 100),
        "enqueue with a known key": (keyed(f"{PART}-3"), "run_keys_pkey", 50),
        "claim": (ops.cycle("w1", 1, [], want()), "ready_to_claim", 400),
        "claim everywhere": (ops.cycle("w1", 1, [], want(queues=None)), "ready_to_claim", 400),
        "claim what is rare": (ops.cycle("w1", 1, [], want(jobs=("rare",), limit=5)),
                               "ready_to_claim", 400),
        "claim in a window": (ops.cycle("w1", 1, [], want(window=100)), "ready_to_claim", 400),
        "claim at a wall": (ops.cycle("w1", 1, [], want(window=1000, jobs=("unknown",))),
                            "ready_to_claim", 1_000),
        "claim by name": (ops.cycle("w1", 1, [], want(ids=named)), "ready_pkey", 400),
        "succeed": (ops.cycle("w1", 1, ends, None), "leases_pkey", 400),
        "finish": (ops.cycle("w1", 1, others, None), "leases_pkey", 400),
        "succeed and finish": (ops.cycle("w1", 1, [*mixed, *ends], None), "leases_pkey", 600),
        "renew": (ops.renew("w1", LEASE, [Held("default", one.id, 1)], 0),
                  "leases_by_worker", 2_000),
        "dispatch": (_sweep(ops, dispatch=True), "timers_by_due", 400),
        "expire": (_sweep(ops, expire=True), "timers_by_expiry", 400),
        "overrun": (_sweep(ops, expire=True), "leases_by_deadline", 400),
        "get": (ops.get_run(one), "runs_pkey", 50),
        "has ended": (ops.has_ended(one), "runs_pkey", 5),
        "events": (ops.list_events(one, 0, 50), "event_rows_pkey", 50),
        "attempts": (ops.list_attempts(failed, None, 50), "attempt_rows_pkey", 50),
        "feed": (ops.list_feed("1:3:1:1", 50), "pages_pkey", 200),
        "place of a time": (ops.find_place(SOURCES.now()), "pages_pkey", 3_000),
        "event facts": (ops.list_event_facts("default", [About(one.id, 1), About(failed.id, 1)]),
                        "runs_pkey", 60),
        "progress": (ops.record_progress([told]), "leases_pkey", 60),
        "logs": (ops.record_logs([_line_of(mine)]), "leases_pkey", 60),
        "late logs": (ops.record_logs([_line_of(Held("default", failed.id, 1))]), "runs_pkey", 60),
        "read logs": (ops.list_logs("default", one.id, None, 50), "run_logs_pkey", 50),
        "cancel what runs": (ops.cancel(one, None), "leases_pkey", 50),
        "cancel what waits": (ops.cancel(waits, None), "ready_pkey", 50),
        "retry": (ops.retry(failed, None), "runs_pkey", 50),
        "reschedule what waits": (ops.reschedule(moves, delay=60.0), "ready_pkey", 50),
        "reprioritize": (ops.reprioritize(first, priority=5), "ready_pkey", 50),
        "change": (ops.change(second, every), "ready_pkey", 50),
        "record steps": (ops.record_steps(mine, [_done("s9"), _done("s8"), _wait("go")]),
                         "steps_pkey", 50),
        "record a try": (ops.record_steps(mine, [_done("s7", StepState.RETRYING)]),
                         "leases_pkey", 50),
        "look for a signal": (ops.record_steps(mine, [_wait("other")]), "signals_pkey", 50),
        "steps": (ops.list_steps("default", one.id, None, 50), "steps_pkey", 50),
        "approvals": (ops.list_approvals("default", None, 50), "steps_asking", 50),
        "generations": (ops.list_generations("default", one.id, 0, 50), "generations_pkey", 50),
        "signals": (ops.list_signals("default", one.id, 0, 50), "signals_pkey", 50),
        "children": (
            ops.list_children("default", one.id, None, None, 50), "children_by_step", 50,
        ),
        "batch": (ops.get_batch("default", one.id), "shards_pkey", 50),
        "failed units": (
            ops.list_failed_units("default", one.id, -1, 50), "unit_failures_pkey", 50,
        ),
        "units": (ops.list_units("default", one.id, 5), "units_pkey", 50),
        "after": (ops.list_follows("default", one.id, False, 50), "follows_pkey", 50),
        "followers": (ops.list_follows("default", one.id, True, 50), "follows_by_awaited", 50),
        "signal what runs": (ops.signal(one, "x", msgspec.Raw(b"1"), None), "leases_pkey", 50),
        "signal with a key": (ops.signal(one, "x", msgspec.Raw(b"1"), SOURCES.new_id()),
                              "signals_by_key", 50),
        "signal what waits": (ops.signal(parked[0], "x", msgspec.Raw(b"1"), None),
                              "steps_pkey", 50),
        "wake what waits": (ops.signal(parked[1 % len(parked)], "go", msgspec.Raw(b"1"), None),
                            "signals_pkey", 50),
        "park": (ops.cycle("w1", 1, parks, None), "steps_pkey", 1_000),
        "list waiting": (_page(ops, status=Status.WAITING), "timers_waiting", 800),
        "list paused": (_page(ops, status=Status.PAUSED), "timers_waiting", 800),
        "artifact by name": (ops.find_artifact("default", one.id, "a"), "artifacts_by_name", 50),
        "artifacts": (ops.list_artifacts("default", one.id, None, 50), "artifacts_by_name", 50),
        "audit": (ops.list_audit("default", limit=50), "audit_pkey", 50),
        "pause": (ops.pause_work("default", PauseKind.QUEUE, "q9"), "pauses_pkey", 50),
        "resume": (ops.resume_work("default", PauseKind.QUEUE, "q9"), "pauses_pkey", 50),
        "audit of one": (ops.list_audit("default", subject=one.id), "audit_by_subject", 50),
        "audit by one": (ops.list_audit("default", actor="ann"), "audit_by_actor", 50),
        "reschedule what ended": (ops.reschedule(other, delay=60.0), "runs_pkey", 50),
        "discard": (ops.discard("default", list(dead[:50])), "runs_pkey", 400),
        "list": (_page(ops, before=middle), "runs_pkey", 800),
        "list a job": (_page(ops, job="job3", before=middle), "runs_by_job", 800),
        "list failed": (_page(ops, status=Status.FAILED), "runs_pkey", 800),
        "list dead": (_page(ops, dead=True), "runs_pkey", 800),
        "list queued": (_page(ops, status=Status.QUEUED), "ready_pkey", 800),
        "list running": (_page(ops, status=Status.RUNNING), "leases_pkey", 800),
        "list scheduled": (_page(ops, status=Status.SCHEDULED), "timers_pkey", 800),
        "list tagged": (_page(ops, tag="t3"), "run_tags_pkey", 800),
        "list tagged and dead": (_page(ops, tag="t3", dead=True), "run_tags_pkey", 1_000),
        "list tagged and running": (_page(ops, tag="t3", status=Status.RUNNING),
                                    "run_tags_pkey", 800),
        "list by key": (_page(ops, key="k3"), "runs_by_key", 800),
        "list by schedule": (_page(ops, schedule=absent), "runs_by_schedule", 800),
        "list several statuses": (
            _page(ops, status=(Status.QUEUED, Status.SCHEDULED, Status.FAILED)), "ready_pkey", 900),
        "list the ended by time": (
            _page(ops, status=Status.FAILED, finished_from=datetime(2020, 1, 1, tzinfo=UTC)),
            "failures_by_status", 800),
        # What no index knows is looked for among the newest, run by run.
        "list a worker's": (_page(ops, worker="w1", status=Status.RUNNING), "leases_pkey", 16_000),
        "list what nobody did": (_page(ops, worker="nobody"), "runs_pkey", 16_000),
        "list an error": (_page(ops, error="Nobody"), "failures_by_status", 16_000),
        "list nothing": (_page(ops, queue="none"), "runs_pkey", 11_000),
        "find": (ops.find_runs(RunFilter(limit=500, job="job3")), "runs_by_job", 600),
        "look for ends": (ops.look_for_ends("default", list(dead[:50])), "runs_pkey", 60),
        "ids between": (ops.ids_between("default", middle or absent, "f" * 32, 11),
                        "runs_pkey", 11),
        "due": (session.ops.due_schedules(50), "schedules_by_next", 200),
        "fire": (session.ops.fire_schedules(_decisions(session)), "schedules_pkey", 800),
        "release": (session.ops.release_waiting(10), "schedule_slots_waiting", 2_000),
        "slots": (session.ops.list_slots(ScheduleRef(key=f"{PART}-7"), None, 50),
                  "schedule_slots_pkey", 50),
        "schedule by id": (session.ops.get_schedule(ScheduleRef(id=absent)), "schedules_pkey", 5),
        "coming": (session.ops.coming_schedules(None, 50), "schedules_pkey", 200),
        "inspect workers": (session.ops.inspect_workers(10), "leases_by_worker", 2_000),
        "inspect demand": (session.ops.inspect_demand(50), "ready_to_claim", 200),
        "schedule by key": (session.ops.get_schedule(ScheduleRef(key=f"{PART}-7")),
                            "schedules_by_key", 5),
        "delete schedule": (session.ops.delete_schedule(ScheduleRef(key=session.doomed()), 3),
                            "schedule_slots_pkey", 50),
        "forget slots": (session.ops.forget_slots(3), "schedule_slots_pkey", 50),
        "renew while blocked": (ops.renew("w3", LEASE, [Held("default", one.id, 1)], 0,
                                          Blocked(seconds=2.0, run=one.id)),
                                "leases_by_worker", 2_000),
        "give back and blame": (ops.renew("w4", LEASE, [], 9, Blocked(seconds=30.0, blamed=blamed)),
                                "leases_by_worker", 1_999),
        "give back": (ops.renew("w2", LEASE, [Held("default", one.id, 1)], 9),
                      "leases_by_worker", 999),
        "reap": (_sweep(ops, reap=True), "leases_by_worker", 999),
    }  # fmt: skip


def _decisions(session: Session) -> Sequence[Decision]:
    """One slot of each of a few schedules."""
    slot = datetime(2040, 1, 1, tzinfo=UTC)
    run = NewRun(id="", job="greet", queue="main", input=msgspec.Raw(b"{}"))
    return [
        Decision(
            tenant="default",
            id=ident,
            advance=False,
            slots=(Firing(slot=slot, run=msgspec.structs.replace(run, id=SOURCES.new_id())),),
        )
        for ident in session.ids("schedules")
    ]


def _done(path: str, state: StepState = StepState.DONE) -> StepWrite:
    return StepWrite(path=path, kind=StepKind.STEP, state=state)


def _wait(name: str) -> StepWrite:
    return StepWrite(path=name, kind=StepKind.SIGNAL, state=StepState.WAITING, signal=name)


def _sweep(ops: Operations, **what: bool) -> Call[Any]:
    asked: dict[str, Any] = {"dispatch": False, "expire": False, "reap": False} | what
    return ops.sweep(**asked, max_crashes=3, limit=50)


def _page(ops: Operations, **fields: Any) -> Call[Any]:
    return ops.list_runs(RunFilter(limit=50, **fields))


@pytest.fixture(params=["new", "vacuumed", "one row"])
def session(request: pytest.FixtureRequest, any_pg_database: str) -> Iterator[Session]:
    """A session whose plans were made while the tables were empty, or as good as that.

    Of a table that was never vacuumed the planner supposes that it will grow; of one that was,
    it believes what it sees.
    """
    with psycopg.connect(any_pg_database, autocommit=True) as conn:
        found = Session(conn, any_pg_database)
        conn.execute("select windlass.register('w' || n, 3600) from generate_series(1, 4) n")
        if request.param == "one row":
            found.fill(1)
        if request.param != "new":
            conn.execute("vacuum analyze")
        # PL/pgSQL settles for one plan after it was used a few times.
        for _ in range(7):
            for call, _, _ in _calls(found).values():
                with suppress(psycopg.Error):  # there is nothing to cancel or to retry yet
                    found.call(call)
        yield found


def test_postgres_reads_no_large_table_through(session: Session) -> None:
    session.fill(PART)
    never_analysed = _wrong(session)
    session.analyse()

    assert not never_analysed, "\n".join(map(str, never_analysed.items()))
    assert not (wrong := _wrong(session)), "\n".join(map(str, wrong.items()))


def _wrong(session: Session) -> Mapping[str, Plan]:
    """The calls that read too much, or by another index than theirs."""
    wrong = {}
    for name, (call, index, most) in _calls(session).items():
        plan = session.call(call)
        reads_too_much = plan.scanned or plan.walked or plan.rows > most
        if reads_too_much or plan.compiled or index not in plan.indexes:
            wrong[name] = plan
    return wrong


# -- SQLite ------------------------------------------------------------------------------------

# Counting what waits, and looking for messages that were lost, is reading a queue through.
# So is an operator's look for what should have ended.
READS_ALL = frozenset(
    {"backlog", "unpublished", "inspect_overdue", "quick_check", "count_by_queue", "count_by_job"}
    # The oldest rows, in the order of the table's own key, as many as a limit says.
    | {"drop_audit", "oldest_pages"}
    | {"store_bytes"}
)
SMALL = frozenset(
    {
        "workers",
        "sweeps",
        "jobs",
        "pauses",
        "still_work",
        "sqlite_schema",
        "sqlite_sequence",
        "schema_version",
    }
    | {"schedule_gone"}
)
# Names of lists and of what was found so far, within the statements.
LISTS = frozenset({"windlass_now", "windlass_ended", "windlass_taken", "windlass_stops", "e", "t",
                   "b", "a", "json_each", "i", "found", "holder", "h", "w", "s", "owner", "first",
                   "oldest", "latest", "head", "q", "named", "n", "CONSTANT"})  # fmt: skip
# A page; a few rows; what was just claimed; what operators ask for.
SORTS = frozenset(
    {
        "cycle_at_once",
        "get_runs",
        "list_pauses",
        "list_workers",
        "dead_workers",
        "oldest_held",
        "queue_demand",
        "inspect_overdue",
        "tables",
        "count_by_queue",
        "count_by_job",
        "queue_ages",
    }
)
# What the triggers of one statement do.
AT_ONCE = (
    "l USING PRIMARY KEY (tenant=? AND id=?)",
    "runs USING COVERING INDEX sqlite_autoindex_runs_1 (tenant=? AND id=?)",
    "leases USING PRIMARY KEY (tenant=? AND id=?)",
    "pages USING INTEGER PRIMARY KEY (rowid=?)",
    "r USING PRIMARY KEY (queue=? AND (rank,ready_at,id)>(?,?,?))",
    "ready USING PRIMARY KEY (queue=? AND (rank,ready_at,id,tenant)>(?,?,?,?) AND",
)
INDEXES = {
    "claimable": "r USING PRIMARY KEY (queue=? AND (rank,ready_at,id)>(?,?,?))",
    "claim_id": "r USING INDEX ready_by_id (tenant=? AND id=?)",
    "get_lease": "leases USING PRIMARY KEY (tenant=? AND id=?)",
    "end_run": "runs USING INDEX sqlite_autoindex_runs_1 (tenant=? AND id=?)",
    "get_runs": "r USING INDEX sqlite_autoindex_runs_1 (tenant=? AND id=?)",
    "due_timers": "timers USING INDEX timers_by_due (due_at<?)",
    "expired_timers": "timers USING INDEX timers_by_expiry (expires_at<?)",
    "expired_ready": "ready USING INDEX ready_by_expiry (expires_at<?)",
    "overrun_timers": "timers USING INDEX timers_by_deadline (deadline_at<?)",
    "overrun_ready": "ready USING INDEX ready_by_deadline (deadline_at<?)",
    "overrun_leases": "l USING INDEX leases_by_deadline (deadline_at<?)",
    "oldest_held": "leases USING INDEX leases_by_worker (worker_no=?)",
    "queue_demand": "r USING PRIMARY KEY (queue=?)",
    "queue_ages": "r USING PRIMARY KEY (queue=? AND rank>?)",
    "worker_leases": "leases USING INDEX leases_by_worker (worker_no=?)",
    "list_events": "event_rows USING PRIMARY KEY (tenant=? AND subject=? AND seq>?)",
    "find_artifact": "artifacts USING INDEX artifacts_by_name (tenant=? AND run=? AND name=?)",
    "list_artifacts": "artifacts USING INDEX artifacts_by_name (tenant=? AND run=? AND name>?)",
    "list_attempts": "attempt_rows USING PRIMARY KEY (tenant=? AND run=? AND attempt<?)",
    "feed_sizes": "pages USING INTEGER PRIMARY KEY (rowid>?)",
    "feed_page": "pages USING INTEGER PRIMARY KEY (rowid=?)",
    "walk_all": "r USING COVERING INDEX sqlite_autoindex_runs_1 (tenant=? AND id>? AND id<?)",
    "walk_job": "r USING COVERING INDEX runs_by_job (tenant=? AND job=? AND",
    "walk_key": "r USING COVERING INDEX runs_by_key (tenant=? AND key=? AND",
    "walk_schedule": "r USING COVERING INDEX runs_by_schedule (tenant=? AND schedule=? AND",
    "walk_tag": "g USING PRIMARY KEY (tenant=? AND tag=? AND",
    "walk_scheduled": "p USING PRIMARY KEY (tenant=? AND",
    "walk_queued": "p USING COVERING INDEX ready_by_id (tenant=? AND",
    "walk_waiting": "p USING COVERING INDEX timers_waiting (tenant=? AND",
    "get_step": "steps USING PRIMARY KEY (tenant=? AND run=? AND generation=? AND path=?)",
    "list_steps": "steps USING PRIMARY KEY (tenant=? AND run=? AND generation=? AND path>?)",
    "any_step": "steps USING PRIMARY KEY (tenant=? AND run=? AND generation<?)",
    "keep_steps": "steps USING PRIMARY KEY (tenant=? AND run=? AND generation=?)",
    "next_generation": "generations USING PRIMARY KEY (tenant=? AND run=?)",
    "list_generations": "generations USING PRIMARY KEY (tenant=? AND run=? AND generation>?)",
    "forget_failed_steps": "steps USING PRIMARY KEY (tenant=? AND run=? AND generation=?)",
    "answered_wait": "s USING PRIMARY KEY (tenant=? AND run=? AND generation=? AND path=?)",
    "wakes": "wakes USING INTEGER PRIMARY KEY (rowid>?)",
    "list_children": "c USING INDEX children_by_step (tenant=? AND parent=? AND generation=?",
    "list_follows": "follows USING PRIMARY KEY (tenant=? AND id=?)",
    "list_followers": "follows USING INDEX follows_by_awaited (tenant=? AND awaited=?)",
    "unfinished_child": "children USING COVERING INDEX children_live (tenant=? AND parent=? AND",
    "count_live_children": "children USING COVERING INDEX children_live (tenant=? AND parent=? AND",
    "held_children": "children USING COVERING INDEX children_live (tenant=? AND parent=? AND",
    "children_to_cancel": "c USING COVERING INDEX children_live (tenant=? AND parent=?",
    "windowed_steps": "steps USING PRIMARY KEY (tenant=? AND run=?)",
    "get_approval": "steps USING PRIMARY KEY (tenant=? AND run=? AND generation=? AND path=?)",
    "list_approvals": "s USING INDEX steps_asking (tenant=? AND (run,path)>(?,?))",
    "next_signal": "signals USING PRIMARY KEY (tenant=? AND run=?)",
    "list_signals": "signals USING PRIMARY KEY (tenant=? AND run=? AND number>?)",
    "walk_running": "p USING PRIMARY KEY (tenant=? AND",
    "walk_failures": "p USING COVERING INDEX failures_by_status (tenant=? AND status=? AND",
    "fitting": "r USING INDEX sqlite_autoindex_runs_1 (tenant=? AND id=?)",
    "worker_numbers": "worker_names USING COVERING INDEX worker_names_by_name (name=?)",
    "ids_between": "runs USING COVERING INDEX sqlite_autoindex_runs_1 (tenant=? AND id>? AND id<?)",
    "look_for_ends": "r USING INDEX sqlite_autoindex_runs_1 (tenant=? AND id=?)",
    "due_schedules": "schedules USING INDEX schedules_by_next (next_slot<?)",
    "next_schedule": "schedules USING INDEX schedules_by_next (next_slot>?)",
    "ended_live": "r USING INDEX sqlite_autoindex_runs_1 (tenant=? AND id=?)",
    "list_live": "schedule_live USING PRIMARY KEY (tenant=? AND schedule=?)",
    "first_waiting": "schedule_slots USING INDEX schedule_slots_waiting (tenant=? AND schedule=?)",
    "list_slots": "schedule_slots USING PRIMARY KEY (tenant=? AND schedule=? AND slot<?)",
}

FILL_FILE = """
create temporary table made as
with recursive counted (n) as (select 1 union all select n + 1 from counted where n < 20000)
select n, randomblob(16) as id, n % 4 as part from counted;
insert into runs (tenant, id, job, queue, priority, input, created_at, scheduled_for)
select 'default', id, 'greet', 'main', 0, '{}', 0, 0 from made;
insert into ready (tenant, id, job, queue, rank, ready_at, attempt, failures, crash_count, token,
                   seq, expires_at, deadline_at)
select 'default', id, 'greet', 'main', 0, n, 0, 0, 0, 0, 1, n, n from made where part = 0;
insert into leases (tenant, id, job, queue, rank, worker_no, claim_no, started_at, attempt,
                    failures, crash_count, token, seq, started_seq, deadline_at)
select 'default', id, 'greet', 'main', 0, n % 50, 1, 0, 1, 0, 0, 1, 2, 2, n
  from made where part = 1;
insert into worker_names (worker_no, name) select n, 'w' || n from made;
insert into timers (tenant, id, job, queue, rank, due_at, why, attempt, failures, crash_count,
                    token, seq, expires_at, deadline_at)
select 'default', id, 'greet', 'main', 0, n, 'delay', 0, 0, 0, 0, 1, n, n from made where part = 2;
update timers set why = 'wait', waits = '["go"]' where due_at % 3 = 0;
insert into steps (tenant, run, generation, path, kind, state, seq, attempt, failures, started_at,
                   at, signal)
select 'default', id, 0, 'go', 'signal', 'waiting', null, 1, 0, 0, 0, 'go' from made
 union all
select 'default', id, 0, 'a', 'step', 'done', 9, 1, 0, 0, 0, null from made;
insert into signals (tenant, run, number, name, key, payload, at)
select 'default', id, 8, 'other', 'k' || n, '1', 0 from made;
insert into failures (tenant, id, job, queue, status, failure, at)
select 'default', id, 'greet', 'main', 'failed', 'fatal', 0 from made where part = 3;
insert into event_rows (tenant, subject, seq, type, at, attempt)
select 'default', id, 1, 'run.enqueued', 0, 0 from made;
insert into attempt_rows (tenant, run, attempt, token, worker, outcome, started_seq, ended_seq,
                          started_at, finished_at)
select 'default', id, 1, 1, 'w', 'failed', 2, 3, 0, 0 from made;
insert into run_tags (tenant, tag, id) select 'default', 't' || n % 10, id from made;
insert into schedules (tenant, id, job, rule, input, options, overlap, enabled, origin, next_slot,
                       seq, created_at, updated_at)
select 'default', id, 'greet', '{}', '{}', '{}', 'queue', 1, 'code', n, 1, 0, 0 from made;
insert into schedule_slots (tenant, schedule, slot, outcome, run, at)
select 'default', id, n, 'fired', id, n from made;
insert into schedule_slots (tenant, schedule, slot, outcome, at, pending)
select 'default', id, n + 1, 'waiting', n, '{}' from made where n % 100 = 0;
insert into schedule_live (tenant, schedule, slot, run) select 'default', id, n, id from made;
analyze;
"""


def _plans(conn: apsw.Connection) -> Iterator[tuple[str, Sequence[str]]]:
    for name, statement in load_queries("sqlite").items():
        if not re.match("(?i)select|with|insert|update|delete", statement):
            continue
        bindings = dict.fromkeys(re.findall(r":(\w+)", statement))
        rows = conn.execute(f"explain query plan {statement}", bindings)
        yield name, [str(row[-1]) for row in rows]


def test_sqlite_reads_no_large_table_through(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    with SqliteStore(path, sources=Sources.system()) as store:
        store.migrate()
    conn = apsw.Connection(str(path))
    conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # as the store has it
    conn.pragma("synchronous", "off")
    conn.execute(FILL_FILE)

    conn.execute(load_queries("sqlite")["arm"])
    conn.config(apsw.SQLITE_DBCONFIG_TRIGGER_EQP, 1)

    plans = dict(_plans(conn))

    for step in AT_ONCE:
        assert any(step in found for found in plans["cycle_at_once"])
    wrong = {}
    for name, steps in plans.items():
        scanned = {step.split()[1] for step in steps if step.startswith("SCAN")}
        sorts = any("TEMP B-TREE" in step for step in steps)
        if name not in READS_ALL and scanned - SMALL - LISTS:
            wrong[name] = steps
        if sorts and name not in SORTS:
            wrong[name] = steps
        if name in INDEXES and not any(INDEXES[name] in step for step in steps):
            wrong[name] = steps
    assert not wrong, "\n".join(f"{name}: {steps}" for name, steps in wrong.items())
    assert set(INDEXES) <= set(plans)
    conn.close()


def _steps(conn: apsw.Connection, name: str, **bindings: object) -> int:
    """How many steps of SQLite's machine a statement takes, in hundreds."""
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    conn.set_progress_handler(count, 100)
    list(conn.execute(load_queries("sqlite")[name], bindings))
    conn.set_progress_handler(None)
    return taken


def test_sqlite_looks_at_no_more_of_a_wall_than_the_window(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    with SqliteStore(path, sources=Sources.system()) as store:
        store.migrate()
    conn = apsw.Connection(str(path))
    conn.pragma("synchronous", "off")
    conn.execute(FILL_FILE)  # five thousand in one queue
    look = {"queue": "main", "rank": -9, "ready_at": 0, "id": b"", "jobs": '["unknown"]'}

    def steps(window: int) -> int:
        looked = _steps(conn, "claimable", window=window, now=0, **look)
        return looked + _steps(conn, "window_end", window=window, **look)

    assert 0 < steps(500) < steps(5_000) / 8
    conn.close()


LONG = """
insert into runs (tenant, id, job, queue, priority, input, created_at, scheduled_for, status,
                  attempt, failures, crash_count, token, seq, started_seq, started_at, finished_at,
                  worker_no)
values ('default', x'00112233445566778899aabbccddeeff', 'greet', 'main', 0, '{}', 0, 0, 'succeeded',
        10001, 0, 0, 10001, 20003, 20002, 0, 0, 1);
with recursive counted (n) as (select 1 union all select n + 1 from counted where n < 10000)
insert into attempt_rows (tenant, run, attempt, token, worker, outcome, started_seq, ended_seq,
                          started_at, finished_at)
select 'default', x'00112233445566778899aabbccddeeff', n, n, 'w', 'snoozed', 2 * n, 2 * n + 1, 0, 0
  from counted;
insert into event_rows (tenant, subject, seq, type, at, attempt)
select tenant, run, ended_seq, 'run.snoozed', 0, attempt from attempt_rows
 where run = x'00112233445566778899aabbccddeeff';
"""


def test_sqlite_pages_through_a_long_history(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    with SqliteStore(path, sources=Sources.system()) as store:
        store.migrate()
    conn = apsw.Connection(str(path))
    conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    conn.pragma("synchronous", "off")
    conn.execute(FILL_FILE)
    conn.execute(LONG)
    run = {"tenant": "default", "id": bytes.fromhex("00112233445566778899aabbccddeeff")}

    def steps(after: int, limit: int) -> int:
        return _steps(conn, "list_events", **run, after=after, limit=limit)

    # A page costs what is on it, wherever it is.
    whole = steps(0, 100_000)
    assert steps(20_000, 100) < whole / 50
    assert max(steps(after, 100) for after in (0, 1, 9_999, 19_900)) < whole / 50
    before = [_steps(conn, "list_attempts", **run, before=n, limit=100) for n in (None, 5_000, 200)]
    assert max(before) < whole / 50
    events = list(
        conn.execute(load_queries("sqlite")["list_events"], run | {"after": 0, "limit": -1})
    )
    assert [seq for seq, *_ in events] == list(range(1, 20_004))
    conn.close()


def test_the_hot_path_is_planned_once(pg_database: str) -> None:
    """Otherwise a claim is planned for its own arguments each time, which takes longer than it."""
    with psycopg.connect(pg_database) as conn:
        found = conn.execute(
            "select proname from pg_proc where pronamespace = 'windlass'::regnamespace"
            " and 'plan_cache_mode=force_generic_plan' = any (proconfig)"
        ).fetchall()
    hot = {"finish", "is_still", "lease_heads", "lease_named", "make_moves", "ready_heads"}
    hot |= {"record_logs", "record_progress", "record_steps", "succeed"}
    assert {name for (name,) in found} == hot
