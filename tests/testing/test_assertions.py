"""Assertions about what was enqueued: they hold, they fail, and say why."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from windlass import BadOption, Job, UnknownJob, UsageError, Windlass, guard
from windlass.domain.run import JobRow
from windlass.testing import (
    assert_enqueued,
    drain,
    enqueued,
    isolated,
    real_store,
    refute_enqueued,
    run_job,
)

NOON = datetime(2030, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def welcome(app: Windlass) -> Job[Any, Any, Any]:
    """A job of which some runs were made."""

    @app.job(queue="mail")
    def welcome(user: int, on: date | None = None, name: str = "") -> None: ...

    @app.job
    def other() -> None: ...

    welcome.enqueue(1, name="Ada")
    welcome.using(delay="10m", key="w-2", tags=["vip", "new"]).enqueue(2, date(2030, 3, 1))
    other.using(priority=5).enqueue()
    return welcome


LIKE: list[dict[str, Any]] = [
    {},
    {"args": {"user": 1}},
    {"args": {"user": 1, "name": "Ada"}},
    {"args": {"on": date(2030, 3, 1)}},
    {"args": {"on": "2030-03-01"}},
    {"args": {"user": pytest.approx(1)}},
    {"queue": "mail"},
    {"status": "scheduled"},
    {"at": "10m"},
    {"at": NOON + timedelta(minutes=10)},
    {"at": NOON},
    {"key": "w-2"},
    {"tags": ["vip"]},
    {"count": 2},
    {"args": {"user": 2}, "count": 1},
    {"args": {"user": 9}, "count": 0},
]
UNLIKE: list[dict[str, Any]] = [
    {"args": {"user": 3}},
    {"args": {"user": 1, "name": "Bob"}},
    {"args": {"nobody": None}},
    {"args": {"user": "1"}},
    {"queue": "default"},
    {"status": "running"},
    {"at": "11m"},
    {"at": NOON + timedelta(minutes=9)},
    {"key": "w-1"},
    {"tags": ["vip", "old"]},
    {"priority": 1},
]


def test_assertions_hold(welcome: Job[Any, Any, Any]) -> None:
    for like in LIKE:
        assert_enqueued(welcome, **like)
        alike = {name: value for name, value in like.items() if name != "count"}
        if like.get("count") == 0:
            refute_enqueued(welcome, **alike)
        else:
            with pytest.raises(AssertionError):
                refute_enqueued(welcome, **alike)


def test_assertions_fail(welcome: Job[Any, Any, Any]) -> None:
    for like in UNLIKE:
        refute_enqueued(welcome, **like)
        assert_enqueued(welcome, count=0, **like)
        with pytest.raises(AssertionError):
            assert_enqueued(welcome, **like)


def test_another_count_fails(welcome: Job[Any, Any, Any]) -> None:
    for count in (0, 1, 3):
        with pytest.raises(AssertionError, match=f"2 runs of 'welcome' were .* instead of {count}"):
            assert_enqueued(welcome, count=count)


def test_failure_shows_what_was_enqueued(welcome: Job[Any, Any, Any]) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(welcome, args={"user": 3}, queue="mail")
    assert str(caught.value) == (
        "no run of 'welcome' with queue='mail', args={'user': 3} was enqueued. 3 runs in all:\n"
        "  welcome(user=1, name='Ada') queue='mail' queued\n"
        "  welcome(user=2, on='2030-03-01') queue='mail' scheduled for 2030-03-01T12:10:00+00:00"
        " key='w-2' tags=['new', 'vip']\n"
        "  other() queue='default' queued"
    ).replace("['new', 'vip']", repr(list(welcome.app.list(tag="vip")[0].tags)))


def test_failure_says_that_there_was_nothing(app: Windlass) -> None:
    @app.job
    def job() -> None: ...

    with pytest.raises(AssertionError, match="Nothing at all was enqueued"):
        assert_enqueued(job)


def test_long_lists_are_cut(app: Windlass) -> None:
    @app.job
    def job(n: int) -> None: ...

    app.enqueue_many([job.request(n) for n in range(25)])
    with pytest.raises(AssertionError, match=r"… and 5 before them\n  job\(n=5\)"):
        refute_enqueued(job)


def test_runs_are_found_whatever_became_of_them(app: Windlass) -> None:
    @app.job
    def job(n: int) -> None: ...

    app.enqueue_many([job.request(n) for n in range(1005)])
    enqueued(app)[0].cancel()
    job.enqueue(-1)
    assert [run.input["n"] for run in enqueued(app, job)] == [*range(1005), -1]
    assert len(enqueued(app, "job")) == 1006


def test_job_by_name_needs_the_application(app: Windlass) -> None:
    @app.job
    def job() -> None: ...

    job.enqueue()
    assert_enqueued("job", app=app)
    with pytest.raises(UsageError, match="app="):
        assert_enqueued("job")


def test_option_that_is_none_is_refused(welcome: Job[Any, Any, Any]) -> None:
    with pytest.raises(BadOption, match="que"):
        assert_enqueued(welcome, que="mail")  # type: ignore[call-arg]


def test_tries_by_hand_were_not_enqueued(app: Windlass) -> None:
    @app.job
    def outer() -> None:
        inner.enqueue()

    @app.job
    def inner() -> None: ...

    run_job(outer)
    refute_enqueued(outer)
    assert_enqueued(inner, count=1)
    drain(app).check()
    assert_enqueued(inner, status="succeeded")


# -- elsewhere than where the code wrote -----------------------------------------------------------


def test_job_of_another_application_is_refused(app: Windlass, welcome: Job[Any, Any, Any]) -> None:
    with isolated() as other:
        for look in (assert_enqueued, refute_enqueued):
            with pytest.raises(UsageError, match="'welcome' is a job of another application"):
                look(welcome, app=other)
            with pytest.raises(UnknownJob, match="There is no job 'welcome'"):
                look("welcome", app=other)
    refute_enqueued("other", app=app, args={"n": 1})


def test_job_that_only_the_store_knows_may_be_named(app: Windlass) -> None:
    with Windlass(app.settings.url, sources=app.sources).store as store:
        row = JobRow(name="elsewhere", queue="default")
        store.run(store.operations.sync_jobs([row]))
    refute_enqueued("elsewhere", app=app)
    app.enqueue("elsewhere", {})
    assert_enqueued("elsewhere", app=app)


def test_application_on_its_own_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(guard.VARIABLE)  # as under a test runner that is not known
    app = Windlass(f"sqlite:///{tmp_path}/real.db")

    @app.job
    def job() -> None: ...

    for look in (assert_enqueued, refute_enqueued):
        with pytest.raises(UsageError, match="on its own store and the real clock"):
            look(job)
    with real_store(app):
        refute_enqueued(job)


on_postgres = pytest.mark.parametrize("app", ["postgres"], indirect=True)


@on_postgres
def test_connection_to_another_database_is_refused(
    app: Windlass, welcome: Job[Any, Any, Any], pg_database: str
) -> None:
    with (
        psycopg.connect(pg_database) as elsewhere,
        pytest.raises(BadOption, match=r"leads to the database 'wl_test_.* runs are in 'windlass_"),
    ):
        welcome.using(connection=elsewhere).enqueue(9)
    # By another name of the same server it is the same database.
    with psycopg.connect(app.settings.url.replace("127.0.0.1", "localhost")) as here:
        welcome.using(connection=here).enqueue(9)
    assert_enqueued(welcome, args={"user": 9})


@on_postgres
async def test_async_connection_to_another_database_is_refused(
    app: Windlass, welcome: Job[Any, Any, Any], pg_database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(pg_database) as elsewhere:
        with pytest.raises(BadOption, match="leads to the database 'wl_test_"):
            await welcome.using(connection=elsewhere).aenqueue(9)


@on_postgres
def test_runs_in_an_open_transaction_are_not_overlooked(
    app: Windlass, welcome: Job[Any, Any, Any]
) -> None:
    for end in ("rollback", "commit"):
        with psycopg.connect(app.settings.url) as connection:
            connection.execute("select 1")
            with connection.transaction():  # a savepoint, which has no end of its own
                welcome.using(connection=connection).enqueue(9)
            for look in (assert_enqueued, refute_enqueued):
                with pytest.raises(UsageError, match="a transaction that is still open"):
                    look(welcome, args={"user": 9})
            connection.execute(end.encode())
        assert len(enqueued(app)) == (3 if end == "rollback" else 4)
