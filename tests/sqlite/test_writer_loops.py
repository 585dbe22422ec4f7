"""One writer for the loops of several threads: it starts once, and forgets nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sqlite.kit import new_run
from windlass.errors import StoreUnavailable
from windlass.sources import ManualSources
from windlass.store.sqlite.connection import Connection
from windlass.store.sqlite.open_transaction import OpenTransaction, StoreClock
from windlass.store.sqlite.operations import Bound
from windlass.store.sqlite.store import SqliteStore
from windlass.store.sqlite.writer import Writer

PATIENCE = 10.0
WRITER = "windlass-sqlite-writer"
_real_init, _real_start = threading.Thread.__init__, threading.Thread.start


class Starts:
    """What is done whenever a writer's thread is started."""

    def __init__(self) -> None:
        self.count = 0
        self.before: Callable[[], None] = lambda: None
        self.hook: Callable[[threading.Thread], None] = _real_start


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    """A look at each start of a writer's thread."""
    made = Starts()

    def init(thread: threading.Thread, *arguments: Any, **options: Any) -> None:
        if options.get("name") == WRITER:
            made.before()
        _real_init(thread, *arguments, **options)

    def start(thread: threading.Thread) -> None:
        if thread.name != WRITER:
            return _real_start(thread)
        made.count += 1
        return made.hook(thread)

    monkeypatch.setattr(threading.Thread, "__init__", init)
    monkeypatch.setattr(threading.Thread, "start", start)
    return made


@pytest.fixture
def connection(path: Path, sources: ManualSources) -> Connection:
    """The writer's connection."""
    return Connection(path, sources, StoreClock(sources.clock))


@pytest.fixture
def writer(connection: Connection) -> Iterator[Writer]:
    """A writer that has not started."""
    made = Writer(connection)
    yield made
    asyncio.run(made.close())


def add(name: str) -> Bound[str]:
    """A write of one row."""

    def body(tx: OpenTransaction) -> str:
        tx.execute(
            "sync_job",
            ("t", name, "q", 0, 5, None, "{}", None, None, None, None, None, None, None, tx.now),
        )
        return name

    return Bound(body)


def on_a_loop(ask: Callable[[], Any]) -> Future[Any]:
    """Ask something on a loop of its own, in a thread of its own."""
    answer: Future[Any] = Future()

    async def patiently() -> Any:
        async with asyncio.timeout(PATIENCE / 2):
            return await ask()

    def run() -> None:
        try:
            answer.set_result(asyncio.run(patiently()))
        except BaseException as error:  # noqa: BLE001 - for who asked
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


def test_loops_that_begin_together_share_one_thread(
    writer: Writer, connection: Connection, starts: Starts
) -> None:
    """Two threads would end each other's transactions, and tell of failure what is durable."""
    names = [f"job{n}" for n in range(8)]
    asked: list[Future[Any]] = []

    def ask_for_others() -> None:
        if not asked:
            asked.extend(on_a_loop(partial(writer.submit, add(name))) for name in names)
            wait(asked, 0.05)  # as there is no thread yet, they have to wait

    starts.before = ask_for_others
    assert on_a_loop(lambda: writer.submit(add("first"))).result(PATIENCE) == "first"
    assert [one.result(PATIENCE) for one in asked] == names
    found = connection.read(lambda tx: tx.fetch("list_jobs", ("t",)))
    assert [row[1] for row in found] == ["first", *names]
    assert starts.count == 1


def test_call_beside_a_close_on_another_loop_is_answered(writer: Writer, starts: Starts) -> None:
    closing: list[Future[Any]] = []

    def start(thread: threading.Thread) -> None:
        _real_start(thread)
        # The call has been let in, and is not queued yet.
        closing.append(on_a_loop(writer.close))
        thread.join(0.05)

    starts.hook = start
    assert on_a_loop(lambda: writer.submit(add("first"))).result(PATIENCE) == "first"
    closing[0].result(PATIENCE)
    with pytest.raises(StoreUnavailable):
        on_a_loop(lambda: writer.submit(add("late"))).result(PATIENCE)


def test_machine_without_a_thread_to_give_is_asked_again(writer: Writer, starts: Starts) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    starts.hook = start
    with pytest.raises(RuntimeError):
        on_a_loop(lambda: writer.submit(add("first"))).result(PATIENCE)
    starts.hook = _real_start
    assert on_a_loop(lambda: writer.submit(add("next"))).result(PATIENCE) == "next"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thread_that_ends_by_an_error_leaves_nobody_waiting(
    writer: Writer, connection: Connection, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        threads.append(thread)
        _real_start(thread)

    def body(tx: OpenTransaction) -> None:
        begun.set()
        go.wait(PATIENCE)
        raise ValueError

    def undo(error: BaseException) -> BaseException:
        raise RuntimeError("not even that")

    async def wait_in_line() -> Any:
        asked = asyncio.ensure_future(writer.submit(add("behind")))
        await asyncio.sleep(0)
        go.set()
        return await asked

    starts.hook = start
    monkeypatch.setattr(connection, "undo", undo)
    call: Bound[None] = Bound(body)
    bad = on_a_loop(lambda: writer.submit(call))
    assert begun.wait(PATIENCE)
    behind = on_a_loop(wait_in_line)
    for asked in (bad, behind):
        with pytest.raises(StoreUnavailable, match="again"):
            asked.result(PATIENCE)
    threads[0].join(PATIENCE)  # else its error may be reported in another test
    monkeypatch.undo()
    assert on_a_loop(lambda: writer.submit(add("next"))).result(PATIENCE) == "next"


async def test_a_close_that_comes_second_takes_nothing_away(
    store: SqliteStore, sources: ManualSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody has opened since the first one would be closed by nobody."""
    await store.arun(store.operations.enqueue([new_run(sources)]))
    writer, close = store._own().writer, store._own().writer.close
    go = asyncio.Event()

    async def slow() -> None:
        monkeypatch.setattr(writer, "close", close)
        await go.wait()
        await close()

    monkeypatch.setattr(writer, "close", slow)
    late = asyncio.create_task(store.aclose())
    await asyncio.sleep(0)
    await store.aclose()
    await store.arun(store.operations.enqueue([new_run(sources)]))
    opened = store._own()
    go.set()
    await late
    assert store._own() is opened
