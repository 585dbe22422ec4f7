"""The program of a child process, and what a worker knows of what it could not find."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, cast

import msgspec
import pytest

from tests.fixtures.apps import PATIENCE, hold_claims, resume_claims, within, working
from tests.isolation.conftest import Load
from tests.isolation.test_attempts import Said, gone, one_store, until
from tests.isolation.test_suspects import crash
from windlass import Worker
from windlass.domain.origin import Origin
from windlass.domain.run import Claimed
from windlass.engine.child import _spawn
from windlass.engine.wire import Assignment, Ready, Setup, frame
from windlass.isolation.channel import Channel
from windlass.isolation.locate import origin_of
from windlass.isolation.program import Program


class Wire:
    """A worker as its child sees it, in the test's hands."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[Any] = SimpleQueue()
        self.listening = threading.Semaphore(0)
        self.sending: SimpleQueue[Any] = SimpleQueue()
        self.sent = threading.Semaphore(0)

    def receive(self) -> Any:
        self.listening.release()
        return self.inbox.get()

    def send(self, message: Any) -> None:
        if isinstance(message, Ready):
            return
        self.sending.put(message)
        assert self.sent.acquire(timeout=PATIENCE)


class Staged(Program):
    """A child whose attempts end as the test says, and whose exit is written down."""

    def __init__(self, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
        setup = Setup(path=[], url="", level=0, result_limit=0)
        super().__init__(cast("Channel", wire), setup, lambda: None)
        self._loop.close()
        monkeypatch.setattr(os, "_exit", lambda code: self.exits.put(code))
        monkeypatch.setattr(os, "getpgrp", lambda: -1)  # the group of the tests is not its own
        self.exits: SimpleQueue[int] = SimpleQueue()
        self.began: SimpleQueue[Assignment] = SimpleQueue()
        self.ends: SimpleQueue[Any] = SimpleQueue()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        """It needs no loop."""

    def _end(self, attempt: Assignment) -> Any:
        self.began.put(attempt)
        return self.ends.get(timeout=PATIENCE)


def attempt() -> Assignment:
    return Assignment(claimed=cast("Claimed", None), origin=Origin(job="job", first=()), worker="w")


def test_a_child_ends_with_its_worker_though_it_got_the_next_attempt_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker gives the next attempt as soon as it hears of an end, and dies."""
    wire = Wire()
    child = Staged(wire, monkeypatch)
    wire.inbox.put(attempt())
    child.ends.put("the first end")
    assert wire.sending.get(timeout=PATIENCE) == "the first end"
    wire.inbox.put(attempt())
    for _ in range(3):  # it has heard of the next, and listens again
        assert wire.listening.acquire(timeout=PATIENCE)
    wire.sent.release()
    for _ in range(2):  # the next has begun
        child.began.get(timeout=PATIENCE)

    wire.inbox.put(None)

    assert child.exits.get(timeout=PATIENCE) == 1
    wire.sent.release()
    child.ends.put("nobody hears it")
    child.thread.join(PATIENCE)


def test_a_child_that_is_let_go_as_it_tells_its_end_closes_what_it_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has not come back from telling its worker."""
    wire = Wire()
    child = Staged(wire, monkeypatch)
    wire.inbox.put(attempt())
    child.ends.put("the end")
    assert wire.sending.get(timeout=PATIENCE) == "the end"

    wire.inbox.put(None)

    assert child._attempts.get(timeout=PATIENCE) is None  # it is to end in good order
    assert child.exits.empty()
    child._attempts.put(None)
    wire.sent.release()
    child.thread.join(PATIENCE)
    assert not child.thread.is_alive()


@one_store
async def test_what_a_handler_started_ends_with_the_worker(load: Load, said: Said) -> None:
    """A worker that was killed can kill nothing itself."""
    jobs = load("""
@app.job(executor="process")
def work() -> None:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    say(left.pid)
    time.sleep(600)
""")
    ours, theirs = socket.socketpair()
    with theirs:
        process = _spawn(theirs)
    claimed = Claimed(
        tenant="default", id="run", job="work", queue="default", token=1,
        attempt=1, failures=0, crash_count=0, input=msgspec.Raw(b"{}"),
    )  # fmt: skip
    order = Assignment(claimed=claimed, origin=origin_of(jobs.app, jobs.work.spec), worker="w")
    path = [os.fsencode(place) for place in sys.path]
    setup = Setup(path=path, url=jobs.app.settings.url, level=0, result_limit=1000)
    with ours:
        ours.sendall(frame(setup) + frame(order))
        await until(said)
    assert await asyncio.to_thread(process.wait, PATIENCE) != 0
    (left,) = map(int, said())
    try:
        await until(lambda: gone(left))
    finally:
        if not gone(left):
            os.kill(left, signal.SIGKILL)


@one_store
async def test_a_job_that_no_child_found_is_looked_for_again_when_it_has_changed(
    load: Load,
) -> None:
    jobs = load("""
if "isolation" in sys.argv[0] and not (folder / "mended").exists():
    raise RuntimeError("not in a child")

@app.job
async def work() -> int:
    return os.getpid()
""")
    app = jobs.app

    async def suspect(worker: Worker) -> int:
        hold_claims(worker)
        run = await jobs.work.aenqueue()
        await crash(app, run)
        resume_claims(worker)
        found: int = await app.aresult(run.id, timeout=PATIENCE)
        return found

    async with working(app, services=False) as worker:
        await within(worker.started)
        assert await suspect(worker) == os.getpid()
        (jobs.folder / "mended").touch()
        assert await suspect(worker) == os.getpid()
        worker.adopt([replace(jobs.work.spec)])
        await asyncio.sleep(0)
        assert await suspect(worker) != os.getpid()
