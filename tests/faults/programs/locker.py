"""A process that takes SQLite's write lock, says so, and keeps it until its input closes."""

from __future__ import annotations

import sys

import apsw


def main(path: str) -> None:
    """Hold the lock; what was written under it is undone."""
    connection = apsw.Connection(path)
    connection.set_busy_timeout(10_000)
    connection.execute("begin immediate")
    sys.stdout.write("locked\n")
    sys.stdout.flush()
    sys.stdin.read()
    connection.execute("rollback")
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
