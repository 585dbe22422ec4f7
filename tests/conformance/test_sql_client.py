"""Plain SQL: any language that reaches the database can be a client or a worker."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.conformance.kit import ABSENT
from tests.conformance.places import Row
from tests.conformance.plain_sql import Client
from tests.fixtures.postgres import PostgresUnavailable, find_programs
from windlass.domain.policy import Retry
from windlass.domain.run import RunRef
from windlass.sources import Sources
from windlass.store.postgres.sqlstates import SQLSTATES
from windlass.store.postgres.store import PostgresStore

WL008 = "WL008"


def _enqueue(client: Client) -> str:
    return str(client.value("select id from windlass.enqueue('greet', '{\"n\": 1}')"))


def _claim(client: Client, limit: int = 10) -> Sequence[Row]:
    return client.all("select * from windlass.claim('psql', 1, %s, array['greet'])", limit)


def _register(client: Client) -> None:
    client.all("select windlass.register('psql', 30)")


# -- a life in SQL -------------------------------------------------------------------------------


def test_a_run_is_enqueued_by_name(client: Client) -> None:
    answer = client.one("select * from windlass.enqueue('greet', '{\"user\": 7}')")

    assert answer["created"]
    assert answer["status"] == "queued"
    assert answer["id"].version == 7
    run = client.one("select * from windlass.list_runs('default')")
    assert (run["job"], run["queue"], run["priority"]) == ("greet", "mail", 3)
    assert run["input"] == {"user": 7}


def test_a_run_enqueued_in_a_transaction_exists_once_it_commits(client: Client) -> None:
    with client.conn.transaction(force_rollback=True):
        _enqueue(client)
    assert client.all("select * from windlass.list_runs('default')") == []

    with client.conn.transaction():
        run = _enqueue(client)
        with psycopg.connect(client.url) as other:
            assert other.execute("select * from windlass.list_runs('default')").fetchall() == []
    assert client.status(run) == "queued"


def test_all_arguments_may_be_named(client: Client) -> None:
    first = client.one(
        """select * from windlass.enqueue(
             p_job => 'other', p_input => '[1]', p_queue => 'q', p_priority => 9, p_delay => 60,
             p_key => 'k', p_key_ttl => 3600, p_tags => array['a', 'b'], p_expires_in => 600,
             p_options => '{"max_attempts": 2}', p_trace => '00-t', p_job_version => 'v1')"""
    )
    again = client.one(
        "select * from windlass.enqueue('other', '[1]', p_queue => 'q', p_priority => 9, "
        "p_key => 'k')"
    )

    assert (first["status"], first["created"]) == ("scheduled", True)
    assert (again["id"], again["created"]) == (first["id"], False)
    run = client.one("select * from windlass.list_runs('default', p_tag => 'b')")
    assert (run["waiting_for"], run["tags"], run["options"]) == (
        "delay", ["a", "b"], {"max_attempts": 2},
    )  # fmt: skip


def test_a_batch_is_enqueued_at_once(client: Client) -> None:
    items = [{"id": str(Sources.system().new_id()), "job": "greet", "queue": "mail"}] * 2

    reply = client.value("select windlass.enqueue_many(%s::json)", json.dumps(items))

    (existing,) = reply["existing"]
    assert (existing["n"], existing["run"]) == (2, items[0]["id"])
    assert (existing["status"], existing["created_at"]) == ("queued", reply["now"])
    assert client.value("select count(*) from windlass.list_runs('default')") == 1


def test_a_worker_in_sql_claims_renews_and_succeeds(client: Client) -> None:
    run = _enqueue(client)
    _register(client)

    (claimed,) = _claim(client)
    renewed = client.value(
        "select windlass.renew('psql', 30, array['default'], array[%s::uuid], array[1::bigint])",
        run,
    )
    assert client.value("select windlass.progress('default', %s, 1, 0.5, 'half')", run)
    lost = client.all(
        "select * from windlass.succeed(array['default'], array[%s::uuid], array[1::bigint], "
        "array['\"done\"'::json])",
        run,
    )

    assert (str(claimed["id"]), claimed["token"], claimed["attempt"]) == (run, 1, 1)
    assert claimed["input"] == {"n": 1}
    assert (renewed["alive"], renewed["lost"]) == (True, None)
    assert lost == []
    record = client.one("select * from windlass.get_runs('default', array[%s::uuid])", run)
    assert (record["status"], record["result"], record["worker"]) == ("succeeded", "done", "psql")


def test_a_failed_attempt_is_retried_by_the_stored_policy(client: Client) -> None:
    run = _enqueue(client)
    _register(client)
    for attempt in (1, 2, 3):
        (claimed,) = _claim(client)
        assert claimed["failures"] == attempt - 1
        told = client.value(
            "select windlass.fail('default', %s, %s, "
            '\'{"type": "E", "message": "m", "traceback": "", "fingerprint": ""}\')',
            run, claimed["token"],
        )  # fmt: skip
        assert told
        if attempt < 3:
            assert client.status(run) == "scheduled"
            client.all("update windlass.timers set due_at = now()")
            client.all("select windlass.sweep()")

    record = client.one("select * from windlass.get_runs('default', array[%s::uuid])", run)
    assert (record["status"], record["failure"]) == ("failed", "exhausted")
    assert (record["attempt"], record["failures"]) == (3, 3)
    delays = client.all(
        "select data ->> 'delay' as delay from windlass.events where type = 'run.retrying'"
    )
    assert [float(row["delay"]) for row in delays] == [60.0, 60.0]


def test_a_fatal_failure_is_not_retried(client: Client) -> None:
    run = _enqueue(client)
    _register(client)
    _claim(client)

    assert client.value("select windlass.fail('default', %s, 1, '{}', true)", run)
    record = client.one("select * from windlass.get_runs('default', array[%s::uuid])", run)
    assert (record["status"], record["failure"]) == ("failed", "fatal")


def test_a_failure_without_the_lease_records_nothing(client: Client) -> None:
    run = _enqueue(client)
    _register(client)
    _claim(client)

    assert not client.value("select windlass.fail('default', %s, 2, '{}')", run)
    assert client.status(run) == "running"


def test_other_ends_are_told_as_json(client: Client) -> None:
    run = _enqueue(client)
    _register(client)
    _claim(client)
    item = {"tenant": "default", "id": run, "token": 1, "outcome": "released"}

    assert client.all("select * from windlass.finish(%s::json)", json.dumps([item])) == []
    assert client.status(run) == "queued"
    (lost,) = client.all("select * from windlass.finish(%s::json)", json.dumps([item]))
    assert (str(lost["id"]), lost["token"]) == (run, 1)


def test_a_run_is_canceled_and_retried(client: Client) -> None:
    run = _enqueue(client)

    canceled = client.one("select * from windlass.cancel('default', %s, 'not now')", run)
    reopened = client.one("select * from windlass.retry('default', %s, 7)", run)

    assert (canceled["status"], canceled["reason"]) == ("canceled", "not now")
    assert (reopened["status"], reopened["options"]) == ("queued", {"max_attempts": 7})


def test_a_run_is_moved_in_time(client: Client) -> None:
    run = _enqueue(client)
    move = "select * from windlass.reschedule('default', %s, %s)"

    moved = client.one(move, run, "2090-01-31 12:00+01")
    (event,) = client.all("select data from windlass.events where type = 'run.rescheduled'")
    again = client.one("select * from windlass.reschedule('default', %s, p_delay => 90)", run)
    ready = client.one(move, run, "2020-02-29Z")
    client.all("select windlass.cancel('default', %s)", run)
    reopened = client.one("select * from windlass.reschedule('default', %s, now())", run)

    assert moved["due_at"] == moved["scheduled_for"] == datetime(2090, 1, 31, 11, tzinfo=UTC)
    assert (moved["status"], event["data"]) == ("scheduled", {"at": "2090-01-31T11:00:00Z"})
    assert again["due_at"] - again["updated_at"] == timedelta(seconds=90)
    assert (ready["status"], ready["scheduled_for"]) == ("queued", ready["updated_at"])
    assert (reopened["status"], reopened["reason"]) == ("queued", None)


def test_moving_a_run_touches_no_index_of_its_record(client: Client) -> None:
    runs = [_enqueue(client) for _ in range(3)]
    client.all("select windlass.cancel('default', %s)", runs[2])
    count = (
        "select pg_stat_get_xact_tuples_updated(t) as updates, "
        "pg_stat_get_xact_tuples_hot_updated(t) as hot "
        "from (select 'windlass.runs'::regclass::oid as t) runs"
    )
    with client.conn.transaction():
        before = client.one(count)
        for run in runs:
            client.all("select windlass.reschedule('default', %s, p_delay => 60)", run)
        after = client.one(count)

    changes = {name: after[name] - before[name] for name in after}
    assert changes == {"updates": 4, "hot": 4}, "one each, and one more of what is reopened"


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "Europe/Berlin"])
def test_every_time_that_is_taken_can_be_read(pg_database: str, zone: str) -> None:
    sources = Sources.system()
    url = f"{pg_database}?options=-c%20timezone%3D{zone.replace('+', '%2B')}"
    with Client(pg_database).conn as conn, PostgresStore(url, sources=sources) as store:
        run = RunRef("default", sources.new_id())
        conn.execute(
            "select windlass.enqueue('j', p_id => %s, p_queue => 'q', p_priority => 0)", (run.id,)
        )
        for at in (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, 23, 59, 59, tzinfo=UTC)):
            record = store.run(store.operations.reschedule(run, at=at))
            assert record.scheduled_for == max(at, record.updated_at)


def test_runs_are_listed_by_status(client: Client) -> None:
    runs = [_enqueue(client) for _ in range(3)]
    _register(client)
    _claim(client, 1)

    queued = client.all("select id from windlass.list_runs('default', p_status => 'queued')")
    running = client.all("select id from windlass.list_runs('default', p_status => 'running')")

    assert [str(row["id"]) for row in running] == runs[:1]
    assert [str(row["id"]) for row in queued] == sorted(runs[1:], reverse=True)


def test_psql_is_client_enough(client: Client) -> None:
    try:
        psql = find_programs() / "psql"
    except PostgresUnavailable:
        psql = Path(shutil.which("psql") or pytest.fail("There is no psql: install a client."))

    def run(query: str) -> str:
        done = subprocess.run(
            [psql, client.url, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", query],
            capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
        return done.stdout.strip()

    ident = run("select id from windlass.enqueue('greet')")
    run("select windlass.register('sh', 30)")
    token = run("select token from windlass.claim('sh', 1, 1, array['greet'])")
    done = "select * from windlass.succeed('{default}', '{RUN}', '{TOKEN}')"
    lost = run(done.replace("RUN", ident).replace("TOKEN", token))

    assert (token, lost) == ("1", "")
    assert client.status(ident) == "succeeded"


# -- errors --------------------------------------------------------------------------------------


NO_TIMES = [
    (None, None), ("2090-01-31Z", 5), ("infinity", None), ("-infinity", None),
    ("10000-01-01Z", None), ("9999-12-31Z", None), ("0001-12-31 BC", None), (None, -1),
    (None, "NaN"), (None, "infinity"), (None, 4e9),
]  # fmt: skip


def test_misuse_has_a_state_and_says_of_what(client: Client) -> None:
    run = _enqueue(client)
    keyed = "select * from windlass.enqueue('greet', %s::json, p_key => 'k')"
    first = str(client.one(keyed, "1")["id"])

    assert client.refused("select windlass.cancel('default', %s)", ABSENT) == ("WL001", [ABSENT])
    assert client.refused("select windlass.retry('default', %s)", ABSENT) == ("WL001", [ABSENT])
    assert client.refused("select windlass.retry('default', %s)", run) == (
        "WL002", [run, "queued", "retry"],
    )  # fmt: skip
    assert client.refused(keyed, "2") == ("WL003", ["greet", "k", first])
    state, (job, _, argument) = client.refused("select windlass.enqueue('greet', p_delay => -1)")
    assert (state, job, argument) == ("WL005", "greet", "delay")
    state, _ = client.refused("select windlass.retry('default', %s, 0)", run)
    assert state == "WL005"
    move = "select windlass.reschedule('default', %s, %s::timestamptz, %s::float8)"
    assert client.refused(move, ABSENT, None, 1) == ("WL001", [ABSENT])
    for at, delay in NO_TIMES:
        state, (verb, _) = client.refused(move, run, at, delay)
        assert (state, verb) == ("WL005", "reschedule"), (at, delay)
    soon = client.one("select * from windlass.enqueue('greet', p_expires_at => '2030-02-01Z')")
    assert client.refused(move, soon["id"], "2090-01-31Z", None) == (
        "WL004", [str(soon["id"]), "2030-02-01T00:00:00Z", "2090-01-31T00:00:00Z"],
    )  # fmt: skip
    assert client.refused("select windlass.enqueue('unknown')") == ("WL006", ["unknown"])
    large = json.dumps("x" * 1_048_576)
    assert client.refused("select windlass.enqueue('greet', %s::json)", large) == (
        "WL007", ["input", len(large), 1_048_576],
    )  # fmt: skip
    assert client.refused("select * from windlass.claim('nobody', 1, 1, '{}')") == (
        WL008, ["nobody"],
    )  # fmt: skip
    assert client.refused(
        "select * from windlass.claim_ids('nobody', 1, 1, '{}', '{}', '{}', '{}')"
    ) == (WL008, ["nobody"])


def test_one_without_options_is_enqueued_as_any_other(client: Client) -> None:
    by = {
        name: client.one(f"select {call} as answer", Sources.system().new_id())
        for name, call in {
            "one": "windlass.enqueue_one('default', %s::uuid, 'greet', 'v1', 'mail', 3, '[1]')",
            "any": "windlass.enqueue('greet', '[1]', %s::uuid, p_queue => 'mail', "
            "p_priority => 3, p_job_version => 'v1')",
        }.items()
    }
    assert set(by["one"]["answer"]) == {"now", "hinted"}
    columns = "job, job_version, queue, priority, input::text, status, key, tags, options::text"
    written = {
        "runs": columns,
        "ready": "job, queue, rank, attempt, failures, crash_count, token, seq",
        "pages": "era, seq, attempt, tenant, type, cardinality(subjects), data::text",
    }
    for table, what in written.items():
        first, second = client.all(f"select {what} from windlass.{table}")  # noqa: S608
        assert first == second


def test_one_without_options_is_enqueued_once(client: Client) -> None:
    query = (
        "select windlass.enqueue_one('default', %s::uuid, 'greet', null, 'mail', 0, '{}') as answer"
    )
    run = Sources.system().new_id()
    first = client.one(query, run)["answer"]
    second = client.one(query, run)["answer"]

    assert [one["run"] for one in second["existing"]] == [run]
    assert second["existing"][0]["status"] == "queued"
    assert second["existing"][0]["created_at"] == first["now"]
    for table in ("runs", "ready", "pages"):
        assert client.value(f"select count(*) from windlass.{table}") == 1  # noqa: S608


def test_a_batch_has_the_same_limits(client: Client) -> None:
    def item(**fields: object) -> str:
        given = {"id": str(Sources.system().new_id()), "job": "greet", "queue": "mail"}
        return json.dumps([given | fields])

    batch = "select windlass.enqueue_many(%s::json)"
    for field in ("delay", "expires_in", "deadline_in"):
        assert client.refused(batch, item(**{field: -1}))[0] == "WL005"
    assert client.refused(batch, item(key="k", key_ttl=-1))[0] == "WL005"
    assert client.refused(batch, item(input="x" * 1_048_576))[0] == "WL007"
    plain = (
        "select windlass.enqueue_plain('{default}', array[gen_random_uuid()], '{greet}', "
        "array[null], '{mail}', '{0}', array[%s::json])"
    )
    assert client.refused(plain, json.dumps("x" * 1_048_576))[0] == "WL007"


def test_every_state_has_its_exception() -> None:
    raised = {f"WL00{n}" for n in range(1, 8)} | {"WL010", "WL011", "WL012", "WL013", "WL014"}
    raised |= {"WL020"}
    # A worker is told by an answer, not by an exception, that it is dead.
    assert raised == set(SQLSTATES)


# -- rights --------------------------------------------------------------------------------------


def test_functions_look_up_names_where_they_should(client: Client) -> None:
    functions = client.all(
        "select p.proname, p.prosecdef, coalesce(p.proconfig, '{}') as config "
        "from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = 'windlass' and p.prosqlbody is null"  # else looked up when it is made
    )

    assert len(functions) > 30
    for function in functions:
        paths = [each for each in function["config"] if each.startswith("search_path=")]
        assert paths == ["search_path=pg_catalog, windlass, pg_temp"], function["proname"]


@pytest.fixture
def role(client: Client) -> Iterator[sql.Identifier]:
    """A role without any right, as which the client may act."""
    name = sql.Identifier(f"wl_role_{secrets.token_hex(6)}")
    client.conn.execute(sql.SQL("create role {}").format(name))
    yield name
    client.conn.execute("reset role")
    client.conn.execute(sql.SQL("drop owned by {}").format(name))
    client.conn.execute(sql.SQL("drop role {}").format(name))


def test_nobody_may_do_anything_unless_told(client: Client, role: sql.Identifier) -> None:
    client.conn.execute(sql.SQL("set role {}").format(role))

    functions = client.all(
        "select p.oid::regprocedure::text as name from pg_proc p "
        "join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = 'windlass' and has_function_privilege(p.oid, 'execute')"
    )
    tables = client.all(
        "select c.oid::regclass::text as name from pg_class c "
        "join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = 'windlass' and c.relkind in ('r', 'v') "
        "and has_table_privilege(c.oid, 'select, insert, update, delete')"
    )

    assert (functions, tables) == ([], [])
    assert not client.value("select has_schema_privilege('windlass', 'usage')")


def test_a_few_functions_are_all_that_a_client_needs(client: Client, role: sql.Identifier) -> None:
    (enqueue,) = client.all(
        "select p.oid::regprocedure::text as name from pg_proc p "
        "join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = 'windlass' and p.proname = 'enqueue'"
    )
    grant = sql.SQL("grant usage on schema windlass to {}; grant execute on function {} to {}")
    client.conn.execute(grant.format(role, sql.SQL(enqueue["name"]), role))
    client.conn.execute(sql.SQL("set role {}").format(role))

    run = _enqueue(client)
    denied = [
        client.refused(query)[0]
        for query in (
            "select * from windlass.runs",
            "select * from windlass.run_view",
            "select * from windlass.list_runs('default')",
            "select windlass.sweep()",
        )
    ]

    client.conn.execute("reset role")
    assert client.status(run) == "queued"
    assert denied == ["42501"] * 4


def test_only_the_schemas_owner_sets_the_clock(client: Client, role: sql.Identifier) -> None:
    """A key's life, a worker's death and a queue's order depend on it."""
    grant = sql.SQL(
        "grant usage on schema windlass to {0}; "
        "grant execute on all functions in schema windlass to {0}"
    )
    client.conn.execute(grant.format(role))

    def run_of(who: sql.Composable) -> str:
        client.conn.execute(sql.SQL("set session authorization {}").format(who))
        with client.conn.transaction():
            client.all("select set_config('windlass.fake_now', '2000-01-01Z', true)")
            run = _enqueue(client)
        client.conn.execute("reset session authorization")
        return run

    runs = [run_of(role), run_of(sql.SQL("default"))]

    faked = "select created_at = '2000-01-01Z' from windlass.runs where id = %s"
    assert [client.value(faked, run) for run in runs] == [False, True]
    now = "select now() - ready_at between '0' and '1 hour' from windlass.ready where id = %s"
    assert client.value(now, runs[0])


def test_a_temporary_table_cannot_stand_in_for_ours(client: Client) -> None:
    client.all("create temporary table jobs (tenant text, name text, queue text, priority int)")
    client.all("insert into jobs values ('default', 'greet', 'hijacked', 0)")

    _enqueue(client)

    assert client.value("select queue from windlass.list_runs('default')") == "mail"


# -- the formula of retries ------------------------------------------------------------------------

POLICIES = [
    Retry(jitter=0),
    Retry.fixed("90s", jitter=0),
    Retry.linear("5s", cap="1m", jitter=0),
    Retry.exponential("1s", "1h", jitter=0),
    Retry.exponential("3s", "10s", factor=1.5, jitter=0),
    Retry.exponential("7s", "7s", factor=1, jitter=0),
    Retry.exponential(0, 0, jitter=0),
    Retry.exponential(0, "1h", jitter=0),
    Retry.exponential("1ms", "1h", factor=1000, jitter=0),
    Retry.custom(lambda failures, error: "1s", jitter=0),
]
FAILURES = [1, 2, 3, 4, 5, 11, 12, 13, 50, 1_000, 2_000, 100_000]


def test_the_formula_is_the_same_in_sql(client: Client) -> None:
    wrong = []
    for policy in POLICIES:
        # What is stored of a function is the formula that stands in for it.
        stored = Retry.from_json(policy.to_json())
        for failures in FAILURES:
            expected = stored.delay_for(failures, ValueError(), 0.0)
            found = client.value(
                "select windlass.backoff(%s::json, %s)", json.dumps(policy.to_json()), failures
            )
            if found != pytest.approx(expected):
                wrong.append((policy.to_json(), failures, expected, found))
    assert wrong == []


def test_a_policy_of_no_retries_has_no_delay(client: Client) -> None:
    never = json.dumps(Retry.never().to_json())

    assert client.value("select windlass.backoff(%s::json, 1)", never) is None


def test_an_absent_policy_is_the_default_one(client: Client) -> None:
    delays = [client.value("select windlass.backoff('{}', 3)") for _ in range(50)]

    assert all(2.0 <= delay <= 4.0 for delay in delays)
    assert len(set(delays)) > 1, "chance takes something off"


# -- the store's URL -----------------------------------------------------------------------------


def test_parameters_of_the_url_reach_the_server_as_written(pg_database: str) -> None:
    url = f"{pg_database}?prepare=off&application_name=one+two%20three&options=-c%20jit%3Doff"
    with PostgresStore(url, sources=Sources.system()) as store:
        store.run(store.operations.list_workers())
        with psycopg.connect(pg_database) as conn:
            names = conn.execute("select application_name from pg_stat_activity").fetchall()

    assert ("one+two three",) in names


def test_a_due_timer_that_somebody_has_locked_is_nothing_to_wait_for(client: Client) -> None:
    """Or whoever sweeps would come back at once, again and again."""
    run = client.value("select id from windlass.enqueue('greet', p_delay => 60)")
    client.all("update windlass.timers set due_at = now() - interval '1 s'")
    with psycopg.connect(client.url) as other:
        other.execute("select 1 from windlass.timers for update")
        swept = client.value("select windlass.sweep()")
        assert (swept["dispatched"], swept["next_due"], swept["more"]) == (None, None, False)
    assert [one["id"] for one in client.value("select windlass.sweep()")["dispatched"]] == [
        str(run)
    ]


def test_a_queue_without_a_name_is_a_queue(client: Client) -> None:
    run = client.value("select id from windlass.enqueue('greet')")
    # No function takes such a name; but it would stop the walk from queue to queue.
    client.all("update windlass.ready set queue = ''")
    client.all("update windlass.runs set queue = ''")
    client.all("select windlass.register('psql', 30)")
    claimed = client.all("select id from windlass.claim('psql', 1, 10, array['greet'])")
    assert [row["id"] for row in claimed] == [run]
