"""Programs that serve, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PATIENCE = 30.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


class Server:
    """A program, what it prints, and its address once it has told that."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.printed: list[str] = []
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = self._find_address()

    def ask(self, path: str, *, post: bool = False) -> Any:
        """What it answers, from JSON."""
        request = Request(self.address + path, method="POST" if post else "GET")
        with urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def status(self, path: str) -> int:
        """The code of its answer."""
        try:
            with urlopen(self.address + path, timeout=PATIENCE) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    def stop(self, signal: int) -> int:
        """Send a signal; returns the exit code."""
        self.process.send_signal(signal)
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def _find_address(self) -> str:
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except Empty:
                line = None
            if line is None:
                raise AssertionError("it did not start:\n" + "".join(self.printed))
            if found := ADDRESS.search(line):
                return found[0]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)
            self._lines.put(line)
        self._lines.put(None)


@contextmanager
def serving(folder: Path, *command: str, **environment: str) -> Iterator[Server]:
    """Run a Python program that serves; it is killed if it is still there at the end."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield Server(process)
        finally:
            process.kill()


def run(folder: Path, *command: str, **environment: str) -> str:
    """Run a Python program to its end; returns what it printed."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
