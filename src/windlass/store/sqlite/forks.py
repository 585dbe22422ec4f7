"""A fork of this process waits until none of its threads is inside SQLite.

SQLite keeps what this process has locked in memory that all of its connections share. A copy of
that made in the midst of a transaction says "locked" for ever: whatever the forked process opens
on the same file would wait for a lock that nobody holds.
"""

import os
import threading

_PATIENCE = 5.0  # seconds; whoever waits for another process's lock does not hold up a fork longer


class ForkGate:
    """Open to any number of threads at once; shut while the process is forked."""

    def __init__(self) -> None:
        self.renew()

    def __enter__(self) -> None:
        depth = getattr(self._own, "depth", 0)
        with self._changed:
            while self._shut and not depth:
                self._changed.wait(_PATIENCE)
            self._inside += 1
        self._own.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        depth = getattr(self._own, "depth", 0)
        if not depth:
            return  # forked off in between: this gate was never entered
        self._own.depth = depth - 1
        with self._changed:
            self._inside -= 1
            if self._shut:
                self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in, and wait until the others are out."""
        own = getattr(self._own, "depth", 0)
        with self._changed:
            self._shut = True
            self._changed.wait_for(lambda: self._inside <= own, _PATIENCE)

    def reopen(self) -> None:
        """Let them in again."""
        with self._changed:
            self._shut = False
            self._changed.notify_all()

    def renew(self) -> None:
        """Begin anew, as in a process that was forked off: none of the other threads is there."""
        self._changed = threading.Condition()
        self._own = threading.local()
        self._inside = 0
        self._shut = False


gate = ForkGate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=gate.shut, after_in_parent=gate.reopen, after_in_child=gate.renew)
