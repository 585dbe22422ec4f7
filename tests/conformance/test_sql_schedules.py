"""What plain SQL may say of jobs and schedules: what every process reads must be readable."""

from __future__ import annotations

import json
from contextlib import closing

import msgspec
import pytest

from tests.conformance.plain_sql import Client
from windlass import Windlass
from windlass.codec import MAX_BYTES
from windlass.sources import Sources

JOBS = "select windlass.sync_jobs(%s::json)"
BAD_JOBS = {
    '"queue": ""': ("WL005", "queue"),
    '"queue": "a b"': ("WL005", "queue"),
    '"priority": -2147483648': ("WL005", "priority"),
    '"max_attempts": 0': ("WL005", "max_attempts"),
    '"timeout": -1': ("WL005", "timeout"),
    '"priority": "high"': ("WL005", "priority"),
    '"tenant": "a b"': ("WL005", "tenant"),
    '"queue": null': ("WL005", "queue"),
    '"queue": 5': ("WL005", "queue"),
    '"version": 5': ("WL005", "job_version"),
    '"max_attempts": "three"': ("WL005", "max_attempts"),
    '"retry": []': ("WL005", "retry"),
    '"parameters": {}': ("WL005", "parameters"),
    '"parameters": [{"name": "n"}, "m"]': ("WL005", "parameters"),
    '"defaults": []': ("WL005", "defaults"),
    '"defaults": {"tags": "x"}': ("WL005", "tags"),
    '"defaults": {"tags": [1]}': ("WL005", "tags"),
    '"defaults": {"expires": "1h"}': ("WL005", "expires_in"),
    '"defaults": {"deadline": -1}': ("WL005", "deadline_in"),
    '"defaults": {"key_ttl": {}}': ("WL005", "key_ttl"),
    '"defaults": {"unique": "always"}': ("WL005", "unique"),
    '"default_input": {"n": 1e999}': ("WL010", None),
    r'"default_input": "\u0000"': ("WL010", None),
    f'"default_input": {"[" * 101 + "]" * 101}': ("WL010", None),
    f'"default_input": "{"x" * MAX_BYTES}"': ("WL007", None),
}


@pytest.mark.parametrize("member", BAD_JOBS, ids=lambda member: member[:30])
def test_a_definition_that_nobody_could_read_is_refused(client: Client, member: str) -> None:
    state, argument = BAD_JOBS[member]
    queue = "" if "queue" in member else '"queue": "mail", '
    wrong, detail = client.refused(JOBS, f'[{{"name": "odd", {queue}{member}}}]')
    assert wrong == state
    if argument is not None:
        assert (detail[0], detail[2]) == ("odd", argument)
    assert client.all("select * from windlass.jobs where name = 'odd'") == []


SCHEDULES = "select * from windlass.put_schedules(%s::json)"
BAD_SCHEDULES = {
    '"options": []': ("WL005", "options"),
    '"options": {"tags": 5}': ("WL005", "tags"),
    '"options": {"tags": ["a", 5]}': ("WL005", "tags"),
    '"options": {"queue": 5}': ("WL005", "queue"),
    '"options": {"queue": ""}': ("WL005", "queue"),
    f'"options": {{"tags": ["{"x" * 201}"]}}': ("WL005", "tags"),
    f'"options": {{"tags": {json.dumps([str(n) for n in range(101)])}}}': ("WL005", "tags"),
    '"options": {"priority": 32768}': ("WL005", "priority"),
    '"options": {"priority": 1.5}': ("WL005", "priority"),
    '"options": {"max_attempts": 0}': ("WL005", "max_attempts"),
    '"options": {"timeout": "5s"}': ("WL005", "timeout"),
    '"options": {"expires": "1h"}': ("WL005", "expires"),
    '"options": {"expires": 1e11}': ("WL005", "expires"),
    '"options": {"deadline": "1h"}': ("WL005", "deadline"),
    '"options": {"deadline": 1e11}': ("WL005", "deadline"),
    '"options": {"trace": 7}': ("WL005", "trace"),
    f'"options": {{"trace": "{"x" * 201}"}}': ("WL005", "trace"),
    '"options": {"metadata": [1]}': ("WL005", "metadata"),
    '"options": {"retries": 3}': ("WL005", "retries"),
    '"next_slot": "infinity"': ("WL005", "next_slot"),
    '"next_slot": "-infinity"': ("WL005", "next_slot"),
    '"input": {"n": 1e999}': ("WL010", None),
    r'"input": "\ud83d"': ("WL010", None),
    f'"rule": {"[" * 101 + "]" * 101}': ("WL010", None),
}
RULE = '"rule": {"rule": {"kind": "every"}}'


def _schedule(ident: str, member: str) -> str:
    rest = member if member.startswith('"rule"') else f"{RULE}, {member}"
    return f'[{{"id": "{ident}", "key": "k", "job": "greet", {rest}}}]'


@pytest.mark.parametrize("member", BAD_SCHEDULES, ids=lambda member: member[:40])
def test_a_schedule_that_nobody_could_read_is_refused(client: Client, member: str) -> None:
    state, argument = BAD_SCHEDULES[member]
    wrong, detail = client.refused(SCHEDULES, _schedule(Sources.system().new_id(), member))
    assert wrong == state
    if argument is not None:
        assert (detail[0], detail[2]) == ("greet", argument)
    assert client.all("select * from windlass.schedules") == []


@pytest.mark.parametrize(
    "options",
    [
        "null",
        "{}",
        '{"queue": null, "tags": []}',
        '{"queue": "q", "priority": -32768, "tags": ["a", "b"], "expires": 0.5}',
        '{"max_attempts": 3, "timeout": 1.5}',
        '{"trace": "00-7", "metadata": {"team": "a"}}',
    ],
)
def test_a_schedule_with_good_options_is_read(client: Client, options: str) -> None:
    ident = Sources.system().new_id()
    client.all(SCHEDULES, _schedule(ident, f'"options": {options}'))
    with closing(Windlass(client.url)) as app:
        row = app.schedules.get(ident).row
    wanted = {name: value for name, value in (json.loads(options) or {}).items() if value}
    assert row.flaw is None
    assert json.loads(msgspec.json.encode(row.options)) == wanted


BAD_DECISIONS = {
    '"next_slot": "infinity"': ("WL005", "next_slot"),
    '"slots": [{"slot": "2030-01-01Z", "run": {"job": "greet"}}]': ("WL005", "slots"),
    '"slots": [{"slot": "-infinity", "run": {WHOLE}}]': ("WL005", "slot"),
    '"slots": [{"slot": "2030-01-01Z", "run": {WHOLE, "expires_in": -1}}]': (
        "WL005",
        "expires_in",
    ),
    '"slots": [{"slot": "2030-01-01Z", "run": {WHOLE, "options": []}}]': (
        "WL005",
        "options",
    ),
    '"slots": [{"slot": "2030-01-01Z", "run": {WHOLE, "input": 1e999}}]': ("WL010", None),
}


@pytest.mark.parametrize("member", BAD_DECISIONS)
def test_a_decision_that_nobody_could_read_is_refused(client: Client, member: str) -> None:
    state, argument = BAD_DECISIONS[member]
    run = f'"id": "{Sources.system().new_id()}", "job": "greet", "queue": "mail"'
    member = member.replace("WHOLE", run)
    ident = Sources.system().new_id()
    client.all(SCHEDULES, _schedule(ident, '"enabled": true'))
    wrong, detail = client.refused(
        "select windlass.fire_schedules(%s::json)",
        f'[{{"tenant": "default", "id": "{ident}", "advance": false, {member}}}]',
    )
    assert wrong == state
    if argument is not None:
        assert detail[2] == argument
    assert client.all("select * from windlass.schedule_slots") == []
    assert client.all("select * from windlass.runs") == []


def test_a_schedule_is_not_resumed_beyond_all_calendars(client: Client) -> None:
    ident = Sources.system().new_id()
    client.all(SCHEDULES, _schedule(ident, '"enabled": false'))
    query = "select windlass.enable_schedule('default', %s, null, true, 'infinity')"
    state, detail = client.refused(query, ident)
    assert (state, detail[2]) == ("WL005", "next_slot")
    assert client.value("select enabled from windlass.schedules") is False
