"""Starts the programs of the peers, reads their answers, and stops them.

What a program prints goes to files: a chatty peer can neither fill a pipe nor mix into the table. A
line that is not JSON with the key `race` is not an answer.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.peers.catalogue import Unavailable
from bench.peers.environments import Environment, reason

STOP_SECONDS = 30
LOOK_SECONDS = 0.02


class Process:
    """One program of a peer, with its output in a folder of its own."""

    def __init__(self, environment: Environment, folder: Path, **task: object) -> None:
        self._task = str(task["do"])
        self._out, self._err = folder / f"{self._task}.out", folder / f"{self._task}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*environment.command, json.dumps(task)],
                cwd=environment.folder, env=dict(environment.variables),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,  # its children are stopped with it
            )  # fmt: skip

    def answer(self, race: str, limit: float) -> dict[str, Any]:
        """Wait for the answer of this name. Raises Unavailable if it does not come."""
        deadline = time.monotonic() + limit
        while True:
            ended = self._process.poll() is not None  # before the look: its last words count
            for line in self._out.read_text(errors="replace").splitlines():
                found = _parse(line)
                if found.get("race") == race:
                    return found
            if ended:
                raise Unavailable(f"{self._task}: {reason(self._err.read_text(errors='replace'))}")
            if time.monotonic() > deadline:
                raise Unavailable(f"{self._task}: no answer within {limit:.0f} s")
            time.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Raise Unavailable if it has ended."""
        if self._process.poll() is not None:
            raise Unavailable(f"{self._task}: {reason(self._err.read_text(errors='replace'))}")

    def stop(self) -> None:
        """Ask it to finish what it has begun; kill it and its children if it does not end."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def running(environment: Environment, folder: Path, **task: object) -> Iterator[Process]:
    """Run a program for as long as the block lasts."""
    process = Process(environment, folder, **task)
    try:
        yield process
    finally:
        process.stop()


def ask(
    environment: Environment, folder: Path, race: str, limit: float, **task: object
) -> dict[str, Any]:
    """Run a program to its end, return its answer."""
    with running(environment, folder, **task) as process:
        return process.answer(race, limit)


def _parse(line: str) -> dict[str, Any]:
    if not line.startswith("{"):
        return {}
    try:
        found = json.loads(line)
    except ValueError:  # half of a line, which is still being written
        return {}
    return found if isinstance(found, dict) else {}
