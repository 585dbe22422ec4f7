"""Round trips and statements per run: what a fast path must not lose, on any machine.

A worker that drains a backlog asks the store once for many runs. A call is one statement. The
bounds are far above what was counted, and far below one call for each run.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import psycopg
import pytest

from tests.fixtures.apps import PATIENCE
from windlass import Windlass
from windlass.engine.environment import Environment
from windlass.engine.worker import Worker
from windlass.store.interface import Call, Store

T = TypeVar("T")

RUNS = 3000


class Counted:
    """A store that counts the round trips of a worker that move runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.cycles = 0

    async def arun(self, call: Call[T]) -> T:
        self.cycles += call.name == "cycle"
        return await self._store.arun(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_drain_asks_the_store_rarely(app: Windlass) -> None:
    @app.job
    async def noop(n: int) -> None: ...

    await app.aenqueue_many([noop.request(n) for n in range(RUNS)])
    store = Counted(app.store)
    worker = Worker(Environment(store, app.sources), [job.spec for job in app.jobs.values()])
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(PATIENCE):
        await worker.drained()
    cycles = store.cycles
    worker.stop()
    await task
    assert worker.ended == RUNS
    assert cycles < RUNS / 30


class Statements:
    """Counts what is sent to PostgreSQL."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[str] = []
        send, asend = psycopg.Cursor.execute, psycopg.AsyncCursor.execute
        seen = self._seen

        def execute(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(str(query))
            return send(cursor, query, *args, **kwargs)

        async def aexecute(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(str(query))
            return await asend(cursor, query, *args, **kwargs)

        monkeypatch.setattr(psycopg.Cursor, "execute", execute)
        monkeypatch.setattr(psycopg.AsyncCursor, "execute", aexecute)

    def taken(self) -> list[str]:
        """The calls that were sent since the last time. A bare hint is none: it may be that of the
        call before, which was sent later so that hints close together become one."""
        found = [query for query in self._seen if "windlass." in query]
        self._seen.clear()
        return found


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_call_is_one_statement(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job
    async def noop(n: int) -> None: ...

    noop.enqueue(0)  # connects, and looks at the schema
    await noop.aenqueue(0)
    statements = Statements(monkeypatch)
    noop.enqueue(1)
    assert len(statements.taken()) == 1
    await noop.aenqueue(1)
    assert len(statements.taken()) == 1
    app.enqueue_many([noop.request(n) for n in range(1000)])
    assert len(statements.taken()) == 1
    run = noop.enqueue(2)
    statements.taken()
    run.refresh()
    assert len(statements.taken()) == 1
