"""`windlass dev` keeps one worker process, on the latest code that works.

- If a file changes that the code came from, a successor is started. When it works, the old process
  claims nothing more, finishes what it runs, for as long as `drain` allows, and ends.
- If the new code does not work, the error is shown with its file and line, and the old process goes
  on. The next change is the next try.
- If the process ends without being told to, so does the command, with its exit code.
- The first Ctrl-C or SIGTERM is passed on, the second one kills. If the command itself is killed,
  its processes notice that their line has closed, and stop.

The processes share the terminal, so that a debugger works in a handler. They hear a Ctrl-C twice:
from the terminal, and from here. So they do not take the second one for impatience.
"""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from windlass.cli.link import RETIRE
from windlass.cli.project_files import ProjectFiles
from windlass.engine.child import how_it_ended

LOOK = 0.1
"""Seconds between two looks at the files. A change counts when two looks have seen the same."""

Message = dict[str, Any]
Show = Callable[[Collection[str], str | None], None]
"""Shows that files have changed; and what is wrong with the new code, if it does not work."""


@dataclass(slots=True, eq=False)
class Generation:
    """A worker process, and why it could not start."""

    process: "subprocess.Popen[bytes]"
    line: socket.socket
    changed: Collection[str] = ()
    error: str | None = None


class Generations:
    """The worker processes of one `windlass dev`; lives in the main thread."""

    def __init__(self, command: Callable[[int, bool], Sequence[str]], show: Show) -> None:
        """`command` starts a process, given its end of the line and whether it is the first."""
        self._command, self._show = command, show
        self._files = ProjectFiles()
        self._news: SimpleQueue[tuple[Generation, Message | int] | None] = SimpleQueue()
        self._alive: list[Generation] = []
        self._current: Generation | None = None
        self._successor: Generation | None = None
        self._broken = False  # the latest code does not work
        self._stopping = False
        self._code = 0

    def run(self) -> int:
        """Work until stopped, or until the process ends by itself; return its exit code."""
        self._current = self._start(())
        while self._alive:
            try:
                news = self._news.get(timeout=LOOK)
            except Empty:
                self._look()
                continue
            if news is None:
                continue
            generation, told = news
            if isinstance(told, int):
                self._ended(generation, told)
            else:
                self._heard(generation, told)
        return self._code

    def stop(self) -> None:
        """Pass the request on; start nothing any more. Safe in a signal handler."""
        self._stopping = True
        for generation in tuple(self._alive):
            generation.process.terminate()
        self._news.put(None)

    def kill(self) -> None:
        """End all processes now."""
        self._stopping = True
        for generation in tuple(self._alive):
            generation.process.kill()

    def _look(self) -> None:
        if self._stopping or self._successor is not None:
            return  # a change meanwhile is seen at the next look
        changed = self._files.changed(new_too=self._broken)
        if changed:
            self._successor = self._start(changed)

    def _start(self, changed: Collection[str]) -> Generation:
        self._files.begin()
        ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            command = self._command(fd, self._current is None)
            process = subprocess.Popen(command, pass_fds=[fd])
        generation = Generation(process, ours, changed)
        self._alive.append(generation)
        if self._stopping:  # a signal came meanwhile, and may not have seen it
            process.terminate()
        threading.Thread(target=self._listen, args=(generation,), daemon=True).start()
        return generation

    def _listen(self, generation: Generation) -> None:
        with suppress(OSError), generation.line.makefile("rb") as lines:
            for line in lines:
                self._news.put((generation, json.loads(line)))
        self._news.put((generation, generation.process.wait()))

    def _heard(self, generation: Generation, message: Message) -> None:
        self._files.add(message.get("files", ()))
        generation.error = message.get("error", generation.error)
        if "ready" in message and generation is self._successor:
            self._hand_over(generation)

    def _hand_over(self, successor: Generation) -> None:
        old, self._current, self._successor = self._current, successor, None
        self._broken = False
        self._show(successor.changed, None)
        assert old is not None
        with suppress(OSError):  # it has just ended
            old.line.sendall(RETIRE)

    def _ended(self, generation: Generation, code: int) -> None:
        self._alive.remove(generation)
        generation.line.close()
        if generation is self._current:
            self._code = code if code >= 0 else 128 - code
            self.stop()
        elif generation is self._successor:
            self._successor, self._broken = None, True
            if not self._stopping:
                why = f"the new process ended {how_it_ended(code)}"
                self._show(generation.changed, generation.error or why)


def shown_files(files: Collection[str]) -> str:
    """Files as seen from here, a few of them."""
    names = sorted(os.path.relpath(file) for file in files)
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
