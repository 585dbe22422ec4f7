"""After a fork the child opens its own connections and leaves its parent's alone.

Each scenario runs in a process of its own: a test process has threads, and is not to be forked.
"""

import sys
from pathlib import Path

import pytest

from tests.sqlite.kit import run_script

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
assert os.path.exists(sys.argv[1] + "-wal")  # the child has not closed it
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
