"""`windlass runs` and `windlass show`, on both stores."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.kit import fails, make_app, ok, ok_json, run, work
from windlass import Context, FailedRun, Run, Windlass

STORED = ("jobs", "list", "--stored")
STARTS = ("scheduled", "canceled", "failed", "succeeded")


@pytest.fixture
def app(url: str) -> Iterator[Windlass]:
    """An application whose runs the command looks at."""
    found = make_app(url)
    yield found
    found.close()


def listed(url: str, *options: str) -> list[str]:
    return [item["id"] for item in ok_json("runs", "--url", url, "--json", *options)]


def test_the_table_has_a_row_for_each_run(url: str, app: Windlass) -> None:
    good = app.enqueue("greet")
    bad = app.enqueue("break_down", {"part": "axle"})
    work(app)
    canceled = app.enqueue("greet")
    canceled.cancel("not\nneeded")
    later = app.jobs["greet"].using(delay="2h10m").enqueue()

    rows = ok("runs", "--url", url).splitlines()

    assert [row.split()[:4] for row in rows] == [
        [later.id, "greet", "scheduled", "0"],
        [canceled.id, "greet", "canceled", "0"],
        [bad.id, "break_down", "failed", "2"],
        [good.id, "greet", "succeeded", "1"],
    ]
    assert rows[0].endswith("due in 2 h")
    assert rows[1].endswith("not needed")
    assert rows[2].endswith("exhausted: ValueError: axle broke\\x1b[31m")
    assert len({row.index(word) for row, word in zip(rows, STARTS, strict=True)}) == 1


def test_filters(url: str, app: Windlass) -> None:
    tagged = app.jobs["greet"].using(tags=["vip"]).enqueue()
    queued = app.jobs["greet"].using(queue="slow").enqueue()
    other = app.enqueue("refuse")
    later = app.jobs["greet"].using(delay="1h").enqueue()

    assert listed(url) == [later.id, other.id, queued.id, tagged.id]
    assert listed(url, "--status", "scheduled") == [later.id]
    assert listed(url, "--job", "refuse") == [other.id]
    assert listed(url, "--queue", "slow") == [queued.id]
    assert listed(url, "--tag", "vip") == [tagged.id]
    assert listed(url, "--since", "1h") == listed(url)
    assert listed(url, "--until", "1h") == []
    assert listed(url, "--status", "queued,scheduled", "--job", "greet") == [
        *ids_of(later, queued, tagged)
    ]
    assert listed(url, "--status", "scheduled", "--status", "failed") == [later.id]


def ids_of(*runs: Run) -> list[str]:
    return [run.id for run in runs]


def test_filters_of_what_happened(url: str, app: Windlass) -> None:
    keyed = app.jobs["greet"].using(key="k").enqueue()
    bad = app.enqueue("break_down", {"part": "axle"})
    app.schedules.put("greet", key="nightly", interval="1h")
    fired = app.schedules.trigger("nightly")
    work(app)
    worker = keyed.refresh().worker
    assert fired is not None
    assert worker is not None
    waits = app.enqueue("greet")

    assert listed(url, "--key", "k") == [keyed.id]
    assert listed(url, "--schedule", "nightly") == [fired.id]
    assert listed(url, "--worker", worker) == ids_of(fired, bad, keyed)
    assert listed(url, "--error", "ValueError") == listed(url, "--dead") == [bad.id]
    assert listed(url, "--failure", "exhausted") == [bad.id]
    assert listed(url, "--finished-since", "1h") == ids_of(fired, bad, keyed)
    assert listed(url, "--finished-until", "1h") == []
    assert waits.id not in listed(url, "--finished-since", "1h")
    assert "nobody" in fails(3, "runs", "--schedule", "nobody", "--url", url)
    assert "'done' is not one of scheduled, queued" in fails(2, "runs", "--status", "done")
    future = (datetime.now(UTC) + timedelta(days=2)).isoformat()  # noqa: TID251
    assert listed(url, "--since", future) == []


def test_pages(url: str, app: Windlass) -> None:
    ids = [app.enqueue("greet").id for _ in range(5)][::-1]

    first = run("runs", "--url", url, "--limit", "2")

    assert first.stderr == f"Older ones: --before {ids[1]}\n"
    assert listed(url, "--limit", "2") == ids[:2]
    assert listed(url, "--limit", "2", "--before", ids[1]) == ids[2:4]
    assert listed(url, "--limit", "2", "--before", ids[3]) == ids[4:]


def test_nothing_to_list(url: str, app: Windlass) -> None:
    app.migrate()

    nothing, match = run("runs", "--url", url), run("runs", "--url", url, "--job", "x")
    assert (nothing.stdout, nothing.stderr) == ("", "There are no runs.\n")
    assert (match.stdout, match.stderr) == ("", "No runs match.\n")
    assert ok("runs", "--url", url, "--json") == "[]\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--status", "done"], "Invalid value for '--status': 'done' is not one of "),
        (["--since", "yore"], "Invalid value for '--since': 'yore' is neither a duration such as"),
        (["--limit", "5000"], "Invalid value for '--limit': 5000 is not "),
        (["--limit", "few"], "Invalid value for '--limit': "),
    ],
)
def test_wrong_filters(options: list[str], told: str) -> None:
    url = "sqlite:///windlass.db"
    ok("migrate", "--url", url)

    assert told in fails(2, "runs", "--url", url, *options)


def test_show_tells_everything(url: str, app: Windlass) -> None:
    failed = (
        app.jobs["break_down"].using(key="k", tags=["a", "b"], priority=3).enqueue(part="Rad ⚙")
    )
    work(app)

    shown = ok("show", failed.id, "--url", url)

    facts = {line[:10].strip(): line[10:] for line in shown.split("\n\n")[0].splitlines()}
    assert facts["run"] == failed.id
    assert facts["job"] == "break_down"
    assert facts["status"] == "failed (exhausted): ValueError: Rad ⚙ broke\\x1b[31m"
    assert facts["queue"] == "default, priority 3"
    assert facts["key"] == "k"
    assert facts["tags"] == "a, b"
    assert facts["counts"] == "2 attempts, 2 failures, 0 crashes"
    assert facts["input"] == '{"part": "Rad ⚙"}'
    assert "result" not in facts
    _, attempts, traceback, events = shown.split("\n\n")
    assert [line.split()[:2] for line in attempts.splitlines()[2:]] == [
        ["1", "failed"],
        ["2", "failed"],
    ]
    assert traceback.startswith("traceback of attempt 2\n    Traceback (most recent call last):\n")
    assert "    ValueError: Rad ⚙ broke\\x1b[31m" in traceback
    told = [line.split(None, 3)[3].split()[0] for line in events.splitlines()[2:]]
    assert told == ["enqueued", "started", "retrying", "queued", "started", "failed"]
    assert "\x1b" not in shown


def test_show_names_the_run_that_handles_a_failure(url: str, app: Windlass) -> None:
    @app.on_failure
    def alarm(failed: FailedRun) -> None: ...

    failed, fine = app.enqueue("break_down", {"part": "axle"}), app.enqueue("greet")
    work(app)
    [handler] = app.list(job="alarm")

    assert f"\nhandler   {handler.id}\n" in ok("show", failed.id, "--url", url)
    assert f"\nhandles   {failed.id}\n" in ok("show", handler.id, "--url", url)
    assert "\nhandler   " not in ok("show", fine.id, "--url", url)
    assert ok_json("show", failed.id, "--url", url, "--json")["handled_by"] == handler.id
    failed.retry()
    assert "\nhandler   " not in ok("show", failed.id, "--url", url)
    stored = {job["name"]: job["on_failure"] for job in ok_json(*STORED, "--url", url, "--json")}
    assert (stored["greet"], stored["alarm"]) == ("alarm", None)


def test_show_a_result(url: str, app: Windlass) -> None:
    run_id = app.enqueue("greet", {"name": "Zoë"}).id
    work(app)

    shown = ok("show", run_id, "--url", url)

    assert 'result    "Hello, Zoë"' in shown
    assert "status    succeeded\n" in shown
    assert "traceback" not in shown


def test_show_a_run_that_waits(url: str, app: Windlass) -> None:
    later = app.jobs["greet"].using(delay="3h1m", expires="1d", deadline="2d").enqueue()
    canceled = app.enqueue("greet").cancel("why not")

    shown = ok("show", later.id, "--url", url)

    assert "status    scheduled: delay, due in 3 h\n" in shown
    assert "\nexpires   " in shown
    assert "\ndeadline  " in shown
    assert "status    canceled: why not\n" in ok("show", canceled.id, "--url", url)


def test_show_tells_how_long_a_cancel_took(url: str, app: Windlass) -> None:
    @app.job
    async def stubborn(ctx: Context) -> None:
        await app.acancel(ctx.run_id, reason="enough")
        await asyncio.Event().wait()

    run_id = app.enqueue("stubborn").id
    work(app)

    shown = ok("show", run_id, "--url", url)
    (request,) = ok_json("show", run_id, "--url", url, "--json")["stop_requests"]

    assert re.search(r"\ncancel    asked .+, heard \+\S+(?: \S+)?, canceled \+\S+", shown)
    assert (request["kind"], request["became"]) == ("cancel", "run.canceled")
    assert request["asked_at"] <= request["heard_at"] <= request["done_at"]


def test_show_as_json(url: str, app: Windlass) -> None:
    run_id = app.enqueue("refuse").id
    work(app)

    found: Any = ok_json("show", run_id, "--url", url, "--json", "--events")

    assert (found["id"], found["failure"]) == (run_id, "fatal")
    assert found["attempts"][0]["error"]["message"] == "no"
    assert [event["type"] for event in found["events"]] == [
        "run.enqueued",
        "run.started",
        "run.failed",
    ]
    assert found["events"][2]["data"] == {"failure": "fatal"}
    assert "events" not in ok_json("show", run_id, "--url", url, "--json")


def test_show_leaves_early_events_out_unless_asked(url: str, app: Windlass) -> None:
    wanted = app.enqueue("greet")
    for _ in range(12):
        wanted.cancel()
        wanted.retry()

    assert "… 5 earlier ones: --events shows all" in ok("show", wanted.id, "--url", url)
    assert "earlier" not in ok("show", wanted.id, "--url", url, "--events")


@pytest.mark.parametrize("wrong", ["01a1e102", "nonsense", "01a1e10b-f770-7fd2-92f1-1ed5f62d63b8"])
def test_a_run_that_is_not_there(url: str, app: Windlass, wrong: str) -> None:
    app.migrate()

    told = fails(3, "show", wrong, "--url", url)

    assert told.startswith(f"There is no run {wrong}: ")
    assert told.endswith("`windlass runs` lists those there are.")
