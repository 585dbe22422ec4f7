"""A process that takes SQLite's write lock when it is told to, and keeps it until told again.

It says what it has done: the lock can be waited for, and the moment at which it is free.
"""

from __future__ import annotations

import sys

import apsw


def main(path: str) -> None:
    """Hold the lock; what was written under it is undone."""
    connection = apsw.Connection(path)
    connection.set_busy_timeout(10_000)
    say("ready")
    sys.stdin.readline()
    connection.execute("begin immediate")
    say("locked")
    sys.stdin.readline()
    connection.execute("rollback")
    say("unlocked")
    connection.close()


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
