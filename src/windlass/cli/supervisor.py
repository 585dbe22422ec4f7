"""The supervisor: so many worker processes, each started again when it dies.

It runs no job and opens no store; it starts processes, waits for their ends, and says why.

- A process that dies is replaced after a pause that doubles with each death in a row, with jitter;
  one that has lived for a while starts the series anew. One that the machine has no process,
  thread or socket for is a death as any other, unless nothing has ever run.
- A process that ends in good order, because it is worn out (`recycle_runs`, `recycle_memory`) or
  somebody told it to, is replaced at once.
- A process that cannot start at all (wrong usage, a store that it cannot use) ends everything, with
  its code: repeating would not help. Once any has started, that is a death as any other.
- A process that the store's schema has outgrown is not replaced: the next one, of the same version,
  would fare no better. The others go on as long as they can; when none is left, so ends the
  supervisor, with the code for a store that cannot be used.
- The first SIGTERM or SIGINT is passed on as SIGTERM, once; from then on nothing is started. When
  all have ended, so does the supervisor, with 0 if they did. A process that was so young that it
  had not yet set its handlers dies of the signal itself: it has ended as it was told. The second
  signal kills them.
- If the supervisor itself is killed, its processes notice that their lifeline has closed, and stop
  as if they had been told to.

They have process groups of their own, so that a Ctrl-C is passed on once, by us. Signals are heard
in the main thread, between any two instructions of what is below.
"""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from windlass.cli.failures import STORE, USAGE
from windlass.engine.child import how_it_ended
from windlass.sources import Sources

log = logging.getLogger(__name__)

RECYCLED = 85
"""The exit code of a worker process that asks to be replaced."""
OUTGROWN = 86
"""The exit code of a worker process whose store has another schema than it knows."""

_HEALTHY = 10.0  # seconds after which a death is the first of a new series
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


@dataclass(slots=True, eq=False)
class Post:
    """The place of one worker process."""

    number: int
    process: "subprocess.Popen[bytes] | None" = None
    lifeline: socket.socket | None = None
    started: float = 0.0
    deaths: int = 0  # in a row
    due: float | None = 0.0  # when to start the next; None: not at all, or not yet
    told: bool = False  # its process has been told to stop


class Supervisor:
    """Keeps worker processes running; lives in the main thread."""

    def __init__(
        self, command: Sequence[str], count: int, sources: Sources, *, finite: bool = False
    ) -> None:
        """`finite`: a process that ends by itself is done, and is not replaced."""
        self._command = list(command)
        self._finite = finite
        self._sources = sources
        self._posts = [Post(number) for number in range(1, count + 1)]
        self._ends: SimpleQueue[tuple[Post, int] | None] = SimpleQueue()
        self._stopping = False
        self._proven = False  # whether any process has started well
        self._code = 0

    def run(self) -> int:
        """Work until stopped, or until every process is done; returns the exit code."""
        log.info("supervisor started", extra={"pid": os.getpid(), "processes": len(self._posts)})
        said = False
        while True:
            self._start_due()
            if self._stopping and not said and not self._idle:
                said = True  # not where the signal came: that may be in the middle of a line
                log.info(
                    "stopping, waiting for the worker processes to end; Ctrl-C or SIGTERM again "
                    "kills them"
                )
            if self._idle:
                log.info("supervisor stopped", extra={"pid": os.getpid(), "code": self._code})
                return self._code
            try:
                ended = self._ends.get(timeout=self._pause())
            except Empty:
                continue
            if ended is not None:
                self._ended(*ended)

    @property
    def _idle(self) -> bool:
        return all(post.process is None and post.due is None for post in self._posts)

    def stop(self) -> None:
        """Pass the request on; start nothing any more. Safe in a signal handler."""
        self._stopping = True
        for post in self._posts:
            post.due = None
            _ask_to_stop(post)
        self._ends.put(None)

    def kill(self) -> None:
        """End all processes now."""
        self._stopping = True
        for post in self._posts:
            post.due = None
            if post.process is not None:
                post.process.kill()

    def _pause(self) -> float | None:
        due = [due for post in self._posts if (due := post.due) is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _start_due(self) -> None:
        for post in self._posts:
            if self._stopping:
                post.due = None  # it may have been set while the signal came
            due = post.due  # read once: a signal may take it away in between
            if due is not None and due <= time.monotonic():
                self._start(post)

    def _start(self, post: Post) -> None:
        post.due, post.told, post.started = None, False, time.monotonic()
        try:
            process = self._open(post)
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no thread to be had
            self._not_started(post, error)
            return
        extra = {"number": post.number, "pid": process.pid}
        log.info("worker process started", extra=extra)

    def _open(self, post: Post) -> "subprocess.Popen[bytes]":
        post.lifeline, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(self._command, stdin=theirs.fileno(), process_group=0)
        post.process = process
        if self._stopping:  # a signal came while it was started, and may not have seen it
            _ask_to_stop(post)
        threading.Thread(target=self._wait, args=(post, process), daemon=True).start()
        return process

    def _not_started(self, post: Post, error: Exception) -> None:
        process, post.process = post.process, None
        if process is not None:  # nobody would hear of its end
            process.kill()
            process.wait()
        if post.lifeline is not None:
            post.lifeline.close()
            post.lifeline = None
        if self._stopping:
            return
        if not self._proven and all(each.process is None for each in self._posts):
            raise error  # it may well be the command
        extra = {"number": post.number, "error": str(error)}
        self._start_again(post, 0.0, "worker process not started, trying again", extra)

    def _wait(self, post: Post, process: "subprocess.Popen[bytes]") -> None:
        self._ends.put((post, process.wait()))

    def _ended(self, post: Post, code: int) -> None:
        assert post.process is not None
        assert post.lifeline is not None
        lines = [each.lifeline for each in self._posts if each.lifeline is not None]
        self._proven = any(map(_has_started, lines)) or self._proven
        post.lifeline.close()
        post.lifeline = None
        lived = time.monotonic() - post.started
        extra = {"number": post.number, "pid": post.process.pid, "ended": how_it_ended(code)}
        if post.told and code == -signal.SIGTERM:
            code = 0  # it was too young to handle it
        post.process = None
        if self._stopping or (code == 0 and self._finite):
            self._done(code, extra)
        elif code in (0, RECYCLED):  # worn out, or told by somebody else
            post.deaths, post.due = 0, time.monotonic()
            log.info("worker process ended, starting another", extra=extra)
        elif code in (USAGE, STORE, OUTGROWN) and not self._proven:
            log.error("worker process cannot start, giving up", extra=extra)
            self._code = _exit_code(code)
            self.stop()
        elif code == OUTGROWN:
            log.error("worker process is outgrown by the schema, not replaced", extra=extra)
            self._code = STORE if self._idle else self._code
        else:
            self._start_again(post, lived, "worker process died, starting another", extra)

    def _done(self, code: int, extra: dict[str, object]) -> None:
        log.info("worker process ended", extra=extra)
        if code not in (0, RECYCLED) and self._code == 0:
            self._code = _exit_code(code)

    def _start_again(self, post: Post, lived: float, what: str, extra: dict[str, object]) -> None:
        post.deaths = 1 if lived >= _HEALTHY else post.deaths + 1
        pause = min(_FIRST_PAUSE * 2 ** min(post.deaths - 1, 10), _LONGEST_PAUSE)
        pause *= 0.5 + self._sources.jitter() / 2
        post.due = time.monotonic() + pause
        log.warning(what, extra={**extra, "in": round(pause, 2)})


def _ask_to_stop(post: Post) -> None:
    """Tell a process to stop, once: a second time would be taken for impatience."""
    if post.process is not None and not post.told:
        post.told = True
        post.process.terminate()


def _exit_code(code: int) -> int:
    """The exit code to end with where a worker process has ended with this one."""
    if code == OUTGROWN:
        return STORE
    return code if code > 0 else 128 - code


def _has_started(lifeline: socket.socket) -> bool:
    try:
        return bool(lifeline.recv(1, socket.MSG_DONTWAIT))
    except OSError:  # it has said nothing
        return False


class Lifeline:
    """In a worker process: its line to the supervisor, which comes as its standard input.

    It is moved away from there, to where it is not inherited: a program that a handler starts
    would wait for an input that never ends.
    """

    superseded = False
    explains_stop = True

    def __init__(self) -> None:
        self._fd = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def watch(self, gone: Callable[[], None]) -> None:
        """Call this, in another thread, when the supervisor is gone."""
        watch = partial(self._watch, gone)
        threading.Thread(target=watch, name="windlass-lifeline", daemon=True).start()

    def tell_started(self) -> None:
        """Say that this process has come so far as to do its work."""
        with contextlib.suppress(OSError):
            os.write(self._fd, b"1")

    def _watch(self, gone: Callable[[], None]) -> None:
        while True:
            try:
                if not os.read(self._fd, 1):
                    break
            except OSError:  # closed, and what we said was not read
                break
        gone()
