"""What the doctor finds in a PostgreSQL server, each thing broken for real."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.doctor.kit import bad, checkup, make_app, of, only
from tests.fixtures.postgres import PostgresServer
from windlass.domain.checkup import Limits, Severity
from windlass.store.postgres.checks.clock import judge
from windlass.store.postgres.checks.server import judge_version


def execute(url: str, *statements: str) -> None:
    """Run statements, each by itself."""
    with psycopg.connect(url, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def database_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def as_role(url: str, role: str) -> str:
    """The same database, as another role; it may read the tables."""
    execute(
        url,
        f"create role {role} login password 'secret'",
        f"grant usage on schema windlass to {role}",
        f"grant select on all tables in schema windlass to {role}",
        f"grant execute on all functions in schema windlass to {role}",
    )
    parts = urlsplit(url)
    return parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port}").geturl()


@pytest.fixture
def role(database: str) -> Iterator[str]:
    """The URL of the database as a role of no rank."""
    yield as_role(database, "clerk")
    execute(database, "drop owned by clerk", "drop role clerk")


@contextmanager
def configured(server: PostgresServer, name: str, value: str) -> Iterator[None]:
    """A server with another setting in its configuration, for a while."""
    execute(server.dsn(), f"alter system set {name} = {value}", "select pg_reload_conf()")
    await_setting(server, name, value)
    try:
        yield
    finally:
        execute(server.dsn(), f"alter system reset {name}", "select pg_reload_conf()")
        await_setting(server, name, "on")


def await_setting(server: PostgresServer, name: str, value: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        for _ in range(1000):
            found = conn.execute("select current_setting(%s)", (name,)).fetchone()
            if found == (value,):
                return
            conn.execute("select pg_sleep(0.01)")  # the server re-reads its files in its own time
    raise AssertionError(f"{name} did not become {value}")


# -- durability --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit"])
def test_a_server_that_loses_commits(server: PostgresServer, database: str, name: str) -> None:
    with configured(server, name, "off"):
        report = checkup(database)

    found = only(report, "durability")
    assert found.severity is Severity.ERROR
    assert found.text.startswith(f"{name} is off in the server's configuration: ")
    assert report.worst is Severity.ERROR


def test_a_role_whose_commits_may_be_lost(database: str, role: str) -> None:
    execute(database, "alter role clerk set synchronous_commit = off")

    own, theirs = only(checkup(role), "durability"), only(checkup(database), "durability")

    assert own.severity is Severity.ERROR
    assert own.text.startswith("synchronous_commit is off for this role: ")
    assert theirs.severity is Severity.WARNING
    assert theirs.text.startswith("synchronous_commit is off for role clerk: ")


def test_a_database_whose_commits_may_be_lost(database: str) -> None:
    execute(database, f"alter database {database_of(database)} set synchronous_commit = off")

    found = only(checkup(database), "durability")

    assert found.severity is Severity.ERROR
    assert found.text.startswith("synchronous_commit is off for this database: ")


def test_a_url_that_gives_durability_away(database: str) -> None:
    url = f"{database}?options=-c%20synchronous_commit%3Doff"

    found = only(checkup(url), "durability")

    assert found.severity is Severity.ERROR
    assert found.text.startswith("synchronous_commit is off by the URL: ")


# -- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "severity", "text"),
    [
        (
            "default_transaction_read_only = on",
            Severity.ERROR,
            "default_transaction_read_only is on",
        ),
        ("default_transaction_isolation = serializable", Severity.NOTE, "are serializable by def"),
        ("statement_timeout = '900ms'", Severity.WARNING, "ends statements after 900 ms"),
        ("lock_timeout = '1s'", Severity.WARNING, "ends waits for locks after 1 s"),
        ("idle_session_timeout = '1min'", Severity.NOTE, "idle_session_timeout ends idle sessions"),
        ("windlass.fake_now = '2030-01-01Z'", Severity.ERROR, "is set for database"),
        ("datestyle = 'SQL, DMY'", Severity.OK, "No setting"),
    ],
)
def test_settings_that_stand_in_the_way(
    database: str, setting: str, severity: Severity, text: str
) -> None:
    execute(database, f"alter database {database_of(database)} set {setting}")

    found = only(checkup(database), "settings")

    assert (found.severity, text in found.text) == (severity, True), found.text


def test_a_clock_that_somebody_has_stopped(database: str, role: str) -> None:
    execute(database, "alter role clerk set windlass.fake_now = '2030-01-01Z'")
    url = f"{database}?options=-c%20windlass.fake_now%3D2030-01-01Z"

    theirs = only(checkup(database), "settings")

    assert theirs.severity is Severity.ERROR
    assert theirs.text.startswith("windlass.fake_now is set for role clerk: ")
    assert theirs.advice.startswith("Reset it: alter role clerk reset windlass.fake_now.")
    execute(database, "alter role clerk reset windlass.fake_now")
    ours = of(checkup(url), "settings")
    assert [f.text.partition(":")[0] for f in ours] == [
        "windlass.fake_now is 2030-01-01Z in this session"
    ]


def test_another_role_that_may_not_write(database: str, role: str) -> None:
    execute(database, "alter role clerk set default_transaction_read_only = on")

    found = only(checkup(database), "settings")

    assert found.severity is Severity.WARNING
    assert "is on for role clerk" in found.text


# -- transactions ------------------------------------------------------------------------------


def test_a_transaction_that_somebody_left_open(database: str) -> None:
    with psycopg.connect(database, application_name="nightly report") as conn:
        conn.execute("select 1")
        pid = conn.info.backend_pid
        report = checkup(database, transaction=0.0)
        conn.rollback()

    (found,) = [f for f in of(report, "transactions") if f"Process {pid} " in f.text]
    assert found.severity is Severity.WARNING
    assert "of postgres (nightly report) in database " in found.text
    assert "(idle in transaction)" in found.text
    assert found.advice.endswith(f"select pg_terminate_backend({pid}).")
    assert only(checkup(database), "transactions").severity is Severity.OK


def test_a_prepared_transaction_that_nobody_ends(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute("create table mark (n integer)")
        conn.execute("prepare transaction 'forgotten'")
    try:
        found = [f.text for f in of(checkup(database, transaction=0.0), "transactions")]
    finally:
        execute(database, "rollback prepared 'forgotten'")

    assert any("The prepared transaction 'forgotten' of postgres" in text for text in found)


def test_sessions_that_may_not_be_looked_at(database: str, role: str) -> None:
    with psycopg.connect(database):
        found = only(checkup(role), "transactions")

    assert found.severity is Severity.NOTE
    assert "of other users it cannot be seen" in found.text
    assert "pg_read_all_stats" in found.advice


# -- vacuum ------------------------------------------------------------------------------------


def test_a_server_that_never_vacuums(server: PostgresServer, database: str) -> None:
    with configured(server, "autovacuum", "off"):
        found = only(checkup(database), "vacuum")

    assert found.severity is Severity.WARNING
    assert found.text.startswith("autovacuum is off: ")


def test_a_table_that_is_full_of_dead_rows(database: str) -> None:
    row = "select 't', gen_random_uuid(), 'j', 'q', 0, now(), 0, 0, 0, 0, 0"
    execute(
        database,
        "alter table windlass.ready set (autovacuum_enabled = false)",
        f"insert into windlass.ready {row} from generate_series(1, 300)".replace(
            "ready ", "ready (tenant, id, job, queue, rank, ready_at, attempt, failures, "
            "crash_count, token, seq) "
        ),
        "delete from windlass.ready",
        "select pg_stat_force_next_flush()",  # or they are counted when the session has ended
    )  # fmt: skip

    off, full = of(checkup(database, dead_rows=100), "vacuum")

    assert (off.severity, full.severity) == (Severity.WARNING, Severity.WARNING)
    assert off.text == "Autovacuum is off for ready."
    assert full.text == "Table ready has 300 dead rows beside 0 live ones."


# -- schema ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "check", "text", "advice"),
    [
        (
            (
                "create or replace function windlass.now() returns timestamptz language plpgsql "
                "volatile as $$ begin return clock_timestamp() + interval '1 h'; end $$"
            ),
            "functions",
            "1 function changed by somebody: windlass.now().",
            "windlass migrate",
        ),
        (
            "alter function windlass.retire security invoker",
            "functions",
            "1 function changed by somebody: windlass.retire(text).",
            "windlass migrate",
        ),
        (
            "drop function windlass.retire, windlass.now",
            "functions",
            "2 functions missing: windlass.now(), windlass.retire(text).",
            "windlass migrate",
        ),
        (
            (
                "create function windlass.x() returns void language sql as ''; "
                "revoke all on function windlass.x from public"
            ),
            "functions",
            "1 function in the schema not Windlass's: windlass.x().",
            "drops what is not its own",
        ),
        (
            "grant execute on function windlass.retire to public",
            "functions",
            "Everybody may call 1 function: windlass.retire(text).",
            "windlass migrate",
        ),
        (
            "update windlass.routines set checksum = 'older'",
            "functions",
            "The functions are not those of this Windlass.",
            "windlass migrate",
        ),
        (
            "drop table windlass.progress cascade",
            "tables",
            "The table windlass.progress is missing.",
            "backup",
        ),
        (
            "alter table windlass.workers drop column renewed_at",
            "tables",
            "The column renewed_at of windlass.workers is missing.",
            "backup",
        ),
        (
            "drop index windlass.timers_by_due",
            "tables",
            "The index timers_by_due is missing: calls become slow, or repeat work.",
            "Make it again: create index timers_by_due on windlass.timers (due_at)",
        ),
        (
            "alter table windlass.run_keys drop constraint run_keys_pkey",
            "tables",
            "The index run_keys_pkey is missing: calls become slow, or repeat work.",
            "backup",
        ),
        (
            (
                "update pg_index set indisvalid = false "
                "where indexrelid = 'windlass.timers_by_due'::regclass"
            ),
            "tables",
            "The index timers_by_due is not valid: nothing uses it.",
            "reindex index windlass.timers_by_due",
        ),
        (
            "alter table windlass.event_rows disable trigger page_events",
            "tables",
            "The trigger page_events is missing or switched off: the feed misses events.",
            "make it again: create trigger page_events after insert on windlass.event_rows",
        ),
        (
            "grant all on schema windlass to public",
            "owners",
            (
                "everybody may create things in the schema, and Windlass's functions would "
                "call them with the rights of their owner."
            ),
            "windlass migrate",
        ),
    ],
)
def test_a_schema_that_somebody_changed(
    database: str, statement: str, check: str, text: str, advice: str
) -> None:
    execute(database, statement)

    found = [f for f in of(checkup(database), check) if f.text == text]

    assert [advice in f.advice for f in found] == [True], checkup(database)
    assert found[0].severity.rank > Severity.NOTE.rank
    if check == "functions" or "windlass migrate" in advice:
        app = make_app(database)
        app.close()
        assert only(checkup(database), check).severity is Severity.OK


def test_things_of_another_role_in_the_schema(database: str, role: str) -> None:
    execute(database, "grant all on schema windlass to clerk")
    execute(role, "create view windlass.mine as select 1 as n")

    foreign, creators = of(checkup(database), "owners")

    assert foreign.severity is Severity.ERROR
    assert foreign.text.startswith("The view windlass.mine belongs to clerk and the schema to ")
    assert creators.text.startswith("clerk may create things in the schema")


@pytest.mark.parametrize(
    ("statement", "text", "advice"),
    [
        ("insert into windlass.migrations values (99, 'x', 'x')", "newer", "Upgrade Windlass"),
        ("delete from windlass.migrations where version > 1", "version 1, ", "windlass migrate"),
        ("drop schema windlass cascade", "no tables of Windlass", "windlass migrate"),
    ],
)
def test_another_schema(database: str, statement: str, text: str, advice: str) -> None:
    execute(database, statement)

    report = checkup(database)

    found = only(report, "schema")
    assert found.severity is Severity.ERROR
    assert text in found.text
    assert advice in found.advice
    assert not only(report, "workers").made
    assert only(report, "durability").severity is Severity.OK


# -- the server itself ---------------------------------------------------------------------------


def test_a_server_that_is_not_there(database: str) -> None:
    parts = urlsplit(database)
    gone = parts._replace(netloc=f"postgres:secret@{parts.hostname}:1").geturl()

    report = checkup(gone)

    assert only(report, "store").severity is Severity.ERROR
    assert "cannot be reached" in only(report, "store").text
    assert {finding.made for finding in report.findings if finding.check != "store"} == {False}


def test_a_server_that_does_not_answer(server: PostgresServer, database: str) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        report = checkup(database, seconds=0.3)
    finally:
        os.kill(server.pid, signal.SIGCONT)

    found = only(report, "store")
    assert found.severity is Severity.WARNING
    assert found.text == "The check took longer than 0.3 s and was given up."
    assert {finding.made for finding in report.findings if finding.check != "store"} == {False}


def test_a_wrong_password_is_told(database: str) -> None:
    parts = urlsplit(database)
    wrong = parts._replace(netloc=f"postgres:wrong@{parts.hostname}:{parts.port}").geturl()

    found = only(checkup(wrong), "store")

    assert found.severity is Severity.ERROR
    assert "password authentication failed" in found.text
    assert "wrong" not in found.text


def test_a_disk_that_is_full(database: str) -> None:
    assert only(checkup(database, free_bytes=2**60), "disk").severity is Severity.ERROR


@pytest.mark.parametrize(
    ("number", "severity"),
    [(140_018, Severity.ERROR), (150_000, Severity.OK), (180_006, Severity.OK)],
)
def test_servers_that_are_too_old(number: int, severity: Severity) -> None:
    assert judge_version(number, "x").severity is severity


@pytest.mark.parametrize(
    ("ahead", "severity"),
    [
        (0.0, Severity.OK),
        (1.9, Severity.OK),
        (-1.9, Severity.OK),
        (10.0, Severity.NOTE),
        (-10.0, Severity.NOTE),
        (3600.0, Severity.WARNING),
        (-3600.0, Severity.WARNING),
    ],
)
def test_clocks_that_differ(ahead: float, severity: Severity) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    there = now + timedelta(seconds=ahead)

    found = judge(now, there, now, Limits())

    assert found.severity is severity
    assert ("ahead of" in found.text) == (ahead > 2)


def test_a_slow_answer_is_no_skew() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    late = now + timedelta(seconds=100)

    assert judge(now, now, late, Limits()).severity is Severity.OK
    assert judge(now, late, late, Limits()).severity is Severity.OK


def test_a_healthy_server(database: str) -> None:
    assert bad(checkup(database)) == []
