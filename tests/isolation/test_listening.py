"""What a worker hears of its children: nobody who listens in can make it deaf to them."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from tests.fixtures.apps import PATIENCE, holds, within, working
from tests.isolation.conftest import Load
from tests.isolation.test_attempts import one_store
from windlass.engine import child

JOB = """
@app.job(executor="process", max_attempts=1)
def talk(ctx: SyncContext) -> int:
    ctx.log.error("talking")
    return os.getpid()
"""


class Deaf(logging.Filter):
    """Raises for what a child says."""

    heard = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.getMessage() == "talking":
            self.heard += 1
            raise ZeroDivisionError("a filter's")
        return True


@one_store
async def test_filter_that_raises_does_not_keep_an_attempt_from_its_end(load: Load) -> None:
    jobs = load(JOB)
    logger, deaf = logging.getLogger("windlass.run"), Deaf()
    logger.addFilter(deaf)
    try:
        async with working(jobs.app) as worker:
            pids = [
                await jobs.app.aresult((await jobs.talk.aenqueue()).id, timeout=PATIENCE)
                for _ in range(2)
            ]
            await holds(worker, 0)
    finally:
        logger.removeFilter(deaf)
    assert deaf.heard == 2
    assert pids[0] == pids[1]  # it was kept, and used again


@one_store
async def test_child_that_is_not_heard_any_more_is_killed(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of ours while we read must not leave an attempt without an end."""
    jobs = load(JOB)
    told: list[BaseException] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    def broken(line: object, pid: int) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(child, "emit", broken)
    try:
        async with working(jobs.app, max_crashes=1) as worker:
            run = await jobs.talk.aenqueue()
            await run.await_end(timeout=PATIENCE)
            await holds(worker, 0)
    finally:
        loop.set_exception_handler(before)
    assert (run.status, run.failure) == ("failed", "crashed")


@one_store
async def test_child_whose_end_nobody_could_await_is_not_started(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine has no thread to give."""
    jobs = load(JOB)
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "windlass-child-wait":
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    refused = asyncio.Event()
    async with working(jobs.app, process_seats=1) as worker:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            run = await jobs.talk.aenqueue()
            await within(refused)
        assert await jobs.app.aresult(run.id, timeout=PATIENCE)
        await run.arefresh()
        assert (run.failures, run.crash_count) == (0, 0)
        await holds(worker, 0)
