"""What every program does alike: read a task, do it, answer in JSON lines.

`python -m bench.peers.programs.NAME '{"do": "bulk", "url": "...", ...}'` does one of these:

    do       what happens                                   answer
    prepare  create the schema in an empty store            {"race": "prepared"}
    bulk     enqueue `count` runs in batches                {"race": "enqueued", "rate": per second}
    single   enqueue `count` runs, one call each            the same
    latency  enqueue `count` runs, one every 50 ms          {"race": "sent", "at": [nanoseconds]}
    work     run a worker until SIGTERM                     {"race": "ready"} when it is up
    left     count the runs whose success is not recorded   {"race": "left", "count": how many}

Every run has a number in its payload, and its handler stamps the start of that number into a file
that all processes share. Only the standard library is used here: the environment of a peer has the
peer and nothing of ours.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# So many runs are enqueued before the clock starts: they open connections and prepare statements.
WARM_UP = 20

_TIME = struct.Struct("=q")


@dataclass(frozen=True)
class Task:
    """What a program is asked to do."""

    do: str
    url: str
    count: int = 0
    stamps: str = ""


class Stamps:
    """When the handler of each run started, and how often: a file mapped into every process.

    One byte per run counts its starts. After these, eight bytes per run hold the time of its last
    start on the monotonic clock, which is the same for all processes of a machine.
    """

    def __init__(self, path: Path) -> None:
        self._size = path.stat().st_size // (1 + _TIME.size)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    @classmethod
    def create(cls, path: Path, runs: int) -> Stamps:
        """Make the file for so many runs; none has started."""
        path.write_bytes(bytes(runs * (1 + _TIME.size)))
        return cls(path)

    def stamp(self, number: int) -> None:
        """Note the start of a run. This is all that a handler does."""
        _TIME.pack_into(self._map, self._size + _TIME.size * number, time.monotonic_ns())
        self._map[number] += 1

    def counts(self) -> bytes:
        """How often each run started."""
        return self._map[: self._size]

    def times(self) -> list[int]:
        """When each run started, in nanoseconds; 0 if it did not."""
        return [at for (at,) in _TIME.iter_unpack(self._map[self._size :])]


def payload(number: int) -> dict[str, Any]:
    """Return the arguments of a run: about 100 bytes as JSON."""
    return {"number": number, "template": "welcome", "locale": "en", "note": "x" * 40}


def task() -> Task:
    """Return what this program was asked for."""
    return Task(**json.loads(sys.argv[1]))


@cache
def stamps() -> Stamps:
    """Return the stamps of this task. Handlers that are found by name come here."""
    return Stamps(Path(task().stamps))


def say(race: str, **answer: object) -> None:
    """Write one line of the answer."""
    print(json.dumps({"race": race, **answer}), flush=True)


class Program:
    """A peer as the race sees it. A program is a subclass of this and a call of `main`."""

    batch = 1000  # runs per call of `enqueue_many`

    def __init__(self, task: Task) -> None:
        self.url = task.url

    async def prepare(self) -> None:
        """Create the schema, if the peer has one."""

    async def open(self) -> None:
        """Connect, to enqueue or to count."""

    async def close(self) -> None:
        """Disconnect."""

    async def enqueue(self, payload: dict[str, Any]) -> None:
        """Enqueue one run."""
        raise NotImplementedError

    async def enqueue_many(self, payloads: Sequence[dict[str, Any]]) -> None:
        """Enqueue a batch in the quickest way that the peer offers."""
        for each in payloads:
            await self.enqueue(each)

    async def work(self) -> None:
        """Run a worker until SIGTERM, and leave nothing unrecorded."""
        raise NotImplementedError

    async def left(self) -> int:
        """Count the runs whose success is not recorded."""
        raise NotImplementedError


def main(make: Callable[[Task], Program]) -> None:
    """Do the task of the command line, on uvloop if the environment has it."""
    factory = None
    if find_spec("uvloop"):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_do(make(task()), task()))


async def _do(program: Program, task: Task) -> None:
    if task.do == "prepare":
        await program.prepare()
        say("prepared")
    elif task.do == "work":
        await program.work()
    else:
        await program.open()
        await _ASKED[task.do](program, task.count)
        await program.close()


async def _bulk(program: Program, count: int) -> None:
    payloads = [payload(number) for number in range(count)]
    await program.enqueue_many(payloads[:WARM_UP])
    began = time.perf_counter()
    for some in batches(payloads[WARM_UP:], program.batch):
        await program.enqueue_many(some)
    say("enqueued", rate=(count - WARM_UP) / (time.perf_counter() - began))


async def _single(program: Program, count: int) -> None:
    payloads = [payload(number) for number in range(count)]
    for each in payloads[:WARM_UP]:
        await program.enqueue(each)
    began = time.perf_counter()
    for each in payloads[WARM_UP:]:
        await program.enqueue(each)
    say("enqueued", rate=(count - WARM_UP) / (time.perf_counter() - began))


async def _latency(program: Program, count: int) -> None:
    sent = []
    for number in range(count):
        # 45 to 55 ms, so that no polling interval keeps step with the enqueues.
        await asyncio.sleep(0.045 + number * 7 % 11 / 1000)
        sent.append(time.monotonic_ns())
        await program.enqueue(payload(number))
    # Some clients notify workers from a task of their own, a moment after the call.
    await asyncio.sleep(0.1)
    say("sent", at=sent)


async def _left(program: Program, count: int) -> None:
    say("left", count=await program.left())


_ASKED = {"bulk": _bulk, "single": _single, "latency": _latency, "left": _left}


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Split into batches."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def stopped() -> None:
    """Say that the worker is up, and wait for SIGTERM."""
    event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, event.set)
    say("ready")
    await event.wait()
