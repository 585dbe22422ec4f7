"""The writer thread: groups, one that fails among them, and a commit that fails."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from tests.sqlite.kit import new_run
from windlass.domain.listing import RunFilter
from windlass.domain.run import RunRef
from windlass.errors import KeyConflict, StoreFull, StoreUnavailable
from windlass.sources import ManualSources
from windlass.store.interface import Call
from windlass.store.operations import Operations
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.open_transaction import OpenTransaction, StoreClock
from windlass.store.sqlite.operations import Bound, bind
from windlass.store.sqlite.store import SqliteStore
from windlass.store.sqlite.writer import GROUP_CALLS, Writer

OPERATIONS = Operations()


class _Watched(Connection):
    """A connection that counts commits, and waits with its first until it is told."""

    def __init__(self, path: Path, sources: ManualSources) -> None:
        super().__init__(path, sources, StoreClock(sources.clock))
        self.begun = threading.Event()
        self.go = threading.Event()
        self.commits = 0
        self.fault: apsw.Error | None = None

    def begin(self) -> None:
        super().begin()
        self.begun.set()
        self.go.wait(30)

    def commit(self) -> None:
        if self.fault is not None:
            self.fail(self.fault)
        super().commit()
        self.commits += 1


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine must not split the groups that are looked at here."""
    monkeypatch.setattr("windlass.store.sqlite.writer.GROUP_SECONDS", 30.0)


@pytest.fixture
def connection(path: Path, sources: ManualSources) -> _Watched:
    """The writer's connection."""
    return _Watched(path, sources)


@pytest.fixture
async def writer(connection: _Watched) -> AsyncIterator[Writer]:
    """A writer that has not started."""
    made = Writer(connection)
    yield made
    connection.go.set()
    await made.close()


def add_job(name: str, then: Callable[[], Any] = lambda: None) -> Bound[Any]:
    """A write of one row that may fail afterwards."""

    def body(tx: OpenTransaction) -> str:
        tx.execute(
            "sync_job",
            ("t", name, "q", 0, 5, None, "{}", None, None, None, None, None, None, None, tx.now),
        )
        then()
        return name

    return Bound(body)


def ours(call: Call[Any]) -> Bound[Any]:
    """The call, as the writer takes it."""
    return bind(call)


def fail() -> None:
    """Fail as a call may."""
    raise KeyConflict("j", "k", "r")


async def queue_up(
    writer: Writer, connection: _Watched, *calls: Bound[Any]
) -> list["asyncio.Task[Any]"]:
    """Hold the writer in a transaction of its own until the calls have queued up behind it."""
    first = asyncio.create_task(writer.submit(add_job("first")))
    await asyncio.get_running_loop().run_in_executor(None, connection.begun.wait, 30)
    tasks = [asyncio.create_task(writer.submit(call)) for call in calls]
    await asyncio.sleep(0)
    connection.go.set()
    await first
    return tasks


def names(connection: Connection) -> list[str]:
    """The rows that were written."""
    return [row[1] for row in connection.read(lambda tx: tx.fetch("list_jobs", ("t",)))]


async def test_what_is_queued_is_committed_once(writer: Writer, connection: _Watched) -> None:
    tasks = await queue_up(writer, connection, *(add_job(f"j{n}") for n in range(20)))
    assert await asyncio.gather(*tasks) == [f"j{n}" for n in range(20)]
    assert connection.commits == 2
    assert len(names(connection)) == 21


async def test_group_is_capped(writer: Writer, connection: _Watched) -> None:
    calls = [add_job(f"j{n}") for n in range(GROUP_CALLS + 1)]
    await asyncio.gather(*await queue_up(writer, connection, *calls))
    assert connection.commits >= 3


async def test_group_ends_when_its_time_is_over(
    writer: Writer, connection: _Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.store.sqlite.writer.GROUP_SECONDS", 0.0)
    await asyncio.gather(*await queue_up(writer, connection, add_job("a"), add_job("b")))
    assert connection.commits == 3


async def test_call_that_fails_is_undone_alone(writer: Writer, connection: _Watched) -> None:
    calls = (add_job("a"), add_job("b", fail), add_job("c"))
    a, b, c = await queue_up(writer, connection, *calls)
    with pytest.raises(KeyConflict):
        await b
    assert (await a, await c) == ("a", "c")
    assert names(connection) == ["a", "c", "first"]


async def test_call_alone_that_fails_leaves_nothing(writer: Writer, connection: _Watched) -> None:
    connection.go.set()
    with pytest.raises(KeyConflict):
        await writer.submit(add_job("a", fail))
    assert names(connection) == []
    assert not connection.in_transaction


async def test_unexpected_error_reaches_its_caller_alone(
    writer: Writer, connection: _Watched
) -> None:
    calls = (add_job("a", lambda: 1 / 0), add_job("b"))
    a, b = await queue_up(writer, connection, *calls)
    with pytest.raises(ZeroDivisionError):
        await a
    assert await b == "b"


async def test_commit_that_fails_fails_all_of_the_group(
    writer: Writer, connection: _Watched
) -> None:
    tasks = await queue_up(writer, connection, add_job("a"), add_job("b"))
    # The group is running or about to: whichever commit comes now fails.
    await asyncio.gather(*tasks)
    connection.fault = apsw.FullError("disk full")
    results = await asyncio.gather(
        writer.submit(add_job("c")), writer.submit(add_job("d")), return_exceptions=True
    )
    assert [type(result) for result in results] == [StoreFull, StoreFull]
    connection.fault = None
    assert await writer.submit(add_job("e")) == "e"
    assert names(connection) == ["a", "b", "e", "first"]


async def test_failing_disk_fails_all_of_the_group(writer: Writer, connection: _Watched) -> None:
    def full() -> None:
        raise apsw.FullError("disk full")

    calls = (add_job("a"), add_job("b", full))
    tasks = await queue_up(writer, connection, *calls)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [StoreFull, StoreFull]
    assert names(connection) == ["first"]


async def test_call_canceled_in_time_is_not_run(writer: Writer, connection: _Watched) -> None:
    first = asyncio.create_task(writer.submit(add_job("first")))
    await asyncio.get_running_loop().run_in_executor(None, connection.begun.wait, 30)
    kept = asyncio.create_task(writer.submit(add_job("kept")))
    dropped = asyncio.create_task(writer.submit(add_job("dropped")))
    await asyncio.sleep(0)
    dropped.cancel()
    await asyncio.sleep(0)
    connection.go.set()
    await asyncio.gather(first, kept)
    assert names(connection) == ["first", "kept"]


async def test_group_answers_the_loop_by_one_call(
    writer: Writer, connection: _Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    calls = []
    call_soon = loop.call_soon_threadsafe

    def counted(callback: Callable[..., object], *arguments: Any, **options: Any) -> asyncio.Handle:
        if threading.current_thread().name == "windlass-sqlite-writer":
            calls.append(callback)
        return call_soon(callback, *arguments, **options)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    tasks = await queue_up(writer, connection, *(add_job(f"j{n}") for n in range(10)))
    await asyncio.gather(*tasks)
    assert len(calls) == 2


async def test_enqueues_are_done_as_one(
    writer: Writer, connection: _Watched, sources: ManualSources
) -> None:
    runs = [new_run(sources, tags=("t",)) for _ in range(10)]
    calls = [ours(OPERATIONS.enqueue([run])) for run in runs]
    calls.append(ours(OPERATIONS.enqueue([runs[0], new_run(sources)])))
    answers = await asyncio.gather(*await queue_up(writer, connection, *calls))
    assert [len(answer) for answer in answers] == [1] * 10 + [2]
    assert [answer[0].id for answer in answers] == [run.id for run in [*runs, runs[0]]]
    assert [one.created for one in answers[-1]] == [False, True]
    assert connection.commits == 2


async def test_enqueue_that_conflicts_fails_alone(
    writer: Writer, connection: _Watched, sources: ManualSources
) -> None:
    first = new_run(sources, key="k")
    other = new_run(sources, key="k", input=msgspec.Raw(b'{"x": 1}'))
    plain = new_run(sources)
    calls = [ours(OPERATIONS.enqueue([run])) for run in (first, other, plain)]
    one, two, three = await queue_up(writer, connection, *calls)
    with pytest.raises(KeyConflict):
        await two
    assert (await one)[0].created
    assert (await three)[0].created


async def test_disk_that_fails_between_conflicts_leaves_nobody_waiting(
    writer: Writer, connection: _Watched, sources: ManualSources
) -> None:
    full = new_run(sources)
    runs = [new_run(sources, key="k"), new_run(sources, key="k", input=msgspec.Raw(b"[]")), full]
    calls = [ours(OPERATIONS.enqueue([run])) for run in (*runs, new_run(sources))]

    def body(tx: OpenTransaction) -> Any:
        raise apsw.FullError("disk full")

    calls[2].body = body
    tasks = await queue_up(writer, connection, *calls)
    _, pending = await asyncio.wait(tasks, timeout=30)
    assert not pending
    assert [type(task.exception()) for task in tasks[:3]] == [StoreFull, KeyConflict, StoreFull]
    assert tasks[3].result()[0].created


async def test_thread_starts_with_the_first_write_and_ends_with_the_store(
    path: Path, sources: ManualSources
) -> None:
    store = SqliteStore(path, sources=sources)
    assert writer_threads() == 0
    tasks = [
        asyncio.create_task(store.arun(store.operations.enqueue([new_run(sources)])))
        for _ in range(100)
    ]
    await asyncio.sleep(0)
    assert writer_threads() == 1
    await store.aclose()
    assert writer_threads() == 0
    assert all(answer[0].created for answer in await asyncio.gather(*tasks))
    assert len(await store.arun(store.operations.list_runs(RunFilter(limit=200)))) == 100
    await store.aclose()


async def test_closed_writer_takes_nothing(writer: Writer) -> None:
    await writer.close()
    with pytest.raises(StoreUnavailable):
        await writer.submit(add_job("a"))


def writer_threads() -> int:
    """How many writer threads there are."""
    return sum(thread.name == "windlass-sqlite-writer" for thread in threading.enumerate())


async def test_written_is_read_at_once(store: SqliteStore, sources: ManualSources) -> None:
    run = new_run(sources)
    await store.arun(store.operations.enqueue([run]))
    found = await store.arun(store.operations.get_run(RunRef(run.tenant, run.id)))
    assert found is not None
    assert found.id == run.id


async def test_store_that_cannot_open_tells_every_caller(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "none" / "w.db")
    results = await asyncio.gather(
        *(store.arun(store.operations.list_workers()) for _ in range(3)), return_exceptions=True
    )
    assert all("does not exist" in str(result) for result in results)
    await store.aclose()
