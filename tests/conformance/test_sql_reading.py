"""What plain SQL has written, Python reads: runs ended by workers in other languages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conformance.plain_sql import Client
from windlass import RunFailed, Status, Windlass
from windlass.cli import main
from windlass.errors import BadPayload

ERRORS = {
    "none": "null",
    "empty": "{}",
    "as the page has it": '{"type": "SMTPError", "message": "mailbox full"}',
    "with more": '{"type": "E", "message": "m", "code": 7, "details": {"a": [1]}}',
    "with nulls": '{"type": "E", "message": null, "traceback": null}',
    "of the old shape": '{"type": 5, "message": ["m"]}',
    "of no shape": '"boom"',
}
OLD = frozenset({"of the old shape", "of no shape"})  # now refused; stored before they were


@pytest.fixture
def app(client: Client) -> Iterator[Windlass]:
    """The same database, through Python."""
    with closing(Windlass(client.url)) as app:
        yield app


def _fail(client: Client, error: str, *, old: bool = False) -> str:
    """A run that a worker in SQL failed for good."""
    run = str(client.value("select id from windlass.enqueue('greet', '{\"n\": 1}')"))
    client.all("select windlass.register('psql', 30)")
    client.all("select * from windlass.claim('psql', 1, 10, array['greet'])")
    told = "{}" if old else error
    client.all("select windlass.fail('default', %s, 1, %s::json, true)", run, told)
    if old:
        client.all("update windlass.runs set error = %s::json where id = %s", error, run)
        client.all("update windlass.attempt_rows set error = %s::json where run = %s", error, run)
    return run


@pytest.mark.parametrize("kind", ERRORS)
def test_a_run_that_sql_failed_is_read_everywhere(
    client: Client, app: Windlass, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = _fail(client, ERRORS[kind], old=kind in OLD)
    beside = _fail(client, '{"type": "Other", "message": "x"}')

    found = app.get(run)
    assert (found.status, found.failure) == (Status.FAILED, "fatal")
    assert [attempt.attempt for attempt in found.attempts] == [1]
    assert {one.id for one in app.list()} == {run, beside}
    assert {one.id for one in app.list(status=Status.FAILED)} == {run, beside}
    with pytest.raises(RunFailed):
        app.result(run, timeout=0)
    for command in (["show", run], ["runs"], ["dead", "list"], ["show", run, "--json"]):
        done = CliRunner().invoke(main, [*command, "--url", client.url], catch_exceptions=False)
        assert done.exit_code == 0, done.output

    again = app.retry(run)
    assert again.status is Status.QUEUED
    assert [attempt.attempt for attempt in again.attempts] == [1]
    assert app.cancel(run).status is Status.CANCELED


def test_the_error_of_the_page_is_told_as_it_is(client: Client, app: Windlass) -> None:
    error = app.get(_fail(client, ERRORS["as the page has it"])).error

    assert error is not None
    assert (error.type, error.message, error.traceback) == ("SMTPError", "mailbox full", "")
    assert error.fingerprint


def test_an_old_error_is_told_as_far_as_it_can_be(client: Client, app: Windlass) -> None:
    told = [app.get(_fail(client, ERRORS[kind], old=True)).error for kind in sorted(OLD)]

    assert [(error.type, error.message) for error in told if error is not None] == [
        ("Error", "boom"), ("5", '["m"]'),
    ]  # fmt: skip


def test_one_old_row_does_not_spoil_a_page(client: Client, app: Windlass) -> None:
    runs = [str(client.value("select id from windlass.enqueue('greet')")) for _ in range(3)]
    client.all(
        "update windlass.runs set options = '{\"timeout\": \"30s\"}', expires_at = 'infinity', "
        "tags = '{{a},{b}}', input = %s where id = %s",
        r'{"a": "\ud83d"}', runs[1],
    )  # fmt: skip

    listed = app.list()
    assert [run.id for run in listed] == sorted(runs, reverse=True)
    odd = app.get(runs[1]).record
    assert (odd.options, odd.tags) == (None, ())
    assert odd.expires_at == datetime.max.replace(tzinfo=UTC)
    with pytest.raises(BadPayload):
        assert app.get(runs[1]).input
    assert app.cancel(runs[1]).status is Status.CANCELED
    # The checks of a history are stricter than a reader.
    client.all("update windlass.runs set expires_at = null, input = '{}', tags = null")
    assert json.dumps(app.get(runs[0]).input) == "{}"
