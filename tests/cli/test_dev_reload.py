"""`windlass dev` follows the code of the application: modules, not only job files."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import PATIENCE, Process, command, ok, ok_json, started
from tests.cli.terminal import Terminal, on_terminal
from tests.faults.harness import eventually
from windlass.cli.signals import TOGETHER

TASKS = """
import os
import time
from pathlib import Path

from windlass import Windlass

import words

app = Windlass("sqlite:///windlass.db", poll="100ms")


@app.job
def greet() -> str:
    return words.HELLO


@app.job
def tell_pid() -> int:
    return os.getpid()


@app.job
def wait_for(path: str) -> str:
    print("handler started", flush=True)
    while not Path(path).exists():
        time.sleep(0.01)
    return words.HELLO
"""

STORE = ("--url", "sqlite:///windlass.db")
WAIT = (*STORE, "--wait", "--timeout-wait", f"{PATIENCE:g}s")


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "tasks.py").write_text(TASKS)
    (folder / "words.py").write_text("HELLO = 'one'\n")
    return folder


@pytest.fixture
def dev(project: Path) -> Iterator[Process]:
    with started(command("dev", "--app", "tasks"), project) as process:
        process.wait_for("worker started")
        yield process
        if process.process.poll() is None:
            process.send(signal.SIGTERM)
            assert process.ends() == 0
    assert "Traceback" not in process.output


def greeting() -> str:
    """What a run returns now; the store is asked, no code is imported."""
    return ok("enqueue", "greet", *WAIT).strip().strip('"')


def test_a_module_that_changes_takes_over_and_what_runs_finishes(
    project: Path, dev: Process
) -> None:
    old = ok("enqueue", "wait_for", "path=go", *STORE).strip()
    dev.wait_for("handler started")
    (project / "words.py").write_text("HELLO = 'the second'\n")
    dev.wait_for("words.py  changed: the new code runs")
    dev.wait_for("the old code has up to 25 s to finish 1 run: wait_for")

    assert greeting() == "the second"
    (project / "go").touch()
    dev.wait_for("wait_for  succeeded")
    found = ok_json("show", old, "--json")
    assert (found["status"], found["result"], found["attempt"]) == ("succeeded", "one", 1)
    assert len([line for line in dev.lines if "worker started" in line]) == 1
    assert "worker stopped" not in dev.output


def test_a_broken_edit_is_shown_with_its_line_and_the_old_code_goes_on(
    project: Path, dev: Process
) -> None:
    (project / "words.py").write_text("\nHELLO = (\n")
    line = dev.wait_for("words.py:2: SyntaxError: '(' was never closed")
    assert re.match(r"\d\d:\d\d:\d\d  ", line)
    dev.wait_for("words.py changed: the old code goes on")
    assert greeting() == "one"

    (project / "words.py").write_text("HELLO = 'mended'\n")
    dev.wait_for("words.py  changed: the new code runs")
    assert greeting() == "mended"


def test_a_mistake_in_a_new_module_is_mended_there(project: Path, dev: Process) -> None:
    (project / "words.py").write_text("from more import HELLO\n")
    dev.wait_for("words.py:1: ModuleNotFoundError: No module named 'more'")
    (project / "more.py").write_text("HELLO = 1 / 0\n")
    dev.wait_for("more.py:1: ZeroDivisionError: division by zero")
    (project / "more.py").write_text("HELLO = 'from more'\n")
    dev.wait_for("more.py  changed: the new code runs")

    assert greeting() == "from more"


def test_a_job_that_is_wrong_is_shown_with_its_line(project: Path, dev: Process) -> None:
    (project / "tasks.py").write_text(f"{TASKS}\n\n@app.job('name')\ndef late() -> None: ...\n")
    dev.wait_for("tasks.py:31: @app.job takes a job's name as an option: @app.job(name='name')")


def test_processes_end_with_the_command(project: Path, dev: Process) -> None:
    pid = int(ok("enqueue", "tell_pid", *WAIT))
    assert pid != dev.process.pid
    dev.send(signal.SIGKILL)
    dev.process.wait(PATIENCE)

    eventually(lambda: not is_alive(pid), within=PATIENCE, what="the worker process ends")


def test_a_process_that_dies_ends_the_command(project: Path, dev: Process) -> None:
    pid = int(ok("enqueue", "tell_pid", *WAIT))
    os.kill(pid, signal.SIGKILL)

    assert dev.ends() == 128 + signal.SIGKILL


def test_without_reload_there_is_one_process(project: Path) -> None:
    with started(command("dev", "--no-reload", "--app", "tasks"), project) as process:
        process.wait_for("worker started")
        assert int(ok("enqueue", "tell_pid", *WAIT)) == process.process.pid
        process.send(signal.SIGTERM)
        assert process.ends() == 0


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_ctrl_c_says_what_is_awaited_and_the_second_ends_it(project: Path) -> None:
    with on_terminal(project, "dev", "--app", "tasks") as terminal:
        terminal.wait_for("worker started")
        ok("enqueue", "wait_for", "path=never", *STORE)
        terminal.wait_for("handler started")
        terminal.press("\x03")
        said = "stopping, Ctrl-C again ends it now; waiting up to 25 s for 1 run: wait_for"
        terminal.wait_for(said)
        insist(terminal)
        assert terminal.ends() == 130


def insist(terminal: Terminal) -> None:
    """Press Ctrl-C again, when it is no longer taken for the first."""
    time.sleep(2 * TOGETHER)
    terminal.press("\x03")
