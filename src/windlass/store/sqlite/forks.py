"""A fork of this process finds no file of ours open, and none of our threads inside SQLite.

SQLite keeps what this process has open and locked in memory that all of its connections share,
and the locks themselves are the process's: a fork inherits the memory and not the locks. A child
whose copy says "open" believes itself in possession of locks that it never took. When its parent
closes the file, or dies, the log is removed or truncated under the child, and what that commits
is lost. A copy that says "in a transaction" waits for ever for a lock that nobody holds.

So the process that forks first lets nobody in, waits until all are out, transactions of the
caller's too, and closes its connections; both sides open the file again when they next use it.
The fork does not wait for itself, nor for longer than its patience: a file that could not be
closed by then is lost to the child, which is told so whenever it would use it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from windlass.errors import UsageError

_PATIENCE = 5.0  # seconds; whoever waits for another process's lock does not hold up a fork longer


class Stay:
    """A transaction of the caller's: a stay inside over many calls, in any thread.

    Whatever runs in the thread or the task that it was made in is at home while it lasts: a fork
    there cannot wait for its end, and what is called there must not wait for the fork.
    """

    def __init__(self, gate: "ForkGate") -> None:
        self._gate = gate
        self.thread = threading.get_ident()
        _stays.set((*[stay for stay in _stays.get() if stay.lasts], self))

    @property
    def lasts(self) -> bool:
        """Whether it has begun and not ended, in this process."""
        return self._gate.knows(self)

    def begin(self) -> None:
        """Count from now on; to be called inside the gate."""
        self._gate.keep(self)

    def end(self) -> None:
        """Count no more, if it ever did."""
        self._gate.dismiss(self)


class _Own(threading.local):
    """What a thread has of a gate: how often it is inside."""

    depth = 0


class ForkGate:
    """Open to any number of threads at once; shut while the process is forked."""

    def __init__(self, patience: float = _PATIENCE) -> None:
        self.patience = patience
        self._forking: int | None = None  # the thread that does
        self._kept: set[Stay] = set()
        self._files: dict[object, Path] = {}
        self._lost: set[Path] = set()
        self.renew()

    def __enter__(self) -> None:
        own = self._own
        with self._mutex:
            while self._forking is not None and not (own.depth or self._at_home()):
                self._changed.wait(self.patience)
            self._inside += 1
        self._own.depth += 1  # not `own`: a handler of signals may just have forked

    def __exit__(self, *_: object) -> None:
        own = self._own
        if not own.depth:
            return  # forked off in between: this gate was never entered
        own.depth -= 1
        with self._mutex:
            self._inside -= 1
            if self._forking is not None:
                self._changed.notify_all()

    @contextmanager
    def using(self, path: Path) -> Iterator[None]:
        """Enter, with a connection that cannot be closed for a fork: the file is lost to it."""
        self.refuse_lost(path)
        with self:
            key = object()
            self._files[key] = path
            try:
                yield
            finally:
                self._files.pop(key, None)

    def refuse_lost(self, path: Path) -> None:
        """Refuse a file that was in use when this process was forked off."""
        if path in self._lost:
            raise UsageError(
                f"{path} cannot be used in this process, which was forked off while its parent "
                "was using it, as in a transaction begun before a fork: SQLite would count on "
                "locks that only the parent has. Fork outside of app.transaction(), or start the "
                'process anew (multiprocessing\'s "spawn", subprocess).'
            )

    def shut(self) -> None:
        """Let nobody in, and wait until the others are out."""
        own = self._own.depth
        with self._changed:
            self._changed.wait_for(lambda: self._forking is None)  # another thread's fork
            self._forking = threading.get_ident()
            self._changed.wait_for(
                lambda: self._inside <= own and not self._others(), self.patience
            )

    def reopen(self) -> None:
        """Let them in again."""
        with self._changed:
            if self._forking == threading.get_ident():
                self._forking = None
                self._changed.notify_all()

    def renew(self) -> None:
        """Begin anew, as in a process that was forked off: none of the other threads is there."""
        # Taken by itself where nobody waits: a lock is quicker than a condition.
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._own = _Own()
        self._inside = 0
        self._forking = None
        self._kept = set()
        self._lost.update(self._files.values())
        self._files = {}

    def lose(self, path: Path) -> None:
        """Have a file refused in this process from now on, and in those that it forks."""
        self._lost.add(path)

    def keep(self, stay: Stay) -> None:
        """Count a stay."""
        with self._changed:
            self._kept.add(stay)

    def knows(self, stay: Stay) -> bool:
        """Whether a stay is counted."""
        return stay in self._kept

    def dismiss(self, stay: Stay) -> None:
        """Count a stay no more."""
        with self._changed:
            self._kept.discard(stay)
            if self._forking is not None:
                self._changed.notify_all()

    def _at_home(self) -> bool:
        """Whether the fork may be waiting for this very thread or task, or is made by it."""
        here = threading.get_ident()
        return self._forking == here or any(self._is_own(stay, here) for stay in self._kept)

    def _others(self) -> bool:
        """Whether anyone stays whom a fork by this thread can wait for."""
        here = threading.get_ident()
        return not all(self._is_own(stay, here) for stay in self._kept)

    def _is_own(self, stay: Stay, here: int) -> bool:
        return stay.thread == here or stay in _stays.get()


_stays: ContextVar[tuple[Stay, ...]] = ContextVar("windlass_stays", default=())
"""The stays that were begun around the running code."""

gate = ForkGate()
