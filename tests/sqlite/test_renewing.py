"""Renewals have a connection of their own: nothing else that blocks holds up a heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import pytest

from tests.sqlite.kit import new_run, new_worker, run_script
from windlass.domain.run import Held
from windlass.sources import ManualSources
from windlass.store.interface import Call
from windlass.store.sqlite.open_transaction import OpenTransaction
from windlass.store.sqlite.store import SqliteStore

PATIENCE = 10.0


@contextmanager
def thread(target: Callable[[], object]) -> Iterator[None]:
    """Something in a thread, until it has ended."""
    running = threading.Thread(target=target, daemon=True)
    running.start()
    yield
    running.join(PATIENCE)
    assert not running.is_alive()


def renewal(store: SqliteStore) -> Call[Any]:
    """The heartbeat of the only worker."""
    held: list[Held] = []
    return store.operations.renew("w1", 30.0, held, 0)


def test_renewal_does_not_wait_for_a_long_read(store: SqliteStore) -> None:
    """A listing by a sync handler, or a view, may walk through millions of runs."""
    reading, go, renewed = (threading.Event() for _ in range(3))
    replies: list[Any] = []

    def body(tx: OpenTransaction) -> None:
        reading.set()
        go.wait(PATIENCE)

    def renew() -> None:
        replies.append(store.run(renewal(store)))
        renewed.set()

    store.run(store.operations.register(new_worker(), 30.0))
    with thread(lambda: store._own().blocking.read(body)):
        assert reading.wait(PATIENCE)
        with thread(renew):
            in_time = renewed.wait(PATIENCE / 5)
            go.set()
    assert in_time
    assert replies[0].alive


def test_renewal_is_opened_when_first_used_and_closed_with_the_rest(
    store: SqliteStore, sources: ManualSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[apsw.Connection] = []
    closed: list[apsw.Connection] = []

    class Counted(apsw.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            opened.append(self)

        def close(self, force: bool = False) -> None:
            closed.append(self)
            super().close(force)

    monkeypatch.setattr(apsw, "Connection", Counted)
    store.run(store.operations.register(new_worker(), 30.0))
    store.run(store.operations.enqueue([new_run(sources)]))
    assert len(opened) == 1
    for _ in range(3):
        assert store.run(renewal(store)).alive
    assert len(opened) == 2
    store.close()
    assert closed == opened
    assert store.run(renewal(store)).alive  # the next use opens it again


async def test_renewal_is_closed_with_the_whole_store(store: SqliteStore) -> None:
    await store.arun(store.operations.register(new_worker(), 30.0))
    store.run(renewal(store))
    await store.aclose()
    assert not store.path.with_name(store.path.name + "-wal").exists()  # that was the last one


FORK = """
import os, sys
from tests.sqlite.kit import new_worker
from windlass.store.sqlite.store import SqliteStore

store = SqliteStore(sys.argv[1])
store.run(store.operations.register(new_worker(), 30.0))
renew = store.operations.renew("w1", 30.0, [], 0)
assert store.run(renew).alive
child = os.fork()
if child == 0:
    assert store.run(renew).alive
    store.close()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert store.run(renew).alive
store.close()
print("done")
"""


def test_each_side_of_a_fork_renews_by_its_own(store: SqliteStore) -> None:
    assert run_script(FORK, store.path) == "done\n"
