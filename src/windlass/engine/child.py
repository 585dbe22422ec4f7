"""One child process of a worker: started, talked to, killed.

It is a fresh interpreter (`python -m windlass.isolation`), never a fork of this process, whose
threads and connections a fork would copy half-way. It has a process group of its own: a Ctrl-C
that is meant for the worker does not reach it, and whatever its handler started is killed with it,
also where it dies by itself; only a child that was let go between attempts leaves that alone. When
the worker dies, the child finds its socket closed and ends itself, with its group. One that says
what is no message, or only a part of one, or closes its socket and lives on, is killed: a handler
may write to any number, and the end of its attempt would never be heard.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable

import msgspec

from windlass.domain.run import Finish
from windlass.engine.time_limit import time_limit
from windlass.engine.wire import (
    HEADER,
    Answer,
    Ask,
    Assignment,
    Began,
    Done,
    Joining,
    Junk,
    Lacking,
    Line,
    Ready,
    Setup,
    StandingNow,
    ToChild,
    Told,
    ToWorker,
    Words,
    frame,
    length_in,
    read_in_worker,
)
from windlass.errors import ProcessDied
from windlass.logs import steady_log

log = steady_log(__name__)

PROGRAM = "windlass.isolation"
_LAST_WORDS = 0.2  # seconds for what a process that has ended may have said before
_STALLED = 30.0  # seconds without a byte of a message that has begun
_UNCLEAR = "after it had said what cannot be understood"


class Child:
    """A process that runs one attempt at a time."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._result: asyncio.Future[Done | Lacking] | None = None
        self._began: Callable[[], None] = lambda: None
        self._told: Callable[[Words], None] = lambda told: None
        self._joined: Callable[[Finish | None], None] = lambda finish: None
        self._attempt: Assignment | None = None  # the one it has now, or had last
        self._answer: Callable[[Ask], Awaitable[Answer]] | None = None
        self._code: int | None = None
        self._why: str | None = None  # it was killed, if not for an order
        self.ready = False  # it has come so far as to take an attempt
        self.dismissed = False  # let go between attempts: it ends by itself
        self._reaping = threading.Lock()
        self._reaped = False  # its id may be another's
        self.known = set[str]()  # the folders of job files that it has
        self.runs = 0
        self.memory = 0

    @classmethod
    async def start(cls, setup: Setup) -> "Child":
        """Start a process; it imports what it needs with its first attempt."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                child = cls(_spawn(theirs))
            except BaseException:
                ours.close()
                raise
        waiting = threading.Thread(target=child._wait, name="windlass-child-wait", daemon=True)
        try:
            waiting.start()
        except RuntimeError:  # the machine has no thread to give: nobody would hear of its end
            ours.close()
            child.kill()
            child._process.wait()
            raise
        try:
            reader, child._writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            child.kill()
            raise
        child._send(setup)
        child._reading = child._loop.create_task(child._read(reader), name="windlass-child")
        return child

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exists(self) -> bool:
        """Whether the process is there; unlike `alive`, true at once, in any thread."""
        return not self._reaped

    @property
    def alive(self) -> bool:
        """Whether it has not ended, nor been told to."""
        return not self._ended.is_set() and self._writer is not None

    def attempt(
        self,
        attempt: Assignment,
        *,
        began: Callable[[], None],
        told: Callable[[Words], None],
        joined: Callable[[Finish | None], None],
        answer: Callable[[Ask], Awaitable[Answer]],
    ) -> "asyncio.Future[Done | Lacking]":
        """Run an attempt; the future raises ProcessDied where there is no end to it."""
        self._attempt, self._began, self._answer = attempt, began, answer
        self._told, self._joined = told, joined
        self._result = self._loop.create_future()
        if self.alive:
            self.runs += 1
            self._send(attempt)
        else:
            self._gone()
        return self._result

    def report(self, standing: StandingNow) -> None:
        """Say how the run stands."""
        if self.alive:
            self._send(standing)

    def kill(self) -> None:
        """End it now, with all that its handler started."""
        with self._reaping:
            if not self._reaped:
                _kill_group(self.pid)

    def dismiss(self) -> None:
        """Let it end by itself: it closes what it opened. Only between attempts."""
        self.dismissed = True
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def ended(self, within: float) -> bool:
        """Wait for its end; false: it lives longer than that."""
        try:
            async with time_limit(within):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    # -- inside -----------------------------------------------------------------------------

    def _send(self, message: ToChild) -> None:
        assert self._writer is not None
        self._writer.write(frame(message))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                start = await reader.readexactly(1)  # for as long as it has nothing to say
                header = await _rest(reader, start, HEADER.size)
                self._heard(await _rest(reader, b"", length_in(header)))
        except (asyncio.IncompleteReadError, ConnectionError):
            # It has ended, or is about to: its exit code tells how. If not, nobody hears its end.
            if not self.dismissed:
                self._loop.call_later(_LAST_WORDS, self.kill)
        except (Junk, msgspec.MsgspecError, UnicodeError, TimeoutError) as error:
            extra = {"pid": self.pid, "error": str(error) or "a message was not ended"}
            log.error("child process not understood, and ended", extra=extra)
            self._why = _UNCLEAR
            self.kill()
        except BaseException:  # nobody listens to it any more: it would never end its attempt
            self.kill()
            raise

    def _heard(self, body: bytes) -> None:
        message: ToWorker = read_in_worker(body)
        match message:
            case Line() as line:
                emit(line, self.pid)
            case Ready():
                self.ready = True
            case Began():
                self._began()
            case Ask() as ask:
                task = self._loop.create_task(self._reply(ask))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case Told() as told:
                if self._attempt is not None and told.is_of(self._attempt):
                    self._told(told.words)
            case Joining() as joining:
                ours = self._attempt is not None and joining.is_of(self._attempt)
                if ours:
                    self._joined(joining.finish)
                if self.alive:
                    self._send(Answer(lost=not ours))
            case Done() | Lacking() as end:
                if isinstance(end, Done):
                    self.memory = end.memory
                    if end.words:
                        self._told(end.words)
                if self._result is not None and not self._result.done():
                    self._result.set_result(end)

    async def _reply(self, ask: Ask) -> None:
        answer = Answer(lost=True)  # what an attempt left behind must not act for the next one
        try:
            if self._answer is not None and self._attempt is not None and ask.is_of(self._attempt):
                answer = Answer(error=f"The worker failed to {ask.operation}.")
                answer = await self._answer(ask)
        finally:  # also after a bug of ours: the handler would wait for ever
            if self.alive:
                self._send(answer)

    def _wait(self) -> None:
        """In a thread: a socket that a grandchild has inherited stays open after the child."""
        ended_well = _await_end(self._process)
        with self._reaping:
            if not ended_well or not self.dismissed:
                _kill_group(self.pid)
            code = self._process.wait()
            self._reaped = True
        try:
            self._loop.call_soon_threadsafe(self._exited, code)
        except RuntimeError:
            return  # the loop has closed: nobody asks any more

    def _exited(self, code: int) -> None:
        self._code = code
        self._ended.set()
        if self._reading is not None:
            self._reading.add_done_callback(lambda _: self._gone())
        self._loop.call_later(_LAST_WORDS, self._gone)

    def _gone(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._result is not None and not self._result.done():
            how = self._why or how_it_ended(self._code)
            self._result.set_exception(ProcessDied(how))
            self._result.exception()  # whoever gave it up does not ask


async def _rest(reader: asyncio.StreamReader, start: bytes, size: int) -> bytes:
    """Read a whole that has begun. Raises TimeoutError where it does not go on."""
    parts = bytearray(start)
    while len(parts) < size:
        async with asyncio.timeout(_STALLED):
            data = await reader.read(size - len(parts))
        if not data:
            raise asyncio.IncompleteReadError(bytes(parts), size)
        parts += data
    return bytes(parts)


def _spawn(theirs: socket.socket) -> "subprocess.Popen[bytes]":
    """Start the program; it takes a few milliseconds, since nothing of this process is copied."""
    import fcntl  # not on Windows, which has no child processes for handlers

    # A host that was started without standard streams has sockets in their places.
    fd = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(fd)],
            pass_fds=[fd],
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
    finally:
        os.close(fd)


def _await_end(process: "subprocess.Popen[bytes]") -> bool:
    """Wait for an end, good or not, and leave it to be collected: until then the process keeps
    its id, and nobody else's group can have it."""
    if not hasattr(os, "waitid"):  # macOS, before Python 3.13
        return process.wait() == 0
    try:
        end = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # somebody collects all that ends
        return process.wait() == 0
    return end is not None and (end.si_code, end.si_status) == (os.CLD_EXITED, 0)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS: nobody of it is alive
        return


def how_it_ended(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "without a word"
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def emit(line: Line, pid: int) -> None:
    """Write an event of the child's into this process's log."""
    logger = logging.getLogger(line.logger)
    if not logger.isEnabledFor(line.level):
        return
    known = {
        "name": line.logger,
        "levelno": line.level,
        "levelname": logging.getLevelName(line.level),
        "msg": line.message,
        "args": (),
        "created": line.created,
        "exc_text": line.exception,
        "process": pid,
    }
    log.handle(logging.makeLogRecord({**line.fields, **known}))
