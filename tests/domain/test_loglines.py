"""Lines that are written together, and when."""

from __future__ import annotations

import io
import json
import logging
import os
import select
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windlass.loglines import MOST, WAIT, BatchHandler


class Stream(io.StringIO):
    """Remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        """Remember it."""
        self.writes.append(text)
        return len(text)


class Loop:
    """A loop that comes when the test wants it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.running = True
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def is_running(self) -> bool:
        """Whether it is."""
        return self.running

    def call_later(self, delay: float, call: Callable[[], None]) -> None:
        """Remember the call."""
        self.calls.append((self.now + delay, call))

    def come(self) -> None:
        """Do what is due."""
        due, self.calls = self.calls, []
        for at, call in due:
            self.now = max(self.now, at)
            call()


class Bench:
    """A handler, its stream and its loop."""

    def __init__(self, stream: Any, *, with_loop: bool = True) -> None:
        self.stream = stream
        self.loop = Loop()
        self.found: Any = self.loop if with_loop else None
        self.handler = BatchHandler(
            stream, clock=lambda: self.loop.now, running_loop=lambda: self.found
        )
        self.log = logging.Logger("test")  # noqa: LOG001 - of this test alone
        self.log.addHandler(self.handler)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """On a loop."""
    made = Bench(Stream())
    yield made
    made.handler.close()


def test_lines_are_written_together_when_the_loop_comes(bench: Bench) -> None:
    for n in range(100):
        bench.log.info("line %d", n)
    assert bench.stream.writes == []
    assert len(bench.loop.calls) == 1
    assert bench.loop.calls[0][0] == WAIT

    bench.loop.come()

    assert bench.stream.writes == ["".join(f"line {n}\n" for n in range(100))]
    bench.log.info("later")
    bench.loop.come()
    assert bench.stream.writes[1:] == ["later\n"]


@pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR, logging.CRITICAL])
def test_a_problem_is_written_at_once_with_what_came_before(bench: Bench, level: int) -> None:
    bench.log.info("before")
    bench.log.log(level, "problem")
    assert bench.stream.writes == ["before\nproblem\n"]


def test_so_much_is_not_kept(bench: Bench) -> None:
    for _ in range(3 * MOST // 1000):
        bench.log.info("x" * 999)
    assert len(bench.stream.writes) == 2
    assert all(MOST <= len(text) <= MOST + 1000 for text in bench.stream.writes)


def test_without_a_loop_nothing_waits() -> None:
    bench = Bench(Stream(), with_loop=False)
    bench.log.info("one")
    bench.log.info("two")
    assert bench.stream.writes == ["one\n", "two\n"]


def test_a_loop_that_is_blocked_keeps_nothing_from_those_who_still_log(bench: Bench) -> None:
    bench.log.info("one")
    bench.found = None  # from now on other threads
    bench.log.info("two")
    bench.loop.now = WAIT
    bench.log.info("three")
    assert bench.stream.writes == ["one\ntwo\nthree\n"]


def test_a_loop_that_has_ended_is_not_waited_for(bench: Bench) -> None:
    bench.log.info("one")
    bench.loop.running, bench.found = False, None
    bench.log.info("two")
    assert bench.stream.writes == ["one\ntwo\n"]


def test_a_pipe_gets_whole_lines_that_nobody_can_split() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as source, os.fdopen(writing, "w") as target:
        sizes: list[int] = []
        kept = target.write

        def write(text: str) -> int:
            sizes.append(len(text))
            return kept(text)

        target.write = write  # type: ignore[method-assign]
        bench = Bench(target)
        for n in range(100):
            bench.log.info("%s", f"{n:0299}")
        bench.handler.flush()
        assert max(sizes) <= select.PIPE_BUF
        assert len(sizes) <= 100 * 300 / (select.PIPE_BUF - 300) + 1
        assert [int(source.readline()) for _ in range(100)] == list(range(100))


def test_the_child_of_a_fork_does_not_write_what_its_parent_will(bench: Bench) -> None:
    reading, writing = os.pipe()
    bench.log.info("the parent's")
    child = os.fork()
    if child == 0:
        bench.handler.flush()
        bench.log.warning("the child's")
        os.write(writing, "".join(bench.stream.writes).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as source:
        assert source.read() == "the child's\n"
    bench.handler.flush()
    assert bench.stream.writes == ["the parent's\n"]


def test_a_stream_that_fails_costs_no_more_than_its_lines(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_: str) -> int:
        raise OSError("no space")

    bench.stream.write = fail
    bench.log.info("lost")
    bench.loop.come()
    bench.log.error("lost too")
    assert capfd.readouterr().err.count("OSError: no space") == 2


def test_a_rescue_waits_for_no_thread_that_is_stuck(bench: Bench) -> None:
    bench.log.info("one")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with bench.handler.lock:  # type: ignore[union-attr]
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    bench.handler.rescue()
    assert bench.stream.writes == []
    done.set()
    thread.join()
    bench.handler.rescue()
    assert bench.stream.writes == ["one\n"]


PROGRAM = """
    import asyncio, logging, os, signal, sys
    from windlass import logs
    from windlass.cli.signals import Signals, leave

    async def main():
        logs.configure("json")
        logging.getLogger("x").info("before the end")
        {end}

    signals = Signals()
    signals.then(lambda: None)
    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("leave(3)", 3),
        ("sys.exit(4)", 4),
        ("raise ValueError", 1),
        ("signals._first = 0.0; os.kill(os.getpid(), signal.SIGTERM)", 143),
    ],
)
def test_what_was_logged_is_written_however_the_program_ends(end: str, code: int) -> None:
    program = textwrap.dedent(PROGRAM).format(end=end)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == code
    lines = [line for line in ended.stderr.splitlines() if line.startswith("{")]
    assert [json.loads(line)["message"] for line in lines] == ["before the end"]
