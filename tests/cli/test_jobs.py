"""`windlass jobs`, `windlass dev` and `windlass worker --watch`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.kit import PATIENCE, command, fails, ok, ok_json, run, started
from tests.faults.harness import eventually

HELLO = "async def run(ctx, name='world'):\n    ctx.log.info('Hello, %s', name)\n    return {}\n"


def write(folder: Path, file: str, text: str) -> Path:
    path = folder / "jobs" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def store(folder: Path, url: str) -> str:
    """A store that windlass.toml names, for an application of job files alone."""
    (folder / "windlass.toml").write_text(f'[windlass]\nurl = "{url}"\npoll = "100ms"\n')
    write(folder, "hello.py", HELLO.format(1))
    return url


def test_list(folder: Path) -> None:
    write(folder, "reports/daily.py", "schedule = '0 3 * * *'\ndef run(ctx): ...")
    write(folder, "bad.py", "\ndef run(ctx:")
    bad, daily = ok("jobs", "list").splitlines()

    assert bad.split() == [
        "bad",
        "jobs/bad.py",
        *["jobs/bad.py:2:", "'('", "was", "never", "closed"],
    ]
    assert daily.split()[:6] == ["reports.daily", "0", "3", "*", "*", "*"]
    assert daily.split()[-1] == "jobs/reports/daily.py"
    found = ok_json("jobs", "list", "--json")
    assert [job["name"] for job in found] == ["bad", "reports.daily"]
    assert found[0]["error"] == {
        "file": str(folder / "jobs/bad.py"), "line": 2, "why": "'(' was never closed",
    }  # fmt: skip
    assert (found[1]["schedule"], found[1]["error"]) == ("0 3 * * *", None)


def test_list_beside_an_application(folder: Path) -> None:
    (folder / "tasks.py").write_text(
        "from windlass import Windlass\napp = Windlass()\n@app.job\ndef coded(): ..."
    )
    write(folder, "hello.py", "from tasks import app\ndef run(ctx): ...")

    coded, hello = ok("jobs", "list", "--app", "tasks").splitlines()
    assert coded.split() == ["coded", coded.split()[1], "code"]
    assert hello.split()[-1] == "jobs/hello.py"


def test_no_jobs(folder: Path) -> None:
    assert run("jobs", "list").stderr == "There are no jobs: write one into jobs/.\n"
    assert ok_json("jobs", "list", "--json") == []
    assert ok("jobs", "check") == "0 job files, nothing wrong.\n"


def test_check_reports_every_problem(folder: Path) -> None:
    write(folder, "good.py", "def run(ctx): ...")
    assert ok("jobs", "check") == "1 job file, nothing wrong.\n"
    write(folder, "a.py", "x = 1\nimport nothing_like_that")
    write(folder, "b/c.py", "def run(): ...")
    write(folder, "d.py", "schedule = 'never'\ndef run(ctx): ...")
    result = run("jobs", "check")

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "jobs/a.py:2: No module named 'nothing_like_that'"
    assert lines[1].startswith("jobs/b/c.py:1: `run` must take the context first")
    assert lines[2].startswith("jobs/d.py:1: schedule: 'never' has 1 fields")
    assert len(lines) == 3
    found = run("jobs", "check", "--json")
    assert found.exit_code == 1
    assert [problem["line"] for problem in json.loads(found.stdout)] == [2, 1, 1]


def test_the_folder_comes_from_the_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "work").mkdir()
    (folder / "work" / "one.py").write_text("def run(ctx): ...")
    monkeypatch.setenv("WINDLASS_JOBS", "work")

    assert ok("jobs", "list").split()[-1] == "work/one.py"


def test_runs_of_a_job(folder: Path, store: str) -> None:
    assert "There is no" in fails(2 if store.startswith("postgres") else 5, "jobs", "runs", "hello")
    with started(command("worker", "--drain"), folder) as process:
        assert process.ends() == 0
    assert run("jobs", "runs", "hello").stderr == "Job 'hello' has no runs.\n"
    made = [ok("enqueue", "hello").strip() for _ in range(2)]

    lines = ok("jobs", "runs", "hello").splitlines()
    assert [line.split()[0] for line in lines] == made[::-1]
    assert [run["id"] for run in ok_json("jobs", "runs", "hello", "--json")] == made[::-1]
    assert "There is no job 'other'" in fails(2, "jobs", "runs", "other")


def test_what_the_store_knows(folder: Path, store: str) -> None:
    write(folder, "open.py", "def run(ctx, **more): ...")
    with started(command("worker", "--drain"), folder) as process:
        assert process.ends() == 0
    (folder / "jobs/hello.py").unlink()

    line, other = ok("jobs", "list", "--stored").splitlines()
    assert line.split()[:3] == ["hello", "default", "name?"]
    assert other.split()[:3] == ["open", "default", "**more"]
    found, _ = ok_json("jobs", "list", "--stored", "--json")
    assert (found["name"], found["created_at"]) == ("hello", found["updated_at"])

    gone, here = ok("jobs", "list").splitlines()
    assert (gone.split()[0], gone.split()[-1]) == ("hello", "store")
    assert (here.split()[0], here.split()[-1]) == ("open", "jobs/open.py")
    listed = ok_json("jobs", "list", "--json")
    assert [(job["name"], job["where"]) for job in listed] == [("hello", "store"), ("open", "file")]


def test_a_store_that_knows_no_jobs(folder: Path, store: str) -> None:
    ok("migrate")
    assert "The store knows no jobs" in run("jobs", "list", "--stored").stderr
    assert ok_json("jobs", "list", "--stored", "--json") == []


def test_a_worker_runs_job_files_without_an_application(folder: Path, store: str) -> None:
    with started(command("worker", "--drain"), folder) as process:
        assert process.ends() == 0
    run_id = ok("enqueue", "hello").strip()
    with started(command("worker", "--drain"), folder) as process:
        assert process.ends() == 0

    found = ok_json("show", run_id, "--json")
    assert (found["status"], found["result"]) == ("succeeded", 1)


def test_a_worker_with_files_that_are_all_broken(folder: Path) -> None:
    write(folder, "bad.py", "def run(ctx:")
    with started(command("worker"), folder) as process:
        assert process.ends() == 2

    assert "job file not loaded" in process.lines[0]
    assert process.lines[-1].startswith("windlass: The application has no jobs: ")


@pytest.mark.parametrize("arguments", [("dev",), ("worker", "--watch")])
def test_files_take_effect_while_it_runs(
    folder: Path, store: str, arguments: tuple[str, ...]
) -> None:
    with started(command(*arguments), folder) as process:
        process.wait_for("worker started")
        assert ok("enqueue", "hello", "--wait", "--timeout-wait", f"{PATIENCE:g}s") == "1\n"
        write(folder, "late.py", HELLO.format(2))
        process.wait_for("late")
        eventually(
            lambda: run("enqueue", "late").exit_code == 0,
            within=PATIENCE,
            what="the worker has told the store of the new job",
        )
        assert ok("enqueue", "late", "--wait", "--timeout-wait", f"{PATIENCE:g}s") == "2\n"
        write(folder, "hello.py", "\ndef run(ctx) 1")
        process.wait_for("hello.py:2: expected ':'")
        assert ok("enqueue", "hello", "--wait", "--timeout-wait", f"{PATIENCE:g}s") == "1\n"
        process.send(signal.SIGTERM)

        assert process.ends() == 0
    assert "Traceback" not in process.output


def test_dev_shows_the_jobs_and_what_happens(folder: Path, store: str) -> None:
    write(folder, "fails.py", "max_attempts = 1\ndef run(ctx):\n    raise OSError('no')\n")
    write(folder, "bad.py", "def run(ctx:")
    with started(command("dev"), folder) as process:
        process.wait_for("worker started")
        ok("enqueue", "fails")
        process.wait_for("fails  failed")
        process.send(signal.SIGINT)
        assert process.ends() == 0
    assert any(line.startswith("bad") and "jobs/bad.py:1: " in line for line in process.lines)
    told = process.wait_for("fails  failed")
    assert "OSError: no" in told
    process.wait_for("windlass show ")
    with started(command("dev"), folder) as process:
        row = process.wait_for("fails ")
        process.wait_for("worker started")
        process.send(signal.SIGINT)
        assert process.ends() == 0
    assert "failed" in row


def test_dev_serves_the_failure_handler_that_a_file_has_by_now(folder: Path, store: str) -> None:
    fails = "max_attempts = 1\ndef run(ctx):\n    raise OSError('no')\n"
    handles = "from windlass import FailedRun\ndef on_failure(failed: FailedRun): ...\n"
    write(folder, "fails.py", fails)

    def handler_of_stored_job() -> str | None:
        found = ok_json("jobs", "list", "--stored", "--json")
        return next((job["on_failure"] for job in found if job["name"] == "fails"), None)

    with started(command("dev"), folder) as process:
        process.wait_for("worker started")
        write(folder, "fails.py", f"{fails}{handles}")
        eventually(
            lambda: handler_of_stored_job() == "fails.on_failure",
            within=PATIENCE,
            what="the worker has told the store of the handler",
        )
        ok("enqueue", "fails")
        process.wait_for("fails.on_failure  succeeded")
        write(folder, "fails.py", f"{fails}def on_failure(): ...\n")
        process.wait_for("jobs/fails.py:4: `on_failure`: a failure handler takes one argument")
        process.send(signal.SIGINT)
        assert process.ends() == 0
    write(folder, "fails.py", f"{fails}{handles}")
    assert ok("jobs", "check") == "2 job files, nothing wrong.\n"
    listed = {job["name"]: job["file"] for job in ok_json("jobs", "list", "--json")}
    assert listed["fails.on_failure"] == listed["fails"] == str(folder / "jobs/fails.py")


def test_dev_without_any_job_says_how_to_write_one(folder: Path) -> None:
    with started(command("dev"), folder) as process:
        process.wait_for("There are no jobs yet. Save this as jobs/hello.py")
        process.wait_for("worker started")
        write(folder, "hello.py", HELLO.format(1))
        process.wait_for("hello  file loaded")
        process.send(signal.SIGTERM)
        assert process.ends() == 0
