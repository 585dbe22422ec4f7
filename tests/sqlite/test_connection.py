"""Connections: their settings, waiting for the lock, and what a failure leaves behind."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.sqlite.kit import new_run
from windlass.domain.listing import RunFilter
from windlass.errors import KeyConflict, StoreFull, StoreUnavailable
from windlass.sources import ManualSources
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.open_transaction import OpenTransaction, StoreClock
from windlass.store.sqlite.store import SqliteStore


@pytest.fixture
def connection(path: Path, sources: ManualSources) -> Connection:
    """A connection as the store makes them."""
    return Connection(path, sources, StoreClock(sources.clock))


def pragma(connection: Connection, name: str) -> Any:
    """Ask the connection for one of its settings."""
    return connection.read(lambda tx: tx._connection.pragma(name))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("trusted_schema", 0),
        ("mmap_size", 0),
        ("cache_size", -65536),
        ("wal_autocheckpoint", 4000),
        ("journal_size_limit", 67108864),
    ],
)
def test_every_connection_is_set_alike(connection: Connection, name: str, value: object) -> None:
    assert pragma(connection, name) == value
    connection.close()
    assert pragma(connection, name) == value
    connection.close()


def count(connection: Connection) -> int:
    """How many job rows there are."""
    return len(connection.read(lambda tx: tx.fetch("list_jobs", ("t",))))


def add_job(tx: OpenTransaction) -> None:
    """Write one row."""
    tx.execute(
        "sync_job",
        ("t", "j", "q", 0, 5, None, "{}", None, None, None, None, None, None, None, tx.now),
    )


def test_write_that_raises_leaves_nothing(connection: Connection) -> None:
    def fail(tx: OpenTransaction) -> None:
        add_job(tx)
        raise KeyConflict("j", "k", "r")

    with pytest.raises(KeyConflict):
        connection.write(fail)
    assert count(connection) == 0
    connection.write(add_job)
    assert count(connection) == 1
    connection.close()


def test_read_that_raises_leaves_no_transaction_open(connection: Connection) -> None:
    def fail(tx: OpenTransaction) -> None:
        tx.fetch("list_jobs", ("t",))
        raise LookupError

    with pytest.raises(LookupError):
        connection.read(fail)
    assert not connection.in_transaction
    connection.close()


def interrupt(event: str, number: int) -> None:
    """Press Ctrl-C as a statement begins or has ended, the first being number 1."""
    seen = 0

    def look(_: object, found: str, function: Any) -> None:
        nonlocal seen
        if found == event and getattr(function, "__name__", "") == "execute":
            seen += 1
            if seen == number:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(look)


@pytest.mark.parametrize("kind", ["write", "read"])
@pytest.mark.parametrize(
    ("event", "number"),
    [pytest.param("c_return", 1, id="begun"), pytest.param("c_call", 2, id="to be committed")],
)
def test_interrupt_at_either_end_leaves_no_transaction_open(
    connection: Connection, kind: str, event: str, number: int
) -> None:
    connection.write(add_job)
    run = connection.write if kind == "write" else connection.read
    try:
        interrupt(event, number)
        with pytest.raises(KeyboardInterrupt):
            run(lambda _: None)
    finally:
        sys.setprofile(None)
    assert not connection.in_transaction
    connection.write(add_job)
    connection.close()


def test_savepoint_undoes_what_is_inside_alone(connection: Connection) -> None:
    def inside(tx: OpenTransaction) -> None:
        with tx.savepoint():
            tx.execute(
                "sync_job",
                ("t", "k", "q", 0, 5, None, "{}", None, None, None, None, None, None, None, 0),
            )
            raise LookupError

    def partly(tx: OpenTransaction) -> None:
        add_job(tx)
        with pytest.raises(LookupError):
            inside(tx)

    connection.write(partly)
    assert count(connection) == 1
    connection.close()


@dataclass(frozen=True, kw_only=True)
class _ReleasingSources(ManualSources):
    """Jitter that lets go of the lock once somebody has found the file locked three times."""

    holder: apsw.Connection
    asked: list[float]

    def jitter(self) -> float:
        self.asked.append(0.0)
        if len(self.asked) == 3:
            self.holder.execute("commit")
        return 0.0


def test_locked_file_is_waited_for(path: Path, sources: ManualSources) -> None:
    SqliteStore(path).migrate()
    holder = apsw.Connection(str(path))
    holder.execute("begin immediate")
    waiting = _ReleasingSources(
        clock=sources.clock, ids=sources.ids, random=sources.random, holder=holder, asked=[]
    )
    with SqliteStore(path, sources=waiting) as store:
        store.run(store.operations.enqueue([new_run(sources)]))
        assert len(store.run(store.operations.list_runs(RunFilter()))) == 1
    assert len(waiting.asked) == 3
    holder.close()


def test_file_locked_for_too_long_is_unavailable(path: Path, sources: ManualSources) -> None:
    SqliteStore(path).migrate()
    holder = apsw.Connection(str(path))
    holder.execute("begin immediate")
    with SqliteStore(path, sources=sources, busy_seconds=0.01) as store:
        call = store.operations.enqueue([new_run(sources)])
        with pytest.raises(StoreUnavailable, match="is locked by another process") as caught:
            store.run(call)
        assert caught.value.retryable
        assert store.run(store.operations.list_runs(RunFilter())) == []  # reading goes on
        holder.execute("rollback")
        store.run(call)
    holder.close()


def test_full_disk_is_told_and_the_connection_replaced(
    connection: Connection, sources: ManualSources
) -> None:
    pages = pragma(connection, "page_count")
    connection.read(lambda tx: tx._connection.pragma("max_page_count", pages))

    def fill(tx: OpenTransaction) -> None:
        for number in range(10_000):
            tx.execute("enqueue_tag", ("t", f"tag {number}", sources.new_id().encode()[:16]))

    with pytest.raises(StoreFull, match="There is no room left"):
        connection.write(fill)
    assert not connection.in_transaction
    connection.write(add_job)
    connection.write(fill)  # a connection of its own, without the limit
    connection.close()


@pytest.mark.parametrize(("step", "seen"), [(-0.5, 0.0), (-1.5, -1.5), (-3600.0, -3600.0)])
def test_stored_time_stands_still_for_corrections_and_follows_a_clock_that_was_set(
    store: SqliteStore, sources: ManualSources, step: float, seen: float
) -> None:
    first, second = (new_run(sources), new_run(sources))
    (one,) = store.run(store.operations.enqueue([first]))
    sources.clock.jump(step)
    (two,) = store.run(store.operations.enqueue([second]))
    assert (two.created_at - one.created_at).total_seconds() == seen
