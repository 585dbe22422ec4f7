"""A page of the docs as a session at a terminal: its files are written, its commands are typed.

Blocks of code whose first line is `# name` are files. In blocks of `console`, each line that
begins with `$` is a command, and the lines below it are what it must print. In these lines `…` is
any text, and runs of spaces are one; ids and lengths of time differ from run to run. An id in a
later command stands for the id that was printed where the page first shows it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.fixtures.pages import Examples, blocks

PATIENCE = 40.0
COLUMNS = 100
_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_VARIES = re.compile(
    rf"(?P<id>{_ID})|(?P<any>…)|(?P<ago>\d+ s ago)|(?P<length>\d+(?:\.\d+)? (?:ms|s|m|h)\b)"
    r"|(?P<path>/home/\S+?(?=\.?$| ))"
)
# Steps of a page that make the environment which the tests have already.
_SET_UP = ("mkdir", "cd ", "python -m venv", ". .venv", "pip install")
# Commands that change nothing can be asked again, as a reader would who looks too early.
_LOOKS = ("windlass runs", "windlass show", "windlass schedules list")


@dataclass
class Session:
    """A shell in a folder, as far as the pages use one."""

    folder: Path
    examples: Examples
    environment: dict[str, str] = field(default_factory=dict)
    commands: int = 0
    _ids: dict[str, str] = field(default_factory=dict)
    _jobs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def follow(self, page: str) -> None:
        """Do what the page says, from its beginning to its end."""
        try:
            for block in blocks(page):
                if block.language == "console":
                    self._type(block.text)
                elif block.file:
                    text = block.text
                    if block in self.examples.blocks:
                        text = self.examples.text(block)
                    append = block.name.endswith(", at the end")
                    self._write(self.folder / block.file, text, append=append)
        finally:
            for job in self._jobs:
                job.kill()
                job.wait()

    def _write(self, path: Path, text: str, *, append: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.read_text("utf-8") + text if append else text, "utf-8")

    def _type(self, block: str) -> None:
        for command, expected in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            if not command.startswith(_SET_UP):
                self.commands += 1
                self._do(command, expected.splitlines())

    def _do(self, command: str, expected: list[str]) -> None:
        for shown, real in self._ids.items():
            command = command.replace(shown, real)
        if command.endswith(" &"):
            self._jobs.append(self._start(command.removesuffix(" &"), subprocess.DEVNULL))
        elif command.startswith("kill "):
            number = signal.SIGKILL if "-9" in command else signal.SIGTERM
            self._jobs[-1].send_signal(number)
            assert self._jobs[-1].wait(PATIENCE) == (-9 if "-9" in command else 0)
        else:
            self._compare(command, expected)

    def _compare(self, command: str, expected: list[str]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            printed, code = self._run(command)
            matched = self._matches(expected, printed)
            if matched and not code:
                return
            if not command.startswith(_LOOKS) or time.monotonic() > deadline:
                told = "\n".join(expected)
                raise AssertionError(f"$ {command}\n{printed}\n--- the page says:\n{told}")

    def _run(self, command: str) -> tuple[str, int]:
        ours, theirs = pty.openpty()  # tables are for terminals
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        job = self._start(command, theirs)
        os.close(theirs)
        printed = bytearray()
        with job, os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
            while data := terminal.read(65536):  # an error where the other side has closed it
                printed += data
        plain = re.sub(r"\x1b\[[0-9;]*m", "", printed.decode()).replace("\r", "")
        return plain, job.wait(PATIENCE)

    def _start(self, command: str, output: int) -> subprocess.Popen[bytes]:
        here = str(Path(sys.executable).parent)
        path = f"{here}{os.pathsep}{os.environ['PATH']}"
        return subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=self.folder,
            env={**os.environ, **self.environment, "PATH": path, "COLUMNS": str(COLUMNS)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    def _matches(self, expected: list[str], printed: str) -> bool:
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        pattern = ""
        shown: list[str] = []
        for line in (line.strip() for line in expected if line.strip()):
            if line == "…":
                pattern += r"(?:.*\n)*?"
            else:
                pattern += self._pattern(line, shown) + r"\s*\n"
        found = re.fullmatch(pattern, "".join(f"{line}\n" for line in lines))
        if found is None:
            return False
        self._ids.update(zip(shown, found.groups(), strict=True))
        return True

    def _pattern(self, line: str, shown: list[str]) -> str:
        parts, end = [], 0
        for varies in _VARIES.finditer(line):
            parts.append(_literal(line[end : varies.start()]))
            end = varies.end()
            if varies["any"]:
                parts.append(".*?")
            elif varies["ago"]:
                parts.append(r"(?:just now|[\d.]+ \w+ ago)")
            elif varies["length"]:
                parts.append(r"[\d.]+ \w+")
            elif varies["path"]:
                parts.append(r"\S+?")
            elif varies["id"] in self._ids:
                parts.append(re.escape(self._ids[varies["id"]]))
            elif varies["id"] in shown:
                parts.append(rf"\{shown.index(varies['id']) + 1}")
            else:
                shown.append(varies["id"])
                parts.append(f"({_ID})")
        return "".join([*parts, _literal(line[end:])])


def _literal(text: str) -> str:
    return r"\s+".join(re.escape(part) for part in re.split(r"\s+", text))
