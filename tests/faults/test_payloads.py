"""Payloads that are too large are refused by name, and their neighbours do not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.apps import PATIENCE, QUICK, working
from windlass import PayloadTooLarge, RunFailed, Windlass

MIB = 1024 * 1024
LARGE = [MIB, 16 * MIB]  # of text, and so a little more of JSON
FITS = 1_000_000


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/w.db"
    found: str = request.getfixturevalue("pg_database")
    return found


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    made = Windlass(url, **QUICK)  # type: ignore[arg-type]

    @made.job
    async def keep(text: str) -> int:
        return len(text)

    @made.job(max_attempts=1)
    async def give(size: int) -> str:
        return "x" * size

    yield made
    made.close()


@pytest.mark.parametrize("size", LARGE)
async def test_large_input_is_refused_alone(app: Windlass, size: int) -> None:
    keep = app.jobs["keep"]
    with pytest.raises(PayloadTooLarge) as caught:
        keep.enqueue(text="x" * size)
    assert caught.value.limit == MIB < caught.value.size
    # Together with others, from one loop: each for itself.
    texts = ["a", "x" * size, "b", "y" * FITS]
    told: list[Any] = await asyncio.gather(
        *[keep.aenqueue(text=text) for text in texts], return_exceptions=True
    )
    assert [isinstance(answer, PayloadTooLarge) for answer in told] == [False, True, False, False]
    async with working(app):
        kept = [await app.aresult(told[n].id, timeout=PATIENCE) for n in (0, 2, 3)]
    assert kept == [1, 1, FITS]
    await app.aclose()


@pytest.mark.parametrize("size", LARGE)
async def test_large_result_fails_its_run_alone(app: Windlass, size: int) -> None:
    give = app.jobs["give"]
    async with working(app):
        runs = await app.aenqueue_many(
            [give.request(size=n) for n in (1, 2, size, 3, FITS, 4, size, 5)]
        )
        for run in runs:
            wanted = run.input["size"]
            if wanted == size:
                with pytest.raises(RunFailed, match="PayloadTooLarge"):
                    await app.aresult(run.id, timeout=PATIENCE)
            else:
                assert len(await app.aresult(run.id, timeout=PATIENCE)) == wanted
    await app.aclose()


@pytest.mark.parametrize("size", LARGE)
def test_large_input_in_a_transaction_is_refused_before_it_is_sent(
    app: Windlass, size: int
) -> None:
    with app.transaction() as tx:
        job = app.jobs["keep"].using(connection=tx)
        with pytest.raises(PayloadTooLarge):
            job.enqueue(text="x" * size)
        run = job.enqueue(text="a")
    assert app.get(run.id).input == {"text": "a"}


@pytest.mark.parametrize("size", LARGE)
def test_server_refuses_what_other_clients_send(pg_database: str, size: int) -> None:
    Windlass(pg_database).migrate()
    with psycopg.connect(pg_database) as connection:
        with pytest.raises(psycopg.DatabaseError) as caught:
            connection.execute(
                "select windlass.enqueue('j', to_json(repeat('x', %s)), p_queue => 'q', "
                "p_priority => 0)", (size,)
            )  # fmt: skip
        assert caught.value.sqlstate == "WL007"
