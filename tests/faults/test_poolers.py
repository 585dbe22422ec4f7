"""Through a connection pooler: in transaction mode everything works, wake-ups by polling.

In session mode a client keeps its connection to the server: there must be enough of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import psycopg
import pytest

from tests.doctor.kit import checkup, only
from tests.faults.harness import Fleet, Stage, eventually
from tests.faults.pgbouncer import PgBouncer, find_pgbouncer
from tests.faults.pooler import Pooler
from tests.faults.programs.jobs import define_jobs
from tests.fixtures.apps import PATIENCE, opened, working
from windlass import Status, StoreError, StoreUnavailable, Windlass
from windlass.domain.checkup import Severity
from windlass.sources import Sources
from windlass.store.postgres.connections import WORKER_CONNECTIONS
from windlass.store.postgres.store import PostgresStore

RUNS = 300
WAITING = """
select count(*) from pg_stat_activity
 where datname = current_database() and wait_event_type = 'Lock'
"""

AnyPooler = Pooler | PgBouncer


KINDS: list[type[AnyPooler]] = [Pooler] if find_pgbouncer() is None else [Pooler, PgBouncer]
"""One of our own, which is everywhere; and the one that people use, where it is installed."""


@pytest.fixture(params=KINDS, ids=[kind.__name__ for kind in KINDS])
def pooler(request: pytest.FixtureRequest, postgres_stage: Stage) -> Iterator[AnyPooler]:
    """A pooler in front of the stage's database."""
    with request.param(postgres_stage.url) as made:
        yield made


@pytest.fixture
def app(pooler: AnyPooler) -> Iterator[Windlass]:
    """An application that knows no other way."""
    made = Windlass(pooler.url)
    yield made
    made.close()


def test_workers_clients_and_schedules_work_through_a_pooler(
    postgres_stage: Stage, fleet: Fleet, pooler: AnyPooler
) -> None:
    stage = postgres_stage
    through = Windlass(pooler.url)
    define_jobs(through, stage.witness)
    schedule = through.schedules.put("load", key="s", interval="1s", input={"n": 0, "ms": 1})
    squad = [fleet.worker(url=pooler.url) for _ in range(2)]
    client = fleet.client(url=pooler.url, count=RUNS, ms=5)
    stage.await_lines("acks", RUNS)
    assert client.wait(10.0) == 0
    eventually(lambda: through.schedules.get("s").fired >= 2, what="the schedule fires")
    through.schedules.pause("s")
    stage.quiet()

    for worker in squad:
        worker.terminate()
        assert worker.wait(10.0) == 0
        assert "ERROR" not in worker.log()
        assert "prepared statement" not in worker.log()
    through.close()
    assert stage.rows("workers") == []
    stage.check(acked=stage.acked().values())
    assert len(stage.acked()) == RUNS
    slots = Counter(row["slot"] for row in stage.rows("runs") if row["schedule"] is not None)
    assert set(slots.values()) == {1}
    assert schedule.fired == 0
    assert not isinstance(pooler, Pooler) or pooler.transactions > RUNS


def test_a_transaction_of_the_application_holds_through_a_pooler(app: Windlass) -> None:
    job = app.job(name="greet")(greet)
    with suppress(ZeroDivisionError), app.transaction() as tx:
        job.using(connection=tx).enqueue()
        raise ZeroDivisionError
    with app.transaction() as tx:
        kept = job.using(connection=tx).enqueue()

    assert [run.id for run in app.list()] == [kept.id]
    assert app.get(kept.id).status is Status.QUEUED


async def greet() -> None: ...


def test_the_pooler_is_one_that_breaks_prepared_statements(pooler: AnyPooler) -> None:
    """The control: what works elsewhere here would not, had it to prepare."""
    apps = [Windlass(f"{pooler.url}?prepare=on") for _ in range(3)]
    looks: list[Callable[[], object]] = [look for app in apps for look in (app.list, app.workers)]

    with pytest.raises(StoreError, match="prepared statement"):
        _ = [look() for _ in range(5) for look in looks]
    for app in apps:
        app.close()


def test_statements_are_prepared_where_there_is_no_pooler(
    postgres_stage: Stage, app: Windlass
) -> None:
    direct = Windlass(postgres_stage.url)
    counts = []
    for one in (direct, app):
        one.list()
        with one.transaction() as tx:
            ((count,),) = tx.execute(
                "select count(*) from pg_prepared_statements where statement like '%page_runs%'"
            )
        counts.append(count)
    direct.close()

    assert counts == [1, 0]


# -- the doctor ----------------------------------------------------------------------------------


def test_the_doctor_sees_the_pooler(pooler: AnyPooler) -> None:
    report = checkup(pooler.url)

    assert only(report, "pooler").severity is Severity.NOTE
    assert "transaction mode" in only(report, "pooler").text
    assert "nothing is prepared" in only(report, "pooler").text
    assert only(report, "wake-ups").severity is Severity.NOTE
    assert "LISTEN does not work through the pooler" in only(report, "wake-ups").text


def test_the_doctor_doubts_what_the_url_insists_on(pooler: AnyPooler) -> None:
    found = only(checkup(f"{pooler.url}?prepare=on"), "pooler")

    assert found.severity is Severity.NOTE
    assert "the URL says prepare=on" in found.text


def test_the_doctor_hears_wake_ups_on_a_direct_way(
    postgres_stage: Stage, pooler: AnyPooler
) -> None:
    report = checkup(f"{pooler.url}?listen_url={postgres_stage.url}")

    assert only(report, "wake-ups").severity is Severity.OK


def test_the_doctor_finds_a_listen_url_that_is_none(
    postgres_stage: Stage, pooler: AnyPooler
) -> None:
    report = checkup(f"{postgres_stage.url}?listen_url={pooler.url}")

    assert only(report, "pooler").severity is Severity.OK
    assert only(report, "wake-ups").severity is Severity.WARNING


def test_the_doctor_sees_no_pooler_where_there_is_none(postgres_stage: Stage) -> None:
    report = checkup(postgres_stage.url)

    assert only(report, "pooler").severity is Severity.OK
    assert only(report, "wake-ups").severity is Severity.OK
    with psycopg.connect(postgres_stage.url) as conn:
        assert conn.execute("select pg_listening_channels()").fetchall() == []


def test_a_call_that_is_given_up_is_canceled_through_the_pooler(
    postgres_stage: Stage, pooler: AnyPooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pooler has few connections: each that waits for a lock is one less for all."""
    app = Windlass(pooler.url, lease="3s")
    monkeypatch.setattr(app.store, "_patience", 0.1)
    app.list()
    with psycopg.connect(postgres_stage.url) as owner:
        owner.execute("lock table windlass.jobs in access exclusive mode")
        with pytest.raises(StoreError, match="nothing was heard for 1 s"):
            app.store.run(app.store.operations.get_job("default", "load"))
        with psycopg.connect(postgres_stage.url, autocommit=True) as look:
            eventually(lambda: look.execute(WAITING).fetchone() == (0,), what="nobody waits")
    app.close()


# -- session mode ---------------------------------------------------------------------------------

NEEDED = sum(WORKER_CONNECTIONS.values())
LISTENING = "select 1 from pg_stat_activity where query = 'listen windlass'"
TAKES = (
    "a worker process takes up to 10 of its connections "
    "(8 for calls, 1 for renewals, 1 for wake-ups)"
)


@pytest.fixture(params=KINDS, ids=[kind.__name__ for kind in KINDS])
def make_session_pooler(
    request: pytest.FixtureRequest, postgres_stage: Stage
) -> Iterator[Callable[[int], AnyPooler]]:
    """Makes a pooler in session mode with so many connections."""
    with ExitStack() as stack:
        yield lambda size: stack.enter_context(
            request.param(postgres_stage.url, size, mode="session")
        )


def test_the_doctor_says_how_many_connections_a_worker_needs(
    make_session_pooler: Callable[[int], AnyPooler],
) -> None:
    report = checkup(make_session_pooler(NEEDED + 1).url)

    found = only(report, "pooler")
    assert found.severity is Severity.NOTE
    assert found.text == f"There is a pooler in between, in session mode as it seems: {TAKES}."
    assert found.advice.startswith("Let its pool have 10 for each worker process, ")
    assert only(report, "wake-ups").severity is Severity.OK


def test_the_doctor_names_a_pool_that_is_too_small(
    make_session_pooler: Callable[[int], AnyPooler],
) -> None:
    found = only(checkup(make_session_pooler(2).url), "pooler")

    assert found.severity is Severity.WARNING
    assert found.text == (
        f"There is a pooler in between, in session mode as it seems: {TAKES}, and it had 2 free: "
        "a worker would stand still."
    )


def test_a_pool_that_others_use_is_not_too_small(
    make_session_pooler: Callable[[int], AnyPooler],
) -> None:
    url = make_session_pooler(NEEDED + 2).url
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(psycopg.connect(url)).execute("select 1")
        found = only(checkup(url), "pooler")

    assert found.severity is Severity.NOTE
    assert found.text.endswith("and it had 9 free.")


async def test_a_worker_needs_no_more_connections_than_the_doctor_says(
    postgres_stage: Stage, make_session_pooler: Callable[[int], AnyPooler]
) -> None:
    async with opened(make_session_pooler(NEEDED).url) as app, opened(postgres_stage.url) as client:
        job = app.job(name="greet")(greet)
        async with working(app), asyncio.timeout(PATIENCE):
            await asyncio.gather(*[app.alist() for _ in range(50)])  # all that its loop may open
            runs = await client.aenqueue_many([job.request() for _ in range(RUNS)])
            for run in runs:
                await client.aresult(run.id)
            began = (await client.aworkers())[0].started_at
            while (await client.aworkers())[0].renewed_at == began:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            with psycopg.connect(postgres_stage.url, autocommit=True) as conn:
                while not conn.execute(LISTENING).fetchall():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)


def test_a_call_that_gets_no_connection_says_why(
    make_session_pooler: Callable[[int], AnyPooler],
) -> None:
    url = make_session_pooler(1).url
    with psycopg.connect(url) as conn:
        conn.execute("select 1")
        store = PostgresStore(url, sources=Sources.system(), stall=1.0, patience=0.0)
        with pytest.raises(StoreUnavailable) as caught:
            store.run(store.operations.list_workers())
        store.close()

    assert str(caught.value) == (
        "PostgreSQL cannot be reached: a connection was accepted, but nothing was heard for 1 s; a "
        "pooler in session mode needs 10 connections to the server for each worker process"
    )
