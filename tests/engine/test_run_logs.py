"""What handlers log is kept with their runs, whichever module logs it, and never in their way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fixtures.apps import PATIENCE, within, working
from windlass import Context, Retry, RunFailed, RunNotFound, SyncContext, Windlass
from windlass.domain.runlog import TAIL, LogLine

library = logging.getLogger("a_library")


@contextmanager
def listening(level: int = logging.INFO) -> Iterator[None]:
    """The library's logger lets events of this level through."""
    before = library.level
    library.setLevel(level)
    try:
        yield
    finally:
        library.setLevel(before)


def texts(lines: object) -> list[str]:
    assert isinstance(lines, list)
    return [line.message for line in lines]


async def until_written(app: Windlass, run: str, number: int) -> list[LogLine]:
    """The lines of a run, once there are so many of them: the last come within a second."""
    async with asyncio.timeout(PATIENCE):
        while len(lines := list(await app.alogs(run))) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return lines


async def test_lines_of_the_context_and_of_other_modules_are_kept(app: Windlass) -> None:
    @app.job
    async def on_loop(ctx: Context) -> None:
        ctx.log.info("mine", extra={"order": 7})
        library.warning("theirs: %s", "é\x00")
        await asyncio.gather(*(tell(n) for n in range(2)))

    async def tell(n: int) -> None:
        library.info("task %d", n)

    @app.job
    def in_thread(ctx: SyncContext) -> None:
        ctx.log.info("mine", extra={"order": 7})
        library.warning("theirs: %s", "é\x00")

    with listening():
        async with working(app) as worker:
            with worker.signals.logged.heard() as written:
                one = await on_loop.aenqueue()
                two = await in_thread.aenqueue()
                await app.aresult(one.id, timeout=PATIENCE)
                await app.aresult(two.id, timeout=PATIENCE)
                await written.next()
            lines = await until_written(app, one.id, 4)
            others = await until_written(app, two.id, 2)
    assert texts(lines) == ["mine", "theirs: é\\x00", "task 0", "task 1"]
    assert texts(others) == ["mine", "theirs: é\\x00"]
    assert [(line.level, line.logger) for line in others] == [
        ("INFO", "windlass.run"),
        ("WARNING", "a_library"),
    ]
    assert [line.fields for line in others] == [{"order": 7}, {}]
    assert [(line.attempt, line.number) for line in lines] == [(1, n) for n in range(4)]


async def test_lines_of_a_failed_attempt_are_there_before_its_end(app: Windlass) -> None:
    @app.job(retry=Retry.fixed("1ms"), max_attempts=2)
    async def work(ctx: Context) -> None:
        try:
            raise LookupError("no such order")
        except LookupError:
            ctx.log.exception("attempt %d", ctx.attempt)
        raise ValueError("no")

    async with working(app):
        run = await work.aenqueue()
        with pytest.raises(RunFailed):
            await app.aresult(run.id, timeout=PATIENCE)
        lines = await app.alogs(run.id)
    assert texts(lines) == ["attempt 1", "attempt 2"]
    assert [line.attempt for line in lines] == [1, 2]
    assert all("LookupError: no such order" in (line.exception or "") for line in lines)
    assert texts(await app.alogs(run.id, attempt=2)) == ["attempt 2"]
    assert texts(await app.alogs(run.id, after=lines[0])) == ["attempt 2"]


async def test_what_the_program_does_not_want_to_see_is_kept_all_the_same(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        ctx.log.info("quiet", extra={"n": 1})
        ctx.log.debug("quieter")

    with caplog.at_level(logging.WARNING, logger="windlass.run"):
        async with working(app):
            run = await work.aenqueue()
            await app.aresult(run.id, timeout=PATIENCE)
            (line,) = await until_written(app, run.id, 1)
    assert (line.message, line.fields, line.level) == ("quiet", {"n": 1}, "INFO")
    assert "quiet" not in caplog.text


async def test_of_many_lines_the_first_and_the_last_are_kept(app: Windlass) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        for n in range(1_000):
            ctx.log.info("line %d", n)

    async with working(app, run_logs=50):
        run = await work.aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)
        lines = await until_written(app, run.id, 50 + 1 + TAIL)
    assert texts(lines[:50]) == [f"line {n}" for n in range(50)]
    assert lines[50].message == f"… {1_000 - 50 - TAIL} lines are left out here"
    assert texts(lines[51:]) == [f"line {n}" for n in range(1_000 - TAIL, 1_000)]
    assert [line.number for line in lines] == list(range(50 + 1 + TAIL))


async def test_nothing_is_kept_where_nothing_is_wanted(app: Windlass) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        ctx.log.info("x")
        raise ValueError

    async with working(app, run_logs=0):
        run = await work.using(max_attempts=1).aenqueue()
        with pytest.raises(RunFailed):
            await app.aresult(run.id, timeout=PATIENCE)
    assert await app.alogs(run.id) == []


async def test_a_worker_that_stops_writes_the_last_lines_of_what_went_well(app: Windlass) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        ctx.log.info("done")

    async with working(app) as worker:
        with worker.signals.logged.heard() as written:
            await work.aenqueue()
            await written.next()  # for a second after this, nothing is written
        run = await work.aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)
    assert texts(list(await app.alogs(run.id))) == ["done"]


async def test_what_a_handler_leaves_behind_logs_for_no_run(app: Windlass) -> None:
    ended, logged = asyncio.Event(), asyncio.Event()
    left: list[asyncio.Task[None]] = []

    async def later() -> None:
        await ended.wait()
        library.warning("too late")
        logged.set()

    @app.job
    async def work(ctx: Context) -> None:
        ctx.log.info("in time")
        left.append(asyncio.create_task(later()))

    async with working(app):
        run = await work.aenqueue()
        await app.aresult(run.id, timeout=PATIENCE)
        await until_written(app, run.id, 1)
        ended.set()
        await within(logged)
    assert texts(list(await app.alogs(run.id))) == ["in time"]


async def test_a_worker_changes_nothing_for_the_loggers_of_its_program(app: Windlass) -> None:
    @app.job
    async def work() -> None: ...

    factory = logging.getLogRecordFactory()
    handlers = list(logging.getLogger().handlers)
    async with working(app) as one:
        await within(one.started)
        async with working(app) as two:
            await within(two.started)
            assert logging.getLogger().handlers == handlers
        assert logging.getLogRecordFactory() is not factory
    assert logging.getLogRecordFactory() is factory


async def test_a_run_that_is_not_there_has_no_log(app: Windlass) -> None:
    with pytest.raises(RunNotFound):
        await app.alogs("0197c0de-0000-7000-8000-000000000000")
