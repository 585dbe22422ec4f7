"""What Python refuses to enqueue is refused by plain SQL too, with the error of the same class.

Each line of the tables is one argument with a value that is wrong: as Python passes it, as SQL
writes it in `windlass.enqueue` (None where its type cannot even say it), and as JSON in a batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from tests.conformance.plain_sql import Client
from windlass import Windlass
from windlass.domain.job import MAX_KEY_BYTES, is_name
from windlass.duration import MAX_SECONDS
from windlass.errors import BadDuration, BadOption, UnknownJob, UsageError
from windlass.sources import Sources

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - that is what is wrong with it
LATE = datetime(9999, 12, 31, tzinfo=UTC)


class Bad(NamedTuple):
    """One argument that nobody takes."""

    option: str
    value: Any
    sql: str | None
    json: str
    argument: str | None = None  # of SQL; the same as the option where it is not given
    given: dict[str, Any] = {}  # noqa: RUF012 - read only: what else is passed

    @property
    def name(self) -> str:
        """The argument of SQL."""
        return self.argument or self.option

    def __str__(self) -> str:
        return f"{self.option}={ascii(self.value)[:40]}"


def _text(option: str, value: str, argument: str | None = None) -> Bad:
    return Bad(option, value, _quote(value), json.dumps(value), argument)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _number(option: str, value: float, argument: str | None = None) -> Bad:
    return Bad(option, value, f"'{value}'", json.dumps(value), argument)


KEY = {"key": "k"}
OPTIONS = [
    _text("queue", ""),
    _text("queue", "a b"),
    _text("queue", "a,b"),
    _text("queue", "a\nb"),
    _text("queue", "a\u00a0b"),
    _text("queue", "a\u3000"),
    _text("queue", "\x85"),
    _text("queue", "q" * 201),
    _text("queue", "ü" * 201),
    Bad("queue", 5, None, "5"),
    Bad("queue", ["q"], None, '["q"]'),
    _number("priority", 32_768),
    _number("priority", -32_769),
    _number("priority", 2_147_483_647),
    Bad("priority", 2**40, None, str(2**40)),
    Bad("priority", 1.5, None, "1.5"),
    Bad("priority", 1.0, None, "1.0"),
    Bad("priority", "high", None, '"high"'),
    Bad("priority", "5", None, '"5"'),
    Bad("priority", True, None, "true"),
    _text("key", ""),
    _text("key", "k" * (MAX_KEY_BYTES + 1)),
    _text("key", "ä" * (MAX_KEY_BYTES // 2 + 1)),
    _text("key", "\U0001f600" * (MAX_KEY_BYTES // 4 + 1)),
    Bad("key", 7, None, "7"),
    Bad("key", {"a": 1}, None, '{"a": 1}'),
    *(
        bad._replace(given=KEY if bad.option == "key_ttl" else {})
        for option, argument in (
            ("delay", "delay"), ("key_ttl", "key_ttl"), ("expires", "expires_in"),
            ("deadline", "deadline_in"),
        )
        for bad in (
            _number(option, -1, argument),
            _number(option, -0.001, argument),
            _number(option, MAX_SECONDS * 1.01, argument),
            _number(option, 1e300, argument),
            Bad(option, float("inf"), "'infinity'", "1e999", argument),
            Bad(option, float("nan"), "'nan'", '"NaN"', argument),
            Bad(option, True, None, "true", argument),
            Bad(option, [1], None, "[1]", argument),
            Bad(option, "soon", None, '"soon"', argument),
        )
    ),
    Bad("key_ttl", 60, "60", "60"),  # without a key
    *(
        bad
        for option, argument in (
            ("at", "at"),
            ("expires", "expires_at"),
            ("deadline", "deadline_at"),
        )
        for bad in (
            Bad(option, NAIVE, None, '"2030-01-01T00:00:00"', argument),
            Bad(option, LATE, "'9999-12-31Z'", '"9999-12-31T00:00:00Z"', argument),
            Bad(option, [1], None, "[1]", argument),
            Bad(option, object(), None, "5", argument),
            Bad(option, "soon", None, '"soon"', argument),
            Bad(option, "never", "'infinity'", '"infinity"', argument),
            Bad(option, "never", "'0044-03-15 BC'", '"0044-03-15T00:00:00Z BC"', argument),
            Bad(option, "2030-02-30", None, '"2030-02-30T00:00:00Z"', argument),
            Bad(option, "2030-13-01", None, '"2030-13-01T00:00:00Z"', argument),
        )
    ),
    Bad("delay", 5, "5, p_at => '2030-01-01Z'", '5, "at": "2030-01-01T00:00:00Z"',
        given={"at": datetime(2030, 1, 1, tzinfo=UTC)}),
    Bad("tags", "vip", None, '"vip"'),
    Bad("tags", 5, None, "5"),
    Bad("tags", ["a", 5], None, '["a", 5]'),
    Bad("tags", ["a", None], "array['a', null]", '["a", null]'),
    Bad("tags", [["a"], ["b"]], "array[array['a'], array['b']]", '[["a"], ["b"]]'),
    Bad("tags", [""], "array['']", '[""]'),
    Bad("tags", ["t" * 201], f"array['{'t' * 201}']", json.dumps(["t" * 201])),
    Bad("tags", [str(n) for n in range(101)], f"array{[str(n) for n in range(101)]}",
        json.dumps([str(n) for n in range(101)])),
    _text("trace", ""),
    _text("trace", "t" * 201),
    Bad("trace", 5, None, "5"),
    Bad("metadata", [1], "'[1]'", "[1]"),
    Bad("metadata", 5, "'5'", "5"),
    Bad("metadata", "a", "'\"a\"'", '"a"'),
    Bad("dely", 5, None, "5"),
]  # fmt: skip
OVERRIDES: list[tuple[str, Any, str]] = [
    ("max_attempts", 0, "0"),
    ("max_attempts", 1_000_001, "1000001"),
    ("max_attempts", 1.5, "1.5"),
    ("max_attempts", "2", '"2"'),
    ("max_attempts", True, "true"),
    ("timeout", 0, "0"),
    ("timeout", -1, "-1"),
    ("timeout", MAX_SECONDS * 1.01, str(MAX_SECONDS * 1.01)),
    ("timeout", [5], "[5]"),
    ("unique", "ever", '"ever"'),
    ("unique", True, "true"),
    ("retries", 3, "3"),
]
NO_JOBS: list[Any] = ["", "a b", "a,b", "a\u2003b", "\x7f", "j" * 201, 5]


@pytest.fixture
def app(client: Client) -> Iterator[Windlass]:
    """Python, on the same database."""
    with closing(Windlass(client.url)) as made:
        yield made


def _item(**members: str) -> str:
    """A batch of one; members are JSON."""
    whole = {"id": f'"{Sources.system().new_id()}"', "job": '"greet"', "queue": '"mail"'} | members
    return "[{" + ", ".join(f'"{name}": {text}' for name, text in whole.items()) + "}]"


BATCH = "select windlass.enqueue_many(%s::json)"


PLAIN = (
    "select windlass.enqueue_plain(array['default', %s], array[gen_random_uuid(), "
    "gen_random_uuid()], array['greet', %s], array[null, null], array['mail', %s], "
    "array[0, %s::integer], array['{}', '{}']::json[])"
)
ALONE = "select windlass.enqueue_one(%s, gen_random_uuid(), %s, null, %s, %s::integer, '{}'::json)"
NO_OPTION = (BadOption, BadDuration)


def test_an_option_is_refused_by_both(
    client: Client, app: Windlass, subtests: pytest.Subtests
) -> None:
    for bad in OPTIONS:
        with subtests.test(bad.option, value=ascii(bad.value)[:40], json=bad.json[:40]):
            with pytest.raises(NO_OPTION):
                app.enqueue("greet", {}, **{bad.option: bad.value}, **bad.given)
            keyed = "key" in bad.given
            query = f"select windlass.enqueue('greet', p_{bad.name} => {bad.sql}"
            members = {"key": '"k"'} if keyed else {}
            answers = [client.refused(BATCH, _item(**members, **{bad.name: bad.json}))]
            if bad.sql is not None:
                answers.append(client.refused(query + (", p_key => 'k')" if keyed else ")")))
            for state, detail in answers:
                assert (state, detail[0], detail[2]) == ("WL005", "greet", bad.name)
    assert client.all("select * from windlass.runs") == []


def test_what_a_run_overrides_is_refused_by_both(
    client: Client, app: Windlass, subtests: pytest.Subtests
) -> None:
    query = "select windlass.enqueue('greet', p_options => %s::json)"
    for option, value, text in OVERRIDES:
        with subtests.test(option, value=value):
            with pytest.raises(NO_OPTION):
                app.enqueue("greet", {}, **{option: value})
            options = f'{{"{option}": {text}}}'
            one = client.refused(query, options)
            for state, detail in (one, client.refused(BATCH, _item(options=options))):
                assert (state, detail[0], detail[2]) == ("WL005", "greet", option)
    assert client.all("select * from windlass.runs") == []


def test_a_name_that_no_job_has_is_refused_by_both(
    client: Client, app: Windlass, subtests: pytest.Subtests
) -> None:
    query = "select windlass.enqueue(%s, p_queue => 'q', p_priority => 0)"
    for job in NO_JOBS:
        with subtests.test(job=ascii(job)[:40]):
            with pytest.raises(UnknownJob):
                app.enqueue(job, {})
            is_text = isinstance(job, str)
            state, _ = client.refused(BATCH, _item(job=json.dumps(job)))
            assert state == ("WL006" if is_text else "WL005")
            if is_text:
                assert client.refused(query, job)[0] == "WL006"
                assert client.refused(PLAIN, "default", job, "mail", 0)[0] == "WL006"
    assert client.all("select * from windlass.runs") == []


def test_a_tenant_is_refused_by_both(client: Client, subtests: pytest.Subtests) -> None:
    query = "select windlass.enqueue('greet', p_queue => 'q', p_priority => 0, p_tenant => %s)"
    for tenant in ("", "a b", "-a", "ü", "t" * 101):
        with subtests.test(tenant=ascii(tenant)[:40]):
            with pytest.raises(BadOption):
                Windlass(client.url, tenant=tenant)
            one = client.refused(query, tenant)
            batch = client.refused(BATCH, _item(tenant=json.dumps(tenant)))
            plain = client.refused(PLAIN, tenant, "greet", "mail", 0)
            alone = client.refused(ALONE, tenant, "greet", "mail", 0)
            for state, detail in (one, batch, plain, alone):
                assert (state, detail[0], detail[2]) == ("WL005", "greet", "tenant")


def test_what_is_plain_is_refused_alike(client: Client, subtests: pytest.Subtests) -> None:
    for bad in OPTIONS:
        if bad.option not in ("queue", "priority") or bad.sql is None:
            continue  # it has no such argument, or its type cannot say that
        with subtests.test(bad.option, value=ascii(bad.value)[:40]):
            given: dict[str, Any] = {"queue": "mail", "priority": 0} | {bad.option: bad.value}
            for query in (PLAIN, ALONE):
                answer = client.refused(
                    query, "default", "greet", given["queue"], given["priority"]
                )
                assert (answer[0], answer[1][2]) == ("WL005", bad.option)
    assert client.all("select * from windlass.runs") == []


def test_a_plain_batch_is_whole(client: Client) -> None:
    for missing in ((None, "greet", "q", 0), ("t", "greet", None, 0), ("t", "greet", "q", None)):
        assert client.refused(PLAIN, *missing)[0] == "WL005"
    assert client.refused(PLAIN, "t", None, "q", 0)[0] == "WL006"


def test_a_batch_is_a_list_of_whole_items(client: Client, subtests: pytest.Subtests) -> None:
    wrong: list[tuple[str, str, str | None]] = [
        ("{}", "WL005", "runs"),
        ("5", "WL005", "runs"),
        ("[5]", "WL005", "runs"),
        ('[["greet"]]', "WL005", "runs"),
        (_item(id="null"), "WL005", "id"),
        (_item(id='"greet"'), "WL005", "id"),
        (_item(id="5"), "WL005", "id"),
        (_item(queue="null"), "WL005", "queue"),
        (_item(job="null"), "WL006", None),
        (_item(trace="5"), "WL005", "trace"),
        (_item(job_version="5"), "WL005", "job_version"),
        (_item(deadline_in="5", deadline_at='"2030-01-01T00:00:00Z"'), "WL005", "deadline_in"),
        (_item(expires_in="5", expires_at='"2030-01-01T00:00:00Z"'), "WL005", "expires_in"),
    ]
    for batch, state, argument in wrong:
        with subtests.test(batch=batch):
            found, detail = client.refused(BATCH, batch)
            assert found == state
            assert argument is None or detail[2] == argument


def test_the_same_characters_make_a_name(client: Client) -> None:
    """All of those of the basic plane: what is a space does not depend on the database's locale."""
    rows = client.all(
        "select n, windlass.is_name('a' || chr(n)) as good from generate_series(1, 65533) n "
        "where n not between 55296 and 57343"
    )
    assert [row["n"] for row in rows if row["good"] is not is_name("a" + chr(row["n"]))] == []
    assert sys.maxunicode > 65_533


GOOD: list[dict[str, Any]] = [
    {"key": "k" * MAX_KEY_BYTES},
    {"key": "ä" * (MAX_KEY_BYTES // 2), "key_ttl": 0.5},
    {"queue": "ü" * 200, "priority": -32_768},
    {"delay": 1e-7, "expires_in": 3_155_760_000},
    {"at": "2030-01-31 12:00+01", "expires_at": "2030-03-01T00:00:00.123456+05:30"},
    {"at": None, "delay": None, "tags": None, "key": None, "priority": None, "tenant": None},
    {"deadline_in": 60.5},
    {"deadline_at": "2030-01-30T12:00:00Z", "expires_in": 5},
    {"tags": []},
    {"tags": ["ä" * 200, "a b", 'it"s', "{x}"]},
]


@pytest.mark.parametrize("members", GOOD, ids=range(len(GOOD)))
def test_what_is_right_is_taken_by_both_functions(client: Client, members: dict[str, Any]) -> None:
    named = ", ".join(f"p_{name} => %s" for name in members if name != "tenant")
    given = [value for name, value in members.items() if name != "tenant"]
    if "key" in members and members["key"] is not None:
        members = members | {"key": members["key"][:-1]}  # another one
    client.all(f"select windlass.enqueue('greet', {named})", *given)
    client.all(BATCH, _item(**{name: json.dumps(value) for name, value in members.items()}))
    runs = client.all("select * from windlass.runs")
    assert len(runs) == 2
    assert runs[0]["tags"] == runs[1]["tags"]
    assert runs[0]["expires_at"] == runs[1]["expires_at"] or "expires_in" in members


def test_the_longest_names_fit_the_index(client: Client) -> None:
    """Of characters that compress badly, and take four bytes each."""
    letters = [chr(0x20000 + n * 7919 % 40_000) for n in range(700)]
    job, key, tag = "".join(letters[:200]), "".join(letters[200:450]), "".join(letters[450:650])
    assert len(key.encode()) == MAX_KEY_BYTES
    client.all(
        "select windlass.enqueue(%s, p_tenant => %s, p_queue => %s, p_priority => 0, p_key => %s, "
        "p_tags => array[%s])",
        job, "t" * 100, tag, key, tag,
    )  # fmt: skip
    schedule = {"id": Sources.system().new_id(), "tenant": "t" * 100, "key": key, "job": job}
    client.all(
        "select windlass.put_schedules(%s::json)",
        json.dumps([schedule | {"rule": {"rule": {"kind": "every"}}}]),
    )
    assert client.value("select key from windlass.run_keys") == key


def test_the_key_of_a_schedule_has_the_same_limit(client: Client, app: Windlass) -> None:
    key = "ä" * (MAX_KEY_BYTES // 2 + 1)
    with pytest.raises(BadOption, match="1002 bytes"):
        app.schedules.put("greet", key=key, interval="1h")
    schedule = {"id": Sources.system().new_id(), "key": key, "job": "greet", "rule": {}}
    state, detail = client.refused(
        "select windlass.put_schedules(%s::json)", json.dumps([schedule])
    )
    assert (state, detail[2]) == ("WL005", "key")


@pytest.mark.parametrize("member", ["job", "tenant"])
def test_the_names_of_a_schedule_are_names(client: Client, member: str) -> None:
    schedule = {"id": Sources.system().new_id(), "job": "greet", "rule": {}} | {member: "a b"}
    state, _ = client.refused("select windlass.put_schedules(%s::json)", json.dumps([schedule]))
    assert state == {"job": "WL006", "tenant": "WL005"}[member]


def test_a_reason_and_a_message_have_their_limits(client: Client, app: Windlass) -> None:
    run = str(client.value("select id from windlass.enqueue('greet')"))
    client.all("select windlass.register('psql', 30)")
    client.all("select * from windlass.claim('psql', 1, 10, array['greet'])")
    long = "x" * 10_001
    with pytest.raises(UsageError):
        app.cancel(run, reason=long)
    state, detail = client.refused("select windlass.cancel('default', %s, %s)", run, long)
    assert (state, detail[2]) == ("WL005", "reason")
    query = "select windlass.progress('default', %s, 1, 0.5, %s)"
    state, detail = client.refused(query, run, long)
    assert (state, detail[2]) == ("WL005", "message")
