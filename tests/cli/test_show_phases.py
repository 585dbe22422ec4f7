"""What `windlass show` and `windlass runs` tell of phases, units and progress, on both stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.kit import make_app, ok, ok_json, work
from windlass import Context, Snooze, SyncContext, Windlass
from windlass.domain.progress import Detail, Units
from windlass.domain.run import ProgressWrite, Want, WorkerInfo


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application with pipelines."""
    found = make_app(url)

    def load(n: int) -> int:
        return n

    def fails(load: int) -> int:
        raise ValueError("no\nmore")

    async def halts(ctx: Context, load: int) -> object:
        await ctx.progress(0.5, "half\x1b[31m")
        return Snooze("1h")

    def send(ctx: SyncContext) -> None: ...

    found.pipeline("broken", load, fails, send, max_attempts=1)
    found.pipeline("halting", load, halts, send)
    yield found
    found.close()


def lines_of(shown: str, title: str) -> list[str]:
    [found] = [text for text in shown.split("\n\n") if text.startswith(title)]
    return found.splitlines()[1:]


def test_phases_are_drawn_with_their_bars(url: str, app: Windlass) -> None:
    broken, halting = app.enqueue("broken", {"n": 1}), app.enqueue("halting", {"n": 1})
    work(app)

    titles, *drawn = lines_of(ok("show", broken.id, "--url", url), "phases")
    assert titles.split() == ["PHASE", "PROGRESS", "DONE", "STATE", "AFTER", "TOOK", "TELLS"]
    assert [line.split()[:4] for line in drawn] == [
        ["load", "█" * 16, "100%", "succeeded"],
        ["fails", "░" * 16, "0%", "failed"],
        ["send", "░" * 16, "0%", "pending"],
    ]
    assert drawn[1].endswith("ValueError: no more")
    found = ok_json("show", broken.id, "--json", "--url", url)
    assert [(p["name"], p["status"], p["progress"]) for p in found["phases"]] == [
        ("load", "succeeded", 1.0), ("fails", "failed", 0.0), ("send", "pending", 0.0),
    ]  # fmt: skip
    assert found["phases"][1]["error"] == {"type": "ValueError", "message": "no\nmore"}
    assert (found["progress"], found["phase"]) == (1 / 3, "fails")

    _, *drawn = lines_of(ok("show", halting.id, "--url", url), "phases")
    assert [line.split()[:3] for line in drawn][1] == ["halts", "█" * 8 + "░" * 8, "50%"]
    assert drawn[1].endswith("half\\x1b[31m")
    events = lines_of(ok("show", halting.id, "--url", url), "events")
    assert [line for line in events if " phase.completed " in line and line.endswith(" load")]


def test_a_job_without_phases_is_not_drawn_as_one(url: str, app: Windlass) -> None:
    run = app.enqueue("greet")
    work(app)
    assert "\nphases\n" not in ok("show", run.id, "--url", url)
    [only] = ok_json("show", run.id, "--json", "--url", url)["phases"]
    assert (only["name"], only["status"]) == ("run", "succeeded")


def test_units_are_told_with_their_rate_and_the_time_left(url: str, app: Windlass) -> None:
    run = app.enqueue("greet")
    ops = app.store.operations
    info = WorkerInfo(
        id="w", host="h", pid=1, version="0", queues=None, jobs=("greet",), seats=1
    )  # fmt: skip
    app.store.run(ops.register(info, 60.0))
    reply = app.store.run(ops.cycle("w", 1, [], Want(limit=1, jobs=("greet",))))
    [held] = reply.claimed
    units = Units(done=410, failed=2, total=1000, rate=35.0)
    told = ProgressWrite(
        tenant=held.tenant, id=held.id, token=held.token, fraction=0.412,
        detail=Detail(units=units),
    )  # fmt: skip
    app.store.run(ops.record_progress([told]))

    line = "41% 412 of 1,000 units, 2 failed, 35/s, 17 s left"
    assert f"progress  {line}\n" in ok("show", run.id, "--url", url)
    assert line in ok("runs", "--url", url)
    found = ok_json("show", run.id, "--json", "--url", url)["units"]
    assert (found["done"], found["failed"], found["total"], found["rate"]) == (410, 2, 1000, 35.0)
    assert round(found["left"]) == 17
