"""Old and new programs on one store, and a new one that dies while it changes the schema."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg
import pytest

from tests.fixtures.apps import PATIENCE, working
from tests.fixtures.callers import make_app
from windlass import SchemaMismatch, Windlass
from windlass.store.queries import load_migrations

# What an old program needs is taken from it, and given back.
CHANGES = {
    "sqlite": (
        "alter table ready rename to ready_v2",
        "alter table ready_v2 rename to ready",
        "delete from schema_version where name = 'later'",
    ),
    "postgresql": (
        "alter function windlass.enqueue_one rename to enqueue_v2",
        "alter function windlass.enqueue_v2 rename to enqueue_one",
        "delete from windlass.migrations where name = 'later'",
    ),
}
ROOT = Path(__file__).parents[2]
LATEST = load_migrations("sqlite")[-1].version


def newer(url: str, mode: str) -> subprocess.Popen[str]:
    """A newer Windlass that migrates."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.programs.migrator", url, mode],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def migrated(url: str) -> None:
    """Let a newer Windlass bring the store to its version."""
    out, _ = newer(url, "go").communicate(timeout=50)
    assert out.split() == [str(LATEST), str(LATEST + 1)]


def execute(url: str, statement: str) -> None:
    """Do something behind the store's back."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute(statement)
        connection.close()
    else:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(statement.encode())


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/w.db"
    found: str = request.getfixturevalue("pg_database")
    return found


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    made = make_app(url)
    yield made
    made.close()


async def test_old_worker_finishes_while_a_new_one_migrates(app: Windlass, url: str) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def hold(n: int) -> int:
        begun.set()
        await go.wait()
        return n

    async with working(app):
        runs = await app.aenqueue_many([hold.request(n=n) for n in range(20)])
        await asyncio.wait_for(begun.wait(), PATIENCE)
        await asyncio.to_thread(migrated, url)
        go.set()
        assert [await app.aresult(run.id, timeout=PATIENCE) for run in runs] == list(range(20))
        late = await hold.aenqueue(n=20)  # it goes on
        assert await app.aresult(late.id, timeout=PATIENCE) == 20
    await app.aclose()

    again = make_app(url)  # but an old program that starts now is told
    with pytest.raises(SchemaMismatch, match="upgrade Windlass") as caught:
        again.jobs["send"].enqueue(n=1)
    assert (caught.value.found, caught.value.expected) == (LATEST + 1, LATEST)
    with pytest.raises(SchemaMismatch):
        again.migrate()  # nor can it take the store back
    again.close()


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_old_program_is_told_when_the_schema_outgrew_it(
    app: Windlass,
    url: str,
    face: str,
) -> None:
    run = app.jobs["send"].enqueue(n=1)
    aenqueue = app.jobs["send"].aenqueue
    await aenqueue(n=2)
    migrated(url)
    away, back, forget = CHANGES[url.partition(":")[0]]
    execute(url, away)
    with pytest.raises(SchemaMismatch, match="upgrade Windlass") as caught:
        _ = app.jobs["send"].enqueue(n=3) if face == "sync" else await aenqueue(n=3)
    assert (caught.value.found, caught.value.expected) == (LATEST + 1, LATEST)
    execute(url, back)
    execute(url, forget)
    assert app.get(run.id).status == "queued"
    assert len(app.list()) == 2
    await app.aclose()


def test_migration_that_is_killed_is_begun_again(app: Windlass, url: str) -> None:
    run = app.jobs["send"].enqueue(n=1)
    process = newer(url, "wait")
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half-way\n"
        process.kill()
    with make_app(url).store as store:
        assert store.schema_version() == (LATEST, LATEST)
    assert app.get(run.id).status == "queued"
    assert app.jobs["send"].enqueue(n=2).status == "queued"
    migrated(url)
    assert len(app.list()) == 2
