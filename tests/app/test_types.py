"""A wrong argument is an error in the editor: what mypy and pyright say of calls and results."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each line that must be an error says which; all others must pass.
CODE = """
import asyncio
from collections.abc import Sequence
from typing import Any, assert_type

from windlass import Context, Job, Retry, Router, Run, SyncContext, Windlass

app = Windlass("sqlite:///never.db")
router = Router(prefix="r", queue="mail", max_attempts=3)

@router.job
async def routed(ctx: Context, user_id: int) -> dict[str, int]:
    return {}

@router.job(queue="mail")
def routed_too(ctx: SyncContext, name: str) -> str:
    return name

assert_type(routed.enqueue(user_id=7), Run[dict[str, int]])
assert_type(routed_too.using(delay=1).enqueue("x"), Run[str])
app.include(router)
router.schedule(routed, cron="0 3 * * *", input={"user_id": 1})
routed.enqueue(user_id="x")  # E: arg-type
routed_too.enqueue()  # E: call-arg
router.job(que="x")  # E: call-overload
Router(prefix=1)  # E: arg-type
Router(quue="x")  # E: call-arg
Windlass(names="module")
Windlass(names="class")  # E: arg-type

@app.job
async def bare(ctx: Context, user_id: int) -> dict[str, int]:
    return {}

@app.job(queue="mail", retry=Retry.fixed("1s"))
def given(ctx: SyncContext, name: str, n: int = 1) -> str:
    return name

@app.job
async def told(text: str, *, loud: bool = False) -> int:
    return len(text)

assert_type(app.chain(given.request("x"), told), tuple[Run[str], Run[int]])
assert_type(app.chain(given.request("x"), told.link(loud=True)), tuple[Run[str], Run[int]])
app.chain(given.request("x"), bare)  # E: arg-type
app.chain(given, told)  # E: arg-type

class Busy(Exception):
    seconds = 3

@app.job(retry=Retry.exponential(base="2s", after={Busy: lambda e: e.seconds, OSError: "1m"}))
def patient() -> None: ...

@app.job
def plain(x: float) -> float:
    return x

@app.job(name="other")
async def coroutine(x: float) -> float:
    return x

assert_type(bare.enqueue(user_id=7), Run[dict[str, int]])
assert_type(given.enqueue("x"), Run[str])
assert_type(coroutine.enqueue(2.0), Run[float])
assert_type(given.using(delay="1s").enqueue("x").wait().refresh(), Run[str])
assert_type(given.enqueue("x").change(input={"name": "y"}, expires=None, timeout="5s"), Run[str])
assert_type(given.enqueue("x").retry(input={"name": "y"}), Run[str])
assert_type(given.enqueue("x").run_again(input={"name": "y"}, delay="1s"), Run[str])
assert_type(app.run_again("id"), Run[Any])
given.enqueue("x").change(queue="other")  # E: call-arg
assert_type(given.enqueue("x").result, str | None)
assert_type(given.enqueue("x").raw_result, Any)
assert_type(given.enqueue("x").created, bool | None)
assert_type(app.result(given.enqueue("x")), str)
assert_type(app.result(coroutine.enqueue(2.0), timeout="1s"), float)
assert_type(app.result("id"), Any)
assert_type(app.get("id"), Run[Any])
assert_type(app.enqueue("bare", {"user_id": 7}), Run[Any])
assert_type(app.enqueue_many([given.request("x")]), Sequence[Run[str]])
assert_type(app.enqueue_many([("bare", {"user_id": 7})]), Sequence[Run[Any]])
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
    assert_type(await bare.aenqueue(3), Run[dict[str, int]])
    assert_type(await app.aresult(await given.aenqueue("x")), str)
    assert_type(await (await given.aenqueue("x")).await_end(), Run[str])
    number: int = await app.aresult(await given.aenqueue("x"))  # E: assignment, arg-type
    asyncio.create_task(bare(ctx, 3))
    await ctx.progress(0.5)
    sync.progress(0.5)
    await bare(3)  # E: call-arg, arg-type
    given("x")  # E: call-arg, arg-type
    await sync.progress(0.5)  # E: func-returns-value, misc
    await bare.aenqueue(user_id="x")  # E: arg-type

wrong: int = app.result(given.enqueue("x"))  # E: assignment, arg-type
other: Run[int] = given.enqueue("x")  # E: assignment
length: int = len(given.enqueue("x").result)  # E: arg-type
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
app.enqueue_many([bare])  # E: arg-type
app.enqueue_many([("bare", {"user_id": 7}), bare.request(1)])
app.enqueue_many([("bare", 7)])  # E: arg-type
app.list(stat="failed")  # E: call-arg
Windlass(lease="1s", concurrency=5, queues=["a"], log="json")
Windlass(leese="1s")  # E: call-arg
Windlass(concurrency="many")  # E: arg-type
"""


def test_mypy_passes_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    file = tmp_path / "calls.py"
    file.write_text(CODE)
    found = _mypy(file)
    for number, line in enumerate(CODE.splitlines(), start=1):
        _, marked, codes = line.partition("# E: ")
        allowed = set(codes.split(", ")) if marked else set()
        told = found.get(number, set())
        assert told <= allowed, f"{line!r}: unexpected {told - allowed}"
        assert bool(told) == bool(marked), f"{line!r}: {told or 'no error'}"


@pytest.mark.timeout(300)  # its engine starts in seconds, on a busy machine in minutes
def test_pyright_passes_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    file = tmp_path / "calls.py"
    file.write_text(CODE)
    found = _pyright(file)
    for number, line in enumerate(CODE.splitlines(), start=1):
        told = found.get(number, [])
        assert bool(told) == ("# E: " in line), f"{line!r}: {told or 'no error'}"


def _pyright(file: Path) -> dict[int, list[str]]:
    """Run pyright as it comes; return what it says by line."""
    settings = {"include": [str(file)], "extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11"}
    (file.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        cwd=file.parent,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, done.stdout
    found: dict[int, list[str]] = {}
    for problem in report["generalDiagnostics"]:
        if problem["severity"] == "error":
            line = problem["range"]["start"]["line"] + 1
            found.setdefault(line, []).append(problem["message"])
    return found


def _mypy(file: Path) -> dict[int, set[str]]:
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
