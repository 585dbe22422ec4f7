"""What the tests of the command share: a shell in this process, and real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from windlass import Fatal, Retry, Windlass
from windlass.cli import main

PATIENCE = 30.0
"""Seconds after which a wait has failed; nothing takes nearly as long."""

JOBS = """
import asyncio
import time
from pathlib import Path

from windlass import Context, Retry, Windlass

app = Windlass("{url}", poll="100ms", **{settings})


@app.job
async def greet(name: str = "you") -> str:
    return f"Hello, {{name}}"


@app.job(retry=Retry.fixed("20ms"))
async def fail_once(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise OSError("try again")


@app.job
async def wait_for_file(ctx: Context, path: str) -> str:
    ctx.log.info("handler started")
    while not Path(path).exists():
        await asyncio.sleep(0.01)
    return "found"


@app.job
async def wait_for_signal(ctx: Context) -> None:
    await ctx.wait_for("paid", timeout="7d")


@app.job
async def sleep_a_month(ctx: Context) -> None:
    await ctx.sleep("a month", days=30)


@app.job
def stubborn(seconds: int) -> None:
    print("handler started", flush=True)
    time.sleep(seconds)


@app.job
async def deaf(ctx: Context, seconds: int) -> None:
    ctx.log.info("handler started")
    for _ in range(seconds):
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass


@app.job
async def blocking(ctx: Context, seconds: int) -> None:
    ctx.log.info("handler started")
    time.sleep(seconds)
"""


def write_jobs(folder: Path, url: str, name: str = "jobs", **settings: Any) -> None:
    """Write a module with an application."""
    (folder / f"{name}.py").write_text(JOBS.format(url=url, settings=settings))


def run(*arguments: str, input: str | None = None) -> Result:
    """Run a command in this process; an unexpected error is the test's."""
    return CliRunner().invoke(main, list(arguments), input=input, catch_exceptions=False)


def ok(*arguments: str, input: str | None = None) -> str:
    """Run a command that must succeed; return what it prints."""
    result = run(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return result.stdout


def ok_json(*arguments: str) -> Any:
    """Run a command that must succeed and print JSON."""
    return json.loads(ok(*arguments))


def fails(code: int, *arguments: str, input: str | None = None) -> str:
    """Run a command that must fail with one sentence; return it."""
    result = run(*arguments, input=input)
    assert result.exit_code == code, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("windlass: ")
    return lines[0].removeprefix("windlass: ")


def make_app(url: str) -> Windlass:
    """An application with a job for each way to end."""
    app = Windlass(url, poll="100ms")

    @app.job
    async def greet(name: str = "you") -> str:
        return f"Hello, {name}"

    @app.job(max_attempts=2, retry=Retry.fixed("10ms"))
    async def break_down(part: str) -> None:
        raise ValueError(f"{part} broke\x1b[31m")

    @app.job
    async def refuse() -> None:
        raise Fatal("no")

    return app


def introduce(app: Windlass) -> None:
    """Let the store know the jobs, as a worker does when it starts."""
    rows = [job.spec.row(app.settings.tenant) for job in app.jobs.values()]
    app.store.run(app.store.operations.sync_jobs(rows))
    app.close()


def work(app: Windlass) -> None:
    """Run what is ready, to its end."""

    async def main() -> None:
        worker = app.worker()
        working = asyncio.create_task(worker.run())
        async with asyncio.timeout(PATIENCE):
            await worker.drained()
            worker.stop()
            await working
        await app.aclose()

    asyncio.run(main())


class Process:
    """A command in a process of its own, whose lines can be waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> str:
        """Wait for a line that has this text."""
        with self._news:
            found = self._news.wait_for(lambda: self._find(text) or self._over, PATIENCE)
        line = self._find(text)
        assert found, f"{text!r} did not come:\n{self.output}"
        assert line is not None, f"{text!r} is not in:\n{self.output}"
        return line

    def send(self, number: int) -> None:
        """Send a signal to this process alone."""
        self.process.send_signal(number)

    def insist(self, number: int) -> None:
        """Send a signal until the process has ended."""
        while self.process.poll() is None:
            self.send(number)
            try:
                self.process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue

    def ends(self) -> int:
        """Wait for the end; return the exit code."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    @property
    def output(self) -> str:
        """Everything it has printed so far."""
        return "\n".join(self.lines)

    def _find(self, text: str) -> str | None:
        return next((line for line in self.lines if text in line), None)

    @property
    def _over(self) -> bool:
        return not self._reader.is_alive()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()


def command(*arguments: str) -> list[str]:
    """The command as a process starts it."""
    return [sys.executable, "-m", "windlass", *arguments]


@contextmanager
def started(
    arguments: list[str], folder: Path, environ: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Start a process in a folder, in a session of its own; kill what is left of it."""
    clean = {n: v for n, v in os.environ.items() if not n.startswith("WINDLASS_")}
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env={**clean, "PYTHONUNBUFFERED": "1", **(environ or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield Process(process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
