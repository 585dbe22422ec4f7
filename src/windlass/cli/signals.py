"""How a worker is told to stop, and how its process ends whatever handlers do.

- The first SIGTERM or SIGINT asks. Before there is a worker that could be asked the process ends on
  the spot, with 0: nothing was claimed. It does not end by an exception: that would be raised
  between any two instructions of whatever is being imported, which may catch it, or turn it into
  another. Once there is a worker, it drains.
- A later one insists: the process ends on the spot, and its leases run out. Process managers
  often pass Ctrl-C on to children that the terminal has told already: a second signal right
  after the first is that, and not impatience. A process under a supervisor may hear of one request
  twice, at any distance on a busy machine: from the supervisor, and from whoever tells the whole
  group. So there only the supervisor insists, by SIGKILL.
- At the very end, when Python takes its handlers away, signals are ignored: the work is done, and
  the exit code says so.
- A thread that cannot be stopped, a coroutine that swallows its cancellation, a library that
  blocks at exit: none of them may keep a process alive whose work is done. Hence the alarm.

Who sent it
-----------
A handler that sends SIGTERM to its own process (or a program that it started does) must not get
away with it, while an operator's or a service manager's counts for nothing. The kernel tells who
sent a signal only to those who wait for it (`sigwaitinfo`), not to Python's signal handlers. To
wait for it, a thread must block it, and programs inherit what the thread that starts them blocks;
so no thread that runs handlers may. Hence (`Signals.during`): the main thread does nothing but
wait, and blocks the signals; the work, with its event loop, is done in a thread of its own, which
blocks nothing. Linux gives a signal that is sent to a process to its main thread whenever that
waits for it. It only wakes that thread, though: one that begins, or changes what it blocks, in the
microseconds until then takes the signal first (so does one that starts a program).

- A signal from this process, or from a descendant that is still there, comes from inside
  (`Signals.inside`); any other one from outside, also where nobody can tell: a descendant that has
  ended meanwhile, or left the family, is a stranger.
- A signal to a single thread (`signal.raise_signal`) comes to Python's signal handler in that
  thread. So does one that came while the process was stopped (SIGSTOP), or that another thread took
  first, as above. Nobody can tell who sent it, so it is passed on to the main thread as from
  outside. A handler that does it again and again is found at one of the next times.
- If the supervisor is gone, `Signals.ask` stops the worker, as a signal from outside would.
- Where there is no `sigwaitinfo` (macOS, Windows) the work is done in the main thread, signals come
  to Python's signal handlers, and all are taken for signals from outside. The handlers are Python's
  own, not the event loop's: those would wait for the very handler that blocks the loop.

Between two waits the main thread misses a signal, and another thread gets it. That is so only after
the first signal, and it does not matter who sends the second.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import NoReturn, TypeVar

from windlass.process import SIGNALS, take_signals

T = TypeVar("T")

FAREWELL = 3.0
"""Seconds for what an application does at exit."""
TOGETHER = 0.25
"""Seconds within which two signals are one request."""


class Signals:
    """Turns signals into a stop; made in the main thread, before anything slow."""

    def __init__(self, *, insistent: bool = True) -> None:
        """`insistent`: a second signal ends the process on the spot."""
        self._stop: Callable[[], None] = lambda: leave(0)
        self._insist: Callable[[], None] = lambda: None
        self.insistent = insistent
        self._first: float | None = None
        self._asked = False  # by whom, nobody can tell: not by the sender of the signal itself
        self._waiting = self._passing = self._over = False
        self.inside: tuple[int, ...] = ()
        """If the first signal came from inside: its sender and the processes between, up to us."""
        for number in SIGNALS:
            signal.signal(number, self._received)
        atexit.register(_ignore_signals)  # the first to be registered is the last to be called
        take_signals()

    def then(self, stop: Callable[[], None], insist: Callable[[], None] | None = None) -> None:
        """From now on ask by calling this, in the main thread, between any two instructions;
        `insist` is called before the process ends on the spot."""
        self._stop = stop
        self._insist = insist or (lambda: None)

    def ask(self) -> None:
        """Stop as if told to from outside; may be called from any thread."""
        self._asked = True
        os.kill(os.getpid(), signal.SIGTERM)

    def during(self, work: Callable[[], T]) -> T:
        """Do some work while this thread, which must be the main one, waits for signals."""
        if not hasattr(signal, "sigwaitinfo"):
            return work()
        done: Future[T] = Future()
        thread = threading.Thread(
            target=self._do, args=(work, done, threading.get_ident()), name="windlass", daemon=True
        )
        self._listen(threading.get_ident())
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._waiting = True
        if self._passing and self._first is None:  # it came in between: see `_listen`
            self.ask()
        try:
            thread.start()
            while not self._over:
                sent = signal.sigwaitinfo(SIGNALS)
                if not self._over:
                    self._hear(sent.si_signo, self._line(sent))
            thread.join()
            while signal.sigtimedwait(SIGNALS, 0) is not None:  # what woke us, or came too late
                continue
        finally:
            self._waiting = False
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return done.result()

    def _do(self, work: Callable[[], T], done: "Future[T]", main: int) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # for all threads and programs to come
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            done.set_exception(error)
        finally:
            self._over = True
            signal.pthread_kill(main, signal.SIGTERM)

    def _listen(self, main: int) -> None:
        """Pass on signals that are sent to another thread of ours, for as long as we live."""
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)
        signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)

        def listen() -> None:
            while number := os.read(ours, 1):
                # Before we look whether the main thread waits: that looks at it afterwards. So
                # one of us sees a signal that came in between, which `_received` leaves to us.
                self._passing = True
                if number[0] in SIGNALS and self._waiting:
                    self._asked = True
                    signal.pthread_kill(main, number[0])

        threading.Thread(target=listen, name="windlass-signals", daemon=True).start()

    def _line(self, sent: "signal.struct_siginfo") -> tuple[int, ...]:
        """The processes from the sender to this one; empty: it is none of ours."""
        return () if self._asked or sent.si_code > 0 else line_of(sent.si_pid)

    def _received(self, number: int, _: FrameType | None) -> None:
        if not self._waiting:  # else the main thread hears of it, and by whom
            self._hear(number, ())

    def _hear(self, number: int, line: tuple[int, ...]) -> None:
        if self._first is None:
            self._first, self.inside = time.monotonic(), line
            self._stop()
        elif self.insistent and time.monotonic() - self._first > TOGETHER:
            self._insist()
            leave(128 + number)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class Alarm:
    """Ends the process if it has not ended by itself in time."""

    def __init__(self) -> None:
        # Its thread exists before it is needed: a signal handler cannot start one, since it
        # might wait for a lock that the interrupted code holds.
        self._orders: SimpleQueue[tuple[float, int]] = SimpleQueue()
        threading.Thread(target=self._watch, name="windlass-alarm", daemon=True).start()

    def set(self, seconds: float, code: int) -> None:
        """End in so many seconds, with this exit code; replaces what was set before."""
        self._orders.put((seconds, code))

    def _watch(self) -> None:
        seconds, code = self._orders.get()
        while True:
            try:
                seconds, code = self._orders.get(timeout=seconds)
            except Empty:
                leave(code)


def line_of(pid: int) -> tuple[int, ...]:
    """The processes from one of our descendants, or ourselves, up to us; empty: it is neither."""
    line: tuple[int, ...] = ()
    while pid > 1:
        line = (*line, pid)
        if pid == os.getpid():
            return line
        try:
            status = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:  # it has ended
            return ()
        pid = int(status.rpartition(b")")[2].split()[1])
    return ()


def leave(code: int) -> NoReturn:
    """End the process now, whatever else runs in it."""
    logs = sys.modules.get("windlass.logs")  # not imported for that; it may be about to be
    if logs is not None and hasattr(logs, "rescue"):
        logs.rescue()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, RuntimeError):  # closed, or busy writing
            continue
    os._exit(code)
