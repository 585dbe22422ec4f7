"""F34: handlers that say very much are held to limits with names, and hold up nobody beside them.

The one that talks goes on until its neighbours have ended. So they end while it talks, or never.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fixtures.apps import PATIENCE, within, working
from tests.isolation.conftest import Load, load, url
from windlass import BadOption, Context, RunFailed, Windlass
from windlass.domain.outcome import ErrorInfo

__all__ = ["load", "url"]

MIB = 1024 * 1024
LONGEST = 10_000
NEIGHBOURS = 30

TALK = """
def talk(ctx: SyncContext, lines: int, until: str) -> int:
    said = 0
    while said < lines or not Path(until).exists():
        ctx.log.warning("line %d of very many", said)
        said += 1
    return said


async def quick(n: int) -> int:
    return n


app.job(name="thread", max_attempts=1)(talk)
app.job(name="process", executor="process", max_attempts=1)(talk)
app.job(quick)
"""


class Count(logging.Handler):
    """Counts the lines, and says when there is the first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.begun = asyncio.Event()
        self.lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("line"):
            self.lines += 1
            if self.lines == 1:
                self._loop.call_soon_threadsafe(self.begun.set)


@pytest.fixture
async def count() -> AsyncIterator[Count]:
    """Hears what handlers log, in the place of what keeps every line for the test's report."""
    logger = logging.getLogger("windlass.run")
    handler = Count(asyncio.get_running_loop())
    logger.addHandler(handler)
    logger.propagate = False
    yield handler
    logger.propagate = True
    logger.removeHandler(handler)


@pytest.mark.parametrize("executor", ["thread", "process"])
async def test_lines_without_end_hold_up_nobody(
    load: Load, tmp_path: Path, count: Count, executor: str
) -> None:
    await talk(load, tmp_path, count, executor, lines=20_000)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("executor", ["thread", "process"])
async def test_a_million_lines_hold_up_nobody(
    load: Load, tmp_path: Path, count: Count, executor: str
) -> None:
    await talk(load, tmp_path, count, executor, lines=1_000_000)


async def talk(load: Load, tmp_path: Path, count: Count, executor: str, lines: int) -> None:
    app: Windlass = load(TALK).app
    over = tmp_path / "over"
    async with working(app):
        talker = await app.aenqueue(executor, {"lines": lines, "until": str(over)})
        await within(count.begun)
        runs = await app.aenqueue_many([app.jobs["quick"].request(n) for n in range(NEIGHBOURS)])
        for n, run in enumerate(runs):
            assert await app.aresult(run.id, timeout=PATIENCE) == n
        assert (await talker.arefresh()).status == "running"
        over.touch()
        said = await app.aresult(talker.id, timeout=lines / 1000 + PATIENCE)
    assert said == count.lines >= lines


class Verbose(Exception):
    """Sixteen megabytes of complaint."""

    def __init__(self) -> None:
        super().__init__("x" * 16 * MIB)


@pytest.fixture
def app(load: Load) -> Windlass:
    """Jobs that say too much in one go."""
    made: Windlass = load("").app

    @made.job(max_attempts=1)
    async def complain(n: int) -> int:
        if n % 2:
            try:
                raise Verbose
            except Verbose as error:
                raise ValueError("y" * MIB) from error
        return n

    @made.job(max_attempts=1)
    async def report(ctx: Context, size: int) -> str:
        try:
            await ctx.progress(0.5, "x" * size)
        except BadOption as error:
            return f"{error.code} {error.option}"
        return "recorded"

    return made


async def test_errors_of_megabytes_are_cut_and_their_neighbours_succeed(app: Windlass) -> None:
    async with working(app):
        runs = await app.aenqueue_many([app.jobs["complain"].request(n=n) for n in range(10)])
        for n, run in enumerate(runs):
            if n % 2 == 0:
                assert await app.aresult(run.id, timeout=PATIENCE) == n
                continue
            with pytest.raises(RunFailed):
                await app.aresult(run.id, timeout=PATIENCE)
            found = (await run.arefresh()).error
            assert isinstance(found, ErrorInfo)
            assert found.message == "y" * LONGEST
            assert len(found.traceback or "") < 100_000


async def test_progress_and_reasons_are_held_to_a_length_by_name(app: Windlass) -> None:
    report = app.jobs["report"]
    async with working(app):
        sizes = (LONGEST, LONGEST + 1, 16 * MIB)
        runs = [await report.aenqueue(size=size) for size in sizes]
        told = [await app.aresult(run.id, timeout=PATIENCE) for run in runs]
    assert told == ["recorded", "bad_option message", "bad_option message"]
    waiting = await report.aenqueue(size=1)
    for size in sizes[1:]:
        with pytest.raises(BadOption, match="reason"):
            await app.acancel(waiting.id, reason="x" * size)
    assert (await waiting.arefresh()).status == "queued"
    await app.acancel(waiting.id, reason="x" * LONGEST)
    assert (await waiting.arefresh()).status == "canceled"
