"""`ctx.is_final(error)` foretells what becomes of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.apps import PATIENCE, reached, within, working
from windlass import Context, Fatal, Retry, Status, SyncContext, Windlass
from windlass.engine.holdings import Stop

AGAIN = Retry.fixed("1h")
ENDS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "attempts are left": ({"retry": AGAIN}, {}, False),
    "the last attempt": ({"max_attempts": 1}, {}, True),
    "the last attempt of this run": ({}, {"max_attempts": 1}, True),
    "a policy that never retries": ({"retry": Retry.never()}, {}, True),
    "a fatal type": ({"retry": Retry.fixed("1h", fatal=ValueError)}, {}, True),
    "timed out, attempts are left": ({"retry": AGAIN, "timeout": "20ms"}, {}, False),
    "timed out for the last time": ({"max_attempts": 1, "timeout": "20ms"}, {}, True),
}


@pytest.fixture
def told(app: Windlass) -> list[bool]:
    """What a middleware was told of each error."""
    found: list[bool] = []

    @app.middleware
    def ask(ctx: Context | SyncContext) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            found.append(ctx.is_final(error))
            raise

    return found


@pytest.mark.parametrize("end", ENDS)
async def test_it_is_what_happens_then(app: Windlass, told: list[bool], end: str) -> None:
    of_job, of_run, final = ENDS[end]

    @app.job(**of_job)
    async def job() -> None:
        if "timeout" in of_job:
            await asyncio.sleep(PATIENCE)
        raise ValueError("no")

    async with working(app):
        run = await job.using(**of_run).aenqueue() if of_run else await job.aenqueue()
        await reached(app, run.id, Status.FAILED if final else Status.SCHEDULED)
    assert told == [final]


async def test_past_the_deadline_it_is_final(app: Windlass, told: list[bool]) -> None:
    @app.job(retry=AGAIN)
    async def job(ctx: Context) -> None:
        ctx._standing.stop = Stop.DEADLINE  # type: ignore[attr-defined]
        raise asyncio.CancelledError  # as if the worker had stopped it then

    async with working(app):
        run = await job.aenqueue()
        await reached(app, run.id, Status.FAILED)
    assert told == [True]


async def test_fatal_error_in_a_thread(app: Windlass, told: list[bool]) -> None:
    @app.job(retry=AGAIN)
    def job() -> None:
        raise Fatal("no")

    async with working(app):
        run = await job.aenqueue()
        await reached(app, run.id, Status.FAILED)
    assert told == [True]


@pytest.mark.parametrize("how", ["cancel", "shutdown"])
async def test_stopping_is_no_failure(app: Windlass, told: list[bool], how: str) -> None:
    started = asyncio.Event()

    @app.job(max_attempts=1)
    async def job() -> None:
        started.set()
        await asyncio.sleep(PATIENCE)

    async with working(app, drain=0):
        run = await job.aenqueue()
        await within(started)
        if how == "cancel":
            await run.acancel()
            await reached(app, run.id, Status.CANCELED)
    assert told == [False]
    assert (await run.arefresh()).status == ("canceled" if how == "cancel" else "queued")
