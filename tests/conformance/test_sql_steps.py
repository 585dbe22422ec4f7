"""Steps and signals by plain SQL: what no client could have written is refused, with its code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.kit import ABSENT
from tests.conformance.places import Row
from tests.conformance.plain_sql import Client

RECORD = "select * from windlass.record_steps(%s::json)"
SIGNAL = "select * from windlass.signal('default', %s, %s, %s::json, %s)"
FINISH = "select * from windlass.finish(%s::json)"
MEGABYTE = 1_048_576


@pytest.fixture
def run(client: Client) -> dict[str, Any]:
    """A run that is held by plain SQL: how its lease is named."""
    client.all("select windlass.register('psql', 30)")
    client.all("select windlass.enqueue('greet', '{}')")
    row = client.one("select * from windlass.claim('psql', 1, 1, array['greet'])")
    return {"tenant": "default", "id": str(row["id"]), "token": row["token"]}


def item(run: dict[str, Any], **fields: Any) -> str:
    step = {"path": "charge", "kind": "step", "state": "done"} | fields
    return json.dumps([run | step])


def signal(client: Client, run: dict[str, Any], name: str, payload: str, key: str | None) -> Row:
    return client.one(SIGNAL, run["id"], name, payload, key)


def test_a_life_with_steps_and_a_signal(client: Client, run: dict[str, Any]) -> None:
    done = client.one(RECORD, item(run, value={"id": 7}, took=1.5, input="[1]"))
    assert (done["answer"], done["state"], done["value"]) == ("step", "done", {"id": 7})
    waits = item(run, path="paid", kind="signal", state="waiting", signal="paid")
    assert client.one(RECORD, waits)["state"] == "waiting"
    end = json.dumps([run | {"outcome": "waiting", "waits": ["paid"]}])
    assert client.all(FINISH, end) == []
    assert client.status(run["id"]) == "waiting"

    sent = signal(client, run, "paid", "7", "k")
    again = signal(client, run, "paid", "8", "k")

    assert (sent["created"], again["created"], again["payload"]) == (True, False, 7)
    assert client.status(run["id"]) == "queued"
    (signal_row,) = client.all("select * from windlass.list_signals('default', %s)", run["id"])
    assert (signal_row["number"], signal_row["taken_by"]) == (sent["number"], None)
    held = client.one("select * from windlass.claim('psql', 2, 1, array['greet'])")
    answered = client.one(RECORD, waits.replace('"token": 1', f'"token": {held["token"]}'))
    assert (answered["state"], answered["value"]) == ("done", 7)
    steps = client.all("select path, state from windlass.list_steps('default', %s)", run["id"])
    assert steps == [{"path": "charge", "state": "done"}, {"path": "paid", "state": "done"}]


def test_nothing_is_recorded_under_another_token(client: Client, run: dict[str, Any]) -> None:
    assert client.one(RECORD, item(run | {"token": 2}))["answer"] == "lost"
    assert client.one(RECORD, item(run | {"id": ABSENT}))["answer"] == "lost"
    assert client.all("select * from windlass.steps") == []


BAD_STEPS: list[tuple[str, str, dict[str, Any]]] = [
    ("WL005", "path", {"path": None}),
    ("WL005", "path", {"path": ""}),
    ("WL005", "path", {"path": "p" * 1601}),
    ("WL005", "kind", {"kind": None}),
    ("WL005", "kind", {"kind": "A kind"}),
    ("WL005", "kind", {"kind": "k" * 31}),
    ("WL005", "state", {"state": None}),
    ("WL005", "state", {"state": "timed_out"}),
    ("WL005", "state", {"state": "lost"}),
    ("WL005", "signal", {"signal": "", "state": "waiting"}),
    ("WL005", "signal", {"signal": "s" * 1001, "state": "waiting"}),
    ("WL005", "failures", {"failures": -1}),
    ("WL005", "failures", {"failures": 1_000_001}),
    ("WL005", "wait", {"wait": -1}),
    ("WL005", "wait", {"wait": 1e300}),
    ("WL005", "took", {"took": -1}),
    ("WL005", "took", {"took": 1e300}),
    ("WL007", "result", {"value": "x" * MEGABYTE}),
]


@pytest.mark.parametrize(("state", "argument", "fields"), BAD_STEPS)
def test_a_step_that_nobody_could_write_is_refused(
    client: Client, run: dict[str, Any], state: str, argument: str, fields: dict[str, Any]
) -> None:
    found, detail = client.refused(RECORD, item(run, **fields))

    assert found == state
    assert argument in detail
    assert client.all("select * from windlass.steps") == []


def test_documents_that_no_client_could_read_are_refused(
    client: Client, run: dict[str, Any]
) -> None:
    nul = item(run, value="?").replace('"?"', '"\\u0000"')
    assert client.refused(RECORD, nul)[0] == "WL010"
    lone = item(run, value="?").replace('"?"', '"\\ud800"')
    assert client.refused(RECORD, lone)[0] == "WL010"
    assert client.refused(SIGNAL, run["id"], "paid", '"\\u0000"', None)[0] == "WL010"
    assert client.refused(SIGNAL, run["id"], "paid", '"\\ud800"', None)[0] == "WL010"
    assert client.all("select * from windlass.signals") == []


@pytest.mark.parametrize(
    ("state", "name", "payload", "key"),
    [
        ("WL005", None, "1", None),
        ("WL005", "", "1", None),
        ("WL005", "s" * 1001, "1", None),
        ("WL005", "paid", "1", ""),
        ("WL005", "paid", "1", "k" * 2000),
        ("WL007", "paid", json.dumps("x" * MEGABYTE), None),
    ],
)
def test_a_signal_that_nobody_could_send_is_refused(
    client: Client, run: dict[str, Any], state: str, name: str, payload: str, key: str | None
) -> None:
    assert client.refused(SIGNAL, run["id"], name, payload, key)[0] == state
    assert client.all("select * from windlass.signals") == []


def test_runs_that_take_no_signal_say_so(client: Client, run: dict[str, Any]) -> None:
    assert client.refused(SIGNAL, ABSENT, "paid", "1", None) == ("WL001", [ABSENT])
    client.all(FINISH, json.dumps([run | {"outcome": "canceled"}]))

    found = client.refused(SIGNAL, run["id"], "paid", "1", None)

    assert found == ("WL002", [run["id"], "canceled", "signal"])


def test_another_input_for_a_run_with_steps_is_refused(client: Client, run: dict[str, Any]) -> None:
    client.all(RECORD, item(run))
    client.all(FINISH, json.dumps([run | {"outcome": "canceled"}]))

    retry = "select windlass.retry('default', %s, null, '{}')"
    assert client.refused(retry, run["id"]) == ("WL012", [run["id"]])
    client.all("select windlass.retry('default', %s)", run["id"])
    change = "select windlass.change('default', %s, '{\"input\": {}}')"
    assert client.refused(change, run["id"]) == ("WL012", [run["id"]])


def test_a_payload_that_is_not_given_is_null(client: Client, run: dict[str, Any]) -> None:
    sent = client.one("select * from windlass.signal('default', %s, 'paid')", run["id"])

    assert (sent["payload"], sent["created"]) == (None, True)
