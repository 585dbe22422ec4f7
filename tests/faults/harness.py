"""What the fault tests are made of: a database, processes, and the means to disturb them.

A `Stage` is one database and the folder in which all processes of a test bear witness. A `Fleet`
starts real processes on it and ends them, one way or another. Nothing sleeps to synchronise:
`eventually` waits for a condition, with a deadline. When a test is over, `Stage.check` lets the
history checker judge what is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import apsw
import msgspec
import psycopg

from tests.conformance.history import History, violations
from tests.conformance.places import Place, PostgresPlace, Row, SqlitePlace, opened
from tests.faults.programs.jobs import FLAKY_ATTEMPTS, Line, Witness, define_jobs
from tests.faults.proxy import Proxy
from tests.faults.witnesses import contradictions
from tests.fixtures.nursery import Child, Nursery, Program
from windlass import Run, Windlass

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
LEASE, RENEW, SWEEP, POLL = 2.0, 0.5, 0.3, 0.2
# What a busy machine may add to the time that something takes.
SLACK = 1.5
SETTINGS: Mapping[str, Any] = {
    "lease": LEASE,
    "renew": RENEW,
    "sweep": SWEEP,
    "poll": POLL,
    "drain": 2.0,
    "concurrency": 8,
    "threads": 4,
    # Runs that are hit again and again must not be given up: these tests count what is lost.
    "max_crashes": 1000,
}
# Each look costs the machine something, most of all a connection: the later, the rarer.
_LOOK, _LONGEST = 0.01, 0.08
PROGRAMS = "tests.faults.programs"
ISOLATED = f"{PROGRAMS}.isolated"
COMMAND = "windlass.__main__"
# What the processes of a fleet import, but for the application of `isolated`.
IMPORTS = (
    *(f"{PROGRAMS}.{name}" for name in ("worker", "client", "scheduler")),
    *(
        f"windlass.cli.{name}"
        for name in ("worker", "serving", "loading", "supervisor", "unserved")
    ),
    "windlass.store.postgres.store",
)
INDEXES = """
select bt_index_check(i.indexrelid, true) from pg_index i
  join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
  join pg_am a on a.oid = c.relam
 where n.nspname = 'windlass' and a.amname = 'btree'
"""


def eventually(condition: Callable[[], T | None], *, within: float = 20.0, what: str) -> T:
    """Wait until a condition holds and return what it says; fail with `what` if it never does."""
    deadline = time.monotonic() + within
    look = _LOOK
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(look)
        look = min(look * 1.3, _LONGEST)


def rest(seconds: float) -> None:
    """Let time pass between two blows of the nemesis. Nothing is waited for."""
    time.sleep(seconds)


@dataclass(eq=False)
class Stage:
    """A database and a folder of witnesses."""

    place: Place
    url: str
    witness: Witness
    settings: Mapping[str, Any] = field(default_factory=lambda: dict(SETTINGS))
    environ: Mapping[str, str] = field(default_factory=dict)  # for the processes on it
    _app: Windlass | None = None

    @property
    def app(self) -> Windlass:
        """An application of the test's own process; it enqueues and looks, and runs nothing."""
        if self._app is None:
            self._app = Windlass(self.url, **self.settings)
            define_jobs(self._app, self.witness)
        return self._app

    def close(self) -> None:
        """Let go of the database."""
        if self._app is not None:
            self._app.close()

    # -- load -----------------------------------------------------------------------------

    def load(self, count: int, *, job: str = "load", ms: Sequence[int] = (20, 80)) -> list[Run]:
        """Enqueue runs that take from the first to the second number of milliseconds."""
        least, most = ms
        requests = [
            self.app.jobs[job].request(n=n, ms=least + n * 37 % (most - least + 1))
            for n in range(count)
        ]
        return list(self.app.enqueue_many(requests))

    # -- looks ----------------------------------------------------------------------------

    def rows(self, table: str, **where: object) -> list[Row]:
        """The rows in which these columns have these values, as they are now."""
        with opened(self.place) as tables:
            rows = tables.rows(table)
        return [row for row in rows if all(row[name] == value for name, value in where.items())]

    def live(self) -> int:
        """How many runs have not ended."""
        left = self.app.store.run(self.app.store.operations.backlog(None, None))
        return left.ready + left.running + left.retrying + left.scheduled

    def quiet(self, *, within: float = 25.0) -> None:
        """Wait until every run has ended."""
        eventually(lambda: self.live() == 0, within=within, what="every run has ended")

    def writable(self) -> bool:
        """Whether nobody holds the lock of the whole database, which only SQLite has."""
        return not isinstance(self.place, SqlitePlace) or unlocked(self.place.path)

    def workers(self, pid: int) -> list[Row]:
        """The workers that are registered from a process."""
        return self.rows("workers", pid=pid)

    def said(self, kind: str, run: str, *, attempt: int = 1, word: str = "") -> Line | None:
        """A line of an attempt."""
        for line in self.witness.lines(kind):
            if (line.run, line.attempt) == (run, attempt) and line.word.startswith(word):
                return line
        return None

    def await_line(self, kind: str, run: str, *, attempt: int = 1, word: str = "") -> Line:
        """Wait for a line of an attempt."""
        return eventually(
            lambda: self.said(kind, run, attempt=attempt, word=word),
            what=f"attempt {attempt} of {run} is in {kind} {word}",
        )

    def await_start(self, *runs: str, attempt: int = 1) -> list[Line]:
        """Wait until attempts have begun."""
        return [self.await_line("starts", run, attempt=attempt) for run in runs]

    def await_lines(self, kind: str, count: int, *, within: float = 20.0) -> None:
        """Wait until so many lines were written."""
        eventually(
            lambda: len(self.witness.raw(kind)) >= count,
            within=within,
            what=f"{count} lines in {kind}",
        )

    def acked(self) -> dict[int, str]:
        """What clients were told, by number."""
        pairs = (line.split() for line in self.witness.raw("acks"))
        return {int(n): run for n, run in pairs}

    # -- judgement --------------------------------------------------------------------------

    def check(
        self,
        *,
        acked: Iterable[str] = (),
        settled: bool = True,
        slack: timedelta = timedelta(0),
        witnessed: bool = True,
    ) -> None:
        """Judge the history, and the database itself; `slack`: by how much its clock was set.

        Not `witnessed`: an attempt may succeed without a line, as one that only replays does.
        """
        effects = {(line.run, line.attempt, line.token) for line in self.witness.lines("effects")}
        with opened(self.place) as tables:
            history = History.read(tables)
        if not witnessed:
            effects = {(row["run"], row["attempt"], row["token"]) for row in history.attempts}
        budgets = {job.name: job.spec.max_attempts for job in self.app.jobs.values()}
        found = violations(history, max_attempts=budgets, slack=slack)
        found += contradictions(history, acked=acked, effects=effects, settled=settled)
        assert not found, "\n".join(["the history does not hold:", *found[:50]])
        assert [row for row in history.runs if row["job"] == "flaky" and not well_tried(row)] == []
        if isinstance(self.place, SqlitePlace):
            assert integrity(self.place.path) == ["ok"]
        elif isinstance(self.place, PostgresPlace):
            check_indexes(self.place.url)


def well_tried(run: Row) -> bool:
    """Whether a run of `flaky` failed as often as it wanted to, and no oftener than it might."""
    due = run_number(run["input"]) % (FLAKY_ATTEMPTS + 1)
    status = "failed" if due == FLAKY_ATTEMPTS else "succeeded"
    return run["status"] is None or (run["status"], run["failures"]) == (status, due)


def run_number(document: object) -> int:
    """The argument `n` of a run: JSON is text in one store and a value in the other."""
    value = msgspec.json.decode(document) if isinstance(document, str) else document
    assert isinstance(value, dict)
    return int(value["n"])


def check_indexes(url: str) -> None:
    """Let PostgreSQL look for rows that an index has forgotten, or keeps in the wrong place."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("create extension if not exists amcheck")
        conn.execute(INDEXES)


def integrity(path: Path) -> list[str]:
    """What SQLite itself finds wrong with a file: `ok`."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(5_000)
    try:
        found = connection.execute("pragma integrity_check").fetchall()
        found += connection.execute("pragma foreign_key_check").fetchall()
        return [str(row[0]) for row in found]
    finally:
        connection.close()


def unlocked(path: Path) -> bool:
    """Whether SQLite's write lock is free at this moment."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute("begin immediate")
        connection.execute("rollback")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


class Process:
    """A process of a test, and what was done to it."""

    def __init__(self, popen: Child, log: Path) -> None:
        self._popen = popen
        self._log = log
        self.pid = popen.pid
        self.killed_at: datetime | None = None

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def log(self) -> str:
        """What it wrote to its standard error."""
        return self._log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Stop it where it stands: it becomes a zombie in the queue's sense."""
        self.signal(signal.SIGSTOP)
        self._popen.await_stop()

    def go_on(self) -> float:
        """Let it go on; returns when, by the monotonic clock."""
        self.signal(signal.SIGCONT)
        return time.monotonic()

    def kill(self) -> None:
        """Kill it, without a word."""
        self.killed_at = datetime.now(UTC)  # noqa: TID251 - the nemesis has a clock of its own
        self._popen.kill()
        self._popen.wait()

    def terminate(self) -> float:
        """Ask it to end; returns when, and not later: it may be quicker than we are."""
        asked = time.monotonic()
        self.signal(signal.SIGTERM)
        return asked

    def wait(self, within: float) -> int:
        """Wait for its end; returns the exit code."""
        try:
            return self._popen.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"process {self.pid} did not end within {within:g} s") from None


class Fleet:
    """The processes of one test; none outlives it."""

    def __init__(self, stage: Stage, nursery: Nursery) -> None:
        self._stage = stage
        self._nursery = nursery
        self.processes: list[Process] = []

    def worker(
        self,
        *,
        url: str | None = None,
        jobs: Sequence[str] | None = None,
        ahead: float | None = None,
        stop_in_commit: str | None = None,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Process:
        """Start a worker; `options` are those of the worker, on top of the stage's settings."""
        return self._start(
            "worker",
            url=url or self._stage.url,
            settings={**self._stage.settings, **(settings or {})},
            jobs=jobs,
            ahead=ahead,
            stop_in_commit=stop_in_commit,
            options=options,
        )

    def ready_worker(self, **options: Any) -> Process:
        """Start a worker and wait until it is known to the store."""
        worker = self.worker(**options)
        self.await_workers(worker)
        return worker

    def await_workers(self, *workers: Process) -> None:
        """Wait until workers are known to the store."""
        eventually(
            lambda: all(self._stage.workers(worker.pid) for worker in workers),
            what="the workers are registered",
        )

    def command(self, *arguments: str, **settings: Any) -> Process:
        """Start `windlass worker` for the application of `programs.isolated`."""
        told = {**self._stage.settings, **settings}
        folder = self._stage.witness.folder
        config = {"url": self._stage.url, "folder": str(folder), "settings": told}
        log = folder / f"command-{len(self.processes)}.log"
        environ = {**os.environ, "FAULTS": msgspec.json.encode(config).decode()}
        with log.open("wb") as output:
            started = self._nursery.start(
                COMMAND, "--app", ISOLATED, "worker", *arguments,
                folder=ROOT, environ=environ, output=output,
            )  # fmt: skip
        self.processes.append(Process(started, log))
        return self.processes[-1]

    def ready_command(self, *arguments: str, **settings: Any) -> Process:
        """The same, and wait until it works."""
        process = self.command(*arguments, **settings)
        eventually(lambda: "worker started" in process.log(), what="the worker has started")
        return process

    def client(self, **config: Any) -> Process:
        """Start a process that enqueues."""
        given = {"url": self._stage.url, "settings": dict(self._stage.settings)}
        return self._start("client", **(given | config))

    def scheduler(self, **config: Any) -> Process:
        """Start a scheduler that runs nothing, with a clock that may be off."""
        settings = dict(self._stage.settings)
        return self._start("scheduler", url=self._stage.url, settings=settings, **config)

    def close(self) -> None:
        """Kill what is left, stopped or not."""
        for process in self.processes:
            if process.alive:
                process.kill()

    def _start(self, program: str, **config: Any) -> Process:
        folder = self._stage.witness.folder
        told = msgspec.json.encode({"folder": str(folder), **config}).decode()
        log = folder / f"{program}-{len(self.processes)}.log"
        with log.open("wb") as output:
            process = Process(self._run(f"{PROGRAMS}.{program}", told, output), log)
        self.processes.append(process)
        return process

    def _run(self, module: str, told: str, output: IO[bytes]) -> Child:
        if not self._stage.environ:
            return self._nursery.start(module, told, folder=ROOT, environ=os.environ, output=output)
        return Program(  # what it is told there must be known from the very start
            [sys.executable, "-m", module, told],
            cwd=ROOT,
            env={**os.environ, **self._stage.environ},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


class Locker:
    """A process that takes SQLite's write lock when told to, and holds it until told to let go.

    It is up when this returns, so that the lock can be had at a moment of the test's choice.
    """

    def __init__(self, path: Path) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.programs.locker", str(path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self._popen.pid
        self._hear("ready")

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def lock(self) -> None:
        """Take the lock."""
        self._tell()
        self._hear("locked")

    def let_go(self) -> None:
        """Give the lock back; it is free when this returns."""
        self._tell()
        self._hear("unlocked")

    def close(self) -> None:
        """End it, whatever it holds."""
        self._popen.kill()
        self._popen.communicate()

    def _tell(self) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(b"\n")
        self._popen.stdin.flush()

    def _hear(self, word: str) -> None:
        assert self._popen.stdout is not None
        assert self._popen.stdout.readline() == f"{word}\n".encode()


def through(proxy: Proxy, url: str) -> str:
    """The same database, through a proxy that can read what is said."""
    parts = urlsplit(url)
    netloc = f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}"
    return parts._replace(netloc=netloc, query="prepare=off").geturl()


def proxy_for(url: str) -> Proxy:
    """A proxy in front of a database."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    return Proxy(parts.hostname, parts.port or 5432)


def make_sqlite_stage(folder: Path) -> Stage:
    """A stage on a SQLite file."""
    path = folder / "windlass.db"
    made = Stage(SqlitePlace(path), f"sqlite:///{path}", Witness(folder))
    made.app.migrate()
    return made


def make_postgres_stage(url: str, folder: Path) -> Stage:
    """A stage on a PostgreSQL database."""
    return Stage(PostgresPlace(url), url, Witness(folder))
