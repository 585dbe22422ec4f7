"""What a worker writes: one line per change, and every line says which run it is about."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.apps import opened, working
from windlass import Context, Fatal, Retry, Snooze, SyncContext, Windlass
from windlass.logs import JsonFormatter


class Lines:
    """The log as JSON, line by line."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    def about(self, run: str) -> list[dict[str, Any]]:
        """The events of one run."""
        return [event for event in self.all() if event.get("run") == run]

    def all(self) -> list[dict[str, Any]]:
        """Every event."""
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What is logged by Windlass from now on."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("windlass")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield Lines(stream)
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_every_line_of_a_run_says_which(app: Windlass, lines: Lines, kind: str) -> None:
    @app.job
    async def on_loop(ctx: Context) -> None:
        ctx.log.info("sending to %s", "Ada", extra={"size": 3, "run": "faked", "tenant": "faked"})

    @app.job
    def in_thread(ctx: SyncContext) -> None:
        ctx.log.info("sending to %s", "Ada", extra={"size": 3, "run": "faked", "tenant": "faked"})

    run = await (on_loop if kind == "async" else in_thread).aenqueue()
    async with working(app) as worker:
        await app.aresult(run.id, timeout=10)
        name = worker.id
    own, end = lines.about(run.id)
    for event in (own, end):
        assert event["run"] == run.id
        assert event["job"] == run.job
        assert event["tenant"] == "default"
        assert event["attempt"] == 1
        assert event["worker"] == name
        assert event["trace"] == run.id.replace("-", "")
        assert event["level"] == "INFO"
        assert event["logger"] == "windlass.run"
        assert event["timestamp"].endswith("Z")
    assert (own["message"], own["size"]) == ("sending to Ada", 3)
    assert end["message"] == "run succeeded"
    assert 0 <= end["duration_ms"] < 10_000


async def test_one_line_per_end_with_its_level(app: Windlass, lines: Lines) -> None:
    @app.job(retry=Retry.fixed("1ms", jitter=0))
    async def work(ctx: Context) -> Any:
        if ctx.attempt == 1:
            raise ValueError("boom\nand a forged line")
        if ctx.attempt == 2:
            return Snooze("2ms")
        raise Fatal("for good")

    run = await work.aenqueue()
    async with working(app):
        await run.await_end(timeout=10)
    retry, snooze, fatal = lines.about(run.id)
    assert (retry["level"], retry["message"], retry["attempt"]) == ("WARNING", "run retry", 1)
    assert retry["error"] == "ValueError: boom\nand a forged line"
    assert retry["delay"] == 0.001
    assert (snooze["level"], snooze["message"], snooze["attempt"]) == ("INFO", "run snoozed", 2)
    assert (fatal["level"], fatal["message"], fatal["attempt"]) == ("ERROR", "run failed", 3)
    assert fatal["error"] == "windlass.domain.policy.Fatal: for good"
    assert 'raise Fatal("for good")' in fatal["exception"]
    assert "exception" not in retry


async def test_worker_tells_of_its_own_life(app: Windlass, lines: Lines) -> None:
    @app.job
    async def work() -> None: ...

    async with working(app) as worker:
        await worker.started.wait()
        name = worker.id
    own = [event for event in lines.all() if event.get("worker") == name and "run" not in event]
    assert [event["message"] for event in own] == [
        "worker started", "worker stopping", "worker stopped",
    ]  # fmt: skip


async def test_idle_worker_is_silent(app: Windlass, lines: Lines) -> None:
    @app.job
    async def work() -> None: ...

    async with working(app, poll="10ms", sweep="10ms", renew="10ms") as worker:
        await worker.started.wait()
        before = len(lines.all())
        run = await work.aenqueue()
        await app.aresult(run.id, timeout=10)
        await worker.drained()
        assert len(lines.all()) == before + 1


async def test_nothing_is_printed_by_the_library(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with opened(url) as app:

        @app.job(max_attempts=1)
        async def work() -> None:
            raise ValueError("boom")

        run = await work.aenqueue()
        async with working(app):
            await run.await_end(timeout=10)
    assert capfd.readouterr() == ("", "")
