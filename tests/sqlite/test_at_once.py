"""The hot calls hold the file's lock for one statement, whatever Python's own lock is held for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from msgspec.structs import replace

from tests.sqlite.kit import (
    JOB,
    QUEUE,
    new_run,
    new_worker,
    start_script,
    succeeded,
    traced,
    writes,
)
from windlass.domain.outcome import Outcome
from windlass.domain.run import Claimed, CycleReply, Finish, Held, RunRef, Want
from windlass.sources import ManualSources
from windlass.store.sqlite.store import SqliteStore

HELD = 0.5

# Makes each hot call while another thread of its process wants Python's lock, and gets it after
# every statement that is no plain read, for as long as a search by a regular expression may take.
# `usleep` of a `PyDLL` keeps the lock; that this thread calls it makes no difference to others.
BUSY = f"""
import ctypes, sys
import apsw
from tests.sqlite.kit import JOB, new_run, new_worker, succeeded
from windlass.domain.run import Want
from windlass.sources import Sources
from windlass.store.sqlite.store import SqliteStore

libc = ctypes.PyDLL(None)
armed = False

def statement_over(event):
    if armed and not event["sql"].lower().lstrip("-- ").startswith(("select", "with")):
        libc.usleep({int(HELD * 1e6)})

apsw.connection_hooks.append(
    lambda connection: connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, statement_over)
)
store, sources = SqliteStore(sys.argv[1]), Sources.system()
calls = store.operations
store.run(calls.register(new_worker(), 600.0))
store.run(calls.renew("w1", 600.0, [], 0))
print("ready", flush=True)
armed = True
store.run(calls.enqueue([new_run(sources)]))
claimed = store.run(calls.cycle("w1", 1, [], Want(limit=5, jobs=(JOB,)))).claimed
store.run(calls.cycle("w1", 2, [succeeded(run) for run in claimed], Want(limit=5, jobs=(JOB,))))
store.run(calls.renew("w1", 600.0, [], 0))
store.run(calls.sweep(dispatch=True, expire=True, reap=True, max_crashes=3, limit=100))
print(len(claimed), flush=True)
"""


def test_lock_is_free_while_a_handler_holds_pythons(store: SqliteStore, path: Path) -> None:
    store.migrate()
    store.close()
    other = apsw.Connection(str(path))
    process = start_script(BUSY, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    longest = 0.0
    while process.poll() is None:
        began = time.monotonic()
        while not _try(other):
            assert time.monotonic() < began + 30
            time.sleep(0.001)
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.005)  # most of the time it is the other's

    out, err = process.communicate(timeout=30)
    other.close()
    assert out == "1\n", err
    assert longest < HELD


def _try(connection: apsw.Connection) -> bool:
    """Take the lock for a moment, if it is free."""
    try:
        connection.execute("begin immediate")
    except apsw.BusyError:
        return False
    connection.execute("rollback")
    return True


# -- which calls these are -----------------------------------------------------------------------


@pytest.fixture
def calls(store: SqliteStore) -> Any:
    """The operations of a store that has a worker."""
    store.run(store.operations.register(new_worker(), 600.0))
    return store.operations


def claim(store: SqliteStore, ends: list[Finish], limit: int = 10, **fields: Any) -> CycleReply:
    want = Want(limit=limit, jobs=(JOB,), **fields) if limit else None
    return store.run(store.operations.cycle("w1", 1, ends, want))


def fail(claimed: Claimed) -> Finish:
    return Finish(
        tenant=claimed.tenant, id=claimed.id, token=claimed.token, outcome=Outcome.RETRY,
        delay=1.0, counts=True,
    )  # fmt: skip


def test_each_hot_call_writes_by_one_statement(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    with traced(store) as seen:
        store.run(calls.enqueue([new_run(sources, tags=("a", "b", "a")) for _ in range(8)]))
        (enqueued,) = writes(seen)
        seen.clear()
        claimed = claim(store, [], 4).claimed
        (taken,) = writes(seen)
        seen.clear()
        more = claim(store, [succeeded(run) for run in claimed], 4).claimed
        (both,) = writes(seen)
        seen.clear()
        store.run(calls.renew("w1", 600.0, [Held(r.tenant, r.id, r.token) for r in more], 1))
        (renewed,) = writes(seen)
        seen.clear()
        store.run(calls.sweep(dispatch=True, expire=True, reap=True, max_crashes=3, limit=10))
        (swept,) = writes(seen)

    assert enqueued.startswith("insert into windlass_enqueue")
    assert taken.startswith("insert into windlass_cycle")
    assert both.startswith("insert into windlass_cycle")
    assert renewed.startswith("update workers")
    assert swept.startswith("insert into windlass_sweep")
    assert len(claimed) == len(more) == 4


async def test_loop_writes_by_one_statement_as_well(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    with traced(store) as seen:
        await store.arun(calls.enqueue([new_run(sources)]))
        (one,) = writes(seen)
        seen.clear()
        new = [calls.enqueue([new_run(sources)]) for _ in range(3)]
        await asyncio.gather(*(store.arun(call) for call in new))
        together = writes(seen)
        seen.clear()
        claimed = (await store.arun(calls.cycle("w1", 1, [], Want(limit=9, jobs=(JOB,))))).claimed
        (taken,) = writes(seen)
        seen.clear()
        await store.arun(calls.cycle("w1", 2, [succeeded(run) for run in claimed], None))
        (ended,) = writes(seen)

    assert one.startswith("insert into windlass_enqueue")
    assert all(text.startswith("insert into windlass_enqueue") for text in together)
    assert taken.startswith("insert into windlass_cycle")
    assert ended.startswith("insert into windlass_cycle")
    assert len(claimed) == 4


def test_idle_worker_writes_nothing(store: SqliteStore, calls: Any, sources: ManualSources) -> None:
    store.run(calls.enqueue([new_run(sources, job="unknown")]))
    sweep: dict[str, Any] = {"dispatch": True, "expire": True, "reap": True}
    store.run(calls.sweep(**sweep, max_crashes=3, limit=10))
    with traced(store) as seen:
        assert claim(store, []).claimed == ()
        assert list(claim(store, [], window=1).stops) == [QUEUE]
        store.run(calls.sweep(**sweep, max_crashes=3, limit=10))
    assert writes(seen) == []


def test_a_worker_that_writes_anyway_does_not_look_first(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    """Each statement of its thread waits for Python's lock, which handlers have meanwhile."""
    store.run(calls.enqueue([new_run(sources) for _ in range(8)]))
    held = claim(store, [], 4).claimed
    with traced(store) as seen:
        more = store.run(
            calls.cycle("w1", 2, [succeeded(r) for r in held], Want(
                limit=4, jobs=(JOB,), queues=(QUEUE, "other")))
        )  # fmt: skip
    assert len(more.claimed) == 4
    assert [text.split()[0] for text in seen] == ["insert", "select", "select", "select"]


@pytest.mark.parametrize("ends", [True, False])
def test_where_a_window_ends_is_told_either_way(
    store: SqliteStore, calls: Any, sources: ManualSources, ends: bool
) -> None:
    store.run(calls.enqueue([new_run(sources)]))
    held = claim(store, [], 1).claimed
    store.run(calls.enqueue([new_run(sources, job="unknown") for _ in range(3)]))
    finishes = [succeeded(run) for run in held] if ends else []

    reply = claim(store, finishes, window=2)

    assert (reply.claimed, list(reply.stops), reply.lost) == ((), [QUEUE], ())


def versioned(claimed: Claimed) -> Finish:
    return replace(succeeded(claimed), version="2")


@pytest.mark.parametrize("result", [b"", b"null", b'"12"'])
@pytest.mark.parametrize("version", [None, "7", "3ä7'\"", "x" * 10_000])
def test_version_of_a_success_is_kept(
    store: SqliteStore, calls: Any, sources: ManualSources, version: str | None, result: bytes
) -> None:
    store.run(calls.enqueue([new_run(sources)]))
    (run,) = claim(store, []).claimed
    raw = msgspec.Raw(result) if result else None
    end = replace(succeeded(run), version=version, result=raw)
    with traced(store) as seen:
        assert claim(store, [end], 0).lost == ()
    record = store.run(calls.get_run(_ref(run)))
    assert record.attempts[-1].version == version
    assert bytes(record.result) == (result or b"null")
    assert len(writes(seen)) == 1


@pytest.mark.parametrize("make", [fail, versioned, succeeded])
def test_ends_are_recorded_however_they_are_written(
    store: SqliteStore, calls: Any, sources: ManualSources, make: Callable[[Claimed], Finish]
) -> None:
    store.run(calls.enqueue([new_run(sources) for _ in range(3)]))
    first, second, third = claim(store, []).claimed
    reply = claim(store, [succeeded(first), make(second), succeeded(third)], 0)
    assert reply.lost == ()
    assert store.run(calls.has_ended(_ref(first))) is True
    assert store.run(calls.has_ended(_ref(third))) is True


def _ref(run: Claimed) -> RunRef:
    return RunRef(run.tenant, run.id)


def test_end_that_comes_twice_is_recorded_once(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    store.run(calls.enqueue([new_run(sources) for _ in range(2)]))
    first, second = claim(store, []).claimed
    reply = claim(store, [succeeded(first), succeeded(first), succeeded(second)])
    assert reply.lost == (Held(first.tenant, first.id, first.token),)
    again = claim(store, [succeeded(first), succeeded(second)])
    assert {held.id for held in again.lost} == {first.id, second.id}


def test_ends_without_a_lease_are_told_and_the_others_recorded(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    store.run(calls.enqueue([new_run(sources, tenant=name) for name in ("a", "b", "a", "b")]))
    claimed = claim(store, []).claimed
    ends = [succeeded(run) for run in claimed]
    wrong = [
        replace(ends[0], token=ends[0].token + 1),
        replace(ends[1], tenant="c"),
        replace(ends[2], id="no id"),
        replace(ends[2], id=ends[2].id[:-1]),
    ]
    reply = claim(store, [*wrong, *ends])
    assert set(reply.lost) == {Held(end.tenant, end.id, end.token) for end in wrong}
    assert all(store.run(calls.has_ended(_ref(run))) for run in claimed)


@pytest.mark.parametrize("size", [1, 8 * 1024 - 2, 8 * 1024 - 1, 100_000])
def test_results_of_any_size_are_kept(
    store: SqliteStore, calls: Any, sources: ManualSources, size: int
) -> None:
    store.run(calls.enqueue([new_run(sources) for _ in range(2)]))
    text = '"' + "ä\\n\\u0000'"[: max(1, size % 9)] + "x" * (size - 1) + '"'
    first, second = claim(store, []).claimed
    big = replace(succeeded(first), result=msgspec.Raw(msgspec.json.encode(text)))
    assert claim(store, [big, succeeded(second)]).lost == ()
    record = store.run(calls.get_run(_ref(first)))
    assert msgspec.json.decode(record.result) == text


def test_tables_of_the_callers_own_are_not_hidden(store: SqliteStore, calls: Any) -> None:
    with store.transaction() as tx:
        for name in ("ended", "taken", "stops", "cycle"):
            tx.execute(f"create table {name} (n)")
            tx.execute(f"insert into {name} values (1)")  # noqa: S608
            assert tx.execute(f"select n from {name}") == [(1,)]  # noqa: S608


def test_constraint_leads_to_the_run_that_exists(
    store: SqliteStore, calls: Any, sources: ManualSources
) -> None:
    run = new_run(sources)
    assert [a.created for a in store.run(calls.enqueue([run]))] == [True]
    assert [a.created for a in store.run(calls.enqueue([run, new_run(sources)]))] == [False, True]
