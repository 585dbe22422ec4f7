"""What an attempt in a child process can do once its lease is another's, or it is over."""

from __future__ import annotations

import os

from tests.fixtures.apps import PATIENCE, reap, working
from tests.isolation.conftest import Load
from tests.isolation.test_attempts import Said, until
from windlass import Windlass
from windlass.domain.artifact import Artifact


def make(app: Windlass) -> Artifact:
    return Artifact(
        id=app.sources.new_id(), name="a.txt", content_type="text/plain", size=1,
        sha256="0" * 64, location="file:///a.txt",
    )  # fmt: skip


async def test_what_an_attempt_left_behind_does_not_act_for_the_next(
    load: Load, said: Said
) -> None:
    jobs = load("""
from windlass import Artifact, LeaseLost
left = []

async def go_on(ctx, artifact):
    while not (folder / "go").exists():
        await asyncio.sleep(0.01)
    asks = {
        "progress": lambda: ctx.progress(0.9, "not yours"),
        "get": lambda: ctx.artifacts.get(artifact),
        "delete": lambda: ctx.artifacts.delete(artifact),
    }
    for name, ask in asks.items():
        try:
            await ask()
            say(f"{name}-done")
        except LeaseLost as error:
            say(f"{name}-lost" if ctx.run_id in str(error) else str(error))
    say("over")

@app.job(executor="process")
async def first(ctx: Context, artifact: Artifact) -> int:
    left.append(asyncio.create_task(go_on(ctx, artifact)))
    return os.getpid()

@app.job(executor="process")
def second(ctx: SyncContext) -> int:
    (folder / "go").touch()
    while "over" not in ((folder / "said").read_text() if (folder / "said").exists() else ""):
        time.sleep(0.01)
    return os.getpid()
""")
    app = jobs.app
    kept = make(app)
    await app.store.arun(app.store.operations.put_artifact(kept))
    async with working(app, process_seats=1):
        child = await app.aresult((await jobs.first.aenqueue(artifact=kept)).id)
        run = await jobs.second.aenqueue()
        assert await app.aresult(run.id, timeout=PATIENCE) == child != os.getpid()
    assert said() == ["progress-lost", "get-lost", "delete-lost", "over"]
    assert (await run.arefresh()).progress is None
    assert await app.store.arun(app.store.operations.get_artifact("default", kept.id)) is not None


async def test_a_child_whose_lease_is_lost_records_nothing(
    load: Load, url: str, said: Said
) -> None:
    jobs = load(
        """
from windlass import Artifact, LeaseLost

@app.job(executor="process")
def work(ctx: SyncContext, artifact: Artifact) -> None:
    if ctx.attempt > 1:
        return
    say("started")
    while not (folder / "go").exists():
        time.sleep(0.01)
    def tell_until_lost() -> None:
        for _ in range(1000):  # at the latest, the next write finds out
            ctx.progress(0.9)
            time.sleep(0.01)

    for name, act in {
        "progress": tell_until_lost,
        "delete": lambda: ctx.artifacts.delete(artifact),
    }.items():
        try:
            act()
            say(f"{name}-done")
        except LeaseLost as error:
            say(f"{name}-lost")
""",
        cancel_grace="60s",
    )
    app = jobs.app
    kept = make(app)
    await app.store.arun(app.store.operations.put_artifact(kept))
    run = await jobs.work.aenqueue(artifact=kept)
    async with working(app):
        await until(said)
        await reap(app, url, run)
        (jobs.folder / "go").touch()
        await until(lambda: len(said()) == 3)
        await run.await_end(timeout=PATIENCE)
    assert said() == ["started", "progress-lost", "delete-lost"]
    assert (await run.arefresh()).progress is None
    assert await app.store.arun(app.store.operations.get_artifact("default", kept.id)) is not None
