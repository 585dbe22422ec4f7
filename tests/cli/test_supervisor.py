"""`windlass worker --processes`: replaced when they die, stopped together."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import PATIENCE, Process, command, ok, ok_json, started, write_jobs
from tests.faults.harness import eventually, rest
from windlass.cli import supervisor
from windlass.cli.signals import TOGETHER
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


def test_a_process_that_hears_of_one_request_twice_finishes_what_it_runs(
    folder: Path, store: str
) -> None:
    """From its supervisor, and from whoever tells the whole group, as systemd does."""
    flag = folder / "go"
    running = ok("enqueue", "wait_for_file", "--arg", f"path={flag}", "--app", "jobs").strip()
    with started(command("worker", "--app", "jobs", "--processes", "1"), folder) as process:
        process.wait_for("handler started")
        (worker,) = pids(process, 1)
        process.send(signal.SIGTERM)
        process.wait_for("worker stopping")
        rest(2 * TOGETHER)
        os.kill(worker, signal.SIGTERM)
        rest(2 * TOGETHER)
        flag.touch()

        assert process.ends() == 0

    assert ok_json("show", running, "--url", store, "--json")["status"] == "succeeded"


def test_processes_too_young_to_handle_the_signal_have_ended_as_told() -> None:
    watched = supervisor.Supervisor(["sleep", "600"], 2, Sources.system())
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(watched.run()))
    thread.start()
    eventually(lambda: all(post.process for post in watched._posts), what="both have started")
    watched.stop()
    thread.join(PATIENCE)

    assert codes == [0]


def test_a_process_that_dies_as_the_signal_comes_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler runs between any two instructions, such as before the next start is planned."""
    watched = supervisor.Supervisor(["sh", "-c", "exit 7"], 1, Sources.system())
    plan = watched._start_again

    def told(*args: Any) -> None:
        watched.stop()
        plan(*args)

    monkeypatch.setattr(watched, "_start_again", told)
    assert watched.run() == 0


def test_a_second_signal_ends_everything_now(folder: Path, store: str) -> None:
    with started(WORKERS, folder) as process:
        workers = pids(process, 2)  # before one is frozen, which may be in a transaction
        # A call that does not let go of the interpreter: its process can answer nothing.
        running = ok("enqueue", "frozen", "--app", "jobs").strip()
        process.wait_for("handler started")
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


LACKING: dict[str, tuple[Any, str, Exception]] = {
    "sockets": (socket, "socketpair", OSError(errno.EMFILE, "too many")),
    "processes": (subprocess, "Popen", BlockingIOError(errno.EAGAIN, "not now")),
    "threads": (threading.Thread, "start", RuntimeError("can't start new thread")),
}


@pytest.mark.parametrize("what", LACKING)
def test_machine_that_has_none_to_give_for_a_while_costs_no_other_process(
    what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.02)
    owner, name, error = LACKING[what]
    refusals = [error, error]
    made: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    def scarce(*args: Any, **options: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return give(*args, **options)

    def begun(number: int) -> bool:
        return (
            sum(record.message == "worker process started" for record in caplog.records) >= number
        )

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    give = getattr(owner, name)
    watched = supervisor.Supervisor(["sleep", "600"], 2, Sources.system())
    thread = threading.Thread(target=watched.run, daemon=True)
    try:
        with caplog.at_level(logging.INFO):
            thread.start()
            eventually(lambda: begun(2), what="both have started")
            monkeypatch.setattr(owner, name, scarce)
            made[0].kill()
            eventually(lambda: begun(3), what="one has been replaced")
            assert (refusals, made[1].poll()) == ([], None)
            watched.stop()
            thread.join(PATIENCE)
        assert not thread.is_alive()
        assert all(process.poll() is not None for process in made)
        tried = [record for record in caplog.records if "not started" in record.message]
        assert [record.__dict__["error"] for record in tried] == [str(error)] * 2
    finally:
        for process in made:
            process.kill()


def test_command_that_cannot_be_run_is_not_tried_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        supervisor.Supervisor([str(tmp_path / "none")], 2, Sources.system()).run()


HELD = """
import os, signal, subprocess
from windlass.cli.supervisor import Lifeline
line = Lifeline()
line.watch(lambda: os.kill(os.getpid(), signal.SIGTERM))
subprocess.run(["cat"], timeout=10, check=True)
line.tell_started()
signal.pause()
"""


def test_what_handlers_start_does_not_wait_for_input_from_the_supervisor() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, "-c", HELD], stdin=theirs.fileno())
    with ours:
        ours.settimeout(PATIENCE)
        assert ours.recv(1) == b"1"
    assert process.wait(PATIENCE) == -signal.SIGTERM  # the line works where it is now


def test_the_environment_may_ask_for_processes(folder: Path, store: str) -> None:
    arguments = command("worker", "--app", "jobs", "--drain", "--log", "json")
    with started(arguments, folder, {"WINDLASS_PROCESSES": "2"}) as process:
        assert process.ends() == 0

    assert process.output.count('"message":"worker started"') == 2
