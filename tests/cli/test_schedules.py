"""`windlass schedules`, and schedules of job files in a process that watches them."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.cli.kit import command, fails, ok, ok_json, run, started

EACH_SECOND = """\
schedule = "* * * * * *"

async def run(ctx):
    ctx.log.info("slot %s", ctx.slot.isoformat())
"""


@pytest.fixture
def store(folder: Path, url: str) -> str:
    """A store that knows one job, of an application that windlass.toml names."""
    (folder / "windlass.toml").write_text(f'[windlass]\nurl = "{url}"\napp = "tasks"\n')
    (folder / "tasks.py").write_text(
        "from windlass import Windlass\n"
        "app = Windlass()\n"
        "@app.job\n"
        "def digest(user: int = 0): ...\n"
        "app.schedule(digest, cron='0 8 * * MON', timezone='Asia/Tokyo')\n"
    )
    ok("migrate")
    with started(command("worker", "--drain"), folder) as process:
        assert process.ends() == 0
    return url


def write(folder: Path, text: str) -> Path:
    path = folder / "jobs" / "beat.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# -- next ------------------------------------------------------------------------------------------


def test_next_prints_times_and_what_they_mean() -> None:
    arguments = ("--timezone", "Europe/Berlin", "--from", "2026-03-28", "-n", "3")
    assert ok("schedules", "next", "30 2 * * *", *arguments).splitlines() == [
        "At 02:30 every day, in Europe/Berlin",
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    found = ok_json("schedules", "next", "@hourly", "-n", "2", "--from", "2026-01-01", "--json")
    assert found["next"] == ["2026-01-01T01:00:00+00:00", "2026-01-01T02:00:00+00:00"]
    assert len(ok("schedules", "next", "* * * * *").splitlines()) == 11


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("61 * * * *",), "minute '61'"),
        (("0 0 31 2 *",), "never fires"),
        (("* * *",), "fields"),
        (("* * * * *", "--timezone", "Mars/Base"), "no zone 'Mars/Base'"),
        (("* * * * *", "--from", "soon"), "'soon'"),
        (("* * * * *", "-n", "0"), "0"),
    ],
)
def test_next_refuses_with_one_sentence(arguments: tuple[str, ...], told: str) -> None:
    error = fails(2, "schedules", "next", *arguments)
    assert told in error
    assert len(error.splitlines()) == 1


def test_a_time_without_an_offset_is_local_or_in_the_schedules_zone(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    at = "2090-01-31T12:00"
    cron = ("--cron", "0 8 * * *")

    def start(*terms: str) -> str:
        return str(ok_json("schedules", "put", "digest", "--key", "k", *terms, "--json")["rule"])

    try:
        assert "2090-01-31T03:00:00" in start("--once", at)
        assert "2090-01-31T12:00:00" in start("--once", f"{at}Z")
        assert "2090-01-31T11:00:00" in start("--once", at, "--timezone", "Europe/Berlin")
        assert "2090-01-31T12:00:00" in start(*cron, "--start", at)
        assert "2090-01-31T11:00:00" in start(*cron, "--start", at, "--timezone", "Europe/Berlin")
        changed = ok_json("schedules", "change", "k", "--start", "2091-01-31T12:00", "--json")
        assert "2091-01-31T11:00:00" in str(changed["rule"])
    finally:
        monkeypatch.undo()
        time.tzset()


# -- verbs -----------------------------------------------------------------------------------------


def test_declared_schedule_is_there_once_a_worker_started(store: str) -> None:
    [found] = ok_json("schedules", "list", "--json")
    assert (found["key"], found["job"], found["origin"]) == ("digest", "digest", "code")
    row = ok("schedules", "list").splitlines()[0]
    assert row.split()[:6] == ["digest", "digest", "on", "0", "0", "0"]
    assert row.endswith("At 08:00 on Monday, in Asia/Tokyo")


def test_life_of_a_schedule(store: str) -> None:
    given = ("--key", "digest:7", "--interval", "10m", "--overlap", "skip")
    assert ok("schedules", "put", "digest", '{"user": 7}', *given) == "digest:7\n"
    shown = ok("schedules", "show", "digest:7")
    assert "Every 10 m" in shown
    assert '{"user": 7}' in shown
    assert "Next slots" in shown

    run_id = ok("schedules", "trigger", "digest:7").strip()
    assert ok_json("show", run_id, "--json")["input"] == {"user": 7}
    assert "an earlier run of it is live" in fails(4, "schedules", "trigger", "digest:7")
    assert ok("schedules", "trigger", "digest:7", "--overlap", "allow").strip() != run_id

    assert ok("schedules", "pause", "digest:7") == "digest:7 paused\n"
    assert [s["key"] for s in ok_json("schedules", "list", "--paused", "--json")] == ["digest:7"]
    assert ok("schedules", "resume", "digest:7").startswith("digest:7 on, next ")
    changed = ok_json("schedules", "change", "digest:7", "--cron", "@daily", "--json")
    assert (changed["when"], changed["input"]) == ("At 00:00 every day, in UTC", {"user": 7})
    changed = ok_json("schedules", "change", "digest:7", "--arg", "user=8", "--json")
    assert changed["input"] == {"user": 8}
    detail = ok_json("schedules", "show", "digest:7", "--json", "-n", "2")
    assert [slot["outcome"] for slot in detail["slots"]] == ["fired", "skipped"]
    assert len(detail["next"]) == 2
    assert ok("schedules", "delete", "digest:7") == "digest:7 deleted\n"
    assert "There is no schedule digest:7" in fails(3, "schedules", "show", "digest:7")


def test_backfill(store: str) -> None:
    ok("schedules", "put", "digest", "--key", "k", "--cron", "@hourly")
    ok("schedules", "pause", "k")
    arguments = ("--from", "2025-01-01T00:00", "--to", "2025-01-01T03:30")
    assert ok("schedules", "backfill", "k", *arguments) == "4 runs made.\n"
    assert ok("schedules", "backfill", "k", *arguments) == "0 runs made.\n"
    assert "has not come yet" in fails(
        2, "schedules", "backfill", "k", "--from", "2025-01-01", "--to", "2999-01-01"
    )


MISTAKES = [
    (("put", "digest"), "Give one of --once, --interval and --cron."),
    (("put", "digest", "--interval", "0s"), "shorter than a second"),
    (("put", "digest", "--interval", "1h", "--spread", "2d"), "2 d is not between 0 and 24"),
    (
        ("put", "digest", "--interval", "1h", "--cron", "@daily"),
        "Give one of --once, --interval and --cron, not --interval and --cron.",
    ),
    (("put", "digest", "--once", "2020-01-01T00:00Z"), "has passed"),
    (("put", "digets", "--interval", "1m"), "did you mean 'digest'"),
    (("put", "digest", '{"colour": 1}', "--interval", "1m"), "colour"),
    (("put", "digest", "--interval", "1m", "--overlap", "maybe"), "'maybe' is none of"),
    (("change", "digest"), "Say what to change"),
]


def test_bad_input_is_one_sentence(store: str, subtests: pytest.Subtests) -> None:
    """On one store for all: it takes a worker to make it, and a mistake leaves it as it was."""
    for arguments, told in MISTAKES:
        with subtests.test(" ".join(arguments)):
            error = fails(2, "schedules", *arguments)
            assert told in error
            assert len(error.splitlines()) == 1
            assert len(ok_json("schedules", "list", "--json")) == 1


def test_prune_deletes_what_left_the_code_when_told(folder: Path, store: str) -> None:
    assert ok("schedules", "prune") == "Every schedule that was declared in code is still there.\n"
    text = (folder / "tasks.py").read_text()
    (folder / "newer.py").write_text(text.replace("app.schedule(", "dict(job="))
    refused = run("schedules", "prune", "--app", "newer", input="n\n")
    assert refused.exit_code != 0
    assert len(ok_json("schedules", "list", "--json")) == 1
    assert ok("schedules", "prune", "--app", "newer", "--yes").endswith("1 deleted.\n")
    assert ok_json("schedules", "list", "--json") == []


# -- job files -------------------------------------------------------------------------------------


def test_schedule_of_a_job_file_while_it_is_edited(folder: Path, url: str) -> None:
    """It fires, a new one takes effect at once, and with its file it is gone."""
    (folder / "windlass.toml").write_text(f'[windlass]\nurl = "{url}"\npoll = "100ms"\n')
    ok("migrate")
    path = write(folder, EACH_SECOND)
    with started(command("dev"), folder) as process:
        process.wait_for("file:beat  schedule made")
        process.wait_for("slot 20")
        path.write_text(EACH_SECOND.replace("* * * * * *", "0 3 * * *"))
        process.wait_for("file:beat  schedule changed")
        [found] = ok_json("schedules", "list", "--json")
        assert found["when"].startswith("At 03:00 every day")
        path.write_text("schedule = '61 * * * *'\ndef run(ctx): ...")
        process.wait_for("minute '61'")
        assert len(ok_json("schedules", "list", "--json")) == 1  # its last good version goes on
        path.unlink()
        process.wait_for("file:beat  schedule removed with its file")
        assert ok_json("schedules", "list", "--json") == []
        process.send(signal.SIGINT)
        assert process.ends() == 0
    assert "change detected" not in process.output  # what a library says of each event is noise
    [run_of_file, *_] = ok_json("jobs", "runs", "beat", "--json")
    assert run_of_file["slot"] is not None


def test_file_that_is_gone_at_the_start_is_reported_and_its_schedule_stays(
    folder: Path, url: str
) -> None:
    (folder / "windlass.toml").write_text(f'[windlass]\nurl = "{url}"\npoll = "100ms"\n')
    ok("migrate")
    path = write(folder, EACH_SECOND.replace("* * * * * *", "0 3 * * *"))
    (folder / "jobs" / "other.py").write_text("def run(ctx): ...")
    with started(command("worker", "--drain"), folder) as process:
        assert process.ends() == 0
    path.unlink()
    with started(command("worker", "--drain"), folder) as process:
        assert process.ends() == 0
    assert "schedule is not in this code" in process.output
    assert len(ok_json("schedules", "list", "--json")) == 1
