"""Steps in the handler's own transaction: the effect exists if and only if the record does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fixtures.apps import Bell, working
from windlass import Context, LeaseLost, Retry, Status, SyncContext, Windlass
from windlass.domain.outcome import Outcome
from windlass.domain.run import Finish

TABLE = "create table effects (run text, name text)"


@pytest.fixture
def table(app: Windlass) -> None:
    app.migrate()
    with app.transaction() as tx:
        tx.execute(TABLE)


def effects(app: Windlass) -> list[str]:
    with app.transaction() as tx:
        return [name for (name,) in tx.execute("select name from effects order by name")]


INSERT = "insert into effects values ('r', '{}')"


def insert(tx: Any, name: str) -> str:
    tx.execute(INSERT.format(name))
    return name


async def ainsert(tx: Any, name: str) -> str:
    await tx.execute(INSERT.format(name))
    return name


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("fails", ["never", "before the commit", "after the commit"])
async def test_effect_and_record_are_committed_together(app: Windlass, fails: str) -> None:
    """Whenever the attempt fails, the effect is there once in the end."""

    @app.job(retry=Retry.fixed("10ms"))
    async def on_loop(ctx: Context) -> str:
        async with app.transaction() as tx:
            found = await ctx.using(connection=tx).step("pay", ainsert, tx, "loop")
            if ctx.attempt == 1 and fails == "before the commit":
                raise ConnectionError
        if ctx.attempt == 1 and fails == "after the commit":
            raise ConnectionError
        return found

    @app.job(retry=Retry.fixed("10ms"))
    def in_thread(ctx: SyncContext) -> str:
        with app.transaction() as tx:
            found = ctx.using(connection=tx).step("pay", insert, tx, "thread")
            if ctx.attempt == 1 and fails == "before the commit":
                raise ConnectionError
        if ctx.attempt == 1 and fails == "after the commit":
            raise ConnectionError
        return found

    runs = [await on_loop.aenqueue(), await in_thread.aenqueue()]
    async with working(app):
        ended = [await run.await_end(timeout=10) for run in runs]

    assert [run.result for run in ended] == ["loop", "thread"]
    assert effects(app) == ["loop", "thread"]
    for run in ended:
        (step,) = await run.asteps()
        assert (step.path, step.state) == ("pay", "done")


@pytest.mark.usefixtures("table")
async def test_a_transaction_that_is_repeated_has_one_step(app: Windlass) -> None:
    @app.job(retry=Retry.fixed("10ms"))
    async def stubborn(ctx: Context) -> None:
        for turn in range(3):
            try:
                async with app.transaction() as tx:
                    await ctx.using(connection=tx).step("pay", ainsert, tx, "paid")
                    if turn < 2 and ctx.attempt == 1:
                        raise ConnectionError
                break
            except ConnectionError:
                continue
        async with app.transaction() as tx:
            await ctx.using(connection=tx).step("pay", ainsert, tx, "paid again")
        if ctx.attempt == 1:
            raise ConnectionError

    run = await stubborn.aenqueue()
    async with working(app):
        assert (await run.await_end(timeout=10)).status is Status.SUCCEEDED

    assert effects(app) == ["paid", "paid again"]
    assert {step.path for step in await run.asteps()} == {"pay", "pay#2"}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("moment", ["before", "during"])
async def test_a_worker_that_lost_its_lease_commits_nothing(
    app: Windlass, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if its handler catches the error."""
    said: list[type] = []
    over = asyncio.Event()

    async def lose(ctx: Context) -> None:
        end = Finish(
            tenant="default", id=ctx.run_id, token=ctx.token, outcome=Outcome.RETRY, delay=3600.0
        )
        await app.store.arun(app.store.operations.cycle("nobody", 0, [end], None))

    async def pay(ctx: Context, tx: Any) -> str:
        return await ainsert(tx, "paid")

    @app.job
    async def zombie(ctx: Context) -> None:
        if moment == "before":
            await lose(ctx)
        try:
            async with app.transaction() as tx:
                try:
                    if moment == "during":
                        # In the transaction, after the look: nobody can take the lease.
                        await ctx.using(connection=tx).step("pay", pay, ctx, tx)
                        raise LeaseLost(ctx.run_id, ctx.token)
                    await ctx.using(connection=tx).step("pay", pay, ctx, tx)
                except LeaseLost as error:
                    said.append(type(error))
                    if moment == "during":
                        raise
        except Exception as error:
            said.append(type(error))
            over.set()
            raise

    run = await zombie.aenqueue()
    # No renewal, no wake-up: by either the worker would learn of its loss and cancel the handler.
    monkeypatch.setattr(app.store, "listen", Bell().listen)
    async with working(app, renew="20s", lease="60s"):
        async with asyncio.timeout(10):
            await over.wait()

    assert said[0] is LeaseLost
    assert effects(app) == []
    assert await run.asteps() == []


async def test_a_connection_is_needed(app: Windlass) -> None:
    @app.job(max_attempts=1)
    async def careless(ctx: Context) -> None:
        ctx.using(connection=None)

    run = await careless.aenqueue()
    async with working(app):
        ended = await run.await_end(timeout=10)
    assert ended.error is not None
    assert "give the connection whose transaction" in ended.error.message
