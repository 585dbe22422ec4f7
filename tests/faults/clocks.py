"""A wall clock that can be set: of a private PostgreSQL server, or of a test's own processes.

`clock.c` is compiled by the system's compiler and preloaded. There is no way around a compiler: the
machine's own clock is not ours to set.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

HOUR = 3600
_SOURCE = Path(__file__).with_name("clock.c")


class NoCompiler(Exception):
    """The clock cannot be built here; the message says what to install."""


class SettableClock:
    """A clock for processes that are started with its `environ`; use as a context manager."""

    def __init__(self) -> None:
        self._folder = Path()
        self.offset = 0

    def __enter__(self) -> Self:
        # Not pytest's folder: the server's user, who is not us, has to read it.
        self._folder = Path(tempfile.mkdtemp(prefix="windlass-clock-", dir="/tmp"))
        self._folder.chmod(0o755)
        try:
            build(self._folder / "clock.so")
            self._file = os.open(self._folder / "offset", os.O_CREAT | os.O_RDWR, 0o644)
            self.set(0)
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)
        shutil.rmtree(self._folder)

    @property
    def environ(self) -> dict[str, str]:
        """What a process needs to go by this clock."""
        return {
            "LD_PRELOAD": str(self._folder / "clock.so"),
            "WINDLASS_CLOCK": str(self._folder / "offset"),
        }

    def set(self, seconds: int) -> None:
        """Let it be so many seconds ahead of the real one, from this instant on."""
        os.pwrite(self._file, struct.pack("=q", seconds), 0)
        self.offset = seconds


def build(target: Path) -> None:
    """Compile the clock. Raises NoCompiler."""
    if not sys.platform.startswith("linux"):
        raise NoCompiler("The tests of clocks preload a library, which is done for Linux only.")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler(
            "The tests of clocks need a C compiler: install your system's gcc package."
        )
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", str(target), str(_SOURCE), "-ldl"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise NoCompiler(f"The clock for the tests could not be compiled:\n{done.stderr}")
