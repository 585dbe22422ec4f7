"""Connections that are given up while they open: no server is left waiting for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from tests.fixtures.apps import PATIENCE, opened
from windlass import Windlass

SESSIONS = """
select count(*) from pg_stat_activity where backend_type = 'client backend'
and (datname = current_database() or datname is null) and pid <> pg_backend_pid()
"""


async def give_up_listening(app: Windlass, steps: int) -> object:
    wakeups = await app.store.listen()
    for _ in range(steps):
        await asyncio.sleep(0.0005)
    await wakeups.close()
    return wakeups


async def give_up_a_call(app: Windlass, steps: int) -> object:
    task = asyncio.create_task(app.aworkers())
    for _ in range(steps):
        await asyncio.sleep(0.0005)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return task


@pytest.mark.parametrize("give_up", [give_up_listening, give_up_a_call])
async def test_connection_that_is_given_up_while_it_opens_is_closed(
    pg_database: str, give_up: Callable[[Windlass, int], Awaitable[object]]
) -> None:
    """Whoever keeps the error keeps what it was raised in; a server waits a minute for a password,
    and lets nobody drop a database meanwhile."""
    kept = []
    for steps in range(25):
        async with opened(pg_database) as app:
            kept.append(await give_up(app, steps))
    with psycopg.connect(pg_database, autocommit=True) as look:
        async with asyncio.timeout(PATIENCE):
            while look.execute(SESSIONS).fetchone() != (0,):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
