"""Handlers in child processes: what comes back of them, whatever they do."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.apps import PATIENCE, hub_of, reached, within, working
from tests.isolation.conftest import Load
from windlass import AttemptOutcome, Run, Status
from windlass.engine import children
from windlass.engine.children import Children
from windlass.engine.holdings import Holding

Said = Callable[[], list[str]]

# What happens between a worker and its child is the same on every store.
one_store = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, with a limit."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended; nobody may have collected it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_what_a_handler_does_in_a_child_comes_back(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = load("""
@app.job(executor="process")
def count(ctx: SyncContext, n: int) -> dict:
    ctx.progress(0.5, "half way")
    ctx.log.info("counting", extra={"n": n})
    here = threading.current_thread() is threading.main_thread()
    return {"pid": os.getpid(), "n": n, "main": here}

@app.job(executor="process")
async def on_loop(ctx: Context) -> int:
    await ctx.progress(1.0)
    return os.getpid()

@app.job(executor="process")
def many(ctx: SyncContext, steps: int):
    return [ctx.step("note", str, n) for n in range(steps)]

@app.job(executor="process")
def go_on(n: int = 0):
    return ContinueAs(n=n + 1) if n < 2 else n

@app.job(executor="process", retry=Retry.fixed("1h", fatal=KeyError))
def fail(ctx: SyncContext, kind: str):
    if kind == "key":
        raise KeyError("missing")
    if kind == "snooze":
        return Snooze("1h")
    if kind == "exit":
        sys.exit(3)
    raise ValueError("boom")
""")
    app = jobs.app
    with caplog.at_level(logging.INFO):
        async with working(app, max_steps=3):
            counted = await jobs.count.aenqueue(n=3)
            result = await app.aresult(counted.id, timeout=PATIENCE)
            looped = await app.aresult((await jobs.on_loop.aenqueue()).id, timeout=PATIENCE)
            many = await (await jobs.many.aenqueue(steps=4)).await_end(timeout=PATIENCE)
            onward = await app.aresult((await jobs.go_on.aenqueue()).id, timeout=PATIENCE)
            runs: dict[str, Run] = {}
            for kind in ("key", "value", "snooze", "exit"):
                runs[kind] = await jobs.fail.aenqueue(kind=kind)
            await runs["key"].await_end(timeout=PATIENCE)
            for kind in ("value", "snooze", "exit"):
                runs[kind] = await reached(app, runs[kind].id, Status.SCHEDULED)

    assert (result["n"], result["main"], onward) == (3, True, 2)
    assert many.error is not None
    assert "has 3 steps, the most that a run may have" in many.error.message
    assert os.getpid() not in (result["pid"], looped)
    await counted.arefresh()
    assert (counted.progress, counted.progress_message) == (0.5, "half way")
    (line,) = [r for r in caplog.records if r.message == "counting"]
    assert (line.run, line.n, line.process) == (counted.id, 3, result["pid"])  # type: ignore[attr-defined]
    # The child decides: rules about exceptions need the exception.
    assert (runs["key"].status, runs["key"].failure) == ("failed", "fatal")
    assert (runs["value"].failures, runs["snooze"].failures) == (1, 0)
    error = runs["value"].attempts[0].error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "boom")
    assert 'raise ValueError("boom")' in error.traceback
    assert runs["exit"].attempts[0].outcome is AttemptOutcome.FAILED


async def test_a_child_that_dies_is_one_crash_of_one_run(load: Load) -> None:
    jobs = load("""
@app.job(executor="process")
def die(how: str) -> None:
    os._exit(7) if how == "exit" else ctypes.string_at(0)

@app.job(executor="process")
def steady() -> int:
    while not (folder / "go").exists():
        time.sleep(0.01)
    return os.getpid()

@app.job
async def neighbour(ctx: Context) -> int:
    while not (folder / "go").exists():
        await asyncio.sleep(0.01)
    return ctx.attempt
""")
    app = jobs.app
    async with working(app, max_crashes=2, process_seats=3):
        beside = [await jobs.neighbour.aenqueue(), await jobs.steady.aenqueue()]
        for run in beside:
            await reached(app, run.id, Status.RUNNING)
        runs = [await jobs.die.aenqueue(how=how) for how in ("exit", "segv")]
        for run in runs:
            await run.await_end(timeout=PATIENCE)
        (jobs.folder / "go").touch()
        for run in beside:
            await run.await_end(timeout=PATIENCE)
    ends = ["The process that ran the handler ended with exit code 7."]
    ends += ["The process that ran the handler ended by SIGSEGV."]
    for run, end in zip(runs, ends, strict=True):
        assert (run.status, run.failure, run.crash_count, run.failures) == (
            "failed", "crashed", 2, 0,
        )  # fmt: skip
        assert run.error is not None
        assert (run.error.type, run.error.message) == ("windlass.errors.ProcessDied", end)
        assert [a.outcome for a in run.attempts] == [AttemptOutcome.CRASHED] * 2
    assert [(run.status, run.crash_count, run.attempt) for run in beside] == [
        ("succeeded", 0, 1)
    ] * 2


@one_store
@pytest.mark.parametrize("how", ["segv", "exit", "good"])
async def test_what_a_handler_started_does_not_outlive_a_child_that_dies(
    load: Load, said: Said, how: str
) -> None:
    """It would go on beside the next attempt. An exit code 0 in an attempt is no end either."""
    jobs = load("""
@app.job(executor="process")
def die(how: str) -> None:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    say(left.pid)
    ctypes.string_at(0) if how == "segv" else os._exit(7 if how == "exit" else 0)
""")
    async with working(jobs.app, max_crashes=1):
        run = await jobs.die.aenqueue(how=how)
        await run.await_end(timeout=PATIENCE)
    assert (run.status, run.failure) == ("failed", "crashed")
    (left,) = map(int, said())
    try:
        await until(lambda: gone(left))
    finally:
        if not gone(left):
            os.kill(left, signal.SIGKILL)


STUBBORN = """
@app.job(executor="process", max_attempts=1)
def stubborn(ctx: SyncContext) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    say(os.getpid())
    say(child.pid)
    while True:
        pass

@app.job(executor="process", max_attempts=1)
def willing(ctx: SyncContext) -> str:
    say(os.getpid())
    while not ctx.canceled:
        time.sleep(0.005)
    return "what I have"

@app.job(executor="process", max_attempts=1)
async def on_loop(ctx: Context) -> str:
    say(os.getpid())
    try:
        await asyncio.sleep(600)
    finally:
        say("cleaned-up")
"""


@pytest.mark.parametrize("why", ["timeout", "deadline", "cancel"])
async def test_a_stubborn_handler_is_killed_with_what_it_started(
    load: Load, said: Said, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = load(STUBBORN)
    options = {"timeout": {"timeout": "50ms"}, "deadline": {"deadline": "1h"}, "cancel": {}}
    job = jobs.stubborn.using(**options[why])
    began: list[Holding] = []
    async with working(jobs.app) as worker:
        await within(worker.started)
        count_time = hub_of(worker).seats._count_time
        monkeypatch.setattr(hub_of(worker).seats, "_count_time", began.append)
        run = await job.aenqueue()
        await until(lambda: len(said()) == 2)
        await until(lambda: began)
        if why == "cancel":
            await run.acancel("enough")
        elif why == "timeout":  # its time would have begun before it had started anything
            count_time(began[0])
        else:
            hub_of(worker).seats._overran(began[0])
        await run.await_end(timeout=PATIENCE)
        await until(lambda: all(gone(int(pid)) for pid in said()))
    if why != "cancel":
        assert (run.status, run.failure) == ("failed", why)
        assert run.attempts[0].outcome is AttemptOutcome.TIMEOUT
    else:
        assert (run.status, run.reason, run.crash_count) == ("canceled", "enough", 0)


@one_store
async def test_a_handler_in_a_child_is_told_first(load: Load, said: Said) -> None:
    jobs = load(STUBBORN, cancel_grace="30s")
    async with working(jobs.app):
        run = await jobs.willing.aenqueue()
        await until(lambda: len(said()) == 1)
        await run.acancel()
        assert await jobs.app.aresult(run.id, timeout=PATIENCE) == "what I have"
        other = await jobs.on_loop.aenqueue()
        await until(lambda: len(said()) == 2)
        await other.acancel("enough")
        await other.await_end(timeout=PATIENCE)
    # The process lives on: it did what it was told.
    assert said() == [said()[0], said()[0], "cleaned-up"]
    assert (other.status, other.reason) == ("canceled", "enough")


@one_store
async def test_a_worker_that_stops_tells_and_then_kills_its_children(
    load: Load, said: Said
) -> None:
    jobs = load("""
@app.job(executor="process")
def patient(ctx: SyncContext) -> None:
    say(os.getpid())
    while not ctx.stopping:
        time.sleep(0.005)
    say("told")
    time.sleep(600)
""")
    run = await jobs.patient.aenqueue()
    worker = jobs.app.worker(drain="1h")
    task = asyncio.create_task(worker.run())
    await until(lambda: len(said()) == 1)
    worker.stop()
    await until(lambda: len(said()) == 2)
    task.cancel()  # it has been told: the grace is over
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE)
    await run.arefresh()
    assert (run.status, run.failures, run.crash_count) == ("queued", 0, 0)
    assert [attempt.outcome for attempt in run.attempts] == [AttemptOutcome.INTERRUPTED]
    assert said()[1:] == ["told"]
    await until(lambda: gone(int(said()[0])))


@one_store
async def test_a_child_is_replaced_after_so_many_runs_or_so_much_memory(load: Load) -> None:
    jobs = load("""
kept = []

@app.job(executor="process")
def grow(megabytes: int = 0) -> int:
    kept.append(b"x" * (megabytes << 20))
    return os.getpid()
""")

    async def pids(count: int, **arguments: int) -> list[int]:
        runs = [await jobs.grow.aenqueue(**arguments) for _ in range(count)]
        return [await jobs.app.aresult(run.id, timeout=PATIENCE) for run in runs]

    async with working(jobs.app, process_seats=1, recycle_runs=2):
        one, two, three, four = await pids(4)
        assert one == two != three == four
    async with working(jobs.app, process_seats=1, recycle_memory=200):
        one, two = await pids(2)
        assert one == two
        assert await pids(2, megabytes=200) != [one, one]


@one_store
async def test_a_child_that_was_let_go_ends_by_itself_at_a_shutdown_too(
    load: Load, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = load("""
@app.resource
def thing():
    yield 1
    while not (folder / "closing").exists():
        time.sleep(0.005)
    say("closed")

@app.job(executor="process")
def use(ctx: SyncContext) -> int:
    return ctx.resources.thing
""")
    close = Children.close

    async def tell_and_close(them: Children) -> None:
        (tmp_path / "closing").touch()
        await close(them)

    monkeypatch.setattr(Children, "close", tell_and_close)
    monkeypatch.setattr(children, "_FAREWELL", PATIENCE)
    async with working(jobs.app, process_seats=1, recycle_runs=1):
        run = await jobs.use.aenqueue()
        await run.await_end(timeout=PATIENCE)
    assert run.status is Status.SUCCEEDED
    assert said() == ["closed"]


async def test_a_fork_of_a_handler_ends_nothing_but_itself(load: Load, said: Said) -> None:
    """F35: the copy falls out of the handler; neither run nor database is its own."""
    jobs = load("""
def fork(ctx):
    pid = os.fork()
    if pid == 0:
        return "the copy"
    assert os.waitpid(pid, 0)[1] == 0
    return "the original"

@app.job(executor="process")
def in_child(ctx: SyncContext) -> str:
    return fork(ctx)

@app.job
def in_thread(ctx: SyncContext) -> str:
    return fork(ctx)

@app.job
async def on_loop(ctx: Context) -> str:
    return fork(ctx)
""")
    async with working(jobs.app):
        for job in (jobs.in_child, jobs.in_thread, jobs.on_loop):
            run = await job.aenqueue()
            assert await jobs.app.aresult(run.id, timeout=PATIENCE) == "the original"
            assert (await run.arefresh()).attempt == 1


@one_store
async def test_resources_are_opened_in_the_child(load: Load, said: Said) -> None:
    jobs = load("""
@app.resource
async def db():
    say("open")
    yield os.getpid()
    say("closed")

@app.job(executor="process")
def use(ctx: SyncContext) -> bool:
    return ctx.resources.db == os.getpid()
""")
    async with working(jobs.app):
        for _ in range(2):
            run = await jobs.use.aenqueue()
            assert await jobs.app.aresult(run.id, timeout=PATIENCE) is True
    assert said() == ["open", "closed"]


@one_store
async def test_error_that_asks_for_no_possible_delay_is_no_crash(load: Load) -> None:
    jobs = load("""
from windlass import RetryAfter

class Odd(RetryAfter):
    def __init__(self): ...

@app.job(executor="process", max_attempts=2, retry=Retry.fixed(0))
def odd():
    raise Odd
""")
    async with working(jobs.app):
        run = await jobs.odd.aenqueue()
        await run.await_end(timeout=PATIENCE)
    assert (run.status, run.failure) == ("failed", "exhausted")
    assert (run.failures, run.crash_count) == (2, 0)
