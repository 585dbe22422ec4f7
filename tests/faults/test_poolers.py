"""Through a connection pooler in transaction mode: everything works, wake-ups by polling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from tests.doctor.kit import checkup, only
from tests.faults.harness import Fleet, Stage, eventually
from tests.faults.pgbouncer import PgBouncer, find_pgbouncer
from tests.faults.pooler import Pooler
from tests.faults.programs.jobs import define_jobs
from windlass import Status, StoreError, Windlass
from windlass.domain.checkup import Severity

RUNS = 300

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
                "select count(*) from pg_prepared_statements where statement like '%list_runs%'"
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
