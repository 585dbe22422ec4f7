"""One application in several threads, and in the children of a process that has used it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.fixtures.apps import working
from windlass import Windlass

# A prefork server: the parent has used everything before it forks, and goes on afterwards.
FORKING = """
import asyncio
import os
import sys

from windlass import Windlass

app = Windlass(sys.argv[1])

@app.job
async def note(who: str, n: int) -> str:
    return who

def enqueue(who: str) -> None:
    for n in range(10):
        run = note.enqueue(who, n)
        assert app.get(run.id).input == {"who": who, "n": n}

async def aenqueue(who: str) -> None:
    await asyncio.gather(*(note.aenqueue(who, n) for n in range(10, 20)))
    assert len(await app.alist(limit=1000)) >= 20

enqueue("parent")
asyncio.run(aenqueue("parent"))
children = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        enqueue(f"child {number}")
        asyncio.run(aenqueue(f"child {number}"))
        asyncio.run(app.aclose())
        sys.exit(0)  # with all that an interpreter does at its end
    children.append(pid)
enqueue("parent again")
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
enqueue("parent at last")
asyncio.run(aenqueue("parent at last"))
asyncio.run(app.aclose())
"""


async def test_children_of_a_process_that_has_used_it(app: Windlass, url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, url],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    runs = app.list(limit=1000)
    assert len(runs) == len({run.id for run in runs}) == 20 + 3 * 20 + 10 + 20
    who = [run.input["who"] for run in runs]
    assert {name: who.count(name) for name in set(who)} == {
        "parent": 20, "child 0": 20, "child 1": 20, "child 2": 20,
        "parent again": 10, "parent at last": 20,
    }  # fmt: skip


def test_sync_face_in_several_threads(app: Windlass) -> None:
    @app.job
    def note(who: int, n: int) -> None: ...

    def enqueue(who: int) -> list[str]:
        ids = []
        for n in range(15):
            run = note.using(key=f"{who}-{n}").enqueue(who, n)
            assert app.get(run.id).input == {"who": who, "n": n}
            assert run.refresh().status == "queued"
            ids.append(run.id)
        return ids

    with ThreadPoolExecutor(8) as pool:
        made = [run for ids in pool.map(enqueue, range(8)) for run in ids]
    assert len(set(made)) == 8 * 15
    assert {run.id for run in app.list(limit=1000)} == set(made)


async def test_both_faces_beside_a_worker(app: Windlass) -> None:
    @app.job
    async def double(n: int) -> int:
        return 2 * n

    @app.job
    def triple(n: int) -> int:
        return 3 * n

    def in_thread(n: int) -> Any:
        return app.result((double if n % 2 else triple).enqueue(n).id, timeout=20)

    async def on_loop(n: int) -> Any:
        return await app.aresult((await double.aenqueue(n)).id, timeout=20)

    async with working(app):
        threads = [asyncio.to_thread(in_thread, n) for n in range(12)]
        tasks = [on_loop(n) for n in range(12)]
        results = await asyncio.gather(*threads, *tasks)
    expected = [n * (2 if n % 2 else 3) for n in range(12)]
    assert results == expected + [2 * n for n in range(12)]


def test_async_face_on_several_loops_at_once(url: str) -> None:
    """A worker's loop in one thread, a web server's in another: each has its own connections."""
    app = Windlass(url)

    @app.job
    async def note(who: int, n: int) -> None: ...

    async def enqueue(who: int) -> list[str]:
        runs = [run for n in range(20) for run in await asyncio.gather(*_some(who, n))]
        for run in runs:
            assert (await app.aget(run.id)).input["who"] == who
        return [run.id for run in runs]

    def _some(who: int, n: int) -> list[Any]:
        return [note.aenqueue(who, n) for _ in range(3)]

    def serve(who: int) -> list[str]:
        return asyncio.run(asyncio.wait_for(enqueue(who), 30))

    with ThreadPoolExecutor(4) as pool:
        made = [run for ids in pool.map(serve, range(4)) for run in ids]
    assert len(set(made)) == 4 * 60
    assert {run.id for run in app.list(limit=1000)} == set(made)
    asyncio.run(app.aclose())
