"""The line from the process that runs jobs for `windlass dev` to the one that keeps it.

Messages are JSON, one a line. Upward: the files that the code came from, that it works, or why it
does not. Downward: that a successor has taken over. If the line closes, the keeper is gone.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable

from windlass.cli.project_files import loaded_files

RETIRE = b"retire\n"

_LOOK = 1.0  # seconds between two looks for modules that were imported meanwhile


class Link:
    """The worker process's end."""

    explains_stop = False

    def __init__(self, fd: int, *, first: bool) -> None:
        """`first`: there is no older process whose code would go on instead."""
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)
        self._told: frozenset[str] = frozenset()
        self.first = first
        self.superseded = False
        self.started = False

    def watch(self, stop: Callable[[], None]) -> None:
        """Call this, in another thread, when it is time to end."""

        def wait() -> None:
            with contextlib.suppress(OSError):
                self.superseded = bool(self._socket.recv(len(RETIRE)))
            stop()

        threading.Thread(target=wait, name="windlass-link", daemon=True).start()

    def tell_started(self) -> None:
        """Say that the code works, and from now on which files it comes from."""
        self._tell_files(loaded_files())
        self._send(ready=True)
        self.started = True
        threading.Thread(target=self._tell_imports, name="windlass-imports", daemon=True).start()

    def tell_failure(self, error: BaseException, text: str) -> None:
        """Say why the code does not work."""
        self._tell_files(loaded_files(error))
        self._send(error=text)

    def _tell_imports(self) -> None:
        while True:
            time.sleep(_LOOK)
            self._tell_files(loaded_files())

    def _tell_files(self, files: frozenset[str]) -> None:
        new, self._told = files - self._told, files | self._told
        if new:
            self._send(files=sorted(new))

    def _send(self, **message: object) -> None:
        with contextlib.suppress(OSError):  # it is gone: whoever watches the line hears of it
            self._socket.sendall(json.dumps(message).encode() + b"\n")
