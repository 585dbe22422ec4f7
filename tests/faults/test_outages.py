"""The store cannot be reached: for one worker, for all, for a moment or for longer than a lease."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conformance.places import SqlitePlace
from tests.faults.harness import (
    LEASE,
    POLL,
    SLACK,
    Fleet,
    Locker,
    Stage,
    eventually,
    make_postgres_stage,
    proxy_for,
    rest,
    through,
)
from tests.faults.proxy import Fault, Proxy
from tests.fixtures.nursery import Nursery
from tests.fixtures.postgres import PostgresServer, prepare_template

FENCE = LEASE * 2 / 3
# From the moment at which a worker may start a run to the line that the handler writes.
INSTANT = 0.7

# Two thirds of it, in which nothing is reaped, must do for renewals that come `LATE`: what is left
# of them is for a machine that is busy.
LONGER = 4.5
LATE = 0.8

# For tests that wait for no lease and count crashes: no machine is as busy as that.
LONG = 20.0

# Two thirds of it must do for newcomers to be there, and for renewals that come later than that.
NEWCOMERS = 6.0

BLOWS = 20

Outage = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def reach(stage: Stage) -> Iterator[tuple[str, Outage]]:
    """The way of workers to their store, and a way to block it for all of them."""
    if isinstance(stage.place, SqlitePlace):
        path = stage.place.path
        yield stage.url, lambda: locked(path)
    else:
        with proxy_for(stage.url) as proxy:
            yield through(proxy, stage.url), lambda: refused(proxy)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody can write to the file."""
    with closing(Locker(path)) as locker:
        locker.lock()
        yield
        locker.let_go()


@contextmanager
def refused(proxy: Proxy) -> Iterator[None]:
    """Nobody can reach the server, which goes on running."""
    proxy.refuse()
    yield
    proxy.accept()


def test_an_outage_for_all_is_a_crash_of_nobody(
    stage: Stage, fleet: Fleet, reach: tuple[str, Outage]
) -> None:
    """F23: longer than the lease. Reapers, dispatchers and claims are back before renewals are."""
    url, outage = reach
    # Every sweep reaps, also the one that waits for the store.
    squad = [fleet.worker(url=url, lease=LONGER, sweep=POLL) for _ in range(2)]
    fleet.await_workers(*squad)
    kept = [stage.app.enqueue("hold", {"n": n}).id for n in range(12)]  # more than one has seats
    stage.await_start(*kept)
    acked = [run.id for run in stage.load(100)]
    with outage():
        stage.witness.raise_flag("late")
        rest(1.1 * LONGER)
    rest(LATE)
    stage.witness.lower_flag("late")
    stage.witness.raise_flag("release")
    stage.quiet()

    stage.check(acked=[*kept, *acked])
    assert stage.rows("attempts", outcome="crashed") == []
    assert {row["attempt"] for row in stage.rows("attempts") if row["run"] in kept} == {1}
    assert stage.witness.lines("told") == []
    assert all(worker.alive for worker in squad)


def test_workers_that_start_during_an_outage_take_nobody_for_dead(
    stage: Stage, fleet: Fleet, reach: tuple[str, Outage]
) -> None:
    """They wait for the store, and sweep it before the others, whose leases are over, renew."""
    url, outage = reach
    endure_newcomers(stage, fleet, url, outage)


def endure_newcomers(stage: Stage, fleet: Fleet, url: str, outage: Outage) -> None:
    told: dict[str, Any] = {"url": url, "lease": NEWCOMERS, "sweep": POLL, "max_crashes": 1}
    squad = [fleet.worker(**told) for _ in range(2)]
    fleet.await_workers(*squad)
    kept = [stage.app.enqueue("hold", {"n": n}).id for n in range(12)]  # more than one has seats
    stage.await_start(*kept)
    with outage():
        stage.witness.raise_flag("late")
        newcomers = [fleet.worker(**told) for _ in range(2)]
        stage.await_lines("begun", 4)
        rest(1.1 * NEWCOMERS)
    fleet.await_workers(*newcomers)
    rest(LATE)  # several sweeps of theirs
    stage.witness.lower_flag("late")
    eventually(lambda: all_renewed(stage), within=NEWCOMERS, what="all workers have renewed")
    stage.witness.raise_flag("release")
    stage.quiet()

    stage.check(acked=kept)
    assert [(row["outcome"], row["attempt"]) for row in stage.rows("attempts")] == [
        ("succeeded", 1)
    ] * len(kept)
    assert stage.witness.lines("told") == []
    assert all(worker.alive for worker in [*squad, *newcomers])


def all_renewed(stage: Stage) -> bool:
    """Whether nobody's time is over: what is spared lives."""
    now = datetime.now(UTC)  # noqa: TID251 - all are on one machine
    return all(row["alive_until"] > now for row in stage.rows("workers"))


def test_runs_that_wait_for_a_seat_do_not_start_when_the_lease_is_in_doubt(
    sqlite_stage: Stage, fleet: Fleet
) -> None:
    """F23: a fast worker claims ahead of its seats; what waits there must not outlive the lease."""
    stage = sqlite_stage
    assert isinstance(stage.place, SqlitePlace)
    with closing(Locker(stage.place.path)) as locker:
        fleet.ready_worker(concurrency=1, ahead=60.0)
        runs = [run.id for run in stage.load(25, ms=(200, 200))]  # five seconds' work
        await_claimed_ahead(stage, 15)
        locker.lock()
        cut = time.monotonic()
        rest(FENCE + SLACK + POLL)
        starts = stage.witness.lines("starts")
        waiting = {row["id"] for row in stage.rows("leases")} - {line.run for line in starts}
        locker.let_go()
    stage.quiet()

    assert waiting, "nothing was left to start: the test tests nothing"
    assert max(line.at for line in starts) <= cut + FENCE + SLACK
    stage.check(acked=runs)


def await_claimed_ahead(stage: Stage, count: int) -> None:
    """Wait until so many runs that have not started are leased."""

    def ahead() -> bool:
        started = {line.run for line in stage.witness.lines("starts")}
        return len({row["id"] for row in stage.rows("leases")} - started) >= count

    eventually(ahead, what="the worker has claimed ahead")


def test_a_worker_that_cannot_renew_starts_nothing_more(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    """F23: only the renewals are lost; claims would get through until the lease has run out."""
    stage = postgres_stage
    fleet.ready_worker(url=through(proxy, stage.url), lease=2 * LEASE)
    acked = [run.id for run in stage.load(450, ms=(70, 90))]  # longer than that
    stage.await_lines("effects", 1)
    proxy.expect(Fault.LOSE_REQUEST, "windlass.renew", times=1_000_000)
    cut = time.monotonic()
    rest(2 * FENCE + INSTANT + 0.1)
    left = stage.live()
    starts = [line.at for line in stage.witness.lines("starts")]

    proxy.forget()

    assert left, "nothing was left to start: the test tests nothing"
    assert max(starts) <= cut + 2 * FENCE + INSTANT
    stage.quiet()
    stage.check(acked=acked)


def test_a_worker_in_a_black_hole_fences_itself_and_comes_back(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    """F23: no packet passes for three leases, and nobody is told."""
    stage = postgres_stage
    lost = fleet.ready_worker(url=through(proxy, stage.url), concurrency=2, ahead=60.0)
    held = stage.app.enqueue("hold").id
    stage.await_start(held)
    # Five seconds' work for its other seat, and all of it is claimed when the hole opens.
    acked = [run.id for run in stage.load(25, ms=(200, 200))]
    await_claimed_ahead(stage, 15)
    proxy.swallow()
    cut = time.monotonic()
    other = fleet.worker()
    stage.await_start(held, attempt=2)
    stage.witness.raise_flag("release")
    rest(max(0.0, cut + 3 * LEASE - time.monotonic()))
    stage.quiet()

    proxy.spit_out()
    back = time.monotonic()

    eventually(lambda: stage.workers(lost.pid), within=10, what="the lost worker is back")
    starts = [line for line in stage.witness.lines("starts") if line.pid == lost.pid]
    crashed = {row["run"] for row in stage.rows("attempts", outcome="crashed")}
    assert max(line.at for line in starts) <= cut + FENCE + SLACK
    assert crashed - {line.run for line in starts}, "it had nothing left: the test tests nothing"
    assert lost.alive
    other.terminate()
    assert other.wait(10.0) == 0
    acked += [run.id for run in stage.load(10)]  # there is nobody else to do them
    stage.quiet()
    assert any(line.at > back for line in stage.witness.lines("starts") if line.pid == lost.pid)
    stage.check(acked=[held, *acked])


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, durable, to be crashed."""
    with PostgresServer() as made:
        prepare_template(made.create_database("faults"))
        yield made


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_server_that_crashes_costs_a_pause_and_nothing_else(
    server: PostgresServer, nursery: Nursery, tmp_path: Path, times: int
) -> None:
    """F10: when the renewals are back the leases have run out, and nobody has died."""
    stage = make_postgres_stage(server.dsn("faults"), tmp_path)
    fleet = Fleet(stage, nursery)
    try:
        kept = [stage.app.enqueue("hold", {"n": n}).id for n in range(4)]
        kept += [run.id for run in stage.load(40, job="flaky")]
        squad = [fleet.worker(lease=LONGER) for _ in range(2)]
        client = fleet.client(ms=30)
        stage.await_start(*kept)
        for _ in range(times):
            await_progress(stage)
            stage.witness.raise_flag("late")
            server.stop("immediate")
            rest(LONGER - LATE)
            server.start()
            rest(LATE)
            stage.witness.lower_flag("late")
            await_progress(stage, within=10)
        client.kill()
        stage.witness.raise_flag("release")
        stage.quiet()
        stage.check(acked=[*stage.acked().values(), *kept])
        assert stage.rows("attempts", outcome="crashed") == []
        assert all(worker.alive for worker in squad)
        assert "Traceback" not in client.log()
    finally:
        fleet.close()
        stage.close()


def test_newcomers_after_a_crash_of_backends_take_nobody_for_dead(
    server: PostgresServer, nursery: Nursery, tmp_path: Path
) -> None:
    """The postmaster outlives it: when it was started says nothing."""
    stage = make_postgres_stage(server.dsn("faults"), tmp_path)
    fleet = Fleet(stage, nursery)
    started = started_at(server)
    try:
        endure_newcomers(stage, fleet, stage.url, lambda: crashed(server))
        assert started_at(server) == started
    finally:
        fleet.close()
        stage.close()


@contextmanager
def crashed(server: PostgresServer) -> Iterator[None]:
    """All sessions die at once, and it takes long until there can be new ones."""
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        found = conn.execute(
            "select pid from pg_stat_activity"
            " where backend_type = 'client backend' and pid <> pg_backend_pid()"
        ).fetchall()
    os.kill(server.pid, signal.SIGSTOP)  # it would start them again at once
    try:
        for (pid,) in found:
            os.kill(pid, signal.SIGKILL)
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)
    eventually(lambda: started_at(server), what="the server answers")


def started_at(server: PostgresServer) -> object:
    """When the postmaster says it was started; None while it does not answer."""
    try:
        with psycopg.connect(server.dsn()) as conn:
            return conn.execute("select pg_postmaster_start_time()").fetchone()
    except psycopg.OperationalError:
        return None


def await_progress(stage: Stage, within: float = 10.0) -> None:
    """Wait until something more is acknowledged, and something more is done."""
    for kind in ("acks", "effects"):
        before = len(stage.witness.raw(kind))
        stage.await_lines(kind, before + 5, within=within)


def test_sessions_that_are_ended_by_the_server_cost_nothing(
    postgres_stage: Stage, fleet: Fleet
) -> None:
    """F11: a random session of ours is terminated ten times a second, whatever it does."""
    stage = postgres_stage
    flaky = [run.id for run in stage.load(60, job="flaky")]
    squad = [fleet.worker(lease=LONG), fleet.worker(lease=LONG)]
    client = fleet.client(ms=30)
    fleet.await_workers(*squad)
    with psycopg.connect(stage.url, autocommit=True) as nemesis:
        for _ in range(BLOWS):
            nemesis.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
                " order by random() limit 1"
            )
            look_around(stage)
            rest(0.1)
    await_progress(stage)
    assert client.alive, client.log()
    client.kill()
    stage.quiet()

    stage.check(acked=[*flaky, *stage.acked().values()])
    assert stage.rows("attempts", outcome="crashed") == []
    asked = stage.witness.raw("asked")
    canceled = stage.rows("runs", status="canceled")
    assert len(canceled) == BLOWS
    assert len(stage.rows("runs")) - len(canceled) <= len(flaky) + len(asked)
    assert all(worker.alive for worker in squad)


def look_around(stage: Stage) -> None:
    """Read, wait for a result and cancel, as an application does; nothing of it may fail."""
    app = stage.app
    later = app.enqueue("load", {"n": 0, "ms": 1}, delay="1h")
    assert app.get(later.id).status == "scheduled"
    assert app.cancel(later.id).status == "canceled"
    assert later.id in [run.id for run in app.list(status="canceled", limit=1)]
    for run in app.list(status="succeeded", limit=1):
        assert app.result(run.id, timeout=10) is not None


def test_replies_that_are_lost_after_the_commit_cost_nothing(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    """F11: precisely between commit and reply, of every call that a worker makes."""
    stage = postgres_stage
    names = ("sync_jobs", "register", "cycle", "renew", "sweep")
    rules = [proxy.expect(Fault.LOSE_REPLY, f"windlass.{name}", times=3) for name in names]
    worker = fleet.worker(url=through(proxy, stage.url), lease=LONG)
    fleet.await_workers(worker)
    acked = []
    for _ in range(3):
        acked += [run.id for run in stage.load(10)]
        rules.append(proxy.expect(Fault.LOSE_REPLY, "windlass.cycle"))
        eventually(lambda: rules[-1].times == 0, what="a claim or an end lost its reply")
    stage.quiet()

    eventually(lambda: all(rule.times == 0 for rule in rules), what="all replies were lost")
    stage.check(acked=acked)
    assert stage.rows("attempts", outcome="crashed") == []
    assert stage.rows("attempts", outcome="interrupted"), "no claim lost its reply"
    assert worker.alive


def test_a_worker_waits_for_a_server_that_is_not_there_yet(
    postgres_stage: Stage, proxy: Proxy, fleet: Fleet
) -> None:
    """It starts before its database, takes up work when that comes, and can be stopped before."""
    stage = postgres_stage
    proxy.refuse()
    early, given_up = (fleet.worker(url=through(proxy, stage.url)) for _ in range(2))
    acked = [run.id for run in stage.load(5)]
    stage.await_lines("begun", 2)
    given_up.terminate()
    assert given_up.wait(within=5) == 0

    proxy.accept()

    stage.quiet(within=10 + SLACK)
    stage.check(acked=acked)
    assert early.alive
