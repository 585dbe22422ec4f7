"""What plain SQL may say: the functions refuse what Python would, and store nothing then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conformance.plain_sql import Client
from windlass import Windlass, codec
from windlass.codec import MAX_BYTES, MAX_DEPTH
from windlass.domain.outcome import decide_failure
from windlass.domain.policy import Fatal, Retry
from windlass.duration import MAX_SECONDS
from windlass.errors import BadArguments, BadOption, BadPayload
from windlass.sources import Sources

BATCH = "select windlass.enqueue_many(%s::json)"
PLAIN = (
    "select windlass.enqueue_plain(array['default', 'default'], "
    "array[gen_random_uuid(), gen_random_uuid()], array['greet', 'greet'], array[null, null], "
    "array['mail', 'mail'], array[0, 0], array['{}', %s]::json[])"
)

ALONE = (
    "select windlass.enqueue_one('default', gen_random_uuid(), 'greet', null, 'mail', 0, %s::json)"
)


def _items(*runs: dict[str, Any]) -> str:
    """A batch as JSON, written without Python's own ideas of what JSON is."""
    return "[" + ",".join(map(_item, runs)) + "]"


def _item(run: dict[str, Any]) -> str:
    given: dict[str, Any] = {"id": Sources.system().new_id(), "job": "greet", "queue": "mail"}
    document = run.pop("input", None)
    text = json.dumps(given | run)
    return text if document is None else f'{text[:-1]}, "input": {document}}}'


def _hold(client: Client, input: str = "{}") -> str:
    """A run that the worker `psql` holds under token 1."""
    run = str(client.value("select id from windlass.enqueue('greet', %s::json)", input))
    client.all("select windlass.register('psql', 30)")
    client.all("select * from windlass.claim('psql', 1, 10, array['greet'])")
    return run


def _record(client: Client, run: object) -> Any:
    return client.one("select * from windlass.get_runs('default', array[%s::uuid])", run)


# -- options -------------------------------------------------------------------------------------

BAD_OPTIONS = {
    '{"timeout": "30s"}': "timeout",
    '{"timeout": 0}': "timeout",
    '{"timeout": -1}': "timeout",
    '{"timeout": 1e10}': "timeout",
    '{"timeout": 1e999}': "timeout",
    '{"timeout": [30]}': "timeout",
    '{"max_attempts": "2"}': "max_attempts",
    '{"max_attempts": 0}': "max_attempts",
    '{"max_attempts": 2.0}': "max_attempts",
    '{"max_attempts": 1000001}': "max_attempts",
    '{"max_attempts": 99999999999999999999}': "max_attempts",
    '{"max_attempts": true}': "max_attempts",
    '{"timeout": 5, "max_attempts": {}}': "max_attempts",
    '{"timeout": 5, "retries": 3}': "retries",
    "[]": "options",
    '"timeout"': "options",
}


@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_bad_options_are_refused_by_name(client: Client, options: str) -> None:
    state, detail = client.refused(
        "select windlass.enqueue('greet', p_options => %s::json)", options
    )
    assert (state, detail[0], detail[2]) == ("WL005", "greet", BAD_OPTIONS[options])
    assert BadArguments(*detail).parameter == BAD_OPTIONS[options]

    batch = f'{_items({})[:-2]}, "options": {options}}}]'
    state, detail = client.refused(BATCH, batch)
    assert (state, detail[0], detail[2]) == ("WL005", "greet", BAD_OPTIONS[options])
    assert client.all("select * from windlass.runs") == []


@pytest.mark.parametrize(
    "options",
    [
        '{"timeout": 30}',
        '{"timeout":0.25,"max_attempts":1}',
        '{"timeout": null}',
        "{}",
        "null",
        '{"max_attempts": 1000000, "timeout": 3.15576e9}',
    ],
)
def test_good_options_are_stored_and_read(client: Client, options: str) -> None:
    one = client.value("select id from windlass.enqueue('greet', p_options => %s::json)", options)
    client.all(BATCH, f'{_items({})[:-2]}, "options": {options}}}]')

    wanted = json.loads(options) or {}
    with closing(Windlass(client.url)) as app:
        runs = app.list()
        assert len(runs) == 2
        for run in runs:
            stored = run.record.options
            assert (stored.timeout if stored else None) == wanted.get("timeout")
            assert (stored.max_attempts if stored else None) == wanted.get("max_attempts")
    assert _record(client, one)["status"] == "queued"


def test_tags_are_a_plain_list(client: Client) -> None:
    query = "select windlass.enqueue('greet', p_tags => array[array['a', 'b'], array['c', 'd']])"
    assert client.refused(query)[0] == "WL005"
    assert client.refused(BATCH, _items({"tags": [["a"], ["b"]]}))[0] == "WL005"


# -- time ----------------------------------------------------------------------------------------

NO_INSTANTS = ["infinity", "-infinity", "9999-12-31 00:00:00+00", "0044-03-15 BC"]
NO_LENGTHS = ["Infinity", "-Infinity", "NaN", "-0.001", str(MAX_SECONDS * 1.01), "1e300"]


@pytest.mark.parametrize("at", NO_INSTANTS)
@pytest.mark.parametrize("argument", ["at", "expires_at", "deadline_at"])
def test_times_that_few_can_read_are_refused(client: Client, argument: str, at: str) -> None:
    query = f"select windlass.enqueue('greet', p_{argument} => %s::timestamptz)"
    state, detail = client.refused(query, at)
    assert (state, detail[0], detail[2]) == ("WL005", "greet", argument)

    assert client.refused(BATCH, _items({argument: at}))[0] == "WL005"


@pytest.mark.parametrize("seconds", NO_LENGTHS)
@pytest.mark.parametrize("argument", ["delay", "expires_in", "deadline_in", "key_ttl"])
def test_lengths_of_time_end_at_a_century(client: Client, argument: str, seconds: str) -> None:
    query = f"select windlass.enqueue('greet', p_key => 'k', p_{argument} => %s::float8)"
    state, detail = client.refused(query, seconds)
    assert (state, detail[0], detail[2]) == ("WL005", "greet", argument)

    assert client.refused(BATCH, _items({"key": "k", argument: seconds}))[0] == "WL005"


@pytest.mark.parametrize("seconds", ["Infinity", "NaN", "1e300"])
def test_no_run_waits_for_ever(client: Client, seconds: str) -> None:
    run = _hold(client)
    for outcome in ("retry", "snoozed"):
        end = {"tenant": "default", "id": run, "token": 1, "outcome": outcome, "delay": seconds}
        state, detail = client.refused("select * from windlass.finish(%s::json)", json.dumps([end]))
        assert (state, detail[2]) == ("WL005", "delay")
    assert client.status(run) == "running"


@pytest.mark.parametrize("seconds", ["Infinity", "NaN", "-1"])
def test_no_worker_lives_for_ever(client: Client, seconds: str) -> None:
    client.all("select windlass.register('psql', 30)")

    assert client.refused("select windlass.register('w', %s::float8)", seconds)[0] == "WL005"
    assert client.refused("select windlass.renew('psql', %s::float8)", seconds)[0] == "WL005"


@pytest.mark.parametrize("fraction", ["Infinity", "NaN", "1.5", "-0.1"])
def test_progress_is_a_part_of_one(client: Client, fraction: str) -> None:
    run = _hold(client)

    query = "select windlass.progress('default', %s, 1, %s::float8, 'm')"
    assert client.refused(query, run, fraction)[0] == "WL005"


def test_the_ends_of_time_are_read(client: Client) -> None:
    last = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
    run = client.value("select id from windlass.enqueue('greet', p_at => %s)", last)

    with closing(Windlass(client.url)) as app:
        assert app.get(str(run)).record.scheduled_for == last


def test_a_sweep_is_not_blinded_by_a_timer_without_end(client: Client) -> None:
    client.all("select windlass.enqueue('greet', p_delay => 60)")
    client.all("update windlass.timers set due_at = 'infinity'")

    assert client.value("select windlass.sweep()")["next_due"] is None
    client.all("update windlass.timers t set due_at = r.scheduled_for from windlass.runs r")


# -- documents -----------------------------------------------------------------------------------

NUL = r'{"a": "x\u0000"}'
BAD_DOCUMENTS = {
    "nul": NUL,
    "nul in a name": r'{"\u0000": 1}',
    "nul after a backslash": r'{"a": "\\\u0000"}',
    "half a pair": r'{"a": "\ud83d"}',
    "the other half": r'{"a": "\uDE00 b"}',
    "pair turned round": r'{"a": "\ude00\ud83d"}',
    "deep arrays": "[" * 101 + "]" * 101,
    "deep objects": '{"a":' * 101 + "1" + "}" * 101,
    "deep mixture": '[{"a":' * 51 + "1" + "}]" * 51,
    "deeper still": "[" * 3_000 + "]" * 3_000,
}
BAD_NUMBERS = {
    "a huge float": '{"a": 1e309}',
    "a huge negative": "-1.5E+999",
    "a huge exponent": "1e99999999",
    "a long integer": "18446744073709551616",
    "a long negative": '{"a": [-9223372036854775809]}',
}
GOOD_DOCUMENTS = {
    "null": "null",
    "a pair": r'{"a": "\ud83d\ude00"}',
    "no escape": r'{"a": "\\u0000 \\ud83d"}',
    "as deep as may be": "[" * MAX_DEPTH + "]" * MAX_DEPTH,
    "many but flat": "[" + ",".join(['{"a":[]}'] * 300) + "]",
    "brackets in text": json.dumps({"a": "[" * 300, "b": '"[{' * 100}),
    "the largest integers": "[18446744073709551615, -9223372036854775808]",
    "the largest floats": "[1.7976931348623157e308, -1e308, 1e-300, 12345678901234567890123.0]",
    "digits in text": '{"a": "1e999 123456789012345678901234567890 \\" 1e999"}',
    "the largest text": json.dumps("x" * (MAX_BYTES - 2)),
}


def _refusals(client: Client, document: str, held: str) -> Sequence[tuple[str, str, Any]]:
    """What each way in answers to a document: its name, the state, what it is called."""
    end = f'[{{"tenant": "default", "id": "{held}", "token": 1, "outcome": "succeeded", "result": '
    failed = end.replace("succeeded", "failed").replace("result", "error")
    keyed = "select windlass.enqueue('greet', %s::json, p_key => 'k')"
    succeed = (
        "select * from windlass.succeed(array['default'], array[%s::uuid], array[1::bigint], "
        "array[%s::json])"
    )
    calls = {
        "enqueue": client.refused("select windlass.enqueue('greet', %s::json)", document),
        "keyed": client.refused(keyed, document),
        "batch": client.refused(BATCH, _items({}, {"input": document})),
        "keyed batch": client.refused(BATCH, _items({}, {"key": "k", "input": document})),
        "plain": client.refused(PLAIN, document),
        "alone": client.refused(ALONE, document),
        "succeed": client.refused(succeed, held, document),
        "finish": client.refused("select * from windlass.finish(%s::json)", f"{end}{document}}}]"),
        "error": client.refused(
            "select * from windlass.finish(%s::json)", f'{failed}{{"type": {document}}}}}]'
        ),
        "fail": client.refused(
            "select windlass.fail('default', %s, 1, %s::json)", held, f'{{"x": {document}}}'
        ),
    }
    return [(name, state, detail[0]) for name, (state, detail) in calls.items()]


EXPECTED = {
    **dict.fromkeys(("enqueue", "keyed", "batch", "keyed batch", "plain", "alone"), "input"),
    **dict.fromkeys(("succeed", "finish"), "result"),
    **dict.fromkeys(("error", "fail"), "error"),
}


@pytest.mark.parametrize("document", BAD_DOCUMENTS.values(), ids=BAD_DOCUMENTS)
def test_documents_that_no_client_could_read_are_refused(client: Client, document: str) -> None:
    held = _hold(client)

    answers = _refusals(client, document, held)

    expected = dict(EXPECTED)
    if "\\u" in document:
        # A list of records is refused as a whole: it cannot even be taken apart.
        expected |= dict.fromkeys(("batch", "keyed batch"), "batch")
        expected |= dict.fromkeys(("finish", "error"), "list of ends")
    assert answers == [(name, "WL010", what) for name, what in expected.items()]
    assert client.status(held) == "running"
    assert client.value("select count(*) from windlass.runs") == 1


def test_the_limit_of_size_is_everywhere(client: Client) -> None:
    held = _hold(client)

    answers = _refusals(client, json.dumps("x" * (MAX_BYTES - 1)), held)

    assert answers == [(name, "WL007", what) for name, what in EXPECTED.items()]


@pytest.mark.parametrize("document", BAD_NUMBERS.values(), ids=BAD_NUMBERS)
def test_numbers_that_no_client_could_read_are_refused(client: Client, document: str) -> None:
    held = _hold(client)

    enqueued = client.refused("select windlass.enqueue('greet', %s::json)", document)
    ended = client.refused(
        "select * from windlass.succeed(array['default'], array[%s::uuid], array[1::bigint], "
        "array[%s::json])",
        held, document,
    )  # fmt: skip

    assert [(state, detail[0]) for state, detail in (enqueued, ended)] == [
        ("WL010", "input"), ("WL010", "result"),
    ]  # fmt: skip
    assert BadPayload(*enqueued[1]).what == "input"


@pytest.mark.parametrize("document", GOOD_DOCUMENTS.values(), ids=GOOD_DOCUMENTS)
def test_documents_that_are_fine_are_kept(client: Client, document: str) -> None:
    held = _hold(client, document)
    client.all(BATCH, _items({"input": document}))
    client.all(PLAIN, document)
    client.all(ALONE, document)
    client.all(
        "select * from windlass.succeed(array['default'], array[%s::uuid], array[1::bigint], "
        "array[%s::json])",
        held, document,
    )  # fmt: skip

    with closing(Windlass(client.url)) as app:
        expected = app.get(held).result
        read = [codec.decode(run.record.input) for run in app.list()]
    assert read.count(expected) >= 4
    stored = client.all("select input::text as text from windlass.runs where id <> %s", held)
    assert [row["text"] for row in stored].count(document) == 3


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", ['"text"', "5", "[]", '{"type": 5}', '{"message": {}}', '{"fingerprint": ["a"]}']
)
def test_an_error_of_another_shape_is_refused(client: Client, error: str) -> None:
    run = _hold(client)
    end = f'[{{"tenant": "default", "id": "{run}", "token": 1, "outcome": "failed", "error": '

    told = client.refused("select windlass.fail('default', %s, 1, %s::json)", run, error)
    ended = client.refused("select * from windlass.finish(%s::json)", f"{end}{error}}}]")

    for state, detail in (told, ended):
        assert (state, detail[0], detail[2]) == ("WL005", "greet", "error")
    assert client.status(run) == "running"


def test_what_an_error_lacks_is_filled_in(client: Client) -> None:
    found = {}
    for error in ('{"type": "E", "message": "a"}', '{"type": "E", "code": 7}', '{"type": "F"}'):
        run = _hold(client)
        client.all("select windlass.fail('default', %s, 1, %s::json, true)", run, error)
        found[error] = client.one("select * from windlass.failures where id = %s", run)

    one, other, third = found.values()
    assert one["error_type"] == "E"
    # Dead letters are grouped by it: the same type of the same job is one mistake.
    assert one["fingerprint"] == other["fingerprint"] != third["fingerprint"]
    assert len(one["fingerprint"]) == 16
    stored = _record(client, other["id"])["error"]
    assert stored == {
        "type": "E", "message": "", "traceback": "", "code": 7,
        "fingerprint": other["fingerprint"],
    }  # fmt: skip


def test_an_error_that_is_whole_is_left_alone(client: Client) -> None:
    error = '{"type":"E","message":"m","traceback":"t","fingerprint":"f"}'
    run = _hold(client)
    client.all("select windlass.fail('default', %s, 1, %s::json)", run, error)

    attempts = client.all("select error::text as error from windlass.attempts")
    assert [row["error"] for row in attempts] == [error]


# -- the decision after a failure ------------------------------------------------------------------

POLICIES = [
    Retry.never(),
    Retry(jitter=0),
    Retry.fixed("90s", jitter=0),
    Retry.linear("5s", cap="1m", jitter=0),
    Retry.exponential("1s", "1h", jitter=0),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.kind.value)
@pytest.mark.parametrize("max_attempts", [1, 2, 3])
@pytest.mark.parametrize("fatal", [False, True])
def test_sql_decides_as_python_does(
    client: Client, policy: Retry, max_attempts: int, fatal: bool
) -> None:
    job = {"name": "greet", "queue": "mail", "max_attempts": max_attempts}
    client.all(
        "select windlass.sync_jobs(%s::json)", json.dumps([job | {"retry": policy.to_json()}])
    )
    error = Fatal() if fatal else ValueError()
    for failures in range(3):
        run = _hold(client)
        client.all("update windlass.leases set failures = %s where id = %s", failures, run)
        expected = decide_failure(
            policy, error, failures_before=failures, max_attempts=max_attempts,
            timed_out=False, random=0.0,
        )  # fmt: skip

        client.all("select windlass.fail('default', %s, 1, '{}', %s)", run, fatal)

        record = _record(client, run)
        assert record["failure"] == expected.failure
        told = client.value(
            "select data ->> 'delay' from windlass.events where subject = %s "
            "order by seq desc limit 1",
            run,
        )
        assert (None if told is None else float(told)) == expected.delay


BAD_POLICIES: list[dict[str, Any]] = [
    {"kind": "sometimes"},
    {"kind": 5},
    {"kind": None},
    {"base": "1s"},
    {"base": -1},
    {"base": MAX_SECONDS * 1.01},
    {"base": True},
    {"base": None},
    {"cap": "1h"},
    {"cap": 0.5},  # less than the base that is not given
    {"base": 10, "cap": 5},
    {"factor": 0.5},
    {"factor": 1001},
    {"factor": "2"},
    {"jitter": -0.1},
    {"jitter": 1.5},
    {"jitter": []},
    {"delay": 5},
]


def test_a_policy_that_python_would_not_read_is_refused(
    client: Client, subtests: pytest.Subtests
) -> None:
    query = "select windlass.sync_jobs(%s::json)"
    for policy in BAD_POLICIES:
        with subtests.test(policy=policy):
            with pytest.raises(BadOption):
                Retry.from_json(policy)
            job = {"name": "greet", "queue": "mail", "retry": policy}
            state, detail = client.refused(query, json.dumps([job]))
            assert (state, detail[0], detail[2]) == ("WL005", "greet", "retry")
    state, _ = client.refused(
        query, '[{"name": "greet", "queue": "mail", "retry": {"base": 1e999}}]'
    )
    assert state == "WL005"


@pytest.mark.parametrize("policy", [{}, {"base": 7200}, {"kind": "fixed", "base": 86_400},
                                    {"kind": "never"}, {"factor": 1, "jitter": 1}])  # fmt: skip
def test_a_policy_may_leave_members_out(client: Client, policy: dict[str, Any]) -> None:
    policy = {"jitter": 0} | policy
    job = {"name": "greet", "queue": "mail", "retry": policy}
    client.all("select windlass.sync_jobs(%s::json)", json.dumps([job]))
    read = Retry.from_json(policy)
    for failures in (1, 2, 20):
        expected = read.delay_for(failures, ValueError(), 0.0)
        query = "select windlass.backoff(j.retry, %s) from windlass.jobs j"
        found = client.value(query, failures)
        assert found == expected or policy["jitter"] == 1


@pytest.mark.parametrize("policy", [*map(json.dumps, BAD_POLICIES), "5", "[]", '"x"', "null",
                                    '{"base": 1e999}', '{"cap": 0}', r'{"kind": "\u0000"}',
                                    '{"factor": 1e300}'])  # fmt: skip
def test_a_run_ends_whatever_policy_is_stored(client: Client, policy: str) -> None:
    """By hand, or by an older release: nobody could end the run otherwise."""
    client.all("update windlass.jobs set retry = %s::json, max_attempts = 2", policy)
    run = _hold(client)

    assert client.value("select windlass.fail('default', %s, 1, '{}')", run)
    assert client.status(run) == "scheduled"

    client.all("update windlass.timers set due_at = windlass.now()")
    client.all("select windlass.sweep()")
    client.all("select * from windlass.claim('psql', 2, 10, array['greet'])")
    assert client.value("select windlass.fail('default', %s, 2, '{}')", run)
    assert client.status(run) == "failed"


@pytest.mark.parametrize("options", ["5", '{"max_attempts": -1e30}', '{"max_attempts": 1e999999}',
                                     r'{"max_attempts": "\u0000"}'])  # fmt: skip
def test_a_run_ends_whatever_options_are_stored(client: Client, options: str) -> None:
    run = _hold(client)
    client.all("update windlass.runs set options = %s::json", options)

    for token in range(1, 6):
        assert client.value("select windlass.fail('default', %s, %s, '{}')", run, token)
        if client.status(run) == "failed":
            break
        client.all("update windlass.timers set due_at = windlass.now()")
        client.all("select windlass.sweep()")
        client.all("select * from windlass.claim('psql', %s, 10, array['greet'])", token + 1)
    assert client.status(run) == "failed"
    client.all("update windlass.runs set options = null")


# -- a run without input ---------------------------------------------------------------------------


def test_a_run_without_input_has_its_jobs_default(client: Client) -> None:
    job = {"name": "greet", "queue": "mail", "default_input": {"name": "Ada"}}
    client.all("select windlass.sync_jobs(%s::json)", json.dumps([job]))

    client.all("select windlass.enqueue('greet', p_key => 'k')")
    client.all(BATCH, _items({}, {"input": "{}"}, {"input": "null"}, {"key": "k"}, {"key": "m"}))
    client.all("select windlass.enqueue_many(%s::json, false)", _items({}))
    client.all(PLAIN, None)
    client.all(ALONE, None)

    inputs = client.all("select input::text as text from windlass.runs")
    ada = json.dumps({"name": "Ada"})
    assert sorted(row["text"] for row in inputs) == ["null", *[ada] * 6, "{}", "{}"]


def test_a_run_without_input_has_no_arguments_where_there_is_no_default(client: Client) -> None:
    client.all("select windlass.enqueue('greet')")
    client.all("select windlass.enqueue('unheard', p_queue => 'q', p_priority => 1)")
    client.all(BATCH, _items({}, {"job": "unheard"}))

    inputs = client.all("select input from windlass.runs")
    assert [row["input"] for row in inputs] == [{}] * 4
