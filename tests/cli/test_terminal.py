"""What a person sees at a terminal of 80 x 24."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.cli.kit import command, make_app, run, started, work, write_jobs
from tests.cli.terminal import on_terminal
from windlass import Windlass
from windlass.cli.signals import TOGETHER


@pytest.fixture
def store(folder: Path) -> str:
    """The URL of a store with a dead letter."""
    url = f"sqlite:///{folder}/windlass.db"
    app: Windlass = make_app(url)
    app.enqueue("refuse")
    work(app)
    app.close()
    return url


def test_listings_have_titles_on_a_terminal_and_not_in_a_pipe(folder: Path, store: str) -> None:
    with on_terminal(folder, "runs") as terminal:
        assert terminal.ends() == 0
    titles, row, end = terminal.lines
    assert titles.split() == ["RUN", "JOB", "STATUS", "ATTEMPT", "CREATED", "NOTE"]
    assert len(row) <= 80
    assert end == ""
    assert len(run("runs").stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("keys", "code"),
    [("\x03", 130), ("\x04", 1), ("n\n", 1), ("y\n", 0)],
    ids=["Ctrl-C", "Ctrl-D", "no", "yes"],
)
def test_ctrl_c_at_a_prompt_is_an_interrupt(folder: Path, store: str, keys: str, code: int) -> None:
    with on_terminal(folder, "dead", "retry", "--all") as terminal:
        terminal.wait_for("Retry 1 dead letter? [y/N]: ")
        terminal.wait_until_it_reads()
        terminal.press(keys)
        assert terminal.ends() == code
    assert "Traceback" not in terminal.text


@pytest.fixture
def tasks(folder: Path) -> Path:
    """An application whose handler waits; the store is that of the folder."""
    write_jobs(folder, f"sqlite:///{folder}/windlass.db", "tasks")
    return folder


@pytest.mark.parametrize("more", [[], ["--processes", "1"]], ids=["worker", "supervisor"])
def test_the_first_ctrl_c_says_what_is_awaited_and_the_second_ends_it(
    tasks: Path, more: list[str]
) -> None:
    run("enqueue", "wait_for_file", "path=never", "--app", "tasks")
    with on_terminal(tasks, "worker", "--app", "tasks", *more) as terminal:
        terminal.wait_for("handler started")
        terminal.press("\x03")
        if more:
            terminal.wait_for("waiting for the worker processes to end; Ctrl-C or SIGTERM again")
        terminal.wait_for("waiting up to 25 s for 1 run: wait_for_file")
        assert ("stopping, Ctrl-C again ends it now; waiting up" in terminal.text) is not bool(more)
        time.sleep(2 * TOGETHER)  # what comes sooner is the same request
        terminal.press("\x03")
        assert terminal.ends() == 130


def test_nothing_is_said_of_runs_where_none_is_awaited(tasks: Path) -> None:
    with on_terminal(tasks, "worker", "--app", "tasks") as terminal:
        terminal.wait_for("worker started")
        terminal.press("\x03")
        assert terminal.ends() == 0
    assert "waiting up to" not in terminal.text


@pytest.mark.parametrize("how", [["--drain"], []], ids=["drain", "idle"])
def test_runs_that_no_worker_serves_are_named(tasks: Path, how: list[str]) -> None:
    run("enqueue", "greet", "--app", "tasks", "--queue", "slow")
    run("enqueue", "greet", "--app", "tasks")
    arguments = command("worker", "--app", "tasks", "--queues", "default", *how)
    with started(arguments, tasks) as process:
        line = process.wait_for("runs wait that no worker serves")
        if not how:
            process.send(signal.SIGTERM)
        assert process.ends() == 0
    assert line.endswith("job=greet queue=slow waiting=1")
    assert process.output.count("no worker serves") == 1


BROKEN = """
from windlass import Windlass

app = Windlass()


@app.job(max_attempts=1)
def broken() -> None:
    raise ValueError("a message that does not fit " + "on one line of the terminal " * 3)
"""


def test_dev_shows_where_a_job_failed_in_lines_that_fit(folder: Path) -> None:
    (folder / "tasks.py").write_text(BROKEN)
    made = run("enqueue", "broken", "--app", "tasks").stdout.strip()
    with on_terminal(folder, "dev", "--app", "tasks") as terminal:
        terminal.wait_for(f"windlass show {made}")
        terminal.press("\x03")
        assert terminal.ends() == 0
    told = next(n for n, line in enumerate(terminal.lines) if "broken  failed" in line)
    line, place, command = terminal.lines[told : told + 3]
    assert "ValueError: a message that does not fit" in line
    assert line.endswith("…")
    assert place.strip() == "tasks.py:9, in broken"
    assert command.strip() == f"windlass show {made}"
    # Above are the places of the store and of the jobs, which are told whole; so is why it does not
    # end at once, if the end of the run was not recorded yet. The terminal adds the ^C.
    below = [line.removeprefix("^C") for line in terminal.lines[told:]]
    shown = [line for line in below if "stopping, Ctrl-C again" not in line]
    assert max(map(len, shown)) <= 80, terminal.text


def test_dev_cuts_nothing_in_a_pipe(folder: Path) -> None:
    (folder / "tasks.py").write_text(BROKEN)
    run("enqueue", "broken", "--app", "tasks")
    with started(command("dev", "--app", "tasks"), folder) as process:
        line = process.wait_for("broken  failed")
        process.send(signal.SIGTERM)
        assert process.ends() == 0
    assert line.endswith("on one line of the terminal")


def test_the_log_of_a_worker_fits_a_terminal_and_is_whole_in_a_pipe(tasks: Path) -> None:
    run("enqueue", "greet", "--app", "tasks")
    with on_terminal(tasks, "worker", "--app", "tasks", "--drain") as terminal:
        assert terminal.ends() == 0
    log = [line for line in terminal.lines if " INFO " in line]
    assert any("worker started" in line and line.endswith("…") for line in log)
    assert max(map(len, log)) <= 80, terminal.text

    with started(command("worker", "--app", "tasks", "--drain"), tasks) as process:
        assert process.ends() == 0
    assert "seats=" in process.wait_for("worker started")


def test_warnings_are_not_cut(tasks: Path) -> None:
    queue = "a-queue-with-a-rather-long-name-" * 2
    run("enqueue", "greet", "--app", "tasks", "--queue", queue)
    arguments = ("worker", "--app", "tasks", "--queues", "default", "--drain")
    with on_terminal(tasks, *arguments) as terminal:
        assert terminal.ends() == 0
    assert f"queue={queue} waiting=1" in terminal.text
