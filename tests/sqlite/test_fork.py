"""After a fork the child opens its own connections and leaves its parent's alone.

Each scenario runs in a process of its own: a test process has threads, and is not to be forked.
"""

import sys
from pathlib import Path

import apsw
import pytest

from tests.sqlite.kit import new_run, run_script, start_script
from windlass.domain.listing import RunFilter
from windlass.sources import ManualSources
from windlass.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

COMMON = """
import asyncio, gc, os, sys, warnings
import apsw, msgspec
from windlass.domain.run import NewRun
from windlass.sources import Sources
from windlass.store.sqlite.store import SqliteStore

sources = Sources.system()
store = SqliteStore(sys.argv[1], sources=sources)

def enqueue():
    run = NewRun(id=sources.new_id(), job="j", queue="q", input=msgspec.Raw(b"{}"))
    return store.operations.enqueue([run])

def check(runs):
    raw = apsw.Connection(sys.argv[1])
    assert raw.execute("select count(*) from runs").get == runs
    assert raw.execute("pragma integrity_check").get == "ok"
    raw.close()

insert = "insert into orders values (1)"

def orders():
    with store.transaction() as tx:
        return tx.execute("select * from orders")
"""

SYNC = (
    COMMON
    + """
store.run(enqueue())
child = os.fork()
if child == 0:
    store.run(enqueue())
    gc.collect()
    sys.exit()  # with everything that Python does at exit
assert os.waitpid(child, 0)[1] == 0
store.run(enqueue())
check(3)
store.close()
print("done")
"""
)

ASYNC = (
    COMMON
    + """
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with a thread

async def main():
    await store.arun(enqueue())
    await store.arun(store.operations.list_workers())

async def in_child():
    await main()
    await store.aclose()

with asyncio.Runner() as runner:
    runner.run(main())
    child = os.fork()
    if child == 0:
        try:
            asyncio.set_event_loop(None)
            asyncio._set_running_loop(None)
            loop = asyncio.new_event_loop()
            loop.run_until_complete(in_child())
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    runner.run(main())
    check(3)
    runner.run(store.aclose())
print("done")
"""
)


@pytest.mark.parametrize("script", [SYNC, ASYNC], ids=["sync", "async"])
def test_forked_child_uses_the_same_store(path: Path, script: str) -> None:
    assert run_script(script, path) == "done\n"


OUTLIVING = (
    COMMON
    + """
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with a thread
how, end = sys.argv[2:]

def work():
    if how == "sync":
        store.run(enqueue())
    else:
        loop.run_until_complete(store.arun(enqueue()))

loop = asyncio.new_event_loop()
work()
life, used = os.pipe(), os.pipe()
if os.fork() == 0:
    loop = asyncio.new_event_loop()
    os.close(life[1])
    work()
    os.write(used[1], b".")
    assert os.read(life[0], 1) == b""  # the parent has ended
    print("orphan", flush=True)
    sys.stdin.readline()
    for _ in range(10):
        work()
    print("done", flush=True)
    os._exit(0)
os.read(used[0], 1)
if end == "kill":
    os.kill(os.getpid(), 9)
if end == "close":
    store.close() if how == "sync" else loop.run_until_complete(store.aclose())
loop.close()
"""
)


@pytest.mark.parametrize(
    ("how", "end"), [("sync", "close"), ("sync", "exit"), ("sync", "kill"), ("async", "kill")]
)
def test_forked_child_outlives_its_parent_and_loses_nothing(
    path: Path, sources: ManualSources, how: str, end: str
) -> None:
    process = start_script(OUTLIVING, path, how, end)
    assert process.stdout
    assert process.stdout.readline() == "orphan\n"
    with SqliteStore(path, sources=sources) as another:  # the last to close takes the log away
        assert len(another.run(another.operations.list_runs(RunFilter()))) == 2
        another.run(another.operations.enqueue([new_run(sources)]))
    out, err = process.communicate("go on\n", timeout=50)
    assert (out, process.returncode) == ("done\n", -9 if end == "kill" else 0), err
    third = apsw.Connection(str(path))
    assert third.execute("select count(*) from runs").get == 13
    assert third.pragma("integrity_check") == "ok"
    third.close()


FORKS = (
    COMMON
    + """
import threading
from windlass.domain.listing import RunFilter
from windlass.errors import UsageError
from windlass.store.sqlite.forks import gate

warnings.simplefilter("ignore", DeprecationWarning)  # of forking with a thread
store = SqliteStore(sys.argv[1], sources=sources, busy_seconds=2)
other = SqliteStore(sys.argv[1] + "-other", sources=sources, busy_seconds=2)
runs = store.operations.list_runs(RunFilter())
table = "create table orders (n int)"

def use(store):
    store.run(store.operations.enqueue(
        [NewRun(id=sources.new_id(), job="j", queue="q", input=msgspec.Raw(b"{}"))]
    ))

def refused(action):
    try:
        action()
    except UsageError as error:
        assert "forked off while its parent was using it" in str(error), error
    else:
        raise AssertionError("it was not refused")

def lost():
    # In the child: the one file is refused, in all ways, and the other is not.
    refused(lambda: use(store))
    refused(lambda: store.run(runs))
    refused(lambda: store.transaction().__enter__())
    refused(store.schema_version)
    refused(lambda: SqliteStore(sys.argv[1]).run(runs))
    use(other)

def fork(in_child):
    child = os.fork()
    if child == 0:
        try:
            asyncio._set_running_loop(None)
            in_child()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def await_fork():
    # Return once the fork has begun to wait.
    while gate._forking is None:
        os.sched_yield()

use(store)
use(other)
began = threading.Event()
"""
)

WAITS = (
    FORKS
    + """
gate.patience = 40.0

def transact():
    with store.transaction() as tx:
        tx.execute(table)
        began.set()
        await_fork()
        store.run(runs)  # it does not wait for the fork, which waits for it
        tx.execute(insert)

async def atransact():
    async with store.transaction() as tx:
        await tx.execute(table)
        began.set()
        await asyncio.to_thread(await_fork)
        await store.arun(runs)
        await tx.execute(insert)
    await store.aclose()

async def main():
    await store.arun(runs)
    await atransact()

how = {"sync": transact, "async": lambda: asyncio.run(main())}[sys.argv[2]]
thread = threading.Thread(target=how)
thread.start()
began.wait()
fork(lambda: use(store))
thread.join()
assert orders() == [(1,)]
check(2)
print("done")
"""
)


@pytest.mark.parametrize("how", ["sync", "async"])
def test_fork_waits_for_a_transaction_of_another_thread(path: Path, how: str) -> None:
    assert run_script(WAITS, path, how) == "done\n"


OWN = (
    FORKS
    + """
gate.patience = 60.0  # longer than the test has: it must not wait for itself

def transact():
    with store.transaction() as tx:
        tx.execute(table)
        fork(lost)

async def on_loop():
    async with store.transaction() as tx:
        await tx.execute(table)
        fork(lost)

async def in_thread():
    async with store.transaction() as tx:
        await tx.execute(table)
        await asyncio.to_thread(fork, lost)

async def beside():
    async with store.transaction() as tx:
        await tx.execute(table)
        # In nobody's transaction, but on its loop.
        await asyncio.create_task(somebody(), context=fresh)

async def somebody():
    fork(lost)

import contextvars
fresh = contextvars.copy_context()
how = {"sync": transact}.get(sys.argv[2]) or (lambda: asyncio.run(globals()[sys.argv[2]]()))
how()
assert orders() == []
fork(lambda: use(store))
check(2)
print("done")
"""
)


@pytest.mark.parametrize("how", ["sync", "on_loop", "in_thread", "beside"])
def test_fork_inside_a_transaction_does_not_wait_and_is_refused_the_file(
    path: Path, how: str
) -> None:
    assert run_script(OWN, path, how) == "done\n"


IMPATIENT = (
    FORKS
    + """
gate.patience = 0.01
end = threading.Event()

def hold():
    with store.transaction() as tx:
        tx.execute(table)
        began.set()
        end.wait()

def stay(tx):
    began.set()
    end.wait()

how = {"transaction": hold, "call": lambda: store._own().blocking.read(stay)}[sys.argv[2]]
thread = threading.Thread(target=how)
thread.start()
began.wait()
fork(lambda: (lost(), fork(lost)))
end.set()
thread.join()
use(store)
fork(lambda: use(store))
check(3)
print("done")
"""
)


@pytest.mark.parametrize("how", ["transaction", "call"])
def test_fork_that_lost_its_patience_is_refused_the_file(path: Path, how: str) -> None:
    assert run_script(IMPATIENT, path, how) == "done\n"
