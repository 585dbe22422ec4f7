"""A command on a terminal of 80 x 24, whose screen the test can look at."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.kit import PATIENCE, command

COLUMNS, LINES = 80, 24
# So that Ctrl-C is a signal. In a program of its own: `preexec_fn` would fork Python with all of
# the tests' threads.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """The other side of a command's terminal: what it shows, and the keys that are pressed."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self.raw = ""
        self._fd = fd

    @property
    def text(self) -> str:
        """All that was shown so far, without colours."""
        return _ANSI.sub("", self.raw).replace("\r", "")

    @property
    def lines(self) -> list[str]:
        """The same by lines."""
        return self.text.split("\n")

    def wait_for(self, wanted: str) -> None:
        """Read until this is shown."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text:
            assert time.monotonic() < deadline, f"{wanted!r} did not come:\n{self.text}"
            assert self._read(deadline), f"{wanted!r} is not in:\n{self.text}"

    def wait_until_it_reads(self) -> None:
        """Wait until the process sleeps: what it has asked for, it now waits for.

        A signal between the question and the read is kept by Python until the read is over, and
        nobody is as fast as that.
        """
        deadline = time.monotonic() + PATIENCE
        asleep = 0
        while asleep < 3 and time.monotonic() < deadline:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
            asleep = asleep + 1 if stat.rpartition(")")[2].split()[0] == "S" else 0
            time.sleep(0.02)

    def press(self, keys: str) -> None:
        """Type: `\\x03` is Ctrl-C."""
        os.write(self._fd, keys.encode())

    def ends(self) -> int:
        """Read all there is; return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            continue
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self._fd, 65536) if ready else b""
        except OSError:  # the other side has closed it
            data = b""
        self.raw += data.decode("utf-8", "replace")
        return bool(data)


@contextmanager
def on_terminal(
    folder: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run a command on a terminal; end it if it is still there at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    clean = {n: v for n, v in os.environ.items() if not n.startswith("WINDLASS_")}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        clean.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, *command(*arguments)],
        cwd=folder,
        env={**clean, "TERM": "xterm", **(environ or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
