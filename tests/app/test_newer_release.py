"""Rows of a newer release: names that this one does not know are shown as their text."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy

import apsw
import psycopg
import pytest
from click.testing import CliRunner

from windlass import (
    AttemptOutcome,
    BadOption,
    EventType,
    Failure,
    IllegalTransition,
    Status,
    Windlass,
)
from windlass.cli import main
from windlass.domain.states import Verb, advance

POSTGRES = """
alter table windlass.runs drop constraint runs_status_check, drop constraint runs_failure_check,
  drop constraint runs_check, drop constraint runs_check1;
alter table windlass.attempt_rows drop constraint attempt_rows_outcome_check;
update windlass.runs set status = 'archived', failure = 'cosmic';
update windlass.attempt_rows set outcome = 'teleported';
update windlass.event_rows set type = 'run.beamed' where type = 'run.failed';
"""
SQLITE = """
pragma ignore_check_constraints = on;
update runs set status = 'archived', failure = 'cosmic';
update attempt_rows set outcome = 'teleported';
update event_rows set type = 'run.beamed' where type = 'run.failed';
"""


def _rewrite(url: str) -> None:
    if url.startswith("sqlite"):
        apsw.Connection(url.removeprefix("sqlite:///")).execute(SQLITE)
        return
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(POSTGRES)


@pytest.fixture
async def run(app: Windlass, url: str) -> str:
    """A run that failed, as a newer release would have written it."""

    @app.job(max_attempts=1)
    async def work() -> None:
        raise ValueError("boom")

    made = await work.aenqueue()
    async with app.running():
        await made.await_end(timeout=20)
    _rewrite(url)
    return made.id


async def test_unknown_names_are_shown_as_their_text(app: Windlass, run: str) -> None:
    found = await app.aget(run)

    assert (found.status, found.failure) == ("archived", "cosmic")
    assert [attempt.outcome for attempt in found.attempts] == ["teleported"]
    assert [event.type for event in found.events()][-1] == "run.beamed"
    assert f"{found.status}" == found.status.value == found.to_dict()["status"] == "archived"
    assert [r.id for r in app.list(job="work")] == [run]
    assert "archived" in repr(found)


async def test_commands_show_them(app: Windlass, url: str, run: str) -> None:
    for command in (["show", run], ["show", run, "--json"], ["runs"], ["runs", "--json"]):
        done = CliRunner().invoke(main, ["--url", url, *command])
        assert done.exit_code == 0, done.output
        assert "archived" in done.output


@pytest.mark.parametrize("kind", [Status, Failure, EventType, AttemptOutcome])
def test_an_unknown_name_behaves_like_a_text(kind: type[Status]) -> None:
    unknown = kind("new")

    assert (unknown, str(unknown), json.dumps(unknown)) == ("new", "new", '"new"')
    assert unknown not in list(kind)
    assert deepcopy(unknown) == pickle.loads(pickle.dumps(unknown)) == unknown  # noqa: S301
    assert hash(unknown) == hash("new")


def test_nothing_is_allowed_from_an_unknown_status() -> None:
    assert not Status("new").finished
    for verb in Verb:
        with pytest.raises(IllegalTransition):
            advance(Status("new"), verb)


def test_callers_must_use_known_names(app: Windlass) -> None:
    with pytest.raises(BadOption):
        app.list(status="new")
    with pytest.raises(BadOption):
        app.list(failure="new")
    with pytest.raises(BadOption):
        app.schedules.list(origin="new")
