"""What a worker's log says of ends: each while one can read it, else a line a second."""

from __future__ import annotations

import heapq
import io
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from tests.fixtures.apps import working
from windlass import Context, Windlass, logs
from windlass.domain.outcome import ErrorInfo, Outcome
from windlass.domain.run import Claimed, Finish
from windlass.domain.states import Failure
from windlass.engine.ends import READABLE, SLOW, Ends
from windlass.loglines import MOST, WAIT
from windlass.logs import COUNTS, EACH


class Handle:
    """A call to come."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Let it not come."""
        self.call = None


class Loop:
    """The time of a loop, moved by the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self._calls: list[tuple[float, int, Handle]] = []
        self._order = count()

    def time(self) -> float:
        """As a loop has it."""
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> Handle:
        """As a loop does it."""
        handle = Handle(call)
        heapq.heappush(self._calls, (self.now + delay, next(self._order), handle))
        return handle

    def advance(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""
        end = self.now + seconds
        while self._calls and self._calls[0][0] <= end:
            self.now, _, handle = heapq.heappop(self._calls)
            if handle.call is not None:
                handle.call()
        self.now = end

    @property
    def waits(self) -> bool:
        """Whether anything is to come."""
        return any(handle.call is not None for *_, handle in self._calls)


class Bench:
    """Ends, their loop, and what was logged of them."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        self.loop = Loop()
        self.records = records
        loop: Any = self.loop
        self.ends = Ends(loop)
        self._runs = count()

    def end(
        self, job: str = "greet", outcome: Outcome = Outcome.SUCCEEDED, took: float = 0.001,
        **fields: Any,
    ) -> None:  # fmt: skip
        """Let an attempt end."""
        run = f"run-{next(self._runs)}"
        claimed = Claimed(
            tenant="default", id=run, job=job, queue="q", token=1, attempt=1, failures=0,
            crash_count=0, input=b"{}",  # type: ignore[arg-type]
        )  # fmt: skip
        finish = Finish(tenant="default", id=run, token=1, outcome=outcome, **fields)
        self.ends.log("w:1", claimed, finish, took)

    def lines(self, level: int = logging.INFO) -> list[str]:
        """The texts of this level and above."""
        return [r.getMessage() for r in self.records if r.levelno >= level]

    def counted(self) -> int:
        """How many ends the lines at INFO and above tell of."""
        return sum(
            vars(record)[COUNTS]["runs"] if COUNTS in vars(record) else 1
            for record in self.records
            if record.levelno >= logging.INFO
        )


class Keeper(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self._records.append(record)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Logging at INFO."""
    logger, each = logging.getLogger("windlass.run"), logging.getLogger(EACH)
    made = Bench([])
    keeper = Keeper(made.records)
    logger.addHandler(keeper)
    logger.setLevel(logging.INFO)
    yield made
    logger.removeHandler(keeper)
    logger.setLevel(logging.NOTSET)
    each.setLevel(logging.WARNING)


def test_few_ends_have_a_line_each(bench: Bench) -> None:
    for _ in range(5):
        for _ in range(READABLE):
            bench.end()
        bench.loop.advance(1.0)
    assert bench.lines() == ["run succeeded"] * 5 * READABLE
    assert not bench.loop.waits
    record = vars(bench.records[0])
    assert (record["run"], record["job"], record["worker"]) == ("run-0", "greet", "w:1")
    assert (record["attempt"], record["tenant"], record["duration_ms"]) == (1, "default", 1.0)


def test_many_ends_have_a_line_a_second(bench: Bench) -> None:
    for _ in range(30):
        for _ in range(500):
            bench.end()
            bench.loop.advance(0.0002)
    bench.loop.advance(1.0)
    assert bench.counted() == 15_000
    assert len(bench.lines()) <= READABLE + 5
    assert bench.lines()[READABLE] == (
        "5,000 runs succeeded in 1 s: greet 5,000; median 1 ms, longest 1 ms"
    )


def test_each_is_shown_again_when_they_come_slowly(bench: Bench) -> None:
    for _ in range(100):
        bench.end()
    bench.loop.advance(1.0)
    bench.end()  # in a second that was expected to be as busy
    bench.loop.advance(1.0)
    assert bench.lines()[READABLE:] == [
        "90 runs succeeded in 1 s: greet 90; median 1 ms, longest 1 ms",
        "1 run succeeded in 1 s: greet 1; median 1 ms, longest 1 ms",
    ]
    assert not bench.loop.waits
    bench.end()
    assert bench.lines()[-1] == "run succeeded"
    assert bench.counted() == 102


def test_attempts_that_gave_up_their_seats(bench: Bench) -> None:
    until = datetime(2030, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)
    bench.end(outcome=Outcome.WAITING, waits=("paid", "order/late"), until=until)
    bench.end(outcome=Outcome.WAITING, waits=("paid",))
    bench.end(outcome=Outcome.SLEEPING, waits=("a month",), until=until)
    assert bench.lines() == [
        "run waits for paid, order/late",
        "run waits for paid",
        "run sleeps until 2030-01-31 12:00:00Z",
    ]
    first, second, third = [vars(record) for record in bench.records]
    assert (first["waits"], first["until"]) == ("paid, order/late", "2030-01-31T12:00:00.250000Z")
    assert "until" not in second
    assert (third["waits"], third["levelno"]) == ("a month", logging.INFO)


def test_many_that_gave_up_their_seats_are_counted(bench: Bench) -> None:
    for _ in range(READABLE + 20):
        bench.end(outcome=Outcome.WAITING, waits=("paid",))
    for _ in range(20):
        bench.end(outcome=Outcome.SLEEPING, waits=("a month",))
    bench.loop.advance(1.0)
    assert [line.partition(":")[0] for line in bench.lines()[READABLE:]] == [
        "20 runs began to wait in 1 s",
        "20 runs went to sleep in 1 s",
    ]


def test_problems_are_told_at_once_and_in_full(bench: Bench) -> None:
    for _ in range(100):
        bench.end()
    error = ErrorInfo(type="ValueError", message="boom", traceback="Traceback", fingerprint="f")
    for _ in range(50):
        bench.end(outcome=Outcome.RETRY, error=error, delay=2.0)
        bench.end(outcome=Outcome.CRASHED, error=error)
        bench.end(outcome=Outcome.FAILED, error=error, failure=Failure.EXHAUSTED)
    assert bench.lines(logging.WARNING) == ["run retry", "run crashed", "run failed"] * 50
    retry, _, failed = [vars(r) for r in bench.records if r.levelno >= logging.WARNING][:3]
    assert (retry["error"], retry["delay"]) == ("ValueError: boom", 2.0)
    assert logs.TRACEBACK not in retry
    assert failed[logs.TRACEBACK] == "Traceback"


def test_slow_ones_are_shown_among_many(bench: Bench) -> None:
    for _ in range(100):
        bench.end()
    for _ in range(READABLE + 5):
        bench.end("slow", took=SLOW)
    assert bench.lines() == ["run succeeded"] * 2 * READABLE
    bench.loop.advance(1.0)
    assert bench.lines()[-1] == (
        "95 runs succeeded in 1 s: greet 90, slow 5; median 1 ms, longest 1 s"
    )


def test_the_jobs_with_the_most_are_named(bench: Bench) -> None:
    for job, ends in (("a", 10), ("b", 20), ("c", 2000), ("d", 30), ("e", 1)):
        for _ in range(ends):
            bench.end(job)
    bench.loop.advance(1.0)
    assert bench.lines()[-1] == (
        "2,051 runs succeeded in 1 s: c 2,000, d 30, b 20, 1 other job 1; median 1 ms, longest 1 ms"
    )
    counts = vars(bench.records[-1])[COUNTS]
    assert counts["jobs"] == {"b": 20, "c": 2000, "d": 30, "e": 1}
    assert (counts["runs"], counts["seconds"], counts["median_ms"]) == (2051, 1.0, 1.0)


def test_outcomes_are_counted_by_themselves(bench: Bench) -> None:
    for _ in range(20):
        bench.end()
        bench.end(outcome=Outcome.SNOOZED, delay=5.0)
    bench.loop.advance(1.0)
    assert bench.lines()[READABLE:] == [
        "15 runs succeeded in 1 s: greet 15; median 1 ms, longest 1 ms",
        "15 runs snoozed in 1 s: greet 15; median 1 ms, longest 1 ms",
    ]


def test_those_that_are_counted_are_there_at_debug(bench: Bench) -> None:
    logging.getLogger("windlass.run").setLevel(logging.DEBUG)
    for _ in range(100):
        bench.end()
    levels = [record.levelno for record in bench.records]
    assert levels == [logging.INFO] * READABLE + [logging.DEBUG] * (100 - READABLE)
    assert {record.getMessage() for record in bench.records} == {"run succeeded"}


def test_a_log_for_programs_has_each(bench: Bench) -> None:
    logging.getLogger(EACH).setLevel(logging.INFO)
    for _ in range(1000):
        bench.end()
    assert bench.lines() == ["run succeeded"] * 1000
    assert not bench.loop.waits


def test_nothing_is_counted_for_nobody(bench: Bench) -> None:
    logging.getLogger("windlass.run").setLevel(logging.WARNING)
    for _ in range(1000):
        bench.end()
    assert bench.records == []
    assert not bench.loop.waits


def test_the_rest_is_told_at_the_end(bench: Bench) -> None:
    for _ in range(100):
        bench.end()
    bench.loop.advance(0.5)
    bench.ends.close()
    assert bench.lines()[-1].startswith("90 runs succeeded in 500 ms")
    assert not bench.loop.waits
    bench.ends.close()
    assert bench.counted() == 100


def test_a_listener_that_raises_costs_no_end(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: logging.LogRecord) -> bool:
        raise ValueError("no")

    logger = logging.getLogger("windlass.run")
    logger.addFilter(refuse)
    try:
        for _ in range(20):
            bench.end()
        bench.loop.advance(1.0)
    finally:
        logger.removeFilter(refuse)
    assert "ValueError: no" in capfd.readouterr().err


# -- a whole worker --------------------------------------------------------------------------------


class Written(io.StringIO):
    """Counts how often it is written to."""

    writes = 0

    def write(self, text: str) -> int:
        """Count it."""
        self.writes += 1
        return super().write(text)


@pytest.fixture
def root() -> Iterator[None]:
    """Logging as it was, afterwards."""
    logger = logging.getLogger()
    level, handlers = logger.level, list(logger.handlers)
    yield
    for handler in [handler for handler in logger.handlers if handler not in handlers]:
        logger.removeHandler(handler)
    logger.setLevel(level)
    logging.getLogger(EACH).setLevel(logging.WARNING)


RUNS = 3000


async def _drain(app: Windlass) -> float:
    @app.job
    async def work(ctx: Context) -> None: ...

    await app.aenqueue_many([work.request() for _ in range(RUNS)])
    async with working(app) as worker:
        await worker.started.wait()
        began = app.sources.clock.monotonic()
        await worker.drained()
    return app.sources.clock.monotonic() - began


@pytest.mark.usefixtures("root")
async def test_a_busy_worker_writes_few_lines(app: Windlass) -> None:
    stream = Written()
    logs.configure("console", stream=stream)
    seconds = await _drain(app)
    lines = stream.getvalue().splitlines()
    ends = [line for line in lines if " succeeded" in line]
    assert len(ends) <= (READABLE + 1) * (seconds + 2)
    assert len(ends) < RUNS / 10
    told = [line.split(" INFO     ")[1] for line in ends]
    summed = sum(int(t.split()[0].replace(",", "")) for t in told if not t.startswith("run "))
    assert summed + sum(t.startswith("run ") for t in told) == RUNS


@pytest.mark.usefixtures("root")
async def test_json_is_whole_and_written_together(app: Windlass) -> None:
    stream = Written()
    logs.configure("json", stream=stream)
    seconds = await _drain(app)
    logging.getLogger().handlers[-1].flush()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    ends = [event for event in events if event["message"] == "run succeeded"]
    assert len({event["run"] for event in ends}) == len(ends) == RUNS
    assert {event["level"] for event in ends} == {"INFO"}
    assert [event["timestamp"] for event in events] == sorted(e["timestamp"] for e in events)
    assert stream.writes <= len(stream.getvalue()) / MOST + seconds / WAIT + 10
    assert stream.writes < RUNS / 10
