"""Many processes on one SQLite file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

import apsw
import pytest

from tests.conformance.places import SqlitePlace
from tests.faults.harness import Fleet, Stage, eventually
from windlass.store.sqlite.connection import BUSY_SECONDS

# The log is cut back to this where it had to grow beyond it.
LOG_LIMIT = 64 * 1024**2


def test_a_crowd_on_one_file_never_hears_of_locks(sqlite_stage: Stage, fleet: Fleet) -> None:
    """F29: eight processes, a reader that does not let go, and a VACUUM: all wait, not for long."""
    storm(sqlite_stage, fleet, clients=4, count=40)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_larger_crowd_never_hears_of_locks_either(sqlite_stage: Stage, fleet: Fleet) -> None:
    """F29, the long form."""
    storm(sqlite_stage, fleet, clients=8, count=500)


def storm(stage: Stage, fleet: Fleet, *, clients: int, count: int) -> None:
    assert isinstance(stage.place, SqlitePlace)
    path = stage.place.path
    with reading(path):
        workers = [fleet.worker(concurrency=4) for _ in range(4)]
        crowd = [fleet.client(first=n * 10_000, count=count, ms=5) for n in range(clients)]
        stage.await_lines("acks", count, within=60)  # a dozen processes have to start first
        vacuum = threading.Thread(target=try_to_vacuum, args=(path,))
        vacuum.start()
        assert [client.wait(within=200) for client in crowd] == [0] * clients
        vacuum.join()
        stage.quiet()
        write_heavily(stage)  # the log grows for as long as somebody reads from it
    stage.load(1)
    stage.quiet()

    acked = stage.acked().values()
    assert len(acked) == clients * count
    took = [float(line) for line in stage.witness.raw("took")]
    assert quantiles(took, n=100)[98] < BUSY_SECONDS
    stage.check(acked=acked)
    assert all(worker.alive for worker in workers)
    for process in fleet.processes:
        text = process.log().lower()
        assert "locked" not in text
        assert "busy" not in text
        assert "unavailable" not in text
    # The log is used again from its beginning as soon as nobody reads from it, which cuts it to
    # its limit, and no process keeps it from being emptied.
    eventually(lambda: wal_size(path) <= 1.5 * LOG_LIMIT, within=10, what="the log is small again")
    assert truncated(path)


def write_heavily(stage: Stage) -> None:
    """Write much more than the log may hold."""
    heavy = stage.app.jobs["heavy"]
    for _ in range(12):
        stage.app.enqueue_many([heavy.request(text="x" * 500_000) for _ in range(16)])
    stage.quiet()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A reader with one transaction, from beginning to end."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.execute("begin")
    connection.execute("select count(*) from runs").fetchall()
    yield
    connection.execute("commit")
    connection.close()


def try_to_vacuum(path: Path) -> None:
    """What an operator may do by hand; here it hardly succeeds, and must not harm."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(2_000)
    try:
        connection.execute("vacuum")
    except (apsw.BusyError, apsw.LockedError):
        pass
    finally:
        connection.close()


def wal_size(path: Path) -> int:
    """The size of the log, in bytes."""
    return path.with_name(path.name + "-wal").stat().st_size


def truncated(path: Path) -> bool:
    """Empty the log, which only works where nobody reads from it."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(5_000)
    try:
        busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchall()[0]
        return busy == 0
    finally:
        connection.close()
