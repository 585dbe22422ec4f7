"""The janitor as a service: what it deletes, the bytes that go after, and what a kill leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fixtures.apps import opened, service_of, working
from windlass import Context, Retention, Run, Windlass
from windlass.engine.environment import environment_of
from windlass.engine.janitor import Janitor
from windlass.errors import RunNotFound

AT_ONCE = Retention(stale_after="never", delete_after="0s")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
async def app(url: str, folder: Path) -> AsyncIterator[Windlass]:
    """An application with a job whose runs go at once, and keep bytes."""
    async with opened(url, artifacts=folder) as made:

        @made.job(retention=AT_ONCE)
        async def report(ctx: Context) -> None:
            await ctx.artifacts.put("report", b"bytes")

        yield made


async def over(app: Windlass) -> Run:
    """A run that has ended, by a worker that lets nothing go."""
    async with working(app, services=False):
        run = await app.aenqueue("report")
        return await run.await_end()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def tidy(app: Windlass) -> int:
    janitor = Janitor(environment_of(app.ground, app.settings))
    deleted: list[int] = []
    with janitor.tidied.calling(lambda done: deleted.append(done.deleted)):
        while await janitor.work() < 1:
            pass
    return sum(deleted)


async def test_every_worker_has_one(app: Windlass) -> None:
    async with working(app) as worker:
        assert isinstance(service_of(worker, Janitor), Janitor)


async def test_bytes_go_after_their_run(app: Windlass, folder: Path) -> None:
    run = await over(app)
    assert len(files(folder)) == 1
    assert await tidy(app) == 1
    assert files(folder) == []
    with pytest.raises(RunNotFound):
        await run.arefresh()
    assert await tidy(app) == 0


async def test_bytes_that_could_not_go_are_left_to_the_sweep(app: Windlass, folder: Path) -> None:
    """As if the janitor had died between its commit and the bytes."""
    await over(app)
    operations = app.store.operations
    terms = environment_of(app.ground, app.settings).options.retention
    while (done := await app.store.arun(operations.tidy(terms, 10))).more:
        assert done.deleted == 0
    assert done.deleted == 1
    assert len(files(folder)) == 1
    (bytes_,) = files(folder)
    os.utime(bytes_, (0, 0))
    assert await app.artifacts.asweep() == 1
    assert files(folder) == []


KILLED = """
import os, signal, sys
from windlass import Windlass
from windlass.store.sqlite.open_transaction import OpenTransaction

write = OpenTransaction.execute_many

def killed(tx, name, rows):
    if name == "drop_run":
        os.kill(os.getpid(), signal.SIGKILL)
    write(tx, name, rows)

OpenTransaction.execute_many = killed
app = Windlass(sys.argv[1])
app.store.run(app.store.operations.delete_runs("default", [sys.argv[2]]))
"""


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_kill_in_the_middle_leaves_nothing_half(
    app: Windlass, folder: Path, url: str
) -> None:
    """On PostgreSQL it is one call of a function: a transaction of the server's."""
    run = await over(app)
    before = await run.aevents()
    program = [sys.executable, "-c", KILLED, url, run.id]
    done = subprocess.run(program, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert await (await run.arefresh()).aevents() == before
    assert [artifact.name for artifact in await run.aartifacts()] == ["report"]
    assert await tidy(app) == 1
