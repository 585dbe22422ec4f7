"""Rows that nobody should have written cost their own run one outcome, and nobody else anything."""

from __future__ import annotations

import asyncio

import apsw
import psycopg
import pytest

from tests.fixtures.apps import PATIENCE, working
from windlass import Run, Status, Windlass
from windlass.domain.states import Failure

FLAWS = {
    "a timeout in words": ("options", '{"timeout": "30s"}', "$.timeout"),
    "a number as text": ("options", '{"max_attempts": "2"}', "$.max_attempts"),
    "options of another kind": ("options", "[]", "options"),
    "no options at all": ("options", "null", "options"),
}


def tamper(url: str, run: Run, column: str, value: object) -> None:
    """Write into a run's record behind the store's back."""
    if url.startswith("sqlite"):
        conn = apsw.Connection(url.removeprefix("sqlite:///"))
        blob = bytes.fromhex(run.id.replace("-", ""))
        conn.execute("update runs set # = ? where id = ?".replace("#", column), (value, blob))
        conn.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        query = "update windlass.runs set # = %s where id = %s".replace("#", column)
        server.execute(query.encode(), (value, run.id))


async def ended(app: Windlass, runs: list[Run]) -> list[Run]:
    """The runs, once all of them have ended."""
    async with asyncio.timeout(PATIENCE):
        return [await run.await_end() for run in runs]


@pytest.mark.parametrize("flaw", FLAWS)
async def test_a_run_whose_options_cannot_be_read_fails_alone(
    app: Windlass, url: str, flaw: str
) -> None:
    @app.job
    async def greet(n: int) -> int:
        return n

    runs = [await greet.aenqueue(n=n) for n in range(5)]
    column, value, told = FLAWS[flaw]
    tamper(url, runs[2], column, value)

    async with working(app):
        await ended(app, runs)
        more = await greet.aenqueue(n=7)
        assert await app.aresult(more.id, timeout=PATIENCE) == 7

    assert [run.status for run in runs[:2] + runs[3:]] == [Status.SUCCEEDED] * 4
    failed = runs[2]
    assert (failed.status, failed.failure) == (Status.FAILED, Failure.FATAL)
    assert failed.error is not None
    assert "cannot be read" in failed.error.message
    assert told in failed.error.message
    assert [attempt.outcome for attempt in failed.attempts] == ["failed"]


async def test_a_slot_beyond_all_calendars_harms_its_run_alone(app: Windlass, url: str) -> None:
    @app.job
    async def greet(n: int) -> int:
        return n

    runs = [await greet.aenqueue(n=n) for n in range(3)]
    endless = 2**62 if url.startswith("sqlite") else "infinity"
    tamper(url, runs[1], "slot", endless)

    async with working(app):
        await ended(app, runs)

    # SQLite has the nearest time that there is, PostgreSQL has no such number.
    failure = None if url.startswith("sqlite") else Failure.FATAL
    assert runs[1].status is (Status.FAILED if failure else Status.SUCCEEDED)
    assert runs[1].failure is failure
    assert [run.status for run in (runs[0], runs[2])] == [Status.SUCCEEDED] * 2


async def test_an_input_that_cannot_be_read_harms_its_run_alone(app: Windlass, url: str) -> None:
    @app.job(max_attempts=1)
    def greet(n: int) -> int:
        return n

    runs = [await greet.aenqueue(n=n) for n in range(3)]
    tamper(url, runs[1], "input", r'{"n": "\ud83d"}')

    async with working(app):
        await ended(app, runs)

    assert runs[1].failure is Failure.EXHAUSTED
    assert [run.status for run in (runs[0], runs[2])] == [Status.SUCCEEDED] * 2
