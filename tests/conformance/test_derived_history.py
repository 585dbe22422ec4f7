"""The history that is derived is the one that was written before: a row for each event and attempt.

Triggers keep the old way as an oracle: whatever happens to a run is written down at that moment, in
tables of the test's own, from the rows that move. Thousands of runs then have random lives, and at
the end the views must say exactly what was written down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any, Protocol

import apsw
import psycopg
import pytest

from tests.conformance.kit import LEASE, Driver, held_of, make_finish, make_worker, raw
from tests.conformance.places import PostgresPlace, SqlitePlace
from windlass.domain.changes import Changes
from windlass.domain.event import EventType
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, Finish, RunRef
from windlass.domain.states import Status
from windlass.domain.step import StepKind, StepState, StepWrite
from windlass.errors import WindlassError
from windlass.sources import Sources
from windlass.store.operations import Call

SEED = 20_27
BATCH = 200

POSTGRES_ORACLE = """
create schema old;
create table old.events (tenant text, subject uuid, seq integer, type text, at timestamptz,
                         attempt integer, data json, primary key (tenant, subject, seq));
create table old.attempts (tenant text, run uuid, attempt integer, token bigint, worker text,
                           outcome text, started_at timestamptz, finished_at timestamptz,
                           error json, version text, primary key (tenant, run, attempt));
create table old.begun (tenant text, run uuid, attempt integer, token bigint, worker text,
                        started_at timestamptz, primary key (tenant, run, attempt));

create function old.enqueued() returns trigger language plpgsql as $$
begin
  insert into old.events values (new.tenant, new.id, 1, 'run.enqueued', new.created_at, 0,
    case when new.scheduled_for > new.created_at then '{"why": "delay"}'::json end);
  return null;
end $$;
create trigger enqueued after insert on windlass.runs for each row execute function old.enqueued();

create function old.started() returns trigger language plpgsql as $$
begin
  insert into old.events values (new.tenant, new.id, new.seq, 'run.started', new.started_at,
                                 new.attempt);
  insert into old.begun
  select new.tenant, new.id, new.attempt, new.token, w.id, new.started_at
    from windlass.workers w where w.worker_no = new.worker_no;
  return null;
end $$;
create trigger started after insert on windlass.leases for each row execute function old.started();

create function old.succeeded() returns trigger language plpgsql as $$
begin
  insert into old.events values (new.tenant, new.id, new.seq, 'run.succeeded', new.finished_at,
                                 new.attempt);
  insert into old.attempts
  select b.tenant, b.run, b.attempt, b.token, b.worker, 'succeeded', b.started_at,
         new.finished_at, null, new.attempt_version
    from old.begun b where b.tenant = new.tenant and b.run = new.id and b.attempt = new.attempt;
  return null;
end $$;
create trigger succeeded after update on windlass.runs for each row
  when (old.status is null and new.status = 'succeeded') execute function old.succeeded();

create function old.stale() returns trigger language plpgsql as $$
begin
  insert into old.events values (new.tenant, new.id, new.seq + 1, 'run.stale', new.stale_at,
                                 new.attempt);
  return null;
end $$;
create trigger stale after update on windlass.runs for each row
  when (old.stale_at is null and new.stale_at is not null) execute function old.stale();

create function old.event() returns trigger language plpgsql as $$
begin
  insert into old.events values (new.*);
  return null;
end $$;
create trigger event after insert on windlass.event_rows for each row
  when (new.type not in ('run.enqueued', 'run.stale')) execute function old.event();

create function old.step() returns trigger language plpgsql as $$
begin
  insert into old.events
  values (new.tenant, new.run, new.seq,
          case new.state when 'done' then 'step.succeeded' when 'failed' then 'step.failed'
                         else 'step.timed_out' end,
          new.at, new.attempt, json_build_object('step', new.path));
  return null;
end $$;
create trigger step_made after insert on windlass.steps for each row
  when (new.seq is not null) execute function old.step();
create trigger step_ended after update on windlass.steps for each row
  when (old.seq is null and new.seq is not null) execute function old.step();

create function old.attempt() returns trigger language plpgsql as $$
begin
  insert into old.attempts
  values (new.tenant, new.run, new.attempt, new.token, new.worker, new.outcome, new.started_at,
          new.finished_at, new.error, new.version);
  return null;
end $$;
create trigger attempt after insert on windlass.attempt_rows for each row
  when (new.outcome <> 'succeeded') execute function old.attempt();
"""

SQLITE_ORACLE = """
create table old_events (tenant, subject, seq, type, at, attempt, data,
                         primary key (tenant, subject, seq)) without rowid;
create table old_attempts (tenant, run, attempt, token, worker, outcome, started_at, finished_at,
                           error, version, primary key (tenant, run, attempt)) without rowid;
create table old_begun (tenant, run, attempt, token, worker, started_at,
                        primary key (tenant, run, attempt)) without rowid;
create trigger old_enqueued after insert on runs begin
  insert into old_events values (new.tenant, new.id, 1, 'run.enqueued', new.created_at, 0,
    case when new.scheduled_for > new.created_at then '{"why":"delay"}' end);
end;
create trigger old_started after insert on leases begin
  insert into old_events values (new.tenant, new.id, new.seq, 'run.started', new.started_at,
                                 new.attempt, null);
  insert into old_begun
  select new.tenant, new.id, new.attempt, new.token, w.id, new.started_at
    from workers w where w.worker_no = new.worker_no;
end;
create trigger old_succeeded after update on runs
when old.status is null and new.status = 'succeeded' begin
  insert into old_events values (new.tenant, new.id, new.seq, 'run.succeeded', new.finished_at,
                                 new.attempt, null);
  insert into old_attempts
  select b.tenant, b.run, b.attempt, b.token, b.worker, 'succeeded', b.started_at,
         new.finished_at, null, new.attempt_version
    from old_begun b where b.tenant = new.tenant and b.run = new.id and b.attempt = new.attempt;
end;
create trigger old_stale after update on runs
when old.stale_at is null and new.stale_at is not null begin
  insert into old_events values (new.tenant, new.id, new.seq + 1, 'run.stale', new.stale_at,
                                 new.attempt, null);
end;
create trigger old_event after insert on event_rows
when new.type not in ('run.enqueued', 'run.stale') begin
  insert into old_events values (new.tenant, new.subject, new.seq, new.type, new.at, new.attempt,
                                 new.data);
end;
create trigger old_step_made after insert on steps when new.seq is not null begin
  insert into old_events
  values (new.tenant, new.run, new.seq,
          case new.state when 'done' then 'step.succeeded' when 'failed' then 'step.failed'
                         else 'step.timed_out' end,
          new.at, new.attempt, json_object('step', new.path));
end;
create trigger old_step_ended after update on steps
when old.seq is null and new.seq is not null begin
  insert into old_events
  values (new.tenant, new.run, new.seq,
          case new.state when 'done' then 'step.succeeded' when 'failed' then 'step.failed'
                         else 'step.timed_out' end,
          new.at, new.attempt, json_object('step', new.path));
end;
create trigger old_attempt after insert on attempt_rows when new.outcome <> 'succeeded' begin
  insert into old_attempts
  values (new.tenant, new.run, new.attempt, new.token, new.worker, new.outcome, new.started_at,
          new.finished_at, new.error, new.version);
end;
"""

DIFFERENCES = """
select 'event' as what, count(*) from (
  select * from (select {event} from {new}events except select {event} from {old}events) a
  union all
  select * from (select {event} from {old}events except select {event} from {new}events) b) e
union all
select 'attempt', count(*) from (
  select * from (select {attempt} from {new}attempts except select {attempt} from {old}attempts) a
  union all
  select * from (select {attempt} from {old}attempts except select {attempt} from {new}attempts) b
) a
union all select 'events', count(*) from {old}events
union all select 'derived', count(*) from {new}events
union all select 'attempts', count(*) from {old}attempts
"""
EVENT = "tenant, subject, seq, type, at, attempt, {text}"
ATTEMPT = "tenant, run, attempt, token, worker, outcome, started_at, finished_at, {text}, version"


class Oracle(Protocol):
    """What was written down, beside what is derived."""

    def compare(self) -> dict[str, int]:
        """How many events and attempts differ, and how many there are."""
        ...


class PostgresOracle:
    """Triggers in a database."""

    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True)
        self._conn.execute(POSTGRES_ORACLE)

    def compare(self) -> dict[str, int]:
        query = DIFFERENCES.format(
            new="windlass.", old="old.", event=EVENT.format(text="data::text"),
            attempt=ATTEMPT.format(text="error::text"),
        )  # fmt: skip
        found: dict[str, int] = dict(self._conn.execute(query.encode()).fetchall())
        self._conn.close()
        return found


class SqliteOracle:
    """Triggers in a file."""

    def __init__(self, path: Path) -> None:
        self._conn = apsw.Connection(str(path))
        self._conn.execute(SQLITE_ORACLE)

    def compare(self) -> dict[str, int]:
        query = DIFFERENCES.format(
            new="", old="old_", event=EVENT.format(text="data"),
            attempt=ATTEMPT.format(text="error"),
        )  # fmt: skip
        rows: list[Any] = self._conn.execute(query).fetchall()
        self._conn.close()
        return dict(rows)


@pytest.fixture(params=["sqlite", "postgres"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Driver, Oracle]]:
    """A store of its own, with an oracle."""
    sources = Sources.manual()
    sqlite = request.param == "sqlite"
    place: Any = (
        SqlitePlace(tmp_path / "windlass.db")
        if sqlite
        else PostgresPlace(request.getfixturevalue("pg_database"))
    )
    with place.open(sources) as store:
        store.migrate()
        oracle = SqliteOracle(place.path) if sqlite else PostgresOracle(place.url)
        tables = place.tables()
        yield Driver(store, store.run, sources, tables), oracle
        tables.close()


@dataclass(slots=True)
class Lives:
    """Random lives, by the batch."""

    drive: Driver
    random: Random = field(default_factory=lambda: Random(SEED))
    known: list[RunRef] = field(default_factory=list)
    workers: int = 0

    def batch(self, number: int) -> None:
        """Let so many runs begin, and whatever is there go on."""
        drive = self.drive
        runs = [drive.new(**self._terms()) for _ in range(number)]
        drive.enqueue(*runs)
        self.known = [RunRef("default", run.id) for run in self.random.sample(runs, 5)] + self.known
        del self.known[200:]
        worker = self._worker()
        held = list(drive.claim(2 * number, worker=worker).claimed)
        for run in self.random.sample(held, len(held) // 20):
            drive.cancel(RunRef(run.tenant, run.id), self.random.choice([None, "enough"]))
        for run in self.random.sample(held, len(held) // 8):
            self._remember(run)
        drive.advance(1)
        ends = [self._end(run) for run in held if self.random.random() < 0.97]
        drive.finish_all(ends, worker)
        if self.random.random() < 0.5:
            drive.kill(worker)  # with what it still holds
        else:
            drive.call(drive.ops.retire(worker))
        drive.advance(self.random.choice([1, 5, LEASE]))
        drive.sweep(dispatch=True, expire=True, reap=True, limit=10 * number)
        self._operate()

    def stay(self) -> None:
        """Leave some of them running, and some waiting."""
        self.drive.enqueue(*(self.drive.new(**self._terms()) for _ in range(BATCH)))
        assert self.drive.claim(BATCH // 2, worker=self._worker()).claimed

    def _terms(self) -> dict[str, Any]:
        if self.random.random() < 0.9:
            return {"input": raw({"n": self.random.random()})}
        return self.random.choice(
            [{"delay": 3.0}, {"delay": 60.0}, {"expires_in": 1.0}, {"deadline_in": 20.0}]
        )

    def _worker(self) -> str:
        self.workers += 1
        name = f"box:{self.workers}"
        self.drive.call(self.drive.ops.register(make_worker(name), LEASE))
        return name

    def _remember(self, run: Claimed) -> None:
        """Steps of every state, and a signal or two: some of them are there already."""
        drive, states = self.drive, list(StepState)
        for _ in range(self.random.randrange(3)):
            name = self.random.choice(["go", "stop"])
            drive.call(drive.ops.signal(run.ref, name, raw(1), self.random.choice([None, "k"])))
        steps = [
            StepWrite(path=path, kind=StepKind.STEP, state=state, wait=2.0)
            for path in ("a", "b", "c")
            if (state := self.random.choice(states)) not in (StepState.WAITING, StepState.TIMED_OUT)
        ]
        waits = [
            StepWrite(
                path=name, kind=StepKind.SIGNAL, state=StepState.WAITING, signal=name, wait=wait
            )
            for name in ("go", "stop")
            if (wait := self.random.choice([0.0, 4.0, None])) is not None
        ]
        assert drive.call(drive.ops.record_steps(held_of(run), [*steps, *waits])) is not None

    def _end(self, run: Claimed) -> Finish:
        kind = self.random.random()
        version = self.random.choice([None, "v1"])
        if kind < 0.8:
            return make_finish(run, Outcome.SUCCEEDED, version=version, result=raw(kind))
        outcome = self.random.choice(
            (
                Outcome.FAILED,
                Outcome.RETRY,
                Outcome.SNOOZED,
                Outcome.SLEEPING,
                Outcome.WAITING,
                Outcome.RELEASED,
                Outcome.CRASHED,
                Outcome.CANCELED,
            )
        )
        if outcome in (Outcome.RETRY, Outcome.SNOOZED):
            return make_finish(run, outcome, delay=self.random.choice([0.0, 2.0]))
        if outcome in (Outcome.SLEEPING, Outcome.WAITING):
            until = self.random.choice([None, self.drive.later(2)])
            return make_finish(run, outcome, waits=("go", "a"), until=until)
        return make_finish(run, outcome, version=version)

    def _operate(self) -> None:
        """What operators do, to runs in whatever status: much of it is refused."""
        drive = self.drive
        for run in self.random.sample(self.known, min(6, len(self.known))):
            if drive.get(run).status is Status.SUCCEEDED:
                drive.tables.mark_stale(run, drive.now)  # so that it may be reopened
            acts: list[Call[Any]] = [
                drive.ops.retry(run, None),
                drive.ops.reschedule(run, delay=3.0),
                drive.ops.reprioritize(run, priority=5),
                drive.ops.change(run, Changes(deadline_in=1_000.0)),
                drive.ops.cancel(run, "no"),
                drive.ops.signal(run, "go", raw(2), None),
                drive.ops.discard("default", [run.id]),
            ]
            with suppress(WindlassError):
                drive.call(self.random.choice(acts))


def check(watched: tuple[Driver, Oracle], runs: int) -> None:
    drive, oracle = watched
    lives = Lives(drive)
    for _ in range(runs // BATCH):
        lives.batch(BATCH)
    lives.stay()

    found = oracle.compare()
    assert (found["event"], found["attempt"]) == (0, 0)
    assert found["events"] == found["derived"] > 2 * runs
    assert found["attempts"] > runs / 2
    kinds = {row["type"] for row in drive.tables.rows("events")}
    assert kinds >= {kind for kind in EventType if kind.startswith(("step.", "run.s"))}
    assert kinds >= {EventType.WAITING, EventType.RETRIED}


def test_what_is_derived_is_what_was_written_before(watched: tuple[Driver, Oracle]) -> None:
    check(watched, 1_000)


@pytest.mark.long
@pytest.mark.timeout(10_000)  # both stores took 77 minutes at low priority
def test_a_million_runs_read_back_as_they_were_written(watched: tuple[Driver, Oracle]) -> None:
    check(watched, 1_000_000)
