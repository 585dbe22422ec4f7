"""A wrong argument is an error in the editor: what a type checker says of calls."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Each line that must be an error says which; all others must pass.
CODE = """
import asyncio
from typing import assert_type

from windlass import Context, Job, Retry, Run, SyncContext, Windlass

app = Windlass("sqlite:///never.db")

@app.job
async def bare(ctx: Context, user_id: int) -> dict[str, int]:
    return {}

@app.job(queue="mail", retry=Retry.fixed("1s"))
def given(ctx: SyncContext, name: str, n: int = 1) -> str:
    return name

@app.job
def plain(x: float) -> float:
    return x

@app.job(name="other")
async def coroutine(x: float) -> float:
    return x

assert_type(bare.enqueue(user_id=7), Run)
bare.enqueue(7)
given.enqueue("x")
given.enqueue(name="y", n=2)
given.using(delay="1s", priority=5, tags=["a"]).enqueue("x", n=3)
plain.enqueue(1.0)
coroutine.enqueue(2.0)
app.enqueue("bare", {"user_id": 7}, delay="1s")
app.enqueue_many([bare.request(1), given.request("x")])
app.list(status="failed", limit=3)
assert_type(plain(2.0), float)

async def call(ctx: Context, sync: SyncContext) -> None:
    assert_type(await bare(ctx, 3), dict[str, int])
    assert_type(given(sync, "x"), str)
    assert_type(await coroutine(1.0), float)
    assert_type(await bare.aenqueue(3), Run)
    asyncio.create_task(bare(ctx, 3))
    await ctx.progress(0.5)
    sync.progress(0.5)
    await bare(3)  # E: call-arg, arg-type
    given("x")  # E: call-arg, arg-type
    await sync.progress(0.5)  # E: func-returns-value, misc
    await bare.aenqueue(user_id="x")  # E: arg-type

bare.enqueue(user_id="x")  # E: arg-type
bare.request("x")  # E: arg-type
given.enqueue()  # E: call-arg
plain.enqueue(x="no")  # E: arg-type
coroutine.enqueue(y=1)  # E: call-arg
given.enqueue("x", 2, 3)  # E: call-arg
given.using(dely=3)  # E: call-arg
given.using(priority="high")  # E: typeddict-item, arg-type
given.using(delay="1s").enqueue(1)  # E: arg-type
app.job(que="x")  # E: call-overload
app.job(priority="x")  # E: call-overload, arg-type
app.enqueue("bare", {"user_id": 7}, dely="1s")  # E: call-arg
app.enqueue_many([bare])  # E: list-item
app.enqueue_many([("bare", {"user_id": 7}), bare.request(1)])
app.enqueue_many([("bare", 7)])  # E: list-item
app.list(stat="failed")  # E: call-arg
Windlass(lease="1s", concurrency=5, queues=["a"], log="json")
Windlass(leese="1s")  # E: call-arg
Windlass(concurrency="many")  # E: arg-type
"""


def test_checker_passes_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    file = tmp_path / "calls.py"
    file.write_text(CODE)
    found = _errors(file)
    lines = CODE.splitlines()
    for number, line in enumerate(lines, start=1):
        _, marked, codes = line.partition("# E: ")
        allowed = set(codes.split(", ")) if marked else set()
        told = found.get(number, set())
        assert told <= allowed, f"{line!r}: unexpected {told - allowed}"
        assert bool(told) == bool(marked), f"{line!r}: {told or 'no error'}"


def _errors(file: Path) -> dict[int, set[str]]:
    """Run mypy as strictly as this repository does; return the codes by line."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[int, set[str]] = {}
    for line in done.stdout.splitlines():
        match = re.fullmatch(r".*calls\.py:(\d+): error: .*\[([a-z-]+)\]", line)
        if match:
            found.setdefault(int(match[1]), set()).add(match[2])
    return found
