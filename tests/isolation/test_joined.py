"""Steps and ends of runs in transactions of handlers in child processes, which are killed at every
point between the begin and the commit, and after it: the effect exists if and only if the record
does."""

from __future__ import annotations

from typing import Any

from tests.fixtures.apps import PATIENCE, working
from tests.isolation.conftest import Load
from windlass import AttemptOutcome, Run, Status

JOBS = """
POINTS = ["written", "joined", "committed"]

def die(ctx, point, here):
    if ctx.attempt == 1 and point == here:
        os.kill(os.getpid(), signal.SIGKILL)

@app.job(executor="process")
async def on_loop(ctx: Context, point: str) -> str:
    async with app.transaction() as tx:
        await tx.execute(f"insert into effects values ('end', '{point}')")
        die(ctx, point, "written")
        await ctx.using(connection=tx).finish(point)
        die(ctx, point, "joined")
    die(ctx, point, "committed")
    return "ignored"

@app.job(executor="process")
def in_main_thread(ctx: SyncContext, point: str) -> str:
    def pay(tx):
        tx.execute(f"insert into effects values ('step', '{point}')")
        die(ctx, point, "written")
        return point
    with app.transaction() as tx:
        found = ctx.using(connection=tx).step("pay", pay, tx)
        die(ctx, point, "joined")
    die(ctx, point, "committed")
    with app.transaction() as tx:
        return ctx.using(connection=tx).finish(found)
"""


async def test_kills_at_every_point_leave_the_effect_and_its_record_or_neither(load: Load) -> None:
    jobs = load(JOBS)
    app = jobs.app
    app.migrate()
    with app.transaction() as tx:
        tx.execute("create table effects (kind text, point text)")
    runs: list[Run] = []
    for point in jobs.POINTS:
        runs += [await jobs.on_loop.aenqueue(point), await jobs.in_main_thread.aenqueue(point)]
    async with working(app):
        for run in runs:
            await run.await_end(timeout=PATIENCE)

    effects: list[Any] = []
    with app.transaction() as tx:
        effects = sorted(tx.execute("select kind, point from effects"))
    points = sorted(jobs.POINTS)
    assert [tuple(row) for row in effects] == [(k, p) for k in ("end", "step") for p in points]
    for run in runs:
        point = run.input["point"]
        assert (run.status, run.result) == (Status.SUCCEEDED, point)
        # A process that dies after the commit of its end has died after its attempt.
        after = run.job == "on_loop" and point == "committed"
        died = [] if after else [AttemptOutcome.CRASHED]
        assert [a.outcome for a in run.attempts] == [*died, AttemptOutcome.SUCCEEDED]
        paid = ["pay"] if run.job == "in_main_thread" else []
        assert [step.path for step in run.steps()] == paid


async def test_a_handler_in_a_child_process_goes_on_after_the_commit(load: Load) -> None:
    """The renewal finds the lease gone; the process is not killed for that."""
    jobs = load("""
@app.job(executor="process")
def tidy(ctx: SyncContext) -> str:
    with app.transaction() as tx:
        ctx.using(connection=tx).finish("ended")
    while not (folder / "renewed").exists():
        time.sleep(0.005)
    say(f"canceled={ctx.canceled}")
    return "ignored"
""")
    run = await jobs.tidy.aenqueue()
    async with working(jobs.app) as worker:
        with worker.signals.renewed.heard() as heard:
            for _ in range(2):
                await heard.until(lambda reply: bool(reply.lost))
        (jobs.folder / "renewed").touch()
    assert (await run.await_end(timeout=PATIENCE)).result == "ended"
    assert (jobs.folder / "said").read_text() == "canceled=False\n"
