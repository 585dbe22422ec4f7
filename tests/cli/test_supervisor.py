"""`windlass worker --processes`: replaced when they die, stopped together."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.cli.kit import PATIENCE, Process, command, ok, ok_json, started, write_jobs
from tests.faults.harness import eventually
from windlass.cli import supervisor
from windlass.sources import Sources

WORKERS = command("worker", "--app", "jobs", "--processes", "2")


@pytest.fixture
def store(folder: Path) -> str:
    """The URL of the store of the application `jobs` in the working directory."""
    found = f"sqlite:///{folder}/windlass.db"
    write_jobs(folder, found, lease="3s", sweep="200ms")
    with (folder / "jobs.py").open("a") as file:
        file.write(
            "\n\n@app.job\nasync def whoami() -> int:\n    import os\n    return os.getpid()\n"
            "\n\n@app.job\ndef frozen() -> None:\n    import ctypes\n"
            "    print('handler started', flush=True)\n    ctypes.PyDLL(None).sleep(60)\n"
        )
    return found


def pids(process: Process, least: int) -> list[int]:
    """The worker processes that have started to work so far, once there are enough."""

    def found() -> list[int] | None:
        lines = [line for line in process.lines if "worker started" in line]
        return [int(line.partition("worker=")[2].split(":")[1]) for line in lines]

    return eventually(
        lambda: seen if len(seen := found() or []) >= least else None,
        within=PATIENCE,
        what=f"{least} workers have started:\n{process.output}",
    )


def alive(pid: int) -> bool:
    """Whether a process has not ended, or nobody has collected it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_that_dies_is_replaced_and_a_signal_stops_them_all(
    folder: Path, store: str
) -> None:
    with started(WORKERS, folder) as process:
        one, two = pids(process, 2)
        os.kill(one, signal.SIGKILL)
        assert "by SIGKILL" in process.wait_for("worker process died, starting another")
        *_, three = pids(process, 3)
        run = ok("enqueue", "greet", "--app", "jobs", "--wait").strip()
        process.send(signal.SIGTERM)

        assert process.ends() == 0

    assert "Hello, you" in run
    assert not any(alive(pid) for pid in (two, three))
    assert process.output.count("worker process started") == 3
    assert process.output.count("worker stopped") == 2
    assert "supervisor stopped" in process.lines[-1]


def test_processes_that_are_told_to_end_finish_what_they_run(folder: Path, store: str) -> None:
    flag = folder / "go"
    running = ok("enqueue", "wait_for_file", "--arg", f"path={flag}", "--app", "jobs").strip()
    with started(WORKERS, folder) as process:
        process.wait_for("handler started")
        process.send(signal.SIGINT)
        process.wait_for("worker stopping")
        flag.touch()

        assert process.ends() == 0

    assert ok_json("show", running, "--url", store, "--json")["status"] == "succeeded"


def test_a_second_signal_ends_everything_now(folder: Path, store: str) -> None:
    # A call that does not let go of the interpreter: its process can answer nothing.
    running = ok("enqueue", "frozen", "--app", "jobs").strip()
    with started(WORKERS, folder) as process:
        process.wait_for("handler started")
        workers = pids(process, 2)
        process.insist(signal.SIGTERM)

        assert process.ends() == 128 + signal.SIGTERM

    eventually(lambda: not any(map(alive, workers)), what="the workers are dead")
    assert ok_json("show", running, "--url", store, "--json")["status"] == "running"


def test_processes_stop_when_their_supervisor_is_killed(folder: Path, store: str) -> None:
    with started(WORKERS, folder) as process:
        workers = pids(process, 2)
        process.process.kill()
        eventually(lambda: not any(map(alive, workers)), what="the workers have ended")

    assert ok_json("workers", "--url", store, "--json") == []


def test_a_process_that_is_worn_out_is_replaced_at_once(folder: Path, store: str) -> None:
    more = ["--recycle-runs", "3", "--concurrency", "1"]
    with started(
        [*command("worker", "--app", "jobs", "--processes", "1"), *more], folder
    ) as process:
        (first,) = pids(process, 1)
        runs = [ok("enqueue", "whoami", "--app", "jobs").strip() for _ in range(3)]
        process.wait_for("worker worn out")
        *_, second = pids(process, 2)
        runs.append(ok("enqueue", "whoami", "--app", "jobs").strip())
        last = eventually(
            lambda: ok_json("show", runs[-1], "--url", store, "--json")["result"], what="it ran"
        )
        process.send(signal.SIGTERM)

        assert process.ends() == 0

    assert first != second == last
    assert "died" not in process.output


def test_workers_that_cannot_start_are_not_tried_again(folder: Path) -> None:
    with started(WORKERS, folder) as process:
        assert process.ends() == 2

    assert "There is no module 'jobs'" in process.output
    assert process.output.count("worker process started") == 2


def test_a_process_that_dies_at_once_is_replaced_ever_more_slowly(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(supervisor, "_LONGEST_PAUSE", 0.08)
    watched = supervisor.Supervisor(["sh", "-c", "exit 7"], 1, Sources.system())
    with caplog.at_level(logging.INFO):
        thread = threading.Thread(target=watched.run)
        thread.start()

        def pauses() -> list[float]:
            return [record.__dict__["in"] for record in caplog.records if "in" in record.__dict__]

        eventually(lambda: len(pauses()) >= 5, what="it died five times")
        watched.stop()
        thread.join(PATIENCE)

    for pause, most in zip(pauses(), (0.02, 0.04, 0.08, 0.08, 0.08), strict=False):
        assert most / 2 <= pause + 0.005 <= most + 0.01
    assert not thread.is_alive()


def test_the_environment_may_ask_for_processes(folder: Path, store: str) -> None:
    arguments = command("worker", "--app", "jobs", "--drain", "--log", "json")
    with started(arguments, folder, {"WINDLASS_PROCESSES": "2"}) as process:
        assert process.ends() == 0

    assert process.output.count('"message":"worker started"') == 2
