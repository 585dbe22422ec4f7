"""What is no message on the socket between a worker and its child: the child is given up."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

import msgspec
import pytest

from tests.fixtures.apps import PATIENCE, holds, within, working
from tests.isolation.conftest import Load
from tests.isolation.test_attempts import Said, gone, one_store, until
from windlass.domain.run import Claimed
from windlass.engine import child
from windlass.engine.child import _spawn
from windlass.engine.wire import HEADER, Assignment, Began, Setup, frame
from windlass.isolation.locate import origin_of

MARK = frame(Began())[:4]


def framed(body: bytes, length: int | None = None) -> bytes:
    return HEADER.pack(MARK, len(body) if length is None else length) + body


JUNK = {
    "text": b"Hello, world: I am no message.\n",
    "zeros": bytes(100),
    "no JSON": framed(b"{"),
    "no UTF-8": framed(b'{"type": "\xff\xfe"}'),
    "no message": framed(b'{"type": "Nonsense"}'),
    "no object": framed(b"7"),
    "an oversized length": framed(b"", 2**32 - 1),
    "half a header": MARK[:2],
    "half a message": framed(b'{"type":', 1000),
}

JOBS = """
@app.job(executor="process", max_attempts=1)
def junk(text: str, close: bool = False) -> None:
    say(os.getpid())
    number = int(sys.argv[1])
    os.write(number, bytes.fromhex(text))
    if close:
        import socket
        socket.socket(fileno=os.dup(number)).shutdown(socket.SHUT_WR)
    time.sleep(600)

@app.job(executor="process", max_attempts=1)
def tame() -> str:
    return "fine"
"""


@one_store
@pytest.mark.parametrize("kind", [*JUNK, "a closed socket"])
async def test_a_child_that_says_junk_has_crashed(
    load: Load, said: Said, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(child, "_STALLED", 0.2)
    jobs = load(JOBS)
    async with working(jobs.app, process_seats=1, max_crashes=1) as worker:
        text = JUNK.get(kind, b"")
        run = await jobs.junk.aenqueue(text=text.hex(), close=kind not in JUNK)
        await run.await_end(timeout=PATIENCE)
        await holds(worker, 0)
        assert (run.status, run.failure, run.crash_count) == ("failed", "crashed", 1)
        assert run.error is not None
        assert ("cannot be understood" in run.error.message) == (kind in JUNK)
        (pid,) = map(int, said())
        await until(lambda: gone(pid))
        other = await jobs.tame.aenqueue()
        assert await jobs.app.aresult(other.id, timeout=PATIENCE) == "fine"


@one_store
@pytest.mark.parametrize("kind", ["text", "no JSON", "no UTF-8", "an oversized length"])
@pytest.mark.parametrize("busy", [True, False])
async def test_a_child_that_hears_junk_ends(load: Load, said: Said, kind: str, busy: bool) -> None:
    jobs = load(
        '@app.job(executor="process")\ndef work() -> None:\n    say("x")\n    time.sleep(600)\n'
    )
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
        ours.sendall(frame(setup))
        if busy:
            ours.sendall(frame(order))
            await until(said)
        ours.sendall(JUNK[kind])
        assert await asyncio.to_thread(process.wait, PATIENCE) == (-signal.SIGKILL if busy else 0)


@one_store
async def test_a_run_whose_child_ends_before_it_can_take_it_goes_back(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever that process died of, it was not the run."""
    jobs = load(JOBS, max_crashes=1)
    died = asyncio.Event()
    gone_before = child.Child._gone

    def note(process: child.Child) -> None:
        gone_before(process)
        died.set()

    monkeypatch.setattr(child.Child, "_gone", note)
    async with working(jobs.app, process_seats=2) as worker:
        with monkeypatch.context() as patch:
            patch.setattr(child, "PROGRAM", "windlass.nothing")
            run = await jobs.tame.aenqueue()
            await within(died)
        assert await jobs.app.aresult(run.id, timeout=PATIENCE) == "fine"
        await run.arefresh()
        assert (run.failures, run.crash_count) == (0, 0)
        assert run.attempts[0].outcome == "interrupted"
        await holds(worker, 0)
