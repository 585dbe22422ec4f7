"""Where the suite runs: each store, what it can do, and how its tables are read from outside.

The tests know a store by its promises alone. What they need beyond those (the rows as they are
written, a record that retention has marked, a schema of another version) goes through `Tables`,
which speaks plain SQL to the same database and shares no code with the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import quote
from uuid import UUID

import apsw
import psycopg
from psycopg.rows import dict_row

from windlass.domain.run import RunRef
from windlass.sources import Sources
from windlass.store.interface import Store
from windlass.store.postgres.store import PostgresStore
from windlass.store.sqlite.store import SqliteStore

Row = Mapping[str, Any]

TABLES = (
    "jobs", "runs", "timers", "ready", "leases", "worker_names", "workers", "sweeps",
    "attempt_rows", "event_rows", "pages", "failures", "run_keys", "run_tags", "progress",
    "steps", "generations", "signals", "artifacts", "schedules", "schedule_slots", "schedule_live",
    "schedule_gone", "audit", "pauses", "run_logs",
)  # fmt: skip
VIEWS = ("attempts", "events")


class Tables(Protocol):
    """The database as it is, read and changed behind the store's back."""

    def rows(self, table: str) -> Sequence[Row]:
        """All rows of a table: ids as text, times as aware datetimes, JSON as text or value."""
        ...

    def read(self, tables: Sequence[str]) -> Mapping[str, Sequence[Row]]:
        """All rows of several tables."""
        ...

    def mark_stale(self, run: RunRef, at: datetime) -> None:
        """Do what retention does to a finished run."""
        ...

    def everything(self) -> Mapping[str, Mapping[str, set[str]]]:
        """The values, as text, of every column that may name a run, by table and column."""
        ...

    def make_due(self) -> None:
        """Let all chores of janitors be due."""
        ...

    def delete_run(self, run: RunRef) -> None:
        """Delete a run that is ready."""
        ...

    def forget_worker(self, worker: str) -> None:
        """Delete a worker's row and leave its leases."""
        ...

    def set_version(self, version: int) -> None:
        """Pretend that a schema of this version was applied last."""
        ...

    def obstruct(self) -> None:
        """Make a table that a migration from nothing will want to make, half-way through."""
        ...

    def present(self) -> set[str]:
        """The names of the tables that are there."""
        ...

    def empty(self) -> None:
        """Delete every row."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class Place(Protocol):
    """One empty database and the store that lives in it."""

    def open(self, sources: Sources) -> Store:
        """A store of its own: other connections, the same data."""
        ...

    def tables(self) -> Tables:
        """The same data, read from outside."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A store that the suite runs on; tests ask for capabilities, never for a name."""

    name: str
    capabilities: frozenset[str]


SQLITE = Kind(
    "sqlite",
    frozenset(
        {
            "in_process",  # a call is cheap: there is no server
        }
    ),
)
POSTGRES = Kind(
    "postgres",
    frozenset(
        {
            "parallel_writers",  # two transactions may write at the same time
            "planner",  # plans depend on settings and statistics
            "server",  # another program, which may be down
        }
    ),
)
KINDS = (SQLITE, POSTGRES)
# The second server, for tests with the marker `every_server`.
SYSTEM = Kind("system-postgres", POSTGRES.capabilities)


@dataclass(frozen=True, slots=True)
class SqlitePlace:
    """A file in a folder of the test's own."""

    path: Path

    def open(self, sources: Sources) -> Store:
        return SqliteStore(self.path, sources=sources)

    def tables(self) -> Tables:
        return SqliteTables(self.path)


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """A database of the test's own; `settings` hold for every connection of its stores."""

    url: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def open(self, sources: Sources) -> Store:
        return PostgresStore(self.url + self._query(), sources=sources)

    def tables(self) -> Tables:
        return PostgresTables(self.url)

    def having(self, **settings: str) -> PostgresPlace:
        """The same database, with settings of the server for each connection."""
        return PostgresPlace(self.url, settings)

    def _query(self) -> str:
        options = " ".join(f"-c {name}={value}" for name, value in self.settings.items())
        return f"?options={quote(options)}" if options else ""


class PostgresTables:
    """The tables of the schema `windlass`."""

    # One statement per table: what is in the text is what is executed.
    READ: ClassVar = {
        "jobs": "select * from windlass.jobs",
        "runs": "select * from windlass.runs",
        # What waits without a limit of time is due at infinity, which Python cannot read.
        "timers": "select tenant, id, job, queue, rank, nullif(due_at, 'infinity') as due_at, why,"
        " attempt, failures, crash_count, token, seq, expires_at, deadline_at, waits"
        " from windlass.timers",
        "ready": "select * from windlass.ready",
        "leases": "select l.*, n.name as worker from windlass.leases l "
        "join windlass.worker_names n using (worker_no)",
        "workers": "select * from windlass.workers",
        "sweeps": "select * from windlass.sweeps order by at",
        "attempts": "select * from windlass.attempts",
        "events": "select * from windlass.events order by tenant, subject, seq",
        "feed": "select tenant, s.subject, seq, type, at, attempt, data[s.k] as data "
        "from windlass.pages, unnest(subjects) with ordinality as s(subject, k) "
        "order by era, moment, n, s.k",
        "failures": "select * from windlass.failures",
        "run_keys": "select * from windlass.run_keys",
        "run_tags": "select * from windlass.run_tags",
        "progress": "select * from windlass.progress",
        "steps": "select * from windlass.steps",
        "generations": "select * from windlass.generations",
        "signals": "select * from windlass.signals",
        "children": "select * from windlass.children",
        "wakes": "select * from windlass.wakes",
        "follows": "select * from windlass.follows",
        "schedules": "select * from windlass.schedules",
        "schedule_slots": "select * from windlass.schedule_slots",
        "schedule_live": "select * from windlass.schedule_live",
        "schedule_gone": "select * from windlass.schedule_gone",
        "audit": "select * from windlass.audit",
        "pauses": "select * from windlass.pauses",
        "run_logs": "select * from windlass.run_logs",
        "artifacts": "select * from windlass.artifacts",
        "chores": "select * from windlass.chores",
    }
    EMPTY: ClassVar = (
        "delete from windlass.jobs; delete from windlass.runs; delete from windlass.timers;"
        "delete from windlass.ready; delete from windlass.leases; delete from windlass.workers;"
        "delete from windlass.worker_names; delete from windlass.sweeps;"
        "delete from windlass.attempt_rows; delete from windlass.event_rows;"
        "delete from windlass.pages;"
        "delete from windlass.failures; delete from windlass.run_keys;"
        "delete from windlass.run_tags; delete from windlass.progress;"
        "delete from windlass.steps; delete from windlass.signals;"
        "delete from windlass.children; delete from windlass.wakes;"
        "delete from windlass.follows;"
        "delete from windlass.generations;"
        "delete from windlass.schedules; delete from windlass.schedule_slots;"
        "delete from windlass.schedule_live; delete from windlass.schedule_gone;"
        "delete from windlass.audit; delete from windlass.pauses; delete from windlass.run_logs;"
        "delete from windlass.chores"
    )
    TRUNCATE: ClassVar = (
        "truncate windlass.jobs, windlass.runs, windlass.timers, windlass.ready, windlass.leases,"
        "windlass.workers, windlass.worker_names, windlass.sweeps, windlass.attempt_rows,"
        "windlass.event_rows, windlass.pages, windlass.failures,"
        "windlass.run_keys, windlass.run_tags, windlass.progress, windlass.steps,"
        "windlass.signals, windlass.generations, windlass.children, windlass.wakes,"
        "windlass.follows,"
        "windlass.schedules,"
        "windlass.schedule_slots, windlass.schedule_live, windlass.schedule_gone,"
        "windlass.audit, windlass.pauses, windlass.run_logs, windlass.chores"
    )

    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True, row_factory=dict_row)

    def rows(self, table: str) -> Sequence[Row]:
        return self.read([table])[table]

    def read(self, tables: Sequence[str]) -> Mapping[str, Sequence[Row]]:
        with self._conn.pipeline():  # one round trip
            found = {table: self._conn.execute(self.READ[table]) for table in tables}
        return {table: [_plain(row) for row in rows] for table, rows in found.items()}

    def everything(self) -> Mapping[str, Mapping[str, set[str]]]:
        """The values, as text, of every column that may name a run, by table and column."""
        found = self._conn.execute(
            "select table_name, column_name from information_schema.columns "
            "where table_schema = 'windlass' and data_type in ('uuid', 'ARRAY') "
            "and table_name in (select tablename from pg_tables where schemaname = 'windlass') "
            "and table_name <> 'pages'"
        ).fetchall()
        places: dict[str, dict[str, set[str]]] = {}
        for row in found:
            table, column = row["table_name"], row["column_name"]
            rows = self._conn.execute(
                f"select {column}::text as v from windlass.{table}"  # noqa: S608
            )
            values = {part for r in rows if r["v"] for part in r["v"].strip("{}").split(",")}
            places.setdefault(table, {})[column] = values
        return places

    def mark_stale(self, run: RunRef, at: datetime) -> None:
        # As the janitor does it, but at a time of the test's: a success tells of it by its record.
        self._conn.execute(
            "with marked as (update windlass.runs set stale_at = %s, "
            "seq = seq + (status <> 'succeeded')::integer "
            "where tenant = %s and id = %s and stale_at is null returning *), "
            "noted as (insert into windlass.event_rows (tenant, subject, seq, type, at, attempt) "
            "select tenant, id, seq, 'run.stale', stale_at, attempt from marked "
            "where status <> 'succeeded') "
            "insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects) "
            "select windlass.page_moment(), stale_at, seq + (status = 'succeeded')::integer, "
            "attempt, tenant, 'run.stale', array[id] from marked",
            (at, run.tenant, run.id),
        )

    def make_due(self) -> None:
        self._conn.execute("update windlass.chores set due_at = 'epoch'")

    def delete_run(self, run: RunRef) -> None:
        for table in ("ready", "runs"):
            self._conn.execute(
                f"delete from windlass.{table} where tenant = %s and id = %s",  # noqa: S608
                (run.tenant, run.id),
            )

    def forget_worker(self, worker: str) -> None:
        self._conn.execute("delete from windlass.workers where id = %s", (worker,))

    def set_version(self, version: int) -> None:
        self._conn.execute(
            "insert into windlass.migrations (version, name, checksum) values (%s, 'next', '')",
            (version,),
        )

    def obstruct(self) -> None:
        self._conn.execute("create schema windlass; create table windlass.leases (x integer)")

    def present(self) -> set[str]:
        found = self._conn.execute(
            "select tablename from pg_tables where schemaname = 'windlass'"
        ).fetchall()
        return {row["tablename"] for row in found}

    def empty(self) -> None:
        # A few rows are deleted in no time; many would leave as many dead ones in every scan.
        many = self._conn.execute("select 1 from windlass.runs offset 100 limit 1").fetchone()
        self._conn.execute(self.TRUNCATE if many else self.EMPTY)

    def close(self) -> None:
        self._conn.close()


def _plain(row: Row) -> Row:
    return {name: str(x) if isinstance(x, UUID) else x for name, x in row.items()}


class SqliteTables:
    """The tables of the file, through the same SQLite library as the store's.

    Never through Python's own sqlite3: closing its descriptor would drop the locks that the
    store holds in this process.
    """

    READ: ClassVar = {
        "jobs": "select * from jobs",
        "runs": "select * from runs",
        "timers": "select * from timers",
        "ready": "select * from ready",
        "leases": "select l.*, w.name as worker from leases l left join worker_names w"
        " on w.worker_no = l.worker_no",
        "worker_names": "select * from worker_names",
        "workers": "select * from workers",
        "sweeps": "select * from sweeps order by at",
        "attempts": "select * from attempts",
        "events": "select * from events order by tenant, subject, seq",
        "feed": "with recursive place (k) as (select 0 union all select k + 1 from place "
        "where k < (select max(length(subjects)) / 16 from pages)) "
        "select tenant, substr(subjects, 16 * k + 1, 16) as subject, seq, type, at, attempt, data "
        "from pages join place on k < length(subjects) / 16 order by era, n, k",
        "attempt_rows": "select * from attempt_rows",
        "event_rows": "select * from event_rows",
        "pages": "select * from pages order by n",
        "failures": "select * from failures",
        "run_keys": "select * from run_keys",
        "run_tags": "select * from run_tags",
        "progress": "select * from progress",
        "steps": "select * from steps",
        "generations": "select * from generations",
        "signals": "select * from signals",
        "children": "select * from children",
        "wakes": "select * from wakes",
        "follows": "select * from follows",
        "schedules": "select * from schedules",
        "schedule_slots": "select * from schedule_slots",
        "schedule_live": "select * from schedule_live",
        "schedule_gone": "select * from schedule_gone",
        "run_logs": "select * from run_logs",
        "artifacts": "select * from artifacts",
        "audit": "select * from audit",
        "chores": "select * from chores",
    }
    EMPTY: ClassVar = (
        "begin immediate;"
        "delete from jobs; delete from runs; delete from timers; delete from ready;"
        "delete from leases; delete from worker_names; delete from workers; delete from sweeps;"
        "delete from attempt_rows; delete from event_rows; delete from pages;"
        "delete from failures; delete from run_keys; delete from run_tags; delete from progress;"
        "delete from steps; delete from signals; delete from children; delete from wakes;"
        "delete from follows;"
        "delete from generations;"
        "delete from schedules; delete from schedule_slots; delete from schedule_live;"
        "delete from schedule_gone; delete from run_logs; delete from chores;"
        "commit"
    )
    IDS: ClassVar = frozenset(
        {"id", "run", "subject", "schedule", "enqueued_by", "parent", "root", "awaited"}
    )
    TIMES: ClassVar = frozenset(
        {"at", "gap_from", "until", "due_at", "ready_at", "scheduled_for", "alive_until"}
        | {"slot", "next_slot", "last_slot"}
        | {
            f"{what}_at"
            for what in ("created", "started", "finished", "expires", "deadline", "stale")
        }
        | {f"{what}_at" for what in ("updated", "discarded", "published")}
    )

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _conn(self) -> apsw.Connection:
        # When first used: it is for the store to make the file.
        conn = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)
        conn.set_busy_timeout(5_000)
        conn.row_trace = self._named
        return conn

    def rows(self, table: str) -> Sequence[Row]:
        return list(self._conn.execute(self.READ[table]))

    def read(self, tables: Sequence[str]) -> Mapping[str, Sequence[Row]]:
        return {table: self.rows(table) for table in tables}

    def everything(self) -> Mapping[str, Mapping[str, set[str]]]:
        """The values, as text, of every column that may name a run, by table and column."""
        tables = self._conn.execute("select name from sqlite_schema where type = 'table'")
        places: dict[str, dict[str, set[str]]] = {}
        for table in [row["name"] for row in tables]:
            if table == "pages" or table.startswith("sqlite_"):
                continue
            columns = self._conn.execute("select name from pragma_table_info(?)", (table,))
            for column in [row["name"] for row in columns]:
                rows = self._conn.execute(
                    f"select {column} as v from {table} where typeof({column}) = 'blob'"  # noqa: S608
                )
                blobs = [
                    row["v"] if isinstance(row["v"], bytes) else UUID(row["v"]).bytes
                    for row in rows
                ]
                values = {str(UUID(bytes=blob)) for blob in blobs if len(blob) == 16}
                places.setdefault(table, {})[column] = values
        return places

    def mark_stale(self, run: RunRef, at: datetime) -> None:
        micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        # As the janitor does it, but at a time of the test's: a success tells of it by its record.
        name = (run.tenant, UUID(run.id).bytes)
        marked = self._conn.execute(
            "update runs set stale_at = ?, seq = seq + (status <> 'succeeded') "
            "where tenant = ? and id = ? and stale_at is null returning status, seq, attempt",
            (micros, *name),
        ).fetchall()
        for marks in marked:
            row: Any = marks  # named by the connection
            status, seq, attempt = row["status"], row["seq"], row["attempt"]
            if status != "succeeded":
                self._conn.execute(
                    "insert into event_rows (tenant, subject, seq, type, at, attempt) "
                    "values (?, ?, ?, 'run.stale', ?, ?)",
                    (*name, seq, micros, attempt),
                )
            self._conn.execute(
                "insert into pages (tenant, subjects, seq, type, at, attempt) "
                "values (?, ?, ?, 'run.stale', ?, ?)",
                (*name, seq + (status == "succeeded"), micros, attempt),
            )

    def make_due(self) -> None:
        self._conn.execute("update chores set due_at = 0")

    def delete_run(self, run: RunRef) -> None:
        for table in ("ready", "runs"):
            self._conn.execute(
                f"delete from {table} where tenant = ? and id = ?",  # noqa: S608
                (run.tenant, UUID(run.id).bytes),
            )

    def forget_worker(self, worker: str) -> None:
        self._conn.execute("delete from workers where id = ?", (worker,))

    def set_version(self, version: int) -> None:
        self._conn.execute(
            "insert into schema_version (version, name, applied_at) values (?, 'next', 0)",
            (version,),
        )

    def obstruct(self) -> None:
        conn = apsw.Connection(str(self._path))
        conn.execute("create table leases (x integer)")
        conn.close()

    def present(self) -> set[str]:
        found = self._conn.execute("select name from sqlite_schema where type = 'table'")
        return {row["name"] for row in found}

    def empty(self) -> None:
        self._conn.execute(self.EMPTY)

    def close(self) -> None:
        if "_conn" in vars(self):
            self._conn.close()

    def _named(self, cursor: apsw.Cursor, row: tuple[Any, ...]) -> Row:
        names = [column[0] for column in cursor.get_description()]
        return {name: self._value(name, x) for name, x in zip(names, row, strict=True)}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, bytes) and name in self.IDS:
            return str(UUID(bytes=value))
        if isinstance(value, int) and name in self.TIMES:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        return value


@contextmanager
def opened(place: Place) -> Iterator[Tables]:
    """The tables of a place, closed at the end."""
    tables = place.tables()
    try:
        yield tables
    finally:
        tables.close()
